"""Admission control restored from a snapshot continues exactly like the original (promise 7).

Random steps run on a small tree, with messages of different links in any order. Now and then the state of
each side is encoded with the codec of the stores and restored as a *twin*. From then on both handle
everything, and must send and keep the same.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.admission.advertisements import LOCAL
from rayvous.admission.books import Books
from rayvous.admission.columns import FilterColumns
from rayvous.admission.controller import Admission
from rayvous.admission.questions import Out
from rayvous.admission.sampling import TOLD_OF
from rayvous.admission.spreading import Offer
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Send
from rayvous.protocol.messages.admission import (
    MICRO,
    AdmissionConfig,
    Advertise,
    Capacity,
    CapacityMeasured,
    Estimator,
    Unadvertise,
    WouldAdmit,
)
from rayvous.protocol.messages.pubsub import Cancel, Detach, Register
from rayvous.recovery.durability.codec import decode, encode
from rayvous.routing.filters.filter import Filter, to_filter

LINKS = {0: (1, 2), 1: (0, 3), 2: (0,), 3: (1,)}
SELECTORS = (
    "x > 0", "x > 2", "x < 2", "x = 3", "x IN (1, 3)", "s LIKE 'a%'", "s = 'c' AND x = 1", "y = 1 OR x = 4"
)  # fmt: skip
FILTERS = [to_filter(words) for words in SELECTORS]
CONFIGS = [
    AdmissionConfig(0.0, "paper", Capacity(100, 60, entries=30)),
    AdmissionConfig(0.4, "tight", Capacity(80, 50)),
    AdmissionConfig(None),
    AdmissionConfig(0.0, "measured", Capacity(60, 40)),
]


def kept(value: Any, seen: dict[int, Any]) -> Any:
    """Return everything that an object keeps as comparable values, with shared objects by number."""
    if isinstance(value, np.ndarray):
        return value.tolist()
    if isinstance(value, dict):
        return [(kept(key, seen), kept(each, seen)) for key, each in value.items()]
    if isinstance(value, list | tuple | deque):
        return [kept(each, seen) for each in value]
    if isinstance(value, FilterColumns):
        return value.snapshot(), [kept(tuple(value.relations(item)), seen) for item in FILTERS]
    if isinstance(value, Filter) or not hasattr(value, "__module__") or "admission." not in value.__module__:
        return value
    if id(value) in seen:
        return seen[id(value)]
    if not isinstance(value, Offer):  # what never changes is the same wherever it is
        seen[id(value)] = f"object {len(seen)}"
    names = [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]
    names += list(getattr(value, "__dict__", ()))
    # Some are computed on demand; who holds what has no order, so that `check` compares it; handlers are bound
    # to their own side.
    left_out = {"_handlers", "_known", "_reserved", "_telling", "_degraded", "masks", "_holders", "config"}
    return [(name, kept(getattr(value, name), seen)) for name in names if name not in left_out]


class Net:
    """Four brokers' admission sides, their twins, and the messages in transit on each link."""

    def __init__(self, config: AdmissionConfig) -> None:
        self.config = config
        self.sides = {broker: Admission(broker, config, links) for broker, links in LINKS.items()}
        self.twins: dict[int, Admission] = {}
        self.links: dict[tuple[int, int], deque[Any]] = {}

    def twin_all(self) -> None:
        for broker, side in self.sides.items():
            if broker in self.twins:
                assert kept(self.twins[broker], {}) == kept(side, {}), "they have parted"
            plain = side.snapshot()
            before = encode(plain)
            twin = self.twins[broker] = Admission(broker, self.config, LINKS[broker])
            twin.restore(decode(before))
            assert kept(twin, {}) == kept(side, {}), "something is lacking in the snapshot"
            twin.check()
            # Neither side may later change what a store in memory keeps by reference.
            self.first = getattr(self, "first", [])
            self.first.append((plain, before))

    def unchanged(self) -> bool:
        """Return whether every snapshot is as it was when it was taken."""
        return all(encode(plain) == before for plain, before in getattr(self, "first", ()))

    def give(self, broker: int, source: Any, message: Any) -> None:
        self.do(broker, lambda side: side.handle(source, message))

    def sample(self, broker: int, key: tuple[str, int], seen: int) -> None:
        """Tell a broker a sample of a publisher's events, if it has that advertisement from the publisher."""
        advert = self.sides[broker].books.adverts.get(key)
        if advert is not None and advert.link == LOCAL:
            events = batch_of([{"x": seen % 5, "s": "abc"[seen % 3], "y": seen % 2}] * (seen % 9))
            self.do(broker, lambda side: side.measured(key, events))

    def do(self, broker: int, act: Callable[[Admission], Out]) -> None:
        out = act(self.sides[broker])
        self.sides[broker].books.changes.clear()
        if broker in self.twins:
            assert act(self.twins[broker]) == out, "the twin says something else"
            self.twins[broker].books.changes.clear()
        for each in out:
            if isinstance(each, Send):
                self.links.setdefault((broker, each.to), deque()).append(each.message)

    def run(self, which: int, steps: int) -> None:
        """Let messages arrive over the links that `which` picks."""
        for turn in range(steps):
            busy = [link for link, waiting in self.links.items() if waiting]
            if not busy:
                return
            source, to = busy[which * (turn + 1) % len(busy)]
            self.give(to, source, self.links[source, to].popleft())


