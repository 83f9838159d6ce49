"""Draws a chaos case from a seed: the network, its links, its clients' actions, and the faults.

Rules
-----
* Everything comes from ``random.Random`` of the seed. The same arguments give the same case on every machine.
* All clients attach and subscribe before the first fault. During the faults they publish, and sometimes
  subscribe to something new, cancel, or move to another broker voluntarily.
* Operations (brokers that join and leave in good order) are drawn only on request, from a separate source of
  randomness: with and without them a seed draws the same network, load and plan.
* No event exceeds the retention limits unless the caller's `recovery` makes it so.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, TypeAlias, TypedDict

from ...protocol.configs import DEFAULT_SCHEME, Position
from ...protocol.features import Features
from ...protocol.messages.admission import AdmissionConfig
from ...protocol.messages.recovery import Recovery
from ...protocol.scenarios.scenario import LinkModel
from ...protocol.scenarios.workload import random_event, random_selector
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ...routing.topologies.cluster_trees import topology_of
from .draws import aimed, draw
from .plans import FaultPlan

RETENTION_SECONDS: Final = 600.0
OPERATIONS: Final = {
    "add_broker": 4,
    "add_cluster": 3,
    "remove_broker": 4,
    "remove_designated": 3,
    "remove_cluster": 3,
    "remove_root_cluster": 1,
    "reoptimise": 3,
}
"""The operations with their weights."""

IN_TREES: Final = ("remove_designated", "remove_root_cluster", "reoptimise")
"""The operations that only a tree has."""

BUILD_SECONDS: Final = 5.0
"""The time that the network and its first subscriptions have before the first fault."""


@dataclass(frozen=True, slots=True)
class Action:
    """An action of a client; seconds count from the start of the faults.

    `do` is subscribe, cancel, publish or move; with stable storage also stop and start, of the client's
    process. After a stop that `forgets`, the next process does not ask again for what was not in force.
    What is published has a time to live of `ttl_seconds`, if that is not None.
    """

    at_seconds: float
    do: str
    client: str
    broker: int = 0
    number: int = 0
    selector: str = ""
    events: tuple[dict[str, Any], ...] = ()
    forgets: bool = False
    ttl_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """An action of the network's operator.

    Attributes
    ----------
    at_seconds
        The time from the start of the faults.
    do
        One of `OPERATIONS`.
    pick
        From 0 up to 1: selects one of the candidates at that time, from the first to the last.
    size
        The size of a cluster that joins.
    """

    at_seconds: float
    do: str
    pick: float
    size: int = 1


@dataclass(frozen=True, slots=True)
class DrawnAdvertisement:
    """What a publisher advertises: a selector, and events a second."""

    selector: str
    rate: float


@dataclass(frozen=True, slots=True)
class Late:
    """New subscribers after everything has settled (`late_cases`).

    Attributes
    ----------
    before
        Whether it happens before the faults of the plan, or after everything has healed.
    publications, subscriptions
        What the publishers publish, and what is subscribed to after they have left; seconds count from the beginning
        of either.
    kills
        After everything has healed: each selects a living broker that dies, from 0 for the first up to 1 for the last.
    restarts
        Whether these brokers are restarted.
    """

    before: bool
    publications: tuple[Action, ...]
    subscriptions: tuple[Action, ...]
    kills: tuple[float, ...] = ()
    restarts: bool = False

    @property
    def publishers(self) -> tuple[str, ...]:
        """The publishers, each once."""
        return tuple(dict.fromkeys(action.client for action in self.publications))

    @property
    def subscribers(self) -> tuple[str, ...]:
        """The subscribers, each once."""
        return tuple(dict.fromkeys(action.client for action in self.subscriptions))

    def describe(self) -> dict[str, object]:
        """Return what happens as plain data, without the events."""
        return {
            "before": self.before,
            "publishers": [[action.client, action.broker] for action in self.publications],
            "subscriptions": [
                [action.client, action.broker, action.selector] for action in self.subscriptions
            ],
            "kills": list(self.kills),
            "restarts": self.restarts,
        }

    def victims(self, living: Sequence[int]) -> list[int]:
        """Return which of the living brokers die; one of them always stays."""
        left, found = list(living), list[int]()
        for pick in self.kills:
            if len(left) > 1:
                found.append(left.pop(int(pick * len(left))))
        return found


@dataclass(frozen=True, slots=True)
class Rumour:
    """Wrong news: a living broker is said to be dead.

    Attributes
    ----------
    at_seconds
        The time from the start of the faults.
    pick
        From 0 up to 1: selects one of the living brokers at that time; of those that are paused or slow, if any is.
    share
        The fraction of the brokers connected with it that are told.
    """

    at_seconds: float
    pick: float
    share: float


@dataclass(frozen=True, slots=True)
class Known:
    """What brokers are told of deaths (`known_cases`).

    Attributes
    ----------
    after_seconds
        How long after a death.
    share
        The fraction of deaths that become known; the others are only silent.
    rumours
        Wrong news.
    """

    after_seconds: float
    share: float
    rumours: tuple[Rumour, ...] = ()


@dataclass(frozen=True, slots=True)
class Case:
    """Everything from which a chaos run is made.

    Attributes
    ----------
    seed
        The seed from which it was drawn.
    topology
        In the form that :func:`rayvous.routing.topologies.cluster_trees.topology_of` accepts.
    recovery, links
        The brokers' settings, None for brokers that do not heal, and the behaviour of links.
    opening, actions, closing
        The clients' actions before the faults, during them, and after everything has healed.
    plan
        The faults.
    stable, durable
        Whether brokers have stores, and which subscribers are then durable.
    operations
        The brokers and clusters that join and leave meanwhile.
    scheme
        The routing scheme.
    admission, adverts, priorities
        The admission criterion and capacities, None without admission control; each publisher's
        advertisement, and each subscriber's priority.
    lossless
        Whether a loss is a problem even if a limit explains it.
    late
        What happens when everything has settled; None for nothing.
    known
        What brokers are told of deaths; None for nothing.
    intermissions
        Moments of the plan in order. At each everything is healed, and the plan goes on only once the network is
        whole. The plan's clock stands still meanwhile (:mod:`.acts`).
    """

    seed: int
    topology: dict[str, Any]
    recovery: Recovery | None
    links: LinkModel
    opening: tuple[Action, ...]
    actions: tuple[Action, ...]
    closing: tuple[Action, ...]
    plan: FaultPlan
    stable: bool = False
    durable: tuple[str, ...] = ()
    operations: tuple[Operation, ...] = ()
    scheme: str = DEFAULT_SCHEME
    admission: AdmissionConfig | None = None
    adverts: Mapping[str, DrawnAdvertisement] = field(default_factory=dict)
    priorities: Mapping[str, int] = field(default_factory=dict)
    lossless: bool = False
    late: Late | None = None
    known: Known | None = None
    intermissions: tuple[float, ...] = ()

    @property
    def features(self) -> Features:
        """What follows from the features of its network."""
        return Features(self.recovery, self.stable, self.admission)

    def describe(self) -> dict[str, object]:
        """Return the case as plain data; of the clients' actions only the number of each kind."""
        counts: dict[str, int] = {}
        for action in (*self.opening, *self.actions, *self.closing):
            counts[action.do] = counts.get(action.do, 0) + 1
        return {
            "seed": self.seed,
            "scheme": self.scheme,
            "topology": self.topology,
            "recovery": asdict(self.recovery) if self.recovery else None,
            "links": asdict(self.links),
            "clients": len({action.client for action in self.opening}),
            "actions": counts,
            "plan": self.plan.to_dict(),
            **({"intermissions": list(self.intermissions)} if self.intermissions else {}),
            **({"durable": list(self.durable)} if self.stable else {}),
            **({"lossless": True} if self.lossless else {}),
            **({"admission": self._admission(self.admission)} if self.admission else {}),
            **({} if self.late is None else {"late": self.late.describe()}),
            **({} if self.known is None else {"known": asdict(self.known)}),
            **({"operations": [asdict(each) for each in self.operations]} if self.operations else {}),
        }

    def _admission(self, config: AdmissionConfig) -> dict[str, object]:
        return {
            "refusing_share_max": config.refusing_share_max,
            "estimator": config.estimator,
            "adverts": {name: asdict(each) for name, each in self.adverts.items()},
        }


