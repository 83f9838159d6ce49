"""Paper 3, section 5: the effect of admission control on discarded events, refusals, and the use of resources.

Rules
-----
* 50 brokers, 20 publishers, 1 to 100 subscribers. A broker takes in 100 to 200 events a second, a link
  carries 200 to 300, a publisher sends 20 to 30. An event that waits longer than 5 s at one broker is dropped
  (5.1). `admission_load` has the behaviour of clients, and the assumptions where the paper is silent; they
  were fixed before anything was run.
* The load rises until all clients have begun; measuring starts after that. Figures are means over several
  networks.
* Percentages are of all brokers, as in the paper (4.3), and, in separate criteria, of the brokers on the way
  to publishers.
* Each broker can hold an entry for every client: memory is reported, and never causes a refusal.
* Variants change one thing: `copies` has a CPU model per sent copy. In `links` the ranges of CPU and links
  are exchanged, so that links are the bottleneck, which is impossible with the paper's ranges: a link carries
  no more than a broker takes in.

Source: paper 3, sections 5.1 and 5.2, figures 9 and 10. The figures are lost; `admission_statements` has what
the text says of them.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from ..broker.admission import Controller
from ..protocol.messages.admission import Adds, AdmissionConfig, Capacity, CpuCounts, Estimator, ShareOf
from ..routing.topologies.cluster_trees import Topology, fixed
from ..routing.topologies.random_graph import RandomGraph
from ..simulator.overload import Queues
from ..simulator.simulation import Simulation
from .admission_load import STEP_SECONDS, Counts, Load
from .admission_statements import OF_THE_WAY
from .experiment import Repeated, Tables


class Criterion(NamedTuple):
    """The share of the asked brokers that may refuse, and which brokers are asked."""

    refusing_share_max: float | None
    share_of: ShareOf = "all"


CRITERIA: Final = {
    "none": Criterion(None),
    "full": Criterion(0.0),
    "20 %": Criterion(0.2),
    "40 %": Criterion(0.4),
    "20 %" + OF_THE_WAY: Criterion(0.2, "way"),
    "40 %" + OF_THE_WAY: Criterion(0.4, "way"),
}


@dataclass(frozen=True, slots=True)
class AdmissionPlan:
    """The parameters; the defaults are the paper's where it gives them.

    Attributes
    ----------
    brokers, publishers, subscribers
        Their numbers; there is a run for each number of subscribers.
    cpu, bandwidth, rates
        Ranges of events per second.
    deadline_seconds
        How long an event may wait at one place.
    repeats
        How often a publisher sends the same event.
    event_count
        Size of the fixed set of events.
    warm_seconds, measured_seconds
        The duration of a run before and during the measurement.
    cpu_counts
        The unit of CPU cost.
    books
        How reservations add up.
    degree
        The mean degree of the graph of brokers, whose links have random weights: the network is its minimum spanning
        tree, which is the same from each broker (3.2). None for a random tree.
    widths
        As in `admission_load`.
    scheme, estimator, seed
        Settings of the networks; the seed of each run is one more than that of the previous run.
    """

    brokers: int = 50
    publishers: int = 20
    subscribers: tuple[int, ...] = (1, 20, 40, 60, 80, 100)
    cpu: tuple[float, float] = (100.0, 200.0)
    bandwidth: tuple[float, float] = (200.0, 300.0)
    rates: tuple[float, float] = (20.0, 30.0)
    deadline_seconds: float = 5.0
    repeats: int = 100
    event_count: int = 200
    warm_seconds: float = 15.0
    measured_seconds: float = 15.0
    cpu_counts: CpuCounts = "events"
    books: Adds = "union"
    degree: float | None = None
    widths: tuple[float, float] | None = None
    scheme: str = "hierarchical"
    estimator: Estimator = "paper"
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Point:
    """A network under one criterion with a number of subscribers; `run` identifies the network."""

    criterion: str
    subscribers: int
    plan: AdmissionPlan
    run: int = 0


def _points(plan: AdmissionPlan, criteria: Sequence[str]) -> tuple[Point, ...]:
    return tuple(
        Point(criterion, subscribers, plan)
        for subscribers in sorted(plan.subscribers, reverse=True)
        for criterion in criteria
    )


PAPER: Final = AdmissionPlan()
PLANS: Final = {
    "small": replace(PAPER, brokers=10, subscribers=(4, 12, 20), warm_seconds=6.0, measured_seconds=3.0),
    "quick": replace(PAPER, subscribers=(20, 60, 80, 100), warm_seconds=10.0, measured_seconds=5.0),
    "paper": PAPER,
    "copies": replace(PAPER, cpu_counts="copies"),
    "links": replace(PAPER, cpu=PAPER.bandwidth, bandwidth=PAPER.cpu),
    "calibrated": replace(PAPER, degree=4.0, widths=(0.09, 0.11)),
}
"""The parameters by preset.

