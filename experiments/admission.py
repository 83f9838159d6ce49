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
  are exchanged, so that a link can be the bottleneck, which is impossible with the paper's ranges: a link carries
  no more than a broker takes in. (It is none even so where a broker takes in the events of several links.)

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
from .admission_graph import GraphNetwork
from .admission_load import STEP_SECONDS, Advertised, Counts, Load
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
    "full" + OF_THE_WAY: Criterion(0.0, "way"),
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
        The mean degree of the graph of brokers, with a spanning tree for each publisher's broker (3.2), in the model
        of `admission_graph`. None for a random tree, under `scheme` in the simulator.
    widths, advertised
        As in `admission_load`.
    entries
        How many advertisements and filters a broker can hold; None for as many as there are clients.
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
    advertised: Advertised = "range"
    entries: int | None = None
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


FITTED_WIDTH: Final = 0.2
"""The width of ranges at which 20 % discard about 50 a second in the system; chosen after results were seen."""

FITTED_ENTRIES: Final = 1_000
"""The entries that a broker can hold, so that the CPU is used more; chosen after results were seen."""

PAPER: Final = AdmissionPlan()
PLANS: Final = {
    "small": replace(PAPER, brokers=10, subscribers=(4, 12, 20), warm_seconds=6.0, measured_seconds=3.0),
    "quick": replace(PAPER, subscribers=(20, 60, 80, 100), warm_seconds=10.0, measured_seconds=5.0),
    "paper": PAPER,
    "copies": replace(PAPER, cpu_counts="copies"),
    "links": replace(PAPER, cpu=PAPER.bandwidth, bandwidth=PAPER.cpu),
    "calibrated": replace(
        PAPER,
        degree=4.0,
        widths=(FITTED_WIDTH, FITTED_WIDTH),
        advertised="event",
        entries=FITTED_ENTRIES,
        warm_seconds=30.0,
    ),
}
"""The parameters by preset.

``quick`` is shorter, and has no percentages of the way; the variants have everything that the paper has.
``calibrated`` was chosen after results of the others were seen: a graph with a tree for each source, narrow ranges,
and advertisements of the one event that a publisher sends, which 5.1 says. It has a full guarantee of the way beside
that of all brokers. It waits longer, until queues of brokers that are hardly overloaded have filled.
``small`` is a preview: a fifth of the brokers and subscribers, under all publishers, without which nothing is
overloaded.
"""

SHORT: Final = ("small", "quick")
TREE_CRITERIA: Final = tuple(name for name in CRITERIA if name != "full" + OF_THE_WAY)
"""On a tree a full guarantee is of the way: who is not asked for anything never refuses."""

CRITERIA_OF: Final = dict.fromkeys(SHORT, ("none", "full", "20 %", "40 %")) | {"calibrated": tuple(CRITERIA)}

PRESETS: Final = {
    name: Repeated(
        _points(plan, CRITERIA_OF.get(name, TREE_CRITERIA)),
        1 if name in SHORT else 4,
    )
    for name, plan in PLANS.items()
}


class _Run:
    """One network under one criterion with one number of subscribers."""

    def __init__(self, plan: AdmissionPlan, criterion: str, subscribers: int, seed: int) -> None:
        rng = random.Random(f"admission/{seed}")
        everybody = max(plan.subscribers)
        graph = None if plan.degree is None else RandomGraph(range(plan.brokers), rng.random(), plan.degree)
        positions = _tree(plan.brokers, rng).positions() if graph is None else []
        neighbours = {place.broker: place.neighbours for place in positions}
        if graph is not None:
            neighbours = {broker: graph.beside(broker) for broker in graph.links}
        self.capacities = {
            broker: Capacity(
                rng.uniform(*plan.cpu),
                links={other: rng.uniform(*plan.bandwidth) for other in others},
                entries=plan.entries or plan.publishers + everybody,
            )
            for broker, others in neighbours.items()
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
        self.net: GraphNetwork | Simulation
        self.queues: GraphNetwork | Queues
        if graph is None:
            self.queues = Queues(self.capacities.__getitem__, plan.deadline_seconds, plan.cpu_counts)
            self.net = Simulation(
                positions, plan.scheme, admission=config, queues=self.queues, keep_notifications=False
            )
        else:
            self.net = self.queues = GraphNetwork(graph, config, plan.deadline_seconds)
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
            advertised=plan.advertised,
        )
        self.memory: list[float] = []

    def until(self, seconds: float) -> None:
        while self.net.now < seconds:
            self.load.act()
            self.memory.append(self._entries())

    def _entries(self) -> float:
        """Return the mean share of their entries that brokers use."""
        if isinstance(self.net, GraphNetwork):
            return self.net.used_entries()
        asked = ((broker.position.broker, broker.ask(Controller())) for broker in self.net.brokers())
        used = [
            admission.books.entries / self.capacities[broker].entries
            for broker, admission in asked
            if admission is not None
        ]
        return sum(used) / len(used)


def _tree(brokers: int, rng: random.Random) -> Topology:
    return fixed({f"B{place}": f"B{rng.randrange(place)}" if place else None for place in range(brokers)})


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
