"""Smaller cases: a case without some of its parts, still one that a correct network passes.

Rules
-----
* What depends on a part that is gone goes with it: a cancel with its subscription, a fault with its broker.
* Who is left stays as it is: a client of a broker that is gone goes to the nearest one that is left, towards the root.
* No reduction may break what a correct network needs: a cluster may have as many children as it has got.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, Final

from ...protocol.configs import Position
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import Recovery
from ...protocol.scenarios.scenario import LinkModel
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ...routing.topologies.cluster_trees import topology_of
from ..plans.cases import Action, Case
from ..plans.damage_cases import is_damaged
from ..plans.plans import Crash, CrashCluster, Fault, Pause

PHASES: Final = "opening", "actions", "closing"
LATE_PHASES: Final = "publications", "subscriptions"
Step = tuple[str, Action]
"""The name of a phase, and an action in it."""


# Parts of a case as lists, and the case with fewer of them.


def steps_of(case: Case) -> list[Step]:
    """Return all actions of clients with their phases."""
    found = [(phase, action) for phase in PHASES for action in getattr(case, phase)]
    if case.late is not None:
        found += [(phase, action) for phase in LATE_PHASES for action in getattr(case.late, phase)]
    return found


def with_steps(case: Case, steps: Iterable[Step]) -> Case:
    """Return a case with these actions instead."""
    by_phase: dict[str, list[Action]] = {phase: [] for phase in (*PHASES, *LATE_PHASES)}
    for phase, action in steps:
        by_phase[phase].append(action)
    late = case.late
    if late is not None:
        coming: dict[str, Any] = {phase: tuple(by_phase[phase]) for phase in LATE_PHASES}
        late = replace(late, **coming)
        late = late if late.subscriptions or late.kills else None
    phases: dict[str, Any] = {phase: tuple(by_phase[phase]) for phase in PHASES}
    return tidy(replace(case, late=late, **phases))


def clients_of(case: Case) -> list[str]:
    """Return the names of all clients."""
    return list(dict.fromkeys(action.client for _, action in steps_of(case)))


def with_clients(case: Case, names: Collection[str]) -> Case:
    """Return a case with only these clients."""
    return with_steps(case, [step for step in steps_of(case) if step[1].client in names])


def with_faults(case: Case, faults: Iterable[Fault]) -> Case:
    """Return a case with these faults instead, in the order of their times."""
    ordered = tuple(sorted(faults, key=lambda fault: fault.at_seconds))
    heal = max([case.plan.heal_seconds, *(fault.at_seconds for fault in ordered)])
    stay_dead = case.plan.stay_dead if ordered else ()
    return tidy(
        replace(case, plan=replace(case.plan, faults=ordered, heal_seconds=heal, stay_dead=stay_dead))
    )


def with_intermissions(case: Case, intermissions: Iterable[float]) -> Case:
    """Return a case with only these intermissions."""
    return replace(case, intermissions=tuple(intermissions))


def with_late_kills(case: Case, kills: Iterable[float]) -> Case:
    """Return a case in which fewer brokers die late."""
    assert case.late is not None
    return with_steps(replace(case, late=replace(case.late, kills=tuple(kills))), steps_of(case))


def tidy(case: Case) -> Case:
    """Return a case without what refers to something that is gone."""
    there: set[str] = set()
    numbers: set[tuple[str, int]] = set()
    phases: dict[str, Any] = {}
    for phase in PHASES:
        kept = []
        for action in getattr(case, phase):
            if action.do == "cancel" and (action.client, action.number) not in numbers:
                continue
            if action.do in ("move", "stop", "start") and action.client not in there:
                continue
            there.add(action.client)
            numbers.add((action.client, action.number))
            kept.append(action)
        phases[phase] = tuple(kept)
    late = () if case.late is None else (*case.late.publishers, *case.late.subscribers)
    names = there.union(late)
    recovery = case.recovery
    if case.features.compares and not is_damaged(case):
        recovery = replace(case.features.times, compare_heartbeats=None)
    return replace(
        case,
        **phases,
        recovery=recovery,
        intermissions=tuple(each for each in case.intermissions if each < case.plan.heal_seconds),
        durable=tuple(name for name in case.durable if name in names),
        adverts={name: each for name, each in case.adverts.items() if name in names},
        priorities={name: each for name, each in case.priorities.items() if name in names},
    )


# Options that may not be needed.


def without_options(case: Case) -> Iterator[Case]:
    """Yield the case without one of its options, from the costly ones to the cheap ones."""
    if case.late is not None:
        yield replace(case, late=None)
    if case.operations:
        yield replace(case, operations=())
    if case.stable:
        steps = [step for step in steps_of(case) if step[1].do not in ("stop", "start")]
        yield replace(with_steps(case, steps), stable=False, durable=())
    if case.features.admits:
        yield replace(case, admission=None, adverts={}, priorities={})
    if case.known is not None:
        yield replace(case, known=None)
        if case.known.rumours:
            yield replace(case, known=replace(case.known, rumours=()))
    if case.lossless:
        yield replace(case, lossless=False)
    if case.links != LinkModel():
        yield replace(case, links=LinkModel())
    base = case.scheme.split("+")[0]
    if base != case.scheme:
        yield replace(case, scheme=base)
    usual = Recovery.for_simulator()
    if case.features.heals:
        times = case.features.times
        for entry in fields(Recovery):
            value = getattr(usual, entry.name)
            if entry.name not in ("degree", "compare_heartbeats") and getattr(times, entry.name) != value:
                yield replace(case, recovery=replace(times, **{entry.name: value}))


# Brokers.


def labels_of(case: Case) -> list[str]:
    """Return the labels of all brokers but the speaker of the root cluster, the leaves of the tree first."""
    positions = topology_of(case.topology).positions()
    speakers = [place.label for place in positions if place.designated == place.broker]
    members = [place.label for place in positions if place.designated != place.broker]
    return [*members[::-1], *speakers[:0:-1]]


def with_brokers(case: Case, labels: Collection[str]) -> Case:
    """Return a case with these brokers and the speaker of the root cluster; what names others goes, or moves up."""
    before = topology_of(case.topology).positions()
    by_broker = {place.broker: place for place in before}
    root = before[0].designated
    kept = {place.broker for place in before if place.label in labels} | {root}

    def up(broker: BrokerId) -> BrokerId:
        while broker not in kept:
            place = by_broker[broker]
            broker = place.designated if broker != place.designated else _above(place)
        return broker

    parents: dict[str, str | None] = {}
    members: dict[str, list[str]] = {}
    for place in before:
        if place.broker in kept and place.broker == place.designated:
            above = None if place.parent is None else by_broker[up(place.parent)]
            parents[place.label] = None if above is None else by_broker[above.designated].label
    for place in before:
        if place.broker in kept and place.broker != place.designated:
            members.setdefault(by_broker[up(place.designated)].label, []).append(place.label)
    topology: dict[str, object] = {"parents": parents, **({"members": members} if members else {})}
    after = {place.label: place for place in topology_of(topology).positions()}
    new = {place.broker: after[place.label].broker for place in before if place.broker in kept}
    return _renumbered(case, topology, new, {broker: new[up(broker)] for broker in by_broker})


def _above(place: Position) -> BrokerId:
    assert place.parent is not None, "the root is kept"
    return place.parent


def _renumbered(
    case: Case,
    topology: dict[str, object],
    new: Mapping[BrokerId, BrokerId],
    nearest: Mapping[BrokerId, BrokerId],
) -> Case:
    """Return a case on another network: brokers with other numbers, and the nearest one for those that are gone."""
    before = {place.broker: place for place in topology_of(case.topology).positions()}
    after = {place.broker: place for place in topology_of(topology).positions()}
    clusters = {before[old].cluster: after[one].cluster for old, one in new.items()}
    faults = [moved for fault in case.plan.faults if (moved := _moved(fault, new, clusters)) is not None]
    plan = replace(case.plan, stay_dead=tuple(new[each] for each in case.plan.stay_dead if each in new))
    admission = case.admission
    if admission is not None:
        kept = {new[broker]: each for broker, each in admission.capacities.items() if broker in new}
        admission = replace(admission, capacities=kept)
    case = replace(case, topology=topology, plan=plan, admission=admission)
    steps = [
        (phase, replace(action, broker=nearest.get(action.broker, 0))) for phase, action in steps_of(case)
    ]
    return wide_enough(with_steps(with_faults(case, faults), steps))


def _moved(fault: Fault, new: Mapping[int, int], clusters: Mapping[int, int]) -> Fault | None:
    """Return a fault with other numbers; None if what it harms is gone."""
    changes: dict[str, Any] = {}
    of_clusters = type(fault).__name__.endswith("Clusters")
    for name, numbers in (
        ("broker", new), ("cluster", clusters),
        ("one", clusters if of_clusters else new), ("other", clusters if of_clusters else new),
    ):  # fmt: skip
        number = getattr(fault, name, None)
        if number is None:
            continue
        if number not in numbers:
            return None
        changes[name] = numbers[number]
    for name, numbers in (("brokers", new), ("clusters", clusters)):
        if several := getattr(fault, name, ()):
            changes[name] = tuple(dict.fromkeys(numbers[each] for each in several if each in numbers))
            if not changes[name]:
                return None
    if "one" in changes and changes["one"] == changes["other"]:
        return None
    return replace(fault, **changes)


def wide_enough(case: Case) -> Case:
    """Return a case in which a cluster may have as many children as it has."""
    if not case.features.heals:
        return case
    positions: Sequence[Position] = topology_of(case.topology).positions()
    if scheme_of(case.scheme).membership is Membership.NODES:
        positions = scheme_of(case.scheme).positions(positions)
    needed = max(len(place.children) for place in positions)
    times = case.features.times
    return replace(case, recovery=replace(times, degree=max(times.degree, needed)))


# Each item by itself.


def simpler_selectors(selector: str) -> Iterator[str]:
    """Yield simpler selectors; not each can be parsed."""
    if selector != "TRUE":
        yield "TRUE"
    for word in (" OR ", " AND "):
        parts = selector.split(word)
        if len(parts) > 1:
            yield from parts
            yield from (word.join([*parts[:place], *parts[place + 1 :]]) for place in range(len(parts)))


def simpler_faults(fault: Fault) -> Iterator[Fault]:
    """Yield simpler faults in its place: less of the same, or one broker instead of its cluster."""
    seconds = getattr(fault, "seconds", 0.0)
    if seconds > 1.0:
        yield replace(fault, seconds=float(max(1, round(seconds / 2))))  # type: ignore[call-arg]
    for name in ("drop", "duplicate", "delay_seconds"):
        if getattr(fault, name, 0.0):
            yield replace(fault, **{name: 0.0})


def cluster_as_broker(case: Case, fault: Fault) -> Iterator[Fault]:
    """Yield the death of one broker of a cluster instead of that of the cluster."""
    if isinstance(fault, CrashCluster):
        for place in topology_of(case.topology).positions():
            if place.cluster == fault.cluster:
                yield Crash(fault.at_seconds, place.broker)
    elif isinstance(fault, Pause):
        yield Crash(fault.at_seconds, fault.broker)


def retimed(case: Case) -> Case:
    """Return a case whose faults and actions follow each other a second apart, in the same order."""
    moments: list[tuple[float, int, Fault | Action | float]] = [
        *((each, -1, each) for each in case.intermissions),
        *((fault.at_seconds, 0, fault) for fault in case.plan.faults),
        *((action.at_seconds, 1, action) for action in case.actions),
    ]
    moments.sort(key=lambda each: each[:2])
    intermissions = tuple(
        float(place) for place, (_, _, each) in enumerate(moments, 1) if isinstance(each, float)
    )
    moved = [
        replace(each, at_seconds=float(place))
        for place, (_, _, each) in enumerate(moments, 1)
        if not isinstance(each, float)
    ]
    heal = min(case.plan.heal_seconds, len(moments) + 1.0) if case.features.heals else len(moments) + 1.0
    if moments and len(moments) > heal:
        return case
    plan = replace(
        case.plan, faults=tuple(each for each in moved if isinstance(each, Fault)), heal_seconds=heal
    )
    actions = tuple(each for each in moved if isinstance(each, Action))
    return replace(case, plan=plan, actions=actions, intermissions=intermissions)


def in_rounded_time(case: Case) -> Case:
    """Return a case whose clients do everything at tenths of a second, and faults at whole or half ones."""

    def rounded(actions: tuple[Action, ...]) -> tuple[Action, ...]:
        return tuple(replace(each, at_seconds=round(each.at_seconds, 1)) for each in actions)

    faults = tuple(replace(each, at_seconds=round(2 * each.at_seconds) / 2) for each in case.plan.faults)
    heal = max([float(round(case.plan.heal_seconds)), *(each.at_seconds for each in faults)])
    phases: dict[str, Any] = {phase: rounded(getattr(case, phase)) for phase in PHASES}
    return replace(case, plan=replace(case.plan, faults=faults, heal_seconds=heal), **phases)


def ending_at(case: Case, seconds: float) -> Case:
    """Return a case that is healed by then: what comes later is left out."""
    faults = tuple(fault for fault in case.plan.faults if fault.at_seconds <= seconds)
    plan = replace(case.plan, faults=faults, heal_seconds=seconds)
    actions = tuple(each for each in case.actions if each.at_seconds < seconds)
    operations = tuple(each for each in case.operations if each.at_seconds < seconds)
    return tidy(replace(case, plan=plan, actions=actions, operations=operations))