class Drawing(TypedDict, total=False):
    """What :func:`draw_case` takes beside the seed."""

    brokers_max: int
    seconds: float
    plan: FaultPlan | None
    recovery: Recovery | None
    heals: bool
    kinds: Sequence[str] | None
    faults_max: int
    operations: bool
    topology: dict[str, Any] | None
    aim: str | None
    scheme: str
    restless: bool


def draw_case(
    seed: int,
    *,
    brokers_max: int = 60,
    seconds: float = 30.0,
    plan: FaultPlan | None = None,
    recovery: Recovery | None = None,
    heals: bool = True,
    kinds: Sequence[str] | None = None,
    faults_max: int = 6,
    operations: bool = False,
    topology: dict[str, Any] | None = None,
    aim: str | None = None,
    scheme: str = DEFAULT_SCHEME,
    restless: bool = True,
) -> Case:
    """Return the case of a seed.

    Parameters
    ----------
    seed
        The seed.
    brokers_max
        The largest network that is drawn.
    seconds
        How long faults happen before everything is healed; a given `plan` has its own time.
    plan, recovery
        Used instead of drawn ones.
    heals
        Whether brokers heal; if not, the drawn plan is empty.
    kinds, faults_max
        As in :func:`rayvous.faults.plans.draws.draw`.
    operations
        Whether brokers and clusters join and leave.
    topology
        Used instead of a drawn one. It must contain its `degree` if no `recovery` is given.
    aim
        One of :data:`rayvous.faults.plans.draws.AIMS` or `FLAT_AIMS`, which becomes the first fault; ignored
        if a `plan` is given.
    scheme
        The routing scheme, one that heals. A seed draws the same network and links for each scheme.
    restless
        Whether clients also subscribe, cancel and move during the faults.
    """
    rng = random.Random(f"chaos/{seed}")
    if topology is None:
        topology, degree = _topology(rng, brokers_max)
    else:
        degree = topology.get("degree", 0)
    positions = topology_of(topology).positions()
    made = scheme_of(scheme)
    if made.membership is Membership.NODES:
        degree = max(degree, *(len(place.children) for place in made.positions(positions)))
    links = LinkModel(
        spread_seconds=rng.choice((0.0, 0.01, 0.05)), jitter_seconds=rng.choice((0.0, 0.005, 0.05))
    )
    if not heals:
        recovery = None
    elif recovery is None:
        recovery = Recovery.for_simulator(
            degree=degree + rng.choice((0, 0, 1, 4)),
            retention_seconds=RETENTION_SECONDS,
            detector=rng.choice(("adaptive", "adaptive", "fixed")),
        )
    given = plan
    if plan is None:
        plan = (
            draw(
                rng,
                positions,
                seconds,
                kinds=kinds,
                faults_max=faults_max,
                name=f"seed {seed}",
                flat=made.membership is Membership.VIEWS,
            )
            if heals
            else FaultPlan("nothing", heal_seconds=seconds)
        )
    opening, actions, closing = _doings(rng, positions, plan.heal_seconds)
    if not restless:
        actions = tuple(action for action in actions if action.do == "publish")
    if aim is not None and given is None:
        homes = sorted({action.broker for action in opening})
        plan = aimed(rng, plan, aim, positions, homes)
    operated: tuple[Operation, ...] = ()
    if operations and recovery is not None:
        tree = made.membership is not Membership.VIEWS
        operated = draw_operations(seed, plan.heal_seconds, tree=tree)
        recovery = recovery if tree else replace(recovery, node_cluster_max=_node_cluster_max(seed))
    return Case(
        seed, topology, recovery, links, opening, actions, closing, plan, operations=operated, scheme=scheme
    )


