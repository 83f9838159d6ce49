"""The status of a network at one moment: each broker's position, state and load, and what is not repaired yet.

Rules
-----
* A query never fails because a broker is dead or does not answer: the status shows such brokers.
* All brokers are queried at once, so a query takes no longer than one broker may take to answer, however many do
  not.
* A broker whose store does not answer waits for it, and so does who publishes there. That is a problem, although the
  broker itself answers. A collector that is gone is none: events are delivered without telemetry.
* A rate is the difference of two snapshots divided by the time between them on this process's clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError, RayError

from ...protocol.configs import Position, broker_name
from ...protocol.durables import DurableStatus, furthest_behind
from ...protocol.ids import BrokerId, BrokerLink, ClusterId
from ...protocol.sinks import SinkStatus
from ..host.errors import broker_errors
from ..host.handle import HostHandle, Question
from ..host.survey import Look
from ..telemetry.latency import quantile, together
from .game_days import Note
from .gateways import GatewaysSeen, GatewayStatus
from .sinks import asked_sinks, sinks_said

if TYPE_CHECKING:
    from .convergence import Convergence
    from .hosts import Hosts

_SEEN: Final[WeakKeyDictionary[Hosts, GatewaysSeen]] = WeakKeyDictionary()
"""For each network that this process knows, the object that queries its gateways."""

STORE_SECONDS: Final = 3.0
"""How long a commit may take before the status shows that the store does not answer."""
ANSWER_SECONDS: Final = 5.0
"""How long a broker may take to answer; after that it is shown as silent."""

State: TypeAlias = Literal["alive", "silent", "dead"]
COUNTED: Final = ("events_in", "events_out", "notifications")
"""Counters that grow, from which rates are computed."""
LOST: Final = ("lost_events", "shed_notifications", "expired_events")
"""Counters of what was lost to a limit."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """One broker at one moment.

    Attributes
    ----------
    broker, label, cluster, role
        The broker, and its role now: REB, DEB or NEB. The label is its place at the launch; people are shown `name`.
    state
        Whether it answers: ``"silent"`` means that it is not known to be dead and does not answer.
    parent, children
        The brokers above and below it in the tree; none where membership is by views.
    sizes
        What it holds and has done so far, by name (`Inspection.describe`); empty when it does not answer.
    sent
        The number of events that it has sent to each neighbour so far; ``-1`` is its whole cluster.
    books
        What it has reserved of what is available, as in `Inspection.admission`; None without admission control.
    """

    broker: BrokerId
    label: str
    cluster: ClusterId
    role: str
    state: State
    parent: BrokerId | None
    children: tuple[BrokerId, ...]
    sizes: dict[str, int]
    sent: dict[BrokerLink, int]
    books: dict[str, Any] | None

    @property
    def name(self) -> str:
        """Its number and its present role; only its number if it is dead, since another one may have its role."""
        return str(self.broker) if self.state == "dead" else broker_name(self.broker, self.role)

    @property
    def queued(self) -> int:
        """The number of events that wait for a link."""
        return self.sizes.get("outbox_events", 0)

    @property
    def lost(self) -> int:
        """The number of events and notifications lost to a limit so far."""
        return sum(self.sizes.get(name, 0) for name in LOST)


@dataclass(frozen=True, slots=True)
class NetworkStatus:
    """A network at one moment.

    Attributes
    ----------
    name, scheme, heals
        As the network was launched.
    at_seconds
        The time of the snapshot on this process's monotonic clock.
    brokers
        Every broker that has not left, in rising order.
    problems
        What is not repaired yet, in words; empty when all is well.
    latencies
        The number of notifications in the last minute, by latency bucket (`actors.telemetry.latency`).
    gateways
        Every gateway that the network was launched with or that was added with a node. Gateways do not count for
        the network's health.
    collector
        The state of the collector of telemetry, which does not count for the network's health either.
    hosts_by_ray
        To how many processes of brokers the process that asks could open no channel, if it tried: its calls to them
        go by Ray. The same of a broker is in its `sizes`.
    sinks
        Every sink. Sinks do not count for the network's health.
    durables
        The durable subscribers that are furthest behind (`protocol.durables`); `Network.durable` has all. They do not
        count for the network's health.
    notes
        What game days did and saw of late, oldest first; none in a network that does not heal.
    """

    name: str
    scheme: str
    heals: bool
    at_seconds: float
    brokers: tuple[BrokerStatus, ...]
    problems: tuple[str, ...]
    latencies: dict[int, int]
    gateways: tuple[GatewayStatus, ...] = ()
    collector: State = "alive"
    hosts_by_ray: int = 0
    sinks: tuple[SinkStatus, ...] = ()
    durables: tuple[DurableStatus, ...] = ()
    notes: tuple[Note, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether every broker answers and nothing remains to be repaired."""
        return not self.problems and all(one.state == "alive" for one in self.brokers)

    @property
    def condition(self) -> str:
        """The condition in a few words: healthy, healing, whole without the brokers that are dead, or broken."""
        if self.healthy:
            return "healthy"
        if not self.heals:
            return "broken"
        if self.problems or any(one.state == "silent" for one in self.brokers):
            return "healing"
        dead = ", ".join(str(one.broker) for one in self.brokers if one.state == "dead")
        return f"whole without broker {dead}"

    @property
    def latency_seconds(self) -> dict[str, float | None]:
        """The median and the 99th percentile of the last minute's latencies; None when there were none."""
        return {"p50": quantile(self.latencies, 0.5), "p99": quantile(self.latencies, 0.99)}

    def rates(self, before: NetworkStatus) -> dict[BrokerId, dict[str, float]]:
        """Return each broker's rates per second since an earlier snapshot, by name; none for new and dead brokers."""
        seconds = self.at_seconds - before.at_seconds
        then = {one.broker: one.sizes for one in before.brokers}
        return {
            one.broker: {
                name: max(0, one.sizes[name] - then[one.broker][name]) / seconds  # lower after a restart
                for name in COUNTED
            }
            for one in self.brokers
            if one.sizes and then.get(one.broker) and seconds > 0
        }

    def to_dict(self, rates: dict[BrokerId, dict[str, float]] | None = None) -> dict[str, Any]:
        """Return the status as JSON-compatible values, with rates if given."""
        made = asdict(self)
        made["healthy"] = self.healthy
        made["condition"] = self.condition
        made["latency_seconds"] = self.latency_seconds
        del made["at_seconds"], made["latencies"]
        for one in made["brokers"]:
            one["rates"] = (rates or {}).get(one["broker"])
        return made


