"""Other cases from one that reached something: the reverse of what shrinking does.

Rules
-----
* A mutated case is one that a correct network passes, as a drawn one is: faults are those that its scheme and its
  options allow, every broker and client exists, and no event is published that its publisher does not advertise.
* Most mutations are *aimed*: a fault or an action at the very moment at which the run of the case reached something
  rare, just before or after it, at the broker that it was at. What happens before that is the same run.
* The others add, remove, move, copy, repeat and redirect faults and actions, take those of another case, and change
  options. What is repeated happens twice as often, or three, five or nine times: with the counts that a run reaches
  (`seen`) that is how an error is found that needs something several times.
* A drawn case may have several *scenes*: what several seeds do to one network, one after another. Between two of them
  is an intermission: the next one begins when everything before was undone and the network is whole, which is judged.
* A scene has the faults, the operations, the wrong news and the actions of its seed. What names a broker or a client
  that is not there names another one, always the same.
* The longer nothing new came of a case, the more changes are made at once.
* Everything comes from the given source of randomness.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Final, TypeAlias

from ...protocol.configs import Position
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.scenarios.scenario import LinkModel
from ...protocol.scenarios.workload import random_selector
from ...routing.schemes.claims import Membership
from ...routing.schemes.registry import scheme as scheme_of
from ...routing.topologies.cluster_trees import topology_of
from ..plans.cases import Action, Case, publishes
from ..plans.draws import draw
from ..plans.known_cases import with_known
from ..plans.late_cases import with_late
from ..plans.plans import (
    Crash,
    CrashCluster,
    CrashRendezvous,
    Cut,
    CutClusters,
    Damage,
    Fault,
    FaultPlan,
    Heal,
    Leave,
    Mend,
    MendClusters,
    Partition,
    Pause,
    Restart,
    RestartRendezvous,
    Resume,
    Shake,
    Slow,
)
from ..shrinking.reductions import tidy, wide_enough
from .seen import Moment

FAULTS_MAX: Final = 96
ACTIONS_MAX: Final = 1_600
HEAL_SECONDS_MAX: Final = 120.0
NEAR_SECONDS: Final = 0.0, 0.0, -0.0005, 0.0005, 0.005, 0.02, 0.1, -0.02, -0.2
"""How long after the moment at which it is aimed something happens: most often at once, or so long before that it lasts
at that moment."""

RETENTION_SECONDS: Final = 60.0
"""How long the brokers of a case with scenes retain events, at most: much longer than a scene and its healing. What
everybody had before an intermission would be sent again in each round after it."""

SOON_SECONDS: Final = 0.01, 0.05, 0.3, 1.0, 3.0, 8.0
"""How long it is at most until an aimed fault is undone."""

AGAIN: Final = 1, 2, 4, 8
"""How often something is repeated."""

STALE: Final = 4
"""After how many cases of which nothing new came at most twice as many changes are made."""


class Mutator:
    """Makes other cases from a case.

    Parameters
    ----------
    rng
        The source of randomness.
    """

    def __init__(self, rng: Random) -> None:
        self._rng = rng

    def mutated(self, case: Case, moments: Sequence[Moment], other: Case, stale: int = 0) -> Case:
        """Return a case with one change or several.

        Parameters
        ----------
        case
            The case that is changed.
        moments
            When its run reached something rare.
        other
            A case of which parts may be taken.
        stale
            How many cases were made of it since something new came of one.
        """
        rng = self._rng
        changed = case
        for _ in range(1 << rng.randint(0, 2 + min(2, stale // STALE))):
            change = rng.choices(list(CHANGES), list(CHANGES.values()))[0]
            grown = change(self, changed, moments, other)
            if len(grown.plan.faults) <= FAULTS_MAX and len(grown.actions) <= ACTIONS_MAX:
                changed = wide_enough(tidy(grown))
        return changed

    def crowded(self, case: Case, others: Sequence[Case]) -> Case:
        """Return a case with the faults of others in addition; where a target does not exist another one is hit."""
        for other in others:
            grown = self._with_faults_of(case, other, 1.0)
            case = grown if len(grown.plan.faults) <= FAULTS_MAX else case
        return wide_enough(tidy(case))

    def staged(self, scenes: Sequence[Case]) -> Case:
        """Return a case with these scenes, in the network of any of them: the more brokers it has, the likelier.

        One that has several clusters and several brokers in one of them goes before one that lacks either. What has
        no fault makes no scene. A fault whose target is not in that network hits another one.
        """
        acted = [scene for scene in scenes if scene.plan.faults]
        among = [scene for scene in acted if _has_tree_and_group(scene)] or acted or list(scenes)
        others = [len(_positions(scene)) - 1 for scene in among]
        first = self._rng.choices(among, others if any(others) else None)[0]
        return self.chained(first, [scene for scene in acted if scene is not first])

    def chained(self, case: Case, others: Sequence[Case]) -> Case:
        """Return a case of several scenes: what others do follows, each time once the network is whole again.

        As many as fit, within the bounds.
        """
        if not case.features.heals or not others:
            return case
        if not case.lossless:
            times = case.features.times
            seconds = min(times.retention_seconds, RETENTION_SECONDS)
            case = replace(case, recovery=replace(times, retention_seconds=seconds))
        first = case
        for other in others:
            start = case.plan.heal_seconds
            plan = replace(case.plan, heal_seconds=start + other.plan.heal_seconds)
            grown = replace(case, plan=plan, intermissions=(*case.intermissions, start))
            bare = replace(first, plan=replace(other.plan, faults=()))
            scene = self._with_faults_of(bare, other, 1.0)
            later = [replace(each, at_seconds=each.at_seconds + start) for each in scene.plan.faults]
            grown = _with_faults(grown, [*grown.plan.faults, *later])
            grown = _with_others(grown, other, start)
            grown = _with_actions(grown, [*grown.actions, *self._cast(other, start, case)])
            if (
                len(grown.plan.faults) > FAULTS_MAX
                or len(grown.actions) > ACTIONS_MAX
                or plan.heal_seconds > HEAL_SECONDS_MAX
            ):
                break
            case = grown
        return wide_enough(tidy(case))

    def _cast(self, scene: Case, start: float, before: Case) -> list[Action]:
        """Return what the clients of a scene do from a time on, as actions of the clients of the case before.

        Subscriptions have numbers of their own. Who advertises publishes only what it has published before.
        """
        clients = list(dict.fromkeys(action.client for action in _all(before)))
        brokers = [place.broker for place in _positions(before)]
        parts = {kind: [name for name in clients if publishes(name) is kind] for kind in (True, False)}
        played = {kind: dict[str, str]() for kind in (True, False)}
        highest: dict[str, int] = {}
        own: dict[str, list[Action]] = {}
        for each in _all(before):
            highest[each.client] = max(highest.get(each.client, 0), each.number)
            if each.do == "publish":
                own.setdefault(each.client, []).append(each)
        numbers: dict[tuple[str, int], int] = {}
        found = []
        for each in scene.actions:
            kind = publishes(each.client)
            if not parts[kind]:
                continue
            roles = played[kind]
            name = roles.setdefault(each.client, parts[kind][len(roles) % len(parts[kind])])
            again = replace(
                each,
                at_seconds=each.at_seconds + start,
                client=name,
                broker=brokers[each.broker % len(brokers)],
            )
            if each.do == "subscribe":
                numbers[each.client, each.number] = highest[name] = highest[name] + 1
                again = replace(again, number=highest[name])
            elif each.do == "cancel":
                begun = [each.number for each in before.opening if each.client == name]
                number = numbers.get((each.client, each.number), each.number)
                if (each.client, each.number) not in numbers and number not in begun:
                    continue
                again = replace(again, number=number)
            elif each.do == "publish" and before.adverts:
                if name not in own:
                    continue
                again = replace(again, events=self._rng.choice(own[name]).events)
            elif each.do in ("stop", "start") and not (kind or name in before.durable):
                continue
            found.append(again)
        return found

    # At a moment.

    def strike(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Add a fault at a moment, at the broker that it was at, or between it and the one it heard from."""
        if not moments or not case.features.heals:
            return self.add_faults(case, moments, other)
        rng = self._rng
        moment = rng.choice(moments)
        at = self._near(case, moment.at_seconds)
        there = {place.broker: place for place in _positions(case)}
        ends = [end for end in (moment.broker, moment.source) if end in there]
        broker = rng.choice([moment.broker, *ends]) if moment.broker in there else rng.choice(list(there))
        until = at + rng.choice(SOON_SECONDS) * rng.random()
        others = [end for end in (*ends, rng.choice(list(there))) if end != broker]
        kinds: list[list[Fault]] = [
            [Crash(at, broker)],
            [Crash(at, broker), Restart(until, broker)],
            [Pause(at, broker), Resume(until, broker)],
            [Slow(at, broker, rng.choice((5.0, 20.0, 100.0))), Slow(until, broker, 1.0)],
            [CrashCluster(at, there[broker].cluster)],
            [CrashRendezvous(at), RestartRendezvous(until)],
            [Shake(at, until - at, 0.05, 0.2, 0.05, (broker,))],
        ]
        if others:
            one, to = sorted((broker, others[0]))
            cut: list[Fault] = [Cut(at, one, to), Mend(until, one, to)]
            kinds += [cut, cut]
        if _flat(case):
            kinds += [[Leave(at, broker)], [Leave(at, broker), Restart(until, broker)]]
        plan = case.plan
        longer = min(max(plan.heal_seconds, until), HEAL_SECONDS_MAX)
        struck = [replace(each, at_seconds=min(each.at_seconds, longer)) for each in rng.choice(kinds)]
        return _with_faults(replace(case, plan=replace(plan, heal_seconds=longer)), [*plan.faults, *struck])

    def act(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let a client do something at a moment: one at that broker, if there is one."""
        if not moments:
            return self.add_action(case, moments, other)
        moment = self._rng.choice(moments)
        return self._acting(case, self._near(case, moment.at_seconds), moment.broker)

    def move_to_moment(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Move a fault to a moment."""
        if not moments:
            return case
        return self._moved(case, self._near(case, self._rng.choice(moments).at_seconds))

    def _near(self, case: Case, seconds: float) -> float:
        return min(max(0.0, seconds + self._rng.choice(NEAR_SECONDS)), case.plan.heal_seconds)

    # Faults.

    def add_faults(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Add faults as a seed draws them."""
        if not case.features.heals:
            return case
        drawn = draw(self._rng, _positions(case), case.plan.heal_seconds, faults_max=2, flat=_flat(case))
        plan = case.plan
        dead = tuple(sorted({*plan.stay_dead, *drawn.stay_dead}))
        return _with_faults(replace(case, plan=replace(plan, stay_dead=dead)), [*plan.faults, *drawn.faults])

    def drop_fault(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Leave a fault out."""
        if not (free := _free(case)):
            return case
        gone = self._rng.choice(free)
        return _with_faults(case, [fault for fault in case.plan.faults if fault is not gone])

    def move_fault(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Move a fault to any time, or to that of another one."""
        plan, rng = case.plan, self._rng
        if not plan.faults:
            return case
        at = rng.choice(plan.faults).at_seconds + rng.choice((0.0, 0.001, -0.001, 0.05, 0.5))
        return self._moved(case, rng.choice((at, rng.uniform(0.0, plan.heal_seconds))))

    def _moved(self, case: Case, at: float) -> Case:
        if not (free := _free(case)):
            return case
        moved = self._rng.choice(free)
        at = min(max(0.0, at), case.plan.heal_seconds)
        return _with_faults(
            case, [replace(each, at_seconds=at) if each is moved else each for each in case.plan.faults]
        )

    def copy_fault(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let a fault happen again, somewhere else, or at another time."""
        if not (free := _free(case)):
            return case
        rng = self._rng
        fault = self._elsewhere(case, rng.choice(free))
        at = min(case.plan.heal_seconds, max(0.0, fault.at_seconds + rng.uniform(-1.0, 1.0)))
        return _with_faults(case, [*case.plan.faults, replace(fault, at_seconds=at)])

    def repeat_fault(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let a fault happen again and again, undone in between."""
        if not (some := [fault for fault in _free(case) if _undoing(fault, 0.0)]):
            return case
        rng, plan = self._rng, case.plan
        fault = rng.choice(some)
        added: list[Fault] = []
        for at in self._times(case, fault.at_seconds):
            before = added[-1].at_seconds if added else fault.at_seconds
            undo = _undoing(fault, min(before + (at - before) * rng.random(), at))
            added += [*undo, replace(fault, at_seconds=at)]
        return _with_faults(case, [*plan.faults, *added])

    def _times(self, case: Case, after: float) -> list[float]:
        """Return times after a time, up to the healing, at which something is repeated."""
        rng, start = self._rng, max(0.0, after)
        again = rng.choice(AGAIN)
        period = (case.plan.heal_seconds - start) * rng.choice((1.0, rng.random())) / again
        return [min(start + period * (turn + 1), case.plan.heal_seconds) for turn in range(again)]

    def redirect_fault(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let a fault harm another broker or cluster."""
        if not (free := _free(case)):
            return case
        chosen = self._rng.choice(free)
        faults = [self._elsewhere(case, each) if each is chosen else each for each in case.plan.faults]
        return _with_faults(case, faults)

    def _elsewhere(self, case: Case, fault: Fault) -> Fault:
        place = self._rng.choice(_positions(case))
        return replace(
            fault, **{name: getattr(place, name) for name in ("broker", "cluster") if hasattr(fault, name)}
        )

    def take_faults(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Add faults of another case; one whose target does not exist here hits another one, if it can."""
        return self._with_faults_of(case, other, self._rng.choice((0.5, 1.0)))

    def _with_faults_of(self, case: Case, other: Case, share: float) -> Case:
        positions, taken = _positions(case), list[Fault]()
        for fault in other.plan.faults:
            at = min(fault.at_seconds, case.plan.heal_seconds)
            if self._rng.random() < share and not isinstance(fault, Damage):
                fits = [each for each in (fault, _within(fault, positions)) if _can_be(each, positions)]
                taken += [replace(each, at_seconds=at) for each in fits[:1]]
        if _flat(other) != _flat(case) or not case.features.heals:
            return case
        return _with_faults(case, [*case.plan.faults, *taken])

    def stay_dead(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let a broker that dies stay dead, or come back."""
        broker = self._rng.choice(_positions(case)).broker
        return replace(
            case, plan=replace(case.plan, stay_dead=tuple(sorted({*case.plan.stay_dead} ^ {broker})))
        )

    def end_otherwise(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Heal earlier or later."""
        last = max([0.0, *(fault.at_seconds for fault in case.plan.faults)])
        seconds = case.plan.heal_seconds * self._rng.choice((0.5, 0.8, 1.25, 2.0))
        return replace(case, plan=replace(case.plan, heal_seconds=min(max(last, seconds), HEAL_SECONDS_MAX)))

    # Clients.

    def add_action(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let a client do something at any time."""
        return self._acting(case, self._rng.uniform(0.0, case.plan.heal_seconds), None)

    def _acting(self, case: Case, at: float, broker: BrokerId | None) -> Case:
        rng = self._rng
        clients = list(dict.fromkeys(action.client for action in case.opening))
        here = [action.client for action in case.opening if action.broker == broker]
        if not clients:
            return case
        client = rng.choice(here or clients)
        some = rng.choice(_positions(case)).broker
        doings = ["move", "move"]
        doings += ["publish"] * 3 if publishes(client) else ["subscribe", "subscribe", "cancel"]
        if case.stable and (publishes(client) or client in case.durable):
            doings += ["stop", "stop"]
        do, mine = rng.choice(doings), [each for each in _all(case) if each.client == client]
        numbers = [each.number for each in mine]
        if do == "publish":
            if not (before := [each for each in mine if each.do == "publish"]):
                return case
            added = [replace(rng.choice(before), at_seconds=at)]
        elif do == "subscribe":
            selector = rng.choice(("TRUE", random_selector(rng)))
            added = [Action(at, do, client, mine[0].broker, max(numbers) + 1, selector)]
        elif do == "cancel":
            added = [Action(at, do, client, number=rng.choice(numbers))]
        elif do == "stop":
            until = at + rng.choice(SOON_SECONDS) * rng.random()
            added = [Action(at, do, client, forgets=rng.random() < 0.5), Action(until, "start", client)]
        else:
            added = [Action(at, do, client, some)]
            if rng.random() < 0.3:
                home = rng.choice(_positions(case)).broker
                added.append(Action(at + rng.choice(SOON_SECONDS) * rng.random(), do, client, home))
        return _with_actions(case, [*case.actions, *added])

    def move_action(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let an action happen at another time, or again."""
        if not case.actions:
            return case
        rng = self._rng
        place = rng.randrange(len(case.actions))
        action = case.actions[place]
        at = rng.uniform(0.0, case.plan.heal_seconds)
        if moments and rng.random() < 0.5:
            at = self._near(case, rng.choice(moments).at_seconds)
        kept = list(case.actions)
        if action.do != "publish" or rng.random() < 0.5:
            del kept[place]
        return _with_actions(case, [*kept, replace(action, at_seconds=at)])

    def repeat_action(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Let a client do again and again what it does once; a subscription gets a new number each time."""
        rng, mine = self._rng, (*case.opening, *case.actions)
        if not (kinds := sorted({action.do for action in mine} & REPEATED)):
            return case
        do = rng.choice(kinds)
        action = rng.choice([each for each in mine if each.do == do])
        number = max(each.number for each in _all(case) if each.client == action.client)
        brokers = [place.broker for place in _positions(case)]
        added = []
        for turn, at in enumerate(self._times(case, action.at_seconds)):
            again = replace(action, at_seconds=at)
            if do == "subscribe":
                again = replace(again, number=number + turn + 1)
            elif do == "move":
                again = replace(again, broker=rng.choice(brokers))
            added.append(again)
        return _with_actions(case, [*case.actions, *added])

    def drop_actions(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Leave some actions out: a smaller case is a quicker run."""
        count = len(case.actions)
        if not count:
            return case
        first = self._rng.randrange(count)
        last = first + 1 + self._rng.randrange(max(1, count // 2))
        return _with_actions(case, [*case.actions[:first], *case.actions[last:]])

    # Options.

    def change_option(self, case: Case, moments: Sequence[Moment], other: Case) -> Case:
        """Change how links behave, what is known of deaths, who comes late, chance, or an operation."""
        rng = self._rng
        changes: list[Callable[[], Case]] = [
            lambda: replace(case, seed=rng.randrange(1 << 31)),
            lambda: replace(
                case,
                links=LinkModel(
                    spread_seconds=rng.choice((0.0, 0.01, 0.05)),
                    jitter_seconds=rng.choice((0.0, 0.005, 0.05)),
                ),
            ),
            lambda: replace(case, links=other.links),
        ]
        if case.features.heals:
            drawn = replace(case, seed=rng.randrange(1 << 31))
            changes.append(lambda: replace(case, known=with_known(replace(drawn, known=None)).known))
            if case.late is not None:
                changes.append(lambda: replace(with_late(drawn), seed=case.seed))
            times = case.features.times
            changes.append(
                lambda: replace(case, recovery=replace(times, degree=times.degree + rng.choice((0, 1, 4))))
            )
            changes.append(
                lambda: replace(case, recovery=replace(times, detector=other.features.usual_times.detector))
            )
        if case.operations:
            changes += [lambda: self._operations(case, other)] * 4
        return rng.choice(changes)()

    def _operations(self, case: Case, other: Case) -> Case:
        rng = self._rng
        taken = list(other.operations if _flat(other) == _flat(case) else case.operations)
        there = [*case.operations, *(each for each in taken if rng.random() < 0.5)][:FAULTS_MAX]
        place = rng.randrange(len(there))
        at = rng.uniform(0.0, 0.9) * case.plan.heal_seconds
        there[place] = replace(there[place], at_seconds=at, pick=rng.random())
        return replace(case, operations=tuple(sorted(there, key=lambda each: each.at_seconds)))


REPEATED: Final = {"subscribe", "publish", "move"}
"""What a client may do again."""

Change: TypeAlias = Callable[[Mutator, Case, Sequence[Moment], Case], Case]
CHANGES: Final[dict[Change, int]] = {
    Mutator.strike: 8,
    Mutator.act: 4,
    Mutator.move_to_moment: 3,
    Mutator.add_faults: 2,
    Mutator.drop_fault: 2,
    Mutator.move_fault: 2,
    Mutator.copy_fault: 1,
    Mutator.repeat_fault: 3,
    Mutator.redirect_fault: 2,
    Mutator.take_faults: 2,
    Mutator.stay_dead: 1,
    Mutator.end_otherwise: 1,
    Mutator.add_action: 1,
    Mutator.move_action: 1,
    Mutator.repeat_action: 2,
    Mutator.drop_actions: 1,
    Mutator.change_option: 2,
}
"""The mutations with their weights."""


def _positions(case: Case) -> Sequence[Position]:
    return topology_of(case.topology).positions()


def _within(fault: Fault, positions: Sequence[Position]) -> Fault:
    """Return a fault of a larger network as one of these brokers: of the same one each time, so what undoes it fits."""
    brokers = [place.broker for place in positions]
    clusters = sorted({place.cluster for place in positions})
    if isinstance(fault, Cut | Mend | CutClusters | MendClusters):
        ids = clusters if isinstance(fault, CutClusters | MendClusters) else brokers
        one, other = fault.one % len(ids), fault.other % len(ids)
        other = other if one != other else (one + 1) % len(ids)
        low, high = sorted((ids[one], ids[other]))
        return replace(fault, one=low, other=high)
    there: dict[str, list[int]] = {"broker": brokers, "cluster": clusters}
    named = {name: ids for name, ids in there.items() if hasattr(fault, name)}
    several = {
        name: tuple(sorted({ids[each % len(ids)] for each in getattr(fault, name)}))
        for name, ids in (("brokers", brokers), ("clusters", clusters))
        if hasattr(fault, name)
    }
    within = replace(fault, **{name: ids[getattr(fault, name) % len(ids)] for name, ids in named.items()})
    return replace(within, **several)  # type: ignore[arg-type]


def _can_be(fault: Fault, positions: Sequence[Position]) -> bool:
    """Return whether a network has what a fault harms."""
    try:
        FaultPlan("taken", (fault,), fault.at_seconds).check(positions)
    except InputError:
        return False
    return True


def _has_tree_and_group(case: Case) -> bool:
    """Return whether there are several clusters, and several brokers in one of them."""
    positions = _positions(case)
    return 1 < len({place.cluster for place in positions}) < len(positions)


def _flat(case: Case) -> bool:
    return scheme_of(case.scheme).membership is Membership.VIEWS


def _free(case: Case) -> list[Fault]:
    """Return the faults that may be changed: damage belongs to a crash, and to how often brokers compare."""
    return [fault for fault in case.plan.faults if not isinstance(fault, Damage)]


def _undoing(fault: Fault, at: float) -> list[Fault]:
    """Return what undoes a fault at a time; nothing if only the healing does."""
    match fault:
        case Crash() | Leave():
            return [Restart(at, fault.broker)]
        case CrashRendezvous():
            return [RestartRendezvous(at)]
        case Pause():
            return [Resume(at, fault.broker)]
        case Slow():
            return [Slow(at, fault.broker, 1.0)]
        case Cut():
            return [Mend(at, fault.one, fault.other)]
        case CutClusters():
            return [MendClusters(at, fault.one, fault.other)]
        case Partition():
            return [Heal(at)]
        case _:
            return []


def _with_others(case: Case, other: Case, start: float) -> Case:
    """Return a case with the operations of another one and its wrong news, from a time on."""
    if case.operations and _flat(other) == _flat(case):
        later = [replace(each, at_seconds=each.at_seconds + start) for each in other.operations]
        case = replace(case, operations=(*case.operations, *later))
    if case.known is not None and other.known is not None:
        news = [replace(each, at_seconds=each.at_seconds + start) for each in other.known.rumours]
        case = replace(case, known=replace(case.known, rumours=(*case.known.rumours, *news)))
    return case


def _all(case: Case) -> tuple[Action, ...]:
    return (*case.opening, *case.actions, *case.closing)


def _with_faults(case: Case, faults: Sequence[Fault]) -> Case:
    ordered = tuple(sorted(faults, key=lambda fault: fault.at_seconds))
    return replace(case, plan=replace(case.plan, faults=ordered))


def _with_actions(case: Case, actions: Sequence[Action]) -> Case:
    return replace(case, actions=tuple(sorted(actions, key=lambda action: action.at_seconds)))


__all__ = ["Mutator"]