def play(net: Net, kind: str, one: int, two: int) -> None:
    broker, item = one % 4, FILTERS[two % len(FILTERS)]
    client = f"c{broker}.{one // 4 % 2}"
    match kind:
        case "advertise":
            net.give(broker, client, Advertise(two // 8 % 3, item, (two % 5 + 1) * 10_000_000, two // 24))
        case "unadvertise":
            net.give(broker, client, Unadvertise(two % 3))
        case "subscribe":
            net.give(broker, client, Register(two // 8 % 3, item, two % 3, admitted=two % 7 == 0))
        case "cancel":
            net.give(broker, client, Cancel(two % 3))
        case "would admit":
            net.give(broker, client, WouldAdmit(two, item))
        case "detach":
            net.give(broker, client, Detach())
        case "measured":
            net.give(broker, broker, CapacityMeasured(10.0 + two))
        case "sampled":
            net.sample(broker, (client, two // 8 % 3), two)
        case "run":
            net.run(one, two)
        case "twins":
            net.twin_all()


KINDS = (
    "advertise", "advertise", "unadvertise", "subscribe", "subscribe", "subscribe", "cancel", "would admit", "detach",
    "measured", "sampled", "sampled", "run", "run", "twins",
)  # fmt: skip
STEPS = st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 63), st.integers(0, 63)), max_size=40)


@pytest.mark.parametrize("config", CONFIGS, ids=["full guarantee", "percentage", "books only", "measured"])
@settings(max_examples=25)
@given(steps=STEPS)
def test_admission_that_is_restored_does_what_the_other_does(
    config: AdmissionConfig, steps: list[tuple[str, int, int]]
) -> None:
    net = Net(config)
    for step in [*steps, ("twins", 0, 0), ("run", 0, 400)]:
        play(net, *step)
    for broker in net.sides:
        net.give(broker, "last", Register(9, FILTERS[broker]))
    net.run(0, 400)
    net.twin_all()
    assert net.unchanged()


def test_a_snapshot_taken_while_all_is_under_way_has_requests_waves_and_tokens() -> None:
    """Otherwise the property might only be tested on empty lists."""
    net = Net(CONFIGS[0])
    net.give(3, "p", Advertise(1, FILTERS[0], 10_000_000))
    net.run(0, 400)
    net.give(3, "p", Advertise(2, FILTERS[2], 10_000_000))
    for number, item in enumerate(FILTERS):
        net.give(2, "s", Register(number, item))
        net.give(2, "s", WouldAdmit(number, item))
    plain = net.sides[2].snapshot()
    assert plain["requests"] and plain["tokens"] and net.sides[3].snapshot()["waves"]
    net.twin_all()
    net.run(5, 400)
    net.twin_all()
    assert len(net.twins[2].books.held[-2]) > 3


@pytest.mark.parametrize("before, after", [("tight", "measured"), ("measured", "tight")])
def test_books_of_one_estimator_are_restored_under_another(before: Estimator, after: Estimator) -> None:
    books, again = Books(0, Capacity(100), before), Books(0, Capacity(100), after)
    books.join(1)
    books.advertise(("p", 1), FILTERS[0], 10 * MICRO, 1)
    books.hold(FILTERS[1], 0, 0)
    again.restore(books.snapshot())
    again.check()
    # Where demand is measured, what samples of all that is advertised cost is reserved, too.
    told = 10 * MICRO // TOLD_OF * (1 if after == "measured" else -1)
    more = {("cpu", None): told, ("bandwidth", 0): told}
    assert again.reserved() == {of: load + more.get(of, 0) for of, load in books.reserved().items()}
