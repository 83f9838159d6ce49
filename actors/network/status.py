"""The status of a network: each broker's place, state and load, and what is not repaired yet.

Rules
-----
* A query never fails for a broker that is dead or does not answer: that is part of the status.
* All brokers are asked at once, so a query takes no longer than one broker may take to answer, however many do not.
* A rate is the difference of two queries, over the time between them on this process's clock.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayActorError

from ...protocol.configs import Position
from ...protocol.ids import BrokerId, BrokerLink, ClusterId
from ..host.errors import broker_errors
from ..host.survey import Look
from ..telemetry.latency import quantile, together
from .gateways import GatewaysSeen, GatewayStatus

if TYPE_CHECKING:
    from ..chaos.convergence import Convergence
    from .hosts import Hosts

_SEEN: Final[WeakKeyDictionary[Hosts, GatewaysSeen]] = WeakKeyDictionary()
"""The gateway queries of each network that this process knows."""

ANSWER_SECONDS: Final = 5.0
"""How long a broker may take to answer; beyond it, it is shown as silent."""

State: TypeAlias = Literal["alive", "silent", "dead"]
COUNTED: Final = ("events_in", "events_out", "notifications")
"""Counters, from which rates are computed."""
LOST: Final = ("lost_events", "shed_notifications", "expired_events")
"""Counters of losses by limits."""


@dataclass(frozen=True, slots=True)
class BrokerStatus:
    """The status of one broker.

    Attributes
    ----------
    broker, label, cluster, role
        Its identity, and its current role: REB, DEB or NEB.
    state
        Whether it answers: ``"silent"`` is a broker whose process lives and does not answer.
    parent, children
        The brokers above and below it in the tree; none in networks with views.
    sizes
        The sizes of its state and its counters, by name (`Network.describe`); empty if it does not answer.
    sent
        How many events it has handed to each neighbour so far; ``-1`` is its whole cluster.
    books
        Reservations and capacity, as in `Network.admission`; None without admission control.
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
    def queued(self) -> int:
        """Events that wait for a link."""
        return self.sizes.get("outbox_events", 0)

    @property
    def lost(self) -> int:
        """Events and notifications lost by a limit so far."""
        return sum(self.sizes.get(name, 0) for name in LOST)


@dataclass(frozen=True, slots=True)
class NetworkStatus:
    """The status of a network.

    Attributes
    ----------
    name, scheme, heals
        The launch parameters.
    at_seconds
        The time, on this process's monotone clock.
    brokers
        Every broker that has not left, rising.
    problems
        What is not repaired yet, in words; empty if all is well.
    latencies
        How many notifications had which latency in the last minute, by bucket (`actors.telemetry.latency`).
    gateways
        Every gateway of the launch, or of a later node; gateways do not affect the network's health.
    """

    name: str
    scheme: str
    heals: bool
    at_seconds: float
    brokers: tuple[BrokerStatus, ...]
    problems: tuple[str, ...]
    latencies: dict[int, int]
    gateways: tuple[GatewayStatus, ...] = ()

    @property
    def healthy(self) -> bool:
        """Whether every broker answers and nothing remains to be repaired."""
        return not self.problems and all(one.state == "alive" for one in self.brokers)

    @property
    def condition(self) -> str:
        """The condition in a few words: healthy, healing, whole without brokers that are dead, or broken."""
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
        """The median and the 99th percentile of the last minute's latencies; None if there were none."""
        return {"p50": quantile(self.latencies, 0.5), "p99": quantile(self.latencies, 0.99)}

    def rates(self, before: NetworkStatus) -> dict[BrokerId, dict[str, float]]:
        """Return the rates of each broker since an earlier status, by name; not of a new or dead one."""
        seconds = self.at_seconds - before.at_seconds
        then = {one.broker: one.sizes for one in before.brokers}
        return {
            one.broker: {
                name: max(0, one.sizes[name] - then[one.broker][name]) / seconds  # less after a restart
                for name in COUNTED
            }
            for one in self.brokers
            if one.sizes and then.get(one.broker) and seconds > 0
        }

    def to_dict(self, rates: dict[BrokerId, dict[str, float]] | None = None) -> dict[str, Any]:
        """Return the JSON form, with rates if given."""
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
    """Query a network once.

    Parameters
    ----------
    hosts, convergence
        The network's.
    answer_seconds
        How long all brokers together may take to answer, and the rendezvous point before them.

    Raises
    ------
    BrokerUnavailable
        If the rendezvous point does not answer.
    """
    heals = hosts.recovery is not None
    if heals:
        with broker_errors(f"looking at network {hosts.name!r}", "the rendezvous point"):
            hosts.find_reborn(answer_seconds)
    seen = _SEEN.setdefault(hosts, GatewaysSeen())
    asked = seen.ask(hosts.directory)
    said, silent = _said(hosts, ("look", "survey") if heals else ("look",), answer_seconds)
    looks: dict[BrokerId, Look] = said["look"]
    survey = said.get("survey", {})
    positions = {one.broker: one for one in (*hosts.directory.positions, *hosts.standing_by(survey))}
    brokers = [_one(positions[broker], looks.get(broker), broker in silent) for broker in sorted(positions)]
    if heals:
        problems = convergence.problems_by(survey)
    else:
        problems = [f"broker {one.broker} is {one.state}" for one in brokers if one.state != "alive"]
    scheme = hosts.directory.scheme
    latencies = together(look.latencies for look in looks.values())
    at = time.monotonic()
    gateways = seen.said(asked, answer_seconds)
    return NetworkStatus(hosts.name, scheme, heals, at, tuple(brokers), tuple(problems), latencies, gateways)


def _said(
    hosts: Hosts, questions: Sequence[str], seconds: float
) -> tuple[dict[str, dict[BrokerId, Any]], set[BrokerId]]:
    """Return the answers of the brokers to each question, asked at once, and the live ones that do not answer all."""
    at: dict[Any, list[BrokerId]] = {}
    for broker in hosts.brokers():
        at.setdefault(hosts.host_of(broker), []).append(broker)
    calls = {host: [getattr(host, question).remote() for question in questions] for host in at}
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
            if hosts.recovery is None:
                continue  # Ray may restart it
            if isinstance(error, ActorDiedError):
                hosts.dead.add(host)
            else:
                silent.update(at[host])  # unreachable just now
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