def draw_operations(seed: int, seconds: float, *, tree: bool = True) -> tuple[Operation, ...]:
    """Return the operations on the network of a seed, a tree or not, during `seconds` of faults."""
    rng = random.Random(f"operations/{seed}")
    weights = {word: weight for word, weight in OPERATIONS.items() if tree or word not in IN_TREES}
    drawn = [
        Operation(
            round(rng.uniform(0.0, 0.9) * seconds, 3),
            rng.choices(list(weights), list(weights.values()))[0],
            rng.random(),
            rng.randint(1, 4),
        )
        for _ in range(rng.randint(1, 6))
    ]
    return tuple(sorted(drawn, key=lambda operation: operation.at_seconds))


def _node_cluster_max(seed: int) -> int | None:
    return random.Random(f"operations/{seed}/node clusters").choice((None, None, 1, 2, 4))


def small_topology(seed: int, brokers_max: int) -> dict[str, int]:
    """Return the network of a seed for hosts on which every broker is a process: up to four small clusters.

    There is always a cluster below the root, and a normal broker, so that every aim has a target.
    """
    rng = random.Random(f"small/{seed}")
    clusters = rng.randint(2 if brokers_max < 6 else 3, max(2, min(4, brokers_max // 2)))
    members = rng.randint(2, max(2, min(3, brokers_max // clusters)))
    return {"clusters": clusters, "brokers_per_cluster": members, "degree": rng.randint(1, 3)}


def _topology(rng: random.Random, brokers_max: int) -> tuple[dict[str, object], int]:
    size = max(1, round(brokers_max * rng.random() ** 1.5)) if rng.random() < 0.9 else brokers_max
    degree = rng.randint(1, 4)
    if rng.random() < 0.5:
        members = rng.randint(1, min(6, size))
        clusters = max(1, size // members)
        return {"clusters": clusters, "brokers_per_cluster": members, "degree": degree}, degree
    parents: dict[str, str | None] = {"REB": None}
    members_of: dict[str, list[str]] = {}
    room = {"REB": degree}
    brokers = 1
    while brokers < size:
        if rng.random() < 0.35:
            above = rng.choice([name for name, left in room.items() if left])
            name = f"D{len(parents)}"
            parents[name] = above
            room[above] -= 1
            room[name] = degree
        else:
            head = rng.choice(list(parents))
            members_of.setdefault(head, []).append(f"N{brokers}")
        brokers += 1
    return {"parents": parents, "members": members_of}, degree


Doings: TypeAlias = tuple[tuple[Action, ...], tuple[Action, ...], tuple[Action, ...]]


def _doings(rng: random.Random, positions: Sequence[Position], seconds: float) -> Doings:
    brokers = [place.broker for place in positions]
    subscribers = [f"s{number}" for number in range(1, rng.randint(3, 25) + 1)]
    publishers = [f"p{number}" for number in range(1, rng.randint(1, 6) + 1)]
    homes = {client: rng.choice(brokers) for client in (*subscribers, *publishers)}
    numbers = dict.fromkeys(subscribers, 0)
    open_numbers: dict[str, list[int]] = {client: [] for client in subscribers}

    def subscribe(at: float, client: str) -> Action:
        numbers[client] += 1
        open_numbers[client].append(numbers[client])
        selector = random_selector(rng)
        return Action(at, "subscribe", client, homes[client], numbers[client], selector)

    def publish(at: float, client: str) -> Action:
        events = tuple(random_event(rng) for _ in range(rng.choice((1, 1, 2, 5))))
        return Action(at, "publish", client, homes[client], events=events)

    opening = [
        subscribe(rng.random() - BUILD_SECONDS, client)
        for client in subscribers
        for _ in range(rng.randint(1, 3))
    ]
    opening += [publish(rng.random() - BUILD_SECONDS / 2, client) for client in publishers]
    times = [
        *((at, "publish") for at in _moments(rng, rng.choice((2.0, 10.0, 10.0, 20.0)), seconds)),
        *((at, "churn") for at in _moments(rng, rng.choice((0.0, 0.3, 2.0)), seconds)),
        *((at, "move") for at in _moments(rng, rng.choice((0.0, 0.0, 0.15)), seconds)),
    ]
    actions: list[Action] = []
    for at, what in sorted(times):
        client = rng.choice(subscribers)
        if what == "publish":
            actions.append(publish(at, rng.choice(publishers)))
        elif what == "move":
            actions.append(Action(at, "move", rng.choice(subscribers + publishers), rng.choice(brokers)))
        elif rng.random() < 0.5 and len(open_numbers[client]) > 1:
            number = open_numbers[client].pop(rng.randrange(len(open_numbers[client])))
            actions.append(Action(at, "cancel", client, number=number))
        else:
            actions.append(subscribe(at, client))
    closing = [publish(0.1 * turn, client) for turn in range(3) for client in publishers]
    return (
        tuple(sorted(opening, key=lambda action: action.at_seconds)),
        tuple(actions),
        tuple(closing),
    )


def publishes(client: str) -> bool:
    """Return whether a drawn client publishes; the others subscribe."""
    return client.startswith("p")


def _moments(rng: random.Random, per_second: float, seconds: float) -> list[float]:
    out: list[float] = []
    at = 0.0
    while per_second and (at := at + rng.expovariate(per_second)) < seconds:
        out.append(at)
    return out