def status_of(
    hosts: Hosts, convergence: Convergence, answer_seconds: float = ANSWER_SECONDS
) -> NetworkStatus:
    """Take one snapshot of a network.

    Parameters
    ----------
    hosts, convergence
        Those of the network.
    answer_seconds
        How long all brokers together may take to answer, and the rendezvous point before them.

    Raises
    ------
    BrokerUnavailable
        If the rendezvous point does not answer.
    """
    heals = hosts.features.heals
    if heals:
        with broker_errors(f"looking at network {hosts.name!r}", "the rendezvous point"):
            hosts.find_reborn(answer_seconds)
    seen = _SEEN.setdefault(hosts, GatewaysSeen())
    asked, collector = seen.ask(hosts.directory), _ask_collector(hosts.directory.collector)
    sinks = asked_sinks(hosts.directory)
    notes = hosts.rendezvous.notes.remote() if heals else None
    begun = time.monotonic()
    said, silent = _said(hosts, ("look", "survey") if heals else ("look",), answer_seconds)
    looks: dict[BrokerId, Look] = said["look"]
    survey = said.get("survey", {})
    positions = {one.broker: one for one in (*hosts.directory.positions, *hosts.positions_in(survey))}
    brokers = [_one(positions[broker], looks.get(broker), broker in silent) for broker in sorted(positions)]
    if heals:
        problems = convergence.problems_by(survey)
    else:
        problems = [f"broker {one.broker} is {one.state}" for one in brokers if one.state != "alive"]
    problems = [*problems, *_stores(looks)]
    scheme = hosts.directory.scheme
    latencies = together(look.latencies for look in looks.values())
    at = time.monotonic()
    gateways = seen.said(asked, answer_seconds)
    state = _collector_said(collector, max(0.0, begun + answer_seconds - time.monotonic()))
    written = sinks_said(sinks, max(0.0, begun + answer_seconds - time.monotonic()))
    return NetworkStatus(
        hosts.name,
        scheme,
        heals,
        at,
        tuple(brokers),
        tuple(problems),
        latencies,
        gateways,
        state,
        sinks=written,
        durables=furthest_behind(each for look in looks.values() for each in look.durables),
        notes=_noted(notes, max(0.0, begun + answer_seconds - time.monotonic())),
    )


