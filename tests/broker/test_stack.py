"""A broker is a list of layers, and one added by the recipe of docs/extending.md works."""

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import rayvous as rv
from rayvous.broker import Broker, stack
from rayvous.protocol.effects import Multicast, Plain, Received, Send
from rayvous.protocol.layers import Handler, Inward, Out
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.queries import AcceptedOf, Answering, Heals, Query, Survey
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.recovery.replay.replay import Replay

EXTENDING = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
TREE = rv.ClusterTree(2, 2).positions()


class CountOf(Query[int]):
    """How many events were published at the broker."""

    otherwise = -1


class Counting:
    """Counts what is published here, and how often events were sent on."""

    takes: Mapping[type, Handler] = {}

    def __init__(self, here: int) -> None:
        self.here = here
        self.count = self.sent = 0
        self.sees: Mapping[type, Handler] = {Events: self._on_events}
        self.alters: Mapping[type, Handler] = dict.fromkeys((Send, Multicast), self._on_send)
        self.answers: Answering = {CountOf: lambda query: self.count}

    def _on_events(self, event: Received) -> list[Out]:
        if isinstance(event.source, str):
            self.count += len(event.message.batch)
        return [Inward(event)]

    def _on_send(self, effect: Send | Multicast) -> list[Out]:
        self.sent += isinstance(effect.message, Events)
        return [effect]

    def changed_by(self, event: Received) -> bool:
        return type(event.message) is Events

    def snapshot(self) -> Plain:
        return self.count

    def restore(self, plain: Plain) -> None:
        self.count = plain

    def describe(self) -> Mapping[str, int]:
        return {"counted": self.count}

    def check(self) -> None:
        assert self.count >= 0


def recipe() -> str:
    """Return the section of the page that says how a layer is added."""
    found = re.search(r"^## A layer in the table\n(.*?)(?=^## |\Z)", EXTENDING.read_text(), re.M | re.S)
    assert found is not None
    return found[1].strip()


@pytest.fixture
def added(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Add the row of the page to the table, around admission control."""
    (line,) = re.findall(r"^ *(Row\(.*\)),$", recipe(), re.M)
    row = eval(line, {**vars(stack), "Counting": Counting})
    place = next(place for place, row in enumerate(stack.LAYERS) if row.kind is stack.Admitting)
    monkeypatch.setattr(stack, "LAYERS", (*stack.LAYERS[:place], row, *stack.LAYERS[place:]))
    yield


def test_the_recipe_has_at_most_ten_lines() -> None:
    assert 3 <= len([line for line in recipe().splitlines() if line.strip()]) <= 10


HOW: dict[str, dict[str, Any]] = {
    "fixed": {},
    "heals": {"recovery": Recovery()},
    "admits": {"admission": rv.AdmissionConfig()},
    "stores": {"store": lambda broker: MemoryStore()},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.usefixtures("added")
def test_a_layer_added_by_the_recipe_works(how: str) -> None:
    net = rv.Simulation(TREE, "hybrid", **HOW[how])
    net.subscribe("alice", 3, "x > 1")
    net.advance(5.0)
    if how == "admits":
        net.advertise("bob", 0, "x >= 0", max_rate=100)
        net.advance(5.0)
    net.publish("bob", 0, [{"x": 1}, {"x": 2}, {"x": 3}])
    net.advance(5.0)
    assert sorted(net.notifications("alice")) == [("bob", 2), ("bob", 3)]
    layer = net.broker(0).layer(Counting)
    assert layer.count == net.broker(0).ask(CountOf()) == net.broker(0).describe()["counted"] == 3
    assert layer.sent > 0 and net.broker(3).ask(CountOf()) == 0
    if how == "stores":
        net.crash(0)
        net.restart(0)
        assert net.broker(0).layer(Counting) is not layer and net.broker(0).ask(CountOf()) == 3


def test_without_its_row_there_is_no_such_layer_and_the_query_says_so() -> None:
    broker = Broker(TREE[0])
    assert broker.ask(CountOf()) == -1
    with pytest.raises(LookupError, match="broker 0 has no layer Counting"):
        broker.layer(Counting)


def test_a_query_is_answered_by_the_layer_that_knows() -> None:
    fixed, heals = Broker(TREE[0]), Broker(TREE[0], recovery=Recovery())
    assert not fixed.ask(Heals()) and heals.ask(Heals())
    said = heals.ask(Survey())
    assert fixed.ask(Survey()) is None and said is not None and said["broker"] == 0


def test_answers_of_several_layers_are_combined() -> None:
    layers = [Counting(broker) for broker in range(3)]
    for layer, number in zip(layers, (7, 3, 5), strict=True):
        layer.answers = {AcceptedOf: lambda query, number=number: number}
    assert stack.Pipeline(layers).ask(AcceptedOf("bob")) == 7


def test_a_row_may_have_another_layer_made_first() -> None:
    """What is retained is read from the store before the membership is made, which looks at it."""
    broker = Broker(TREE[0], recovery=Recovery())
    assert broker.layer(HealingBroker).rounds is broker.layer(Replay).rounds
    kinds = [type(layer) for layer in broker.pipeline.layers]
    assert kinds.index(Replay) < kinds.index(HealingBroker)