``quick`` is shorter, and has no percentages of the way; the variants have everything that the paper has.
``calibrated`` was chosen after results of the others were seen: the tree is that of a graph, and ranges are so narrow
that discards without control begin only as subscribers come. It has not been run in full.
``small`` is a preview: a fifth of the brokers and subscribers, under all publishers, without which nothing is
overloaded.
"""

SHORT: Final = ("small", "quick")

PRESETS: Final = {
    name: Repeated(
        _points(plan, ("none", "full", "20 %", "40 %") if name in SHORT else tuple(CRITERIA)),
        1 if name in SHORT else 4,
    )
    for name, plan in PLANS.items()
}


class _Run:
    """One network under one criterion with one number of subscribers."""

    def __init__(self, plan: AdmissionPlan, criterion: str, subscribers: int, seed: int) -> None:
        rng = random.Random(f"admission/{seed}")
        positions = _tree(plan, rng).positions()
        everybody = max(plan.subscribers)
        self.capacities = {
            place.broker: Capacity(
                rng.uniform(*plan.cpu),
                links={other: rng.uniform(*plan.bandwidth) for other in place.neighbours},
                entries=plan.publishers + everybody,
            )
            for place in positions
        }
        share, share_of = CRITERIA[criterion]
        config = AdmissionConfig(
            share,
            plan.estimator,
            capacities=self.capacities,
            share_of=share_of,
            cpu_counts=plan.cpu_counts,
            books=plan.books,
        )
        self.queues = Queues(self.capacities.__getitem__, plan.deadline_seconds, plan.cpu_counts)
        self.net = Simulation(
            positions, plan.scheme, admission=config, queues=self.queues, keep_notifications=False
        )
        self.load = Load(
            self.net,
            rng,
            brokers=plan.brokers,
            publishers=plan.publishers,
            subscribers=subscribers,
            subscribers_max=everybody,
            rates=plan.rates,
            repeats=plan.repeats,
            event_count=plan.event_count,
            begin_seconds=plan.warm_seconds / 2,
            widths=plan.widths,
        )
        self.memory: list[float] = []

    def until(self, seconds: float) -> None:
        while self.net.now < seconds:
            self.load.act()
            self.memory.append(self._entries())

    def _entries(self) -> float:
        """Return the mean share of their entries that brokers use."""
        asked = ((broker.position.broker, broker.ask(Controller())) for broker in self.net.brokers())
        used = [
            admission.books.entries / self.capacities[broker].entries
            for broker, admission in asked
            if admission is not None
        ]
        return sum(used) / len(used)


def _tree(plan: AdmissionPlan, rng: random.Random) -> Topology:
    if plan.degree is not None:
        return fixed(_spanning_tree(plan.brokers, plan.degree, rng))
    return fixed(
        {f"B{place}": f"B{rng.randrange(place)}" if place else None for place in range(plan.brokers)}
    )


def _spanning_tree(brokers: int, degree: float, rng: random.Random) -> dict[str, str | None]:
    """Return the minimum spanning tree of a random graph whose links have random weights, parents first."""
    links = RandomGraph(range(brokers), rng.random(), degree).links
    weights = {(one, other): rng.random() for one in links for other in sorted(links[one]) if one < other}
    above: dict[int, int | None] = {0: None}
    while len(above) < brokers:  # Prim
        _, one, other = min(
            (weight, *link) for link, weight in weights.items() if (link[0] in above) != (link[1] in above)
        )
        new, known = (other, one) if one in above else (one, other)
        above[new] = known
    return {f"B{new}": None if known is None else f"B{known}" for new, known in above.items()}


def run_one(plan: AdmissionPlan, criterion: str, subscribers: int, draw: int = 0) -> dict[str, Any]:
    """Run one network and return its figures.

    Returns
    -------
    dict
        `discarded_per_second` (events dropped at a mean broker), `discarded_in_all_per_second`, `rejected`
        (share of the subscriptions judged during the measurement), `cpu`, `bandwidth` and `memory` (mean
        share used, over brokers, directed links, and brokers), and their components.
    """
    run = _Run(plan, criterion, subscribers, plan.seed + draw)
    run.until(plan.warm_seconds)
    net, queues = run.net, run.queues
    dropped, worked, sent = queues.dropped_events(), queues.worked.copy(), queues.sent.copy()
    notified, run.load.counts, run.memory = net.notified, Counts(), []
    run.until(plan.warm_seconds + plan.measured_seconds)
    seconds, counts = STEP_SECONDS * len(run.memory), run.load.counts
    lost = {name: (count - dropped[name]) / seconds for name, count in queues.dropped_events().items()}
    cpu = [
        (queues.worked[broker] - worked[broker]) / seconds / capacity.events_per_second
        for broker, capacity in run.capacities.items()
    ]
    links = [
        (queues.sent[broker, to] - sent[broker, to]) / seconds / capacity.link(to)
        for broker, capacity in run.capacities.items()
        for to in capacity.links
    ]
    return {
        "discarded_per_second": sum(lost.values()) / plan.brokers,
        "discarded_in_all_per_second": sum(lost.values()),
        "rejected": counts.refused / max(1, counts.asked),
        "judged": counts.asked,
        "asked": counts.brokers / max(1, counts.asked),
        "cpu": sum(cpu) / len(cpu),
        "cpu_max": max(cpu),
        "bandwidth": sum(links) / len(links),
        "memory": sum(run.memory) / len(run.memory),
        "notified_per_second": (net.notified - notified) / seconds,
        "discarded_for_cpu_per_second": lost["cpu"],
        "discarded_for_bandwidth_per_second": lost["bandwidth"],
    }


def measure(point: Point) -> Tables:
    """Run one network; ``figures`` has one row with the results of `run_one`."""
    found = run_one(point.plan, point.criterion, point.subscribers, point.run)
    return {"figures": {name: [float(value)] for name, value in found.items()}}
