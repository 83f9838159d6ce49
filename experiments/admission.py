"""Paper 3, section 5: what admission control does to discarded events, refusals, and the use of CPU and links.

Rules
-----
* 50 brokers, 20 publishers, 1 to 100 subscribers, placed at random; a broker takes in 100 to 200 events a second, a
  link carries 200 to 300, a publisher sends 20 to 30; what waits longer than 5 s is dropped (5.1).
* A publisher takes an event from a fixed set, advertises it, sends it 100 times, unadvertises it, and begins again.
* A subscriber subscribes, receives for a while, unsubscribes, and begins again with another filter. Refused, it has
  nothing to receive: it asks again for the same, at once. Until all have begun the load rises; it is measured after
  that.
* The same seed gives the same brokers, rates and events under every criterion, and each subscriber the same filters in
  the same order. Figures are means over several such networks.

The paper does not say what tree joins the brokers, what events and filters look like, or how long anything runs. Ours:
a random tree, each broker joined to one of those before it; an event is a point in the unit square of two attributes;
a filter is a rectangle in it, its sides 0.05 to 0.3; a subscriber stays 1 to 4 s, since a publisher changes its event
every 4 s, and what was judged on the events of before holds no longer than they do. "Without pause" (5.1) is the next
time that clients act.

These were chosen after looking at results: tree, sides, stays and what a refused subscriber does were varied until as
much as possible of what the paper says came out (docs/admission.md has what was tried, and what no load gives). So the
agreement shows that there is such a load, not that it is the paper's.

Source: paper 3, sections 5.1 and 5.2, figures 9 and 10. The figures are lost; what the text says of them is in
`admission_statements`.
"""

from __future__ import annotations

import multiprocessing
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from ..protocol.errors import InputError
from ..protocol.ids import BrokerId
from ..protocol.messages.admission import AdmissionConfig, Capacity, Judgement
from ..routing.filters.filter import Filter
from ..routing.language.questions import to_filter
from ..routing.topologies.cluster_trees import ClusterTree, Topology, fixed
from ..simulator.overload import Queues
from ..simulator.processes import end_with_parent
from ..simulator.simulation import Simulation
from .admission_statements import compare

CRITERIA: Final[dict[str, float | None]] = {"none": None, "full": 0.0, "20 %": 0.2, "40 %": 0.4}
"""The share of the brokers asked that may refuse."""

STEP_SECONDS: Final = 0.4
"""How often clients act."""


