"""The full guarantee by measured demand on real brokers: what is refused, and how much comes to each broker and link.

The network, publishers and subscribers of `caution`, on actors, in two rows: ``measured``, and ``without control``,
which shows the bottleneck. All rates and capacities are `FASTER` times as large, so that samples are full sooner: real
time is not virtual, but the broker machines and their verdicts are the same.

What comes to a broker or link is counted by the network itself (`Network.status`), twice a second, from the first
subscriber on. The events of samples, which it does not count, are added where they go: over every link away from their
publisher (`sampled`). The worst five seconds are those of any two snapshots that are at least so far apart. The
capacities are those that the books know; the machine takes in more, so that nothing but admission holds loads below
them. Events older than five seconds at a broker are dropped, and counted.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from ..actors.clients.columns import batch_from
from ..actors.clients.publisher import Publisher
from ..actors.clients.subscriber import Subscriber
from ..actors.network.network import Network
from ..admission.sampling import BETWEEN, SAMPLE, TOLD_FIRST
from ..protocol.errors import SubscriptionRejected
from ..protocol.ids import BrokerId
from ..protocol.messages.admission import AdmissionConfig, Capacity
from .caution import (
    BROKERS,
    CASES,
    DEADLINE_SECONDS,
    MEASURED_SECONDS,
    TRIES,
    WARM_SECONDS,
    Case,
    Drawn,
    Load,
    Where,
    draw,
)

FASTER: Final = 10.0
ACTORS: Final = 2
STEP_SECONDS: Final = 0.1
LOOK_SECONDS: Final = 0.5
ROWS: Final = tuple(case for case in CASES if case.name in ("measured", "without control"))

Progress = Callable[[str, int, int], None]


class Seen(NamedTuple):
    """What had come to each broker and link, what had been dropped, and what was published, at a time."""

    at: float
    came: Counter[Where]
    dropped: int
    published: int


def told(published: int) -> int:
    """Return how many events of samples a publisher has made its broker tell after so many events."""
    first = sum(size for after, size in TOLD_FIRST if published >= after)
    return first + SAMPLE * (max(0, published - TOLD_FIRST[-1][0]) // BETWEEN)


def sampled(drawn: Drawn, published: Sequence[int]) -> Counter[Where]:
    """Return the events of samples that have come to each broker and link, by what publishers have published."""
    links = {
        place.broker: [other for other in place.neighbours if other != place.broker]
        for place in drawn.tree.positions()
    }
    came: Counter[Where] = Counter()
    for home, events in zip(drawn.publishers_at, map(told, published), strict=True):
        todo: list[tuple[BrokerId, BrokerId | None]] = [(home, None)]
        for here, above in todo:
            for other in links[here]:
                if other != above:
                    came[here, other] += events
                    came[other] += events
                    todo.append((other, here))
    return came


def loads(since: Seen, until: Seen, capacities: Mapping[BrokerId, Capacity]) -> dict[Where, float]:
    """Return what came to each broker and link between two times, over its capacity."""
    seconds = until.at - since.at
    return {
        who: (came - since.came[who])
        / seconds
        / (capacities[who[0]].link(who[1]) if isinstance(who, tuple) else capacities[who].events_per_second)
        for who, came in until.came.items()
    }


def worst(seen: Sequence[Seen], capacities: Mapping[BrokerId, Capacity], seconds: float) -> float:
    """Return the highest load of any broker or link between two looks that are at least so many seconds apart."""
    most, start = 0.0, 0
    for until in seen:
        while start + 1 < len(seen) and until.at - seen[start + 1].at >= seconds:
            start += 1
        if until.at - seen[start].at >= seconds:
            most = max(most, *loads(seen[start], until, capacities).values())
    return most


class _Run:
    """One row: a network on Ray, its publishers in one thread, and what was seen of it."""

    def __init__(self, net: Network, load: Load, drawn: Drawn) -> None:
        self.net, self._load, self._drawn = net, load, drawn
        self.seen: list[Seen] = []
        self.admitted = self.refused = 0
        self.published = [0 for _ in load.publishers]
        self._subscribers: list[Subscriber] = []
        self._publishers: list[Publisher] = []
        for place, (home, publisher) in enumerate(zip(drawn.publishers_at, load.publishers, strict=True)):
            made = net.publisher(f"p{place}", broker=home)
            made.advertise(publisher.advertises, max_rate=publisher.rate)
            self._publishers.append(made)

    @contextmanager
    def publishing(self) -> Iterator[None]:
        """Let all publishers publish at their rates while the block runs; what goes wrong there is raised."""
        stop, wrong = threading.Event(), list[BaseException]()

        def publish() -> None:
            try:
                asyncio.run(self._publish(stop))
            except BaseException as error:
                wrong.append(error)

        thread = threading.Thread(target=publish, daemon=True)
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
        if wrong:
            raise wrong[0]

    async def _publish(self, stop: threading.Event) -> None:
        streams = [each.begin() for each in self._load.publishers]

        async def one(place: int) -> None:
            rate, made, last = self._load.publishers[place].rate, self._publishers[place], time.monotonic()
            owed = 0.0
            while not stop.is_set():
                await asyncio.sleep(STEP_SECONDS)
                now = time.monotonic()
                owed, last = min(rate, owed + rate * (now - last)), now  # catch up on at most one second
                if ready := int(owed):
                    owed -= ready
                    await made.publish_batch_async(batch_from(streams[place](ready)))
                    self.published[place] += ready

        await asyncio.gather(*(one(place) for place in range(len(self._publishers))))

    def look(self) -> None:
        """Note what has come so far, and take the notifications that are there."""
        for each in self._subscribers:
            for _ in each.arrivals(0):
                pass
        status = self.net.status()
        came = sampled(self._drawn, self.published)
        dropped = 0
        for broker in status.brokers:
            came[broker.broker] += broker.sizes["events_in"]
            dropped += broker.sizes["expired_events"]
            for to, events in broker.sent.items():
                came[broker.broker, to] += events
        self.seen.append(Seen(status.at_seconds, came, dropped, sum(self.published)))

    def watch(self, seconds: float) -> None:
        """Look again and again for so long."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.look()
            time.sleep(LOOK_SECONDS)

    def fill_samples(self) -> None:
        """Wait until every publisher has published as long as in virtual time before the first subscriber comes."""
        while any(
            published < publisher.rate * WARM_SECONDS / FASTER
            for published, publisher in zip(self.published, self._load.publishers, strict=True)
        ):
            time.sleep(LOOK_SECONDS)

    def subscribe(self, tries: int) -> None:
        """Let subscribers come one after the other; one that is refused tries again with another filter."""
        for first in range(0, len(self._load.wanted), TRIES):
            home = self._drawn.rng.randrange(BROKERS)
            for number, text in enumerate(self._load.wanted[first : first + tries], start=first):
                made = self.net.subscriber(f"s{number}", broker=home)
                try:
                    made.subscribe(text)
                except SubscriptionRejected:
                    self.refused += 1
                    made.close()
                    continue
                self.admitted += 1
                self._subscribers.append(made)
                break
            if time.monotonic() - self.seen[-1].at >= LOOK_SECONDS:
                self.look()