def _stores(looks: Mapping[BrokerId, Look]) -> list[str]:
    """Return the problems of stores that do not answer, in words."""
    return [
        f"the store of broker {broker} has not answered for {look.store_seconds:.0f} s"
        for broker, look in sorted(looks.items())
        if look.store_seconds > STORE_SECONDS
    ]


def _noted(call: ray.ObjectRef[tuple[Note, ...]] | None, seconds: float) -> tuple[Note, ...]:
    """Return what game days have said; nothing if the rendezvous point does not answer just now."""
    try:
        return () if call is None else tuple(ray.get(call, timeout=seconds))
    except (RayError, GetTimeoutError):
        return ()


def _ask_collector(collector: Any) -> Any:
    return None if collector is None else collector.pid.options(max_task_retries=0).remote()


def _collector_said(call: Any, seconds: float) -> State:
    """Return the state of the collector that was asked; one that Ray starts again is silent."""
    try:
        if call is not None:
            ray.get(call, timeout=seconds)
    except ActorDiedError:
        return "dead"
    except (RayError, GetTimeoutError):
        return "silent"
    return "alive"


def _said(
    hosts: Hosts, questions: Sequence[Question], seconds: float
) -> tuple[dict[str, dict[BrokerId, Any]], set[BrokerId]]:
    """Return the brokers' answers to each question, asked all at once, and the living brokers that did not answer."""
    at: dict[Any, list[BrokerId]] = {}
    for broker in hosts.brokers():
        at.setdefault(hosts.host_of(broker), []).append(broker)
    calls = {host: [HostHandle(host).ask(question) for question in questions] for host in at}
    if calls:
        asked = [call for its in calls.values() for call in its]
        ray.wait(asked, num_returns=len(asked), timeout=seconds)
    said: dict[str, dict[BrokerId, Any]] = {question: {} for question in questions}
    silent: set[BrokerId] = set()
    for host, its in calls.items():
        try:
            answers = ray.get(its, timeout=0)
        except GetTimeoutError:
            silent.update(at[host])
        except RayActorError as error:
            if not hosts.features.heals:
                continue  # Ray may restart it
            if isinstance(error, ActorDiedError):
                hosts.dead.add(host)
            else:
                silent.update(at[host])  # currently unreachable
        else:
            for question, answer in zip(questions, answers, strict=True):
                said[question] |= answer
    return said, silent


def _one(place: Position, look: Look | None, silent: bool) -> BrokerStatus:
    state: State = "alive" if look is not None else "silent" if silent else "dead"
    above = place.parent if place.role != "NEB" else None
    below = place.children if place.role != "NEB" else ()
    sizes, sent, books = ({}, {}, None) if look is None else (look.sizes, look.sent, look.books)
    return BrokerStatus(
        place.broker, place.label, place.cluster, place.role, state, above, below, sizes, sent, books
    )
