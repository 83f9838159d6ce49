"""Decides what a game day does next, from looks at the network: a value machine, which a host drives.

Rules
-----
* A fault is caused only while the network is whole, as `Convergence.problems` judges it, and while the canary has
  everything that was published before. So there is one fault at a time, and whatever else happens to the network is
  waited for.
* A fault hits one *target*: brokers that end together. Other brokers always stay. In a tree of clusters each cluster
  keeps a member that is neither dead, paused nor cut off. A target that `holds` what only it has is not killed.
* A machine that is to end may take its time: before its brokers were seen gone it has not been hit, and what is whole
  then is not whole again. A fault that had no effect is not waited for.
* Before the first fault and after each one the canary is *checked*: it rests until everything has arrived, and is
  judged. So it is at intervals in a whole network.
* The game day ends when its time is over, when it is asked to, when a promise is broken, when the network is not
  whole within `Terms.heal_seconds`, and at once when the network was closed. Otherwise whatever lasts is ended then,
  whoever is dead by it is started, and the network is looked at until it is whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from ...protocol.ids import BrokerId, ClusterId
from .draws import drawn
from .terms import ABSENT, ENDING, ROOT, Terms

STEADY_LOOKS: Final = 3
"""How many looks in a row must find the network whole after a fault."""
CHECK_SECONDS: Final = 30.0
"""The time between two checks of the canary in a whole network."""
AGAIN_SECONDS: Final = 10.0
"""How long a restart may take before it is requested again."""
TIME_OVER: Final = "the time is over"
CLOSED: Final = "the network was closed meanwhile"


@dataclass(frozen=True, slots=True)
class Target:
    """What a fault hits: brokers that end together.

    Attributes
    ----------
    brokers
        Its brokers, in rising order.
    holds
        What only it has, in words; "" if nothing. It is not killed then.
    """

    brokers: tuple[BrokerId, ...]
    holds: str = ""


@dataclass(frozen=True, slots=True)
class View:
    """The network and the canary at one moment.

    Attributes
    ----------
    now
        Seconds since the game day began.
    targets
        All targets that live.
    clusters
        The cluster of each living broker.
    root
        The root; None if there is none, or none is known.
    dead
        The brokers that are dead.
    problems
        Why the network is not whole, in words.
    broken
        Which promise or condition is broken, in words; "" if none.
    checked
        The number of the last check of the canary that has ended.
    stop
        Who asks for the end, in words; "" if nobody.
    nodes
        What the kind ``"node"`` may hit: the living brokers of each machine.
    void
        The number of the last fault that had no effect.
    closed
        Whether the network is there no more: somebody has ended it.
    """

    now: float
    targets: tuple[Target, ...]
    clusters: Mapping[BrokerId, ClusterId]
    root: BrokerId | None = None
    dead: tuple[BrokerId, ...] = ()
    problems: tuple[str, ...] = ()
    broken: str = ""
    checked: int = 0
    stop: str = ""
    nodes: tuple[Target, ...] = ()
    void: int = 0
    closed: bool = False

    def hit_by(self, kind: str) -> tuple[Target, ...]:
        """Return what a fault of that kind hits, in rising order."""
        return tuple(sorted(self.nodes if kind == "node" else self.targets, key=_first))


@dataclass(frozen=True, slots=True)
class Strike:
    """Cause a fault: `kind` is one of `KINDS`; it ends by itself after `seconds`, unless it is a death."""

    number: int
    kind: str
    brokers: tuple[BrokerId, ...]
    seconds: float
    delay_seconds: float

    def __str__(self) -> str:
        who = f"broker{'s' * (len(self.brokers) > 1)} {', '.join(map(str, self.brokers))}"
        lasts = {
            "kill": f", dead for {self.seconds:.1f} s",
            "slow": f" for {self.seconds:.1f} s, by up to {self.delay_seconds:g} s a message",
            "node": f", dead for {self.seconds:.1f} s",
            "reset": "",
        }
        return f"{self.kind} {who}{lasts.get(self.kind, f' for {self.seconds:.1f} s')}"


@dataclass(frozen=True, slots=True)
class Restart:
    """Start these brokers again, those of them that are dead."""

    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Lift:
    """End every fault that lasts."""


@dataclass(frozen=True, slots=True)
class Check:
    """Let the canary rest until everything has arrived, and judge it; `View.checked` says when that is done."""

    number: int


@dataclass(frozen=True, slots=True)
class Whole:
    """Note that the network is whole again, so many seconds after a fault has begun."""

    strike: Strike
    seconds: float


@dataclass(frozen=True, slots=True)
class End:
    """End the game day.

    Attributes
    ----------
    reason
        Why.
    healed
        Whether the network has healed from every fault.
    whole
        Whether the network is whole, as far as can be seen; if it is not, that may be by no fault of the game day.
    """

    reason: str
    healed: bool = True
    whole: bool = True


Step: TypeAlias = Strike | Restart | Lift | Check | Whole | End
Phase: TypeAlias = Literal["checking", "waiting", "struck", "healing", "ended"]


@dataclass(slots=True)
class GameDay:
    """One game day.

    Parameters
    ----------
    terms
        What it may do.

    Attributes
    ----------
    phase
        What is waited for: a check of the canary, the next fault, the end of a fault, a whole network; or nothing.
    strikes
        The number of faults so far.
    ending
        Why it ends, once that is decided.
    """

    terms: Terms
    phase: Phase = "healing"
    strikes: int = 0
    ending: str = ""
    _strike: Strike | None = field(default=None, init=False)
    _killed: tuple[BrokerId, ...] = field(default=(), init=False)
    _gone: bool = field(default=True, init=False)  # whether the last fault has had its effect
    _since: float = field(default=0.0, init=False)  # when the fault began, or the network was last seen whole
    _until: float = field(init=False)  # the end of the fault, or of the time to heal
    _due: float | None = field(default=None, init=False)  # when the next fault comes, once that is known
    _restart_at: float = field(default=0.0, init=False)
    _looks: int = field(default=0, init=False)
    _whole_at: float = field(default=0.0, init=False)  # the first of these looks
    _checks: int = field(default=0, init=False)
    _check_at: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._until = self.terms.heal_seconds

    def refusal(self, view: View) -> str:
        """Return why no game day may begin in this network now, or ""."""
        if view.problems:
            return f"it heals just now: {'; '.join(view.problems[:3])}"
        if not any(self._allowed(kind, one, view) for kind in self.terms.kinds for one in view.hit_by(kind)):
            why = next((f": it has {one.holds}" for one in view.targets if one.holds), "")
            return (
                f"nothing in it may be hit by {', '.join(self.terms.kinds)}: each cluster keeps a member, and some "
                f"broker stays{why}"
            )
        return ""

    def look(self, view: View) -> list[Step]:
        """Return what is to be done now; the host looks again after a while, at most a few seconds."""
        if view.closed and self.phase != "ended":
            self.ending = CLOSED
            return self._end(whole=False)
        asked = "" if self.ending else view.broken or view.stop
        self.ending = self.ending or asked
        if self._strike is not None:
            living = view.clusters.keys() & set(self._strike.brokers)
            self._gone = self._gone or not living or view.void == self._strike.number
        match self.phase:
            case "struck" if self.ending or view.now >= self._until:
                self.phase, self._looks, self._restart_at = "healing", 0, view.now
                self._until = view.now + self.terms.heal_seconds
                return [*([Lift()] if asked else []), *self._heal(view)]
            case "healing":
                return self._heal(view)
            case "checking":
                return self._checked(view)
            case "waiting":
                return self._wait(view)
        return []

    @property
    def due(self) -> float:
        """When a look does something at the earliest, if the network is whole meanwhile; 0 if the next one may."""
        if self.phase == "waiting":
            return min(self._check_at, self.terms.seconds, float("inf") if self._due is None else self._due)
        return self._until if self.phase == "struck" else 0.0

    # Phases.

    def _wait(self, view: View) -> list[Step]:
        """Wait in a network without a fault of ours, for the next one."""
        if view.problems:
            unwhole = view.now - self._since
            if unwhole > self.terms.heal_seconds and not self.ending:
                self.ending = f"not whole for {unwhole:.0f} s, by no fault of the game day"
            return self._end(whole=False) if self.ending else []
        self._since = view.now
        if not self.ending and view.now >= self.terms.seconds:
            self.ending = TIME_OVER
        if self.ending or view.now >= self._check_at:
            return self._check()
        return self._next(view) if self._due is not None and view.now >= self._due else []

    def _next(self, view: View) -> list[Step]:
        """Cause the next fault, if anybody may be hit."""
        draw = drawn(self.terms, self.strikes + 1)
        seconds = min(draw.lease_seconds, self.terms.seconds - view.now)
        for kind in draw.kinds:
            allowed = [one for one in view.hit_by(kind) if self._allowed(kind, one, view)]
            if allowed:
                hit = allowed[int(draw.pick * len(allowed))]
                self._strike = Strike(draw.number, kind, hit.brokers, seconds, draw.delay_seconds)
                self._killed = hit.brokers if kind in ENDING else ()
                self._gone = kind != "node"
                self.phase, self.strikes, self._due = "struck", draw.number, None
                self._since, self._until = view.now, view.now + (0.0 if kind == "reset" else seconds)
                return [self._strike]
        self._due = view.now + draw.gap_seconds
        return []

    def _allowed(self, kind: str, target: Target, view: View) -> bool:
        """Return whether the network promises to survive this, with what it has now."""
        spare = self.terms.spare
        rest = view.clusters.keys() - set(target.brokers)
        if not rest or not spare.isdisjoint(target.brokers) or (kind in ENDING and target.holds):
            return False
        if ROOT in spare and (view.root is None or view.root in target.brokers):
            return False
        if kind not in ABSENT or not self.terms.keep_members:
            return True
        kept = {view.clusters[broker] for broker in rest}
        return all(view.clusters[broker] in kept for broker in target.brokers)

    def _heal(self, view: View) -> list[Step]:
        """Start who is dead by us, and wait until the network is whole."""
        missing = tuple(broker for broker in self._killed if broker in view.dead)
        steps: list[Step] = []
        if missing and view.now >= self._restart_at:
            self._restart_at = view.now + AGAIN_SECONDS
            steps.append(Restart(missing))
        if view.problems or missing or not self._gone:
            self._looks = 0
            ours = self._strike is not None
            if view.now > self._until or (self.ending and not ours):
                who = f"dead: {', '.join(map(str, missing))}" if missing else "its machine has not ended"
                why = "; ".join(view.problems[:3]) or who
                after = (
                    f"{self.terms.heal_seconds:.0f} s after {self._strike}" if ours else "from the beginning"
                )
                self.ending = f"not whole {after}: {why}"
                return [*steps, Lift(), *self._end(healed=not ours, whole=False)]
            return steps
        self._looks += 1
        if self._looks == 1:
            self._whole_at = view.now
        if self._looks < STEADY_LOOKS:
            return steps
        if self._strike is not None:
            steps.append(Whole(self._strike, self._whole_at - self._since))
        self._strike, self._killed, self._since = None, (), view.now
        return [*steps, *self._check()]

    def _check(self) -> list[Step]:
        self.phase = "checking"
        self._checks += 1
        return [Check(self._checks)]

    def _checked(self, view: View) -> list[Step]:
        """Wait for the end of a check."""
        if view.checked < self._checks:
            return []
        if self.ending:
            return self._end(whole=not view.problems)
        self.phase, self._check_at, self._since = "waiting", view.now + CHECK_SECONDS, view.now
        if self._due is None:
            self._due = view.now + drawn(self.terms, self.strikes + 1).gap_seconds
        return []

    def _end(self, *, healed: bool = True, whole: bool = True) -> list[Step]:
        self.phase = "ended"
        return [End(self.ending, healed, whole)]


def _first(target: Target) -> BrokerId:
    return target.brokers[0]