def _row(
    case: Case, load: Load, seed: int, show: Callable[[str], None]
) -> tuple[dict[str, object], dict[Where, float]]:
    drawn = draw(seed, len(load.publishers))
    capacities = {broker: _faster(capacity) for broker, capacity in drawn.capacities.items()}
    config = AdmissionConfig(
        case.refusing_share_max,
        case.estimator,
        capacities=capacities,
        books=case.books,
        deadline_seconds=DEADLINE_SECONDS,
    )
    with Network.launch(
        drawn.tree,
        scheme=case.scheme,
        brokers_per_actor=-(-BROKERS // ACTORS),
        admission=config,
        progress=False,
    ) as net:
        run = _Run(net, load, drawn)
        with run.publishing():
            if case.refusing_share_max is not None:
                show("samples")
                run.fill_samples()
            show("subscribers")
            run.look()
            before = run.seen[0].dropped
            run.subscribe(case.tries)
            show("measuring")
            run.look()
            start = run.seen[-1]
            run.watch(MEASURED_SECONDS)
            run.look()
    end, advertised = run.seen[-1], sum(each.rate for each in load.publishers)
    found = loads(start, end, capacities)
    brokers = [found.get(broker, 0.0) for broker in range(BROKERS)]
    return {
        "load": load.name,
        "guarantee": case.name,
        "admitted": run.admitted,
        "refused": round(run.refused / (run.admitted + run.refused), 3),
        "bottleneck_used": 0.0,
        "busiest_used": round(max(found.values()), 3),
        "mean_broker_used": round(sum(brokers) / BROKERS, 3),
        "worst_5_seconds": round(worst(run.seen, capacities, DEADLINE_SECONDS), 3),
        "dropped": end.dropped - before,
        "dropped_before": before,
        "published_of_advertised": round(
            (end.published - start.published) / (end.at - start.at) / advertised, 3
        ),
    }, found


def _faster(capacity: Capacity) -> Capacity:
    return Capacity(capacity.events_per_second * FASTER, capacity.link_events_per_second * FASTER)


def run(load: Load, seed: int = 0, progress: Progress | None = None) -> dict[str, object]:
    """Run both rows on Ray, which has to be started or is started, and return the figures as plain data."""
    faster = load._replace(publishers=[each._replace(rate=each.rate * FASTER) for each in load.publishers])
    results: list[tuple[dict[str, object], dict[Where, float]]] = []
    for done, case in enumerate(ROWS):

        def show(what: str, case: Case = case, done: int = done) -> None:
            if progress is not None:
                progress(f"{case.name}: {what}", done, len(ROWS))

        results.append(_row(case, faster, seed, show))
    uncontrolled = results[-1][1]
    bottleneck = max(uncontrolled, key=uncontrolled.__getitem__)
    for row, its in results:
        row["bottleneck_used"] = round(its.get(bottleneck, 0.0), 3)
    return {
        "benchmark": "caution on Ray",
        "bottleneck": str(bottleneck),
        "faster": FASTER,
        "results": [row for row, _ in results],
    }
