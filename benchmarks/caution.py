"""What each part of the caution of the full guarantee costs: the share refused, and the use of the bottleneck.

A tree of brokers with the capacities of paper 3 (5.1) in virtual time. Publishers publish all the time at the rates
that they advertise. Subscribers come one after the other, at random brokers; one that is refused tries again with
another filter, so that in the end hardly anything more is admitted. Then loads are measured: how many events a second
come to each broker and link, those of samples too, over its capacity. The worst five seconds are looked for from the
first subscriber on. Every row has the same network, events and filters, and changes one thing:

* ``sum``: an advertisement is reserved for each filter that meets it (4.2 as printed), and not once;
* ``formula (1)``: the demand is the paper's estimate, and not what reservations grow by;
* ``peaks``: reservations are of all that is advertised and met, and not of what a sample shows to be wanted;
* ``no retries``, ``narrow first``, ``a tree per source``: a refused subscriber gives up; filters come in the order of
  what they want; events take the ways of a hypercube.

Two loads: `ranges` has ranges of a tenth in each of two dimensions, half as wide as those of the experiment's preset
``calibrated``; `flights` has real flights, each carrier a publisher, and alerts. ``without control`` shows what would
come.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import Final, NamedTuple, TypeAlias

from ..protocol.ids import BrokerId
from ..protocol.messages.admission import Adds, AdmissionConfig, Capacity, Estimator, Judgement
from ..routing.filters.filter import Filter
from ..routing.language.questions import to_filter
from ..routing.schemes.registry import scheme
from ..routing.topologies.cluster_trees import Topology, fixed
from ..simulator.overload import Queues
from ..simulator.simulation import Simulation

BROKERS: Final = 30
PUBLISHERS: Final = 20
RATES: Final = (20.0, 30.0)
CPU: Final = (100.0, 200.0)
LINKS: Final = (200.0, 300.0)
WIDTHS: Final = (0.09, 0.11)
DEADLINE_SECONDS: Final = 5.0
TRIES: Final = 4
STEP_SECONDS: Final = 0.2
MEASURED_SECONDS: Final = 10.0
WARM_SECONDS: Final = 130.0
"""How long publishers publish before the first subscriber: until a sample of 20 events a second is full."""

Event: TypeAlias = dict[str, object]
Where: TypeAlias = BrokerId | tuple[BrokerId, BrokerId]
"""A broker, or a directed link."""


Stream: TypeAlias = Callable[[int], list[Event]]
"""Returns the next events of a publisher."""


class Publisher(NamedTuple):
    """What a publisher advertises, how fast it publishes, and a function that begins its events, always the same."""

    advertises: Filter
    rate: float
    begin: Callable[[], Stream]


class Load(NamedTuple):
    """Publishers, and what subscribers want: the selectors in the order in which they are tried."""

    name: str
    publishers: Sequence[Publisher]
    wanted: Sequence[str]


class Case(NamedTuple):
    """One row: the name, and how the network admits."""

    name: str
    estimator: Estimator = "measured"
    books: Adds = "union"
    tries: int = TRIES
    narrow_first: bool = False
    scheme: str = "hierarchical"
    refusing_share_max: float | None = 0.0


CASES: Final = (
    Case("formula (1), sum", "paper", "sum"),
    Case("formula (1)", "paper"),
    Case("peaks", "tight"),
    Case("measured"),
    Case("measured, no retries", tries=1),
    Case("measured, narrow first", narrow_first=True),
    Case("measured, a tree per source", scheme="hypercube"),
    Case("without control", refusing_share_max=None),
)


def ranges(subscribers: int, seed: int) -> Load:
    """Return publishers of points in the unit square, each within a small range, and filters that are such ranges."""
    rng = random.Random(f"caution/{seed}")

    def range_() -> dict[str, tuple[float, float]]:
        widths = {name: rng.uniform(*WIDTHS) for name in "xy"}
        lows = {name: rng.uniform(0.0, 1.0 - width) for name, width in widths.items()}
        return {name: (low, low + widths[name]) for name, low in lows.items()}

    def text(within: dict[str, tuple[float, float]]) -> str:
        return " AND ".join(f"{name} BETWEEN {low!r} AND {high!r}" for name, (low, high) in within.items())

    def publisher(place: int, within: dict[str, tuple[float, float]]) -> Publisher:
        def begin() -> Stream:
            own = random.Random(f"caution/{seed}/{place}")
            return lambda count: [
                {name: own.uniform(*bounds) for name, bounds in within.items()} for _ in range(count)
            ]

        return Publisher(to_filter(text(within)), rng.uniform(*RATES), begin)

    publishers = [publisher(place, range_()) for place in range(PUBLISHERS)]
    return Load("ranges", publishers, [text(range_()) for _ in range(subscribers * TRIES)])


def flights(rows: Sequence[Event], alerts: Sequence[str]) -> Load:
    """Return a publisher for each carrier, which publishes its flights in their order, and these alerts.

    Parameters
    ----------
    rows
        The flights, with `carrier`.
    alerts
        Selectors.
    """
    by_carrier: dict[str, list[Event]] = {}
    for row in rows:
        by_carrier.setdefault(str(row["carrier"]), []).append(row)

    def publisher(carrier: str, its: list[Event]) -> Publisher:
        def begin() -> Stream:
            ahead = cycle(its)
            return lambda count: list(islice(ahead, count))

        rate = sum(RATES) / 2 * PUBLISHERS * len(its) / len(rows)
        return Publisher(to_filter(f"carrier = '{carrier}'"), max(1.0, rate), begin)

    return Load("flights", [publisher(*each) for each in sorted(by_carrier.items())], alerts)


class Drawn(NamedTuple):
    """The network of a seed: its tree, the capacities, where publishers are, and a source of where subscribers come."""

    tree: Topology
    capacities: dict[BrokerId, Capacity]
    publishers_at: list[BrokerId]
    rng: random.Random


def draw(seed: int, publishers: int) -> Drawn:
    """Draw a network with this number of publishers; it is the same for every row."""
    rng = random.Random(f"caution/network/{seed}")
    tree = fixed({f"B{place}": f"B{rng.randrange(place)}" if place else None for place in range(BROKERS)})
    capacities = {broker: Capacity(rng.uniform(*CPU), rng.uniform(*LINKS)) for broker in range(BROKERS)}
    return Drawn(tree, capacities, [rng.randrange(BROKERS) for _ in range(publishers)], rng)


@dataclass
class _Measured:
    admitted: int = 0
    refused: int = 0
    worst: float = 0.0
    dropped_before: int = 0  # the first subscriber came


class _Run:
    def __init__(self, case: Case, load: Load, seed: int) -> None:
        tree, self.capacities, self._homes, self._rng = draw(seed, len(load.publishers))
        config = AdmissionConfig(
            case.refusing_share_max, case.estimator, capacities=self.capacities, books=case.books
        )
        self.net = Simulation(
            scheme(case.scheme).positions(tree.positions()),
            case.scheme,
            admission=config,
            queues=Queues(self.capacities.__getitem__, DEADLINE_SECONDS),
            keep_notifications=False,
        )
        self._case, self._load = case, load
        self._owed = [0.0 for _ in load.publishers]
        self._streams = [each.begin() for each in load.publishers]
        self._windows: list[Counter[Where]] = []  # what was offered before each step
        self.found = _Measured()

    def go(self) -> dict[str, object]:
        for place, publisher in enumerate(self._load.publishers):
            self.net.advertise(f"p{place}", self._homes[place], publisher.advertises, publisher.rate)
        self._publish(WARM_SECONDS, 1.0)
        self._publish(DEADLINE_SECONDS)
        self._windows.clear()
        self.found.worst = 0.0
        self.found.dropped_before = sum(self._queues.dropped_events().values())
        self._subscribe()
        return self._measure()

    def _publish(self, seconds: float, step: float = STEP_SECONDS) -> None:
        for _ in range(round(seconds / step)):
            for place, publisher in enumerate(self._load.publishers):
                self._owed[place] += publisher.rate * step
                ready = int(self._owed[place])
                self._owed[place] -= ready
                if ready:
                    self.net.publish(f"p{place}", self._homes[place], self._streams[place](ready))
            self._window()
            self.net.advance(step)

    def _window(self) -> None:
        """Begin a step, at which the last five seconds end."""
        self._windows.append(self._queues.offered.copy())
        if len(self._windows) > round(DEADLINE_SECONDS / STEP_SECONDS):
            loads = self._loads(self._windows.pop(0), DEADLINE_SECONDS)
            self.found.worst = max(self.found.worst, *loads.values())

    @property
    def _queues(self) -> Queues:
        assert self.net.queues is not None
        return self.net.queues

    def _subscribe(self) -> None:
        """Let subscribers come, two in a step."""
        wanted = list(self._load.wanted)
        if self._case.narrow_first:
            wanted.sort(key=self._share)
        for first in range(0, len(wanted), TRIES):
            home = self._rng.randrange(BROKERS)
            for number, text in enumerate(wanted[first : first + self._case.tries]):
                client = f"s{first + number}"
                self.net.subscribe(client, home, text)
                judged: Judgement | None = None
                while judged is None:
                    self._publish(STEP_SECONDS)
                    judged = next(
                        (news for news in self.net.news(client) if isinstance(news, Judgement)), None
                    )
                self.found.admitted += judged.admitted
                self.found.refused += not judged.admitted
                if judged.admitted:
                    break

    def _share(self, text: str) -> float:
        item = to_filter(text)
        return sum(
            item.matches(event) * each.rate for each in self._load.publishers for event in each.begin()(20)
        )

    def _measure(self) -> dict[str, object]:
        start = self._queues.offered.copy()
        self._publish(MEASURED_SECONDS)
        self._window()
        self.loads = loads = self._loads(start, MEASURED_SECONDS)
        brokers = [loads.get(broker, 0.0) for broker in range(BROKERS)]
        return {
            "load": self._load.name,
            "guarantee": self._case.name,
            "admitted": self.found.admitted,
            "refused": round(self.found.refused / (self.found.admitted + self.found.refused), 3),
            "bottleneck_used": 0.0,
            "busiest_used": round(max(loads.values()), 3),
            "mean_broker_used": round(sum(brokers) / BROKERS, 3),
            "worst_5_seconds": round(self.found.worst, 3),
            "dropped": sum(self._queues.dropped_events().values()) - self.found.dropped_before,
            "dropped_before": self.found.dropped_before,
        }

    def _loads(self, since: Mapping[Where, int], seconds: float) -> dict[Where, float]:
        """Return what came to each broker and link in these seconds, over its capacity."""
        return {
            who: (count - since[who])
            / seconds
            / (
                self.capacities[who[0]].link(who[1])
                if isinstance(who, tuple)
                else self.capacities[who].events_per_second
            )
            for who, count in self._queues.offered.items()
        }


def run(load: Load, seed: int = 0, cases: Sequence[Case] = CASES) -> dict[str, object]:
    """Run the benchmark, and return the figures as plain data."""
    runs = [_Run(case, load, seed) for case in cases]
    results = [each.go() for each in runs]
    bottleneck = max(runs[-1].loads, key=runs[-1].loads.__getitem__)
    for each, row in zip(runs, results, strict=True):
        row["bottleneck_used"] = round(each.loads.get(bottleneck, 0.0), 3)
    return {"benchmark": "caution", "bottleneck": str(bottleneck), "results": results}