@dataclass(frozen=True, slots=True)
class AdmissionPlan:
    """The parameters; the defaults are the paper's where it gives them.

    Attributes
    ----------
    brokers, publishers, subscribers
        How many; a run for each number of subscribers.
    cpu, bandwidth, rates
        Ranges of events per second.
    deadline_seconds
        How long an event may wait at one place.
    repeats
        How often a publisher sends the same event.
    event_count
        Size of the fixed set of events.
    side
        Range of the sides of a filter's rectangle.
    stay_seconds
        Range of the time between subscribing and unsubscribing.
    retry_seconds
        Range of the time between a refusal and asking again; clients act every `STEP_SECONDS`.
    warm_seconds, measured_seconds
        How long a run is before and while it is measured.
    degree
        Of a tree that is as flat as that allows; None for one in which each broker is joined to a random earlier one.
    scheme, estimator, seed
        Of the networks.
    draws
        Networks whose figures are averaged; the seed of each is one more than that of the one before.
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
    side: tuple[float, float] = (0.05, 0.3)
    stay_seconds: tuple[float, float] = (1.0, 4.0)
    retry_seconds: tuple[float, float] = (0.0, 0.0)
    warm_seconds: float = 15.0
    measured_seconds: float = 15.0
    scheme: str = "hierarchical"
    degree: int | None = None
    estimator: str = "paper"
    seed: int = 0
    draws: int = 4


def preset(name: str) -> AdmissionPlan:
    """Return the plan of that name.

    ``"paper"`` is the whole of it. ``"quick"`` has fewer points, shorter runs, and the first of its networks; it comes
    to the same verdicts on all statements. ``"narrow"`` has filters so narrow that the middle of the tree is full only
    near 80 subscribers: there 40 % is steep, which with the others' wide ones it is not.

    Raises
    ------
    InputError
        If there is none.
    """
    presets = {
        "quick": AdmissionPlan(subscribers=(20, 60, 80, 100), measured_seconds=8.0, draws=1),
        "paper": AdmissionPlan(),
        "narrow": AdmissionPlan(side=(0.02, 0.2), stay_seconds=(2.0, 8.0)),
    }
    if name not in presets:
        raise InputError(f"no preset {name!r}: there are {', '.join(presets)}")
    return presets[name]


@dataclass(slots=True)
class _Client:
    """A publisher or subscriber of the load: where it is, and when it acts next."""

    name: str
    home: BrokerId
    dice: random.Random
    tastes: random.Random
    at: float
    rate: float = 0.0
    number: int = 0
    left: int = 0
    owed: float = 0.0
    event: dict[str, float] = field(default_factory=dict)
    interest: Filter | None = None
    waiting: bool = False
    heard: int = 0


@dataclass(slots=True)
class _Counts:
    """What was judged so far."""

    asked: int = 0
    refused: int = 0
    brokers: int = 0


class _Run:
    """One network under one criterion with one number of subscribers."""

    def __init__(self, plan: AdmissionPlan, criterion: str, subscribers: int, seed: int) -> None:
        self.plan = plan
        self.seed = seed
        dice = random.Random(f"admission/{seed}")
        positions = _tree(plan, dice).positions()
        capacities = {
            place.broker: Capacity(
                dice.uniform(*plan.cpu),
                links={other: dice.uniform(*plan.bandwidth) for other in place.neighbours},
            )
            for place in positions
        }
        self.capacities = capacities
        config = AdmissionConfig(CRITERIA[criterion], plan.estimator, capacities=capacities)  # type: ignore[arg-type]
        self.queues = Queues(capacities.__getitem__, plan.deadline_seconds)
        self.net = Simulation(
            positions, plan.scheme, admission=config.validate(), queues=self.queues, keep_notifications=False
        )
        self.events = [{"x": dice.random(), "y": dice.random()} for _ in range(plan.event_count)]
        self.publishers = [self._client(f"p{i}", dice, 2.0) for i in range(plan.publishers)]
        for publisher in self.publishers:
            publisher.rate = dice.uniform(*plan.rates)
        everybody = [self._client(f"s{i}", dice, plan.warm_seconds / 2) for i in range(max(plan.subscribers))]
        self.subscribers = everybody[:subscribers]
        self.counts = _Counts()

    def _client(self, name: str, dice: random.Random, spread: float) -> _Client:
        home = dice.randrange(self.plan.brokers)
        return _Client(
            name,
            home,
            random.Random(f"{name}/{self.seed}"),
            random.Random(f"{name}/wants/{self.seed}"),
            dice.uniform(0.0, spread),
        )

    def until(self, seconds: float) -> None:
        while self.net.now < seconds:
            for publisher in self.publishers:
                self._publish(publisher)
            for subscriber in self.subscribers:
                self._subscribe(subscriber)
            self.net.advance(STEP_SECONDS)

    def _publish(self, client: _Client) -> None:
        if self.net.now < client.at:
            return
        if not client.left:
            if client.number:
                self.net.unadvertise(client.name, client.number)
            client.number += 1
            client.left = self.plan.repeats
            client.event = client.dice.choice(self.events)
            text = " AND ".join(f"{name} = {value!r}" for name, value in client.event.items())
            self.net.advertise(client.name, client.home, text, client.rate, client.number)
            return  # what is wanted of it is known at the next step
        client.owed += client.rate * STEP_SECONDS
        ready = min(int(client.owed), client.left)
        if ready:
            client.owed -= ready
            client.left -= ready
            self.net.publish(client.name, client.home, [client.event] * ready)

    def _subscribe(self, client: _Client) -> None:
        if client.waiting:
            judged = [news for news in self.net.news(client.name) if isinstance(news, Judgement)]
            if len(judged) == client.heard:
                return
            client.heard = len(judged)
            client.waiting = False
            self.counts.asked += 1
            self.counts.refused += not judged[-1].admitted
            self.counts.brokers += judged[-1].asked
            client.left = int(judged[-1].admitted)
            seconds = self.plan.stay_seconds if client.left else self.plan.retry_seconds
            client.at = self.net.now + client.dice.uniform(*seconds)
        elif self.net.now >= client.at:
            if client.left:
                self.net.unsubscribe(client.name, client.number)
            if client.left or client.interest is None:
                client.interest = self._interest(client.tastes)
            client.number = self.net.subscribe(client.name, client.home, client.interest)
            client.waiting = True

    def _interest(self, dice: random.Random) -> Filter:
        sides = [dice.uniform(*self.plan.side) for _ in range(2)]
        lows = [dice.uniform(0.0, 1.0 - side) for side in sides]
        return to_filter(
            " AND ".join(
                f"{name} BETWEEN {low!r} AND {low + side!r}"
                for name, low, side in zip("xy", lows, sides, strict=True)
            )
        )


def _tree(plan: AdmissionPlan, dice: random.Random) -> Topology:
    if plan.degree is not None:
        return ClusterTree(plan.brokers, 1, plan.degree)
    parents = {f"B{place}": f"B{dice.randrange(place)}" if place else None for place in range(plan.brokers)}
    return fixed(parents)


def run_one(plan: AdmissionPlan, criterion: str, subscribers: int, draw: int = 0) -> dict[str, Any]:
    """Run one network and return its figures.

    Returns
    -------
    dict
        `discarded_per_second` (events dropped at a mean broker), `discarded_in_all_per_second`, `rejected` (share of
        the subscriptions judged while it was measured), `cpu` and `bandwidth` (mean share used, over brokers and
        over directed links), and what they are made of.
    """
    run = _Run(plan, criterion, subscribers, plan.seed + draw)
    run.until(plan.warm_seconds)
    net, queues = run.net, run.queues
    dropped, taken, sent = queues.dropped_events(), queues.taken_in.copy(), queues.sent.copy()
    notified, run.counts = net.notified, _Counts()
    run.until(plan.warm_seconds + plan.measured_seconds)
    seconds = plan.measured_seconds
    lost = {name: (count - dropped[name]) / seconds for name, count in queues.dropped_events().items()}
    cpu = [
        (queues.taken_in[broker] - taken[broker]) / seconds / capacity.events_per_second
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
        "rejected": run.counts.refused / max(1, run.counts.asked),
        "judged": run.counts.asked,
        "asked": run.counts.brokers / max(1, run.counts.asked),
        "cpu": sum(cpu) / len(cpu),
        "cpu_max": max(cpu),
        "bandwidth": sum(links) / len(links),
        "notified_per_second": (net.notified - notified) / seconds,
        "discarded_for_cpu_per_second": lost["cpu"],
        "discarded_for_bandwidth_per_second": lost["bandwidth"],
    }


def run(
    plan: AdmissionPlan, progress: Callable[[str, int, int], None] | None = None, processes: int = 1
) -> dict[str, Any]:
    """Run every criterion with every number of subscribers; return the figures and how the statements fare.

    Parameters
    ----------
    plan
        What to run.
    progress
        Called with a name, how many networks have been run, and how many there are.
    processes
        How many networks are run at a time.
    """
    points = [(criterion, subscribers) for criterion in CRITERIA for subscribers in plan.subscribers]
    jobs = [(plan, *point, draw) for point in points for draw in range(plan.draws)]
    greedy = replace(plan, side=(1.0, 1.0))
    jobs += [(greedy, "none", max(plan.subscribers), draw) for draw in range(plan.draws)]
    drawn: dict[tuple[AdmissionPlan, str, int], list[dict[str, Any]]] = {}
    with _mapping(processes) as each:
        for done, (job, figures) in enumerate(zip(jobs, each(_run_job, jobs), strict=True), start=1):
            drawn.setdefault(job[:3], []).append(figures)
            if progress is not None:
                progress("networks", done, len(jobs))
    rows = [
        {"criterion": criterion, "subscribers": subscribers, **_mean(drawn[plan, criterion, subscribers])}
        for criterion, subscribers in points
    ]
    everything = _mean(drawn[greedy, "none", max(plan.subscribers)])
    return {
        "experiment": "admission",
        "plan": asdict(plan),
        "rows": rows,
        "everything_wanted": everything,
        "statements": compare(rows, everything["discarded_per_second"]),
    }


def _run_job(job: tuple[AdmissionPlan, str, int, int]) -> dict[str, Any]:
    return run_one(*job)


@contextmanager
def _mapping(processes: int) -> Iterator[Callable[[Callable[[Any], Any], Sequence[Any]], Iterable[Any]]]:
    """Yield a `map` over so many processes; they are started anew, since a fork of a process with Ray hangs."""
    if processes <= 1:
        yield map
        return
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn"), end_with_parent) as pool:
        yield pool.map


def _mean(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Return the mean of every figure, and the discards of each network, which differ a lot."""
    means = {name: sum(row[name] for row in rows) / len(rows) for name in rows[0]}
    each = [round(row["discarded_in_all_per_second"], 1) for row in rows]
    return {**means, "discarded_in_each_network_per_second": each}
