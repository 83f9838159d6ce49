"""A consumer group: which of its workers gets which event of a durable subscription.

Rules
-----
* An event is held by at most one worker. It is done when that worker has acknowledged it, and is never given again.
* With a key, the events of one key are given in the order in which they came: while a worker holds some of them, the
  next ones go to the same worker only. Those behind one that is given up wait until it is a dead letter: a process that
  dies before would give it again, after them. Events without a key are in no order.
* The time of an event runs since it was given, or since an event given to the same worker before it was acknowledged
  or refused. After `ack_seconds` it is overdue. So an event that waits in its worker behind another one has time, and
  one that the worker passed over has an end.
* A worker that leaves, that is silent for `silent_seconds`, or that has an overdue event and has acknowledged or
  refused nothing for `ack_seconds` loses all that it holds: others get it. Others also get an event that a worker
  refuses or that is overdue, and what that worker holds behind it of the same key.
* Each time that an event is given counts. What was lost by a worker that left, or was behind a refused event, was not
  delivered. After `deliveries_max` deliveries an event is given up: its host makes it a dead letter.
* Of the events that a worker held when it died or stood still, one may be the cause. They are *suspects*: each is given
  to a worker that holds nothing else, and gets nothing else meanwhile. So no event is given up for what another did.
* A worker that stood still gets nothing until it asks for an event.
* An event whose time to live passes while no worker holds it is done: it is never given. One that a worker holds is
  that worker's until it comes back. So nothing expires in a later process until workers have said what they hold.
* The position per publisher passes what is done without a gap, and nothing that a worker holds; what is done above it
  is stored beside it, as ranges (`group_taken`). So nothing that was acknowledged is given again by a later process of
  the group. That process lets the workers say first, for `silent_seconds`, what they hold.
* What a worker says that it holds is its own, and those behind it of its key wait for it, also if it never comes again:
  it expired, or its broker gave it up. Of several workers that say so of one key, the last that was given some of it
  is right; the others were taken for dead before.

Pure: a host tells this machine what happens, and gives the workers what it returns.
Source: docs/decisions/0179-consumer-groups.md, docs/decisions/0197-what-workers-say-that-they-hold.md.
"""

from __future__ import annotations

import math
from bisect import insort
from collections import OrderedDict, deque
from collections.abc import Collection, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Final, TypeAlias

from ..protocol.groups import GroupConfig
from ..protocol.ids import ClientId, EventId
from ..recovery.durability.deadlines import Deadlines
from .group_taken import Range, Taken

Token: TypeAlias = tuple[int, int]
"""A fencing token: which process of a group gave an event, and its how many-th that was. It only rises."""


@dataclass(slots=True, eq=False)
class _Line:
    """The events of one key: those that wait, in order, and who holds those before them."""

    waiting: deque[EventId] = field(default_factory=deque)
    owner: str | None = None  # the worker that holds, or will get, events of this key
    held: dict[EventId, None] = field(default_factory=dict)
    until: float = 0.0  # nothing is given before
    dying: int = 0  # how many of its events are given up and no dead letters yet: nothing is given meanwhile


def _is_behind(line: _Line, event: EventId) -> bool:
    """Return whether something of a line waits that has to be given before an event.

    That is of its publisher: those of several come to a later process in another order than to the one that gave it.
    """
    return any(publisher == event[0] and number < event[1] for publisher, number in line.waiting)


@dataclass(slots=True, eq=False)
class _Worker:
    heard_at: float
    moved_at: float  # when it last acknowledged or refused, or began to hold something
    held: dict[EventId, tuple[int, float]] = field(
        default_factory=dict
    )  # in order; its place there, and since when
    # What it settled: place and time, both rising. Of a place below the first that it holds there is one at most.
    settled: deque[tuple[int, float]] = field(default_factory=deque)
    lines: dict[_Line, None] = field(default_factory=dict)  # its own, in which something waits
    alone: bool = False  # whether it holds a suspect
    saving: _Line | None = None  # it gets a suspect of this line when it holds nothing
    stands_still: bool = False
    withdrawn: list[EventId] = field(default_factory=list)  # what it has lost and was not told of


@dataclass(frozen=True, slots=True)
class Hold:
    """What a worker says of an event that it holds to a later process: its key, and with which token it was given."""

    key: Hashable | None
    token: Token


@dataclass(frozen=True, slots=True)
class Given:
    """An event that a worker gets, how often it was given so far, with this time, and what the worker keeps of that."""

    publisher: ClientId
    sequence: int
    deliveries: int
    hold: Hold = field(default=Hold(None, (0, 0)), compare=False)


@dataclass(frozen=True, slots=True)
class GivenUp:
    """An event that is given up, and why."""

    publisher: ClientId
    sequence: int
    reason: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The answer to acknowledgements and refusals.

    Attributes
    ----------
    foreign
        Those that were not the worker's (any more).
    withdrawn
        What was taken from it with what it refused.
    stranger
        Whether the group does not know the worker (any more): nothing was recorded, and the worker asks again once it
        has said what it holds.
    """

    foreign: tuple[EventId, ...] = ()
    withdrawn: tuple[EventId, ...] = ()
    stranger: bool = False


@dataclass(frozen=True, slots=True)
class GroupProgress:
    """What outlives a process of a group, as in `GroupMachine`."""

    position: dict[ClientId, int]
    done: dict[ClientId, list[Range]]
    tries: dict[EventId, int]


DONE_MAX: Final = 10_000
"""How many acknowledgements are known by their worker, which may repeat them."""


class GroupMachine:
    """One consumer group.

    Parameters
    ----------
    config
        Its limits.
    position, done
        What an earlier process has stored: per publisher the last number that is done with all before it, and the
        ranges above it that are done.
    tries
        How often events were given that are not done, as far as it was stored.
    opens_at
        When events may be given: until then workers say what they hold.
    process
        The number of this process, higher than those of all before.

    Attributes
    ----------
    position
        Per publisher, the last number that is done with all before it.
    given_up
        The events that are to be given up, oldest first. The host says when they are dead letters (`buried`).
    opened
        Whether events may be given, and expire. The position may have advanced when this becomes true, and is to be
        stored.
    """

    def __init__(
        self,
        config: GroupConfig,
        position: Mapping[ClientId, int] | None = None,
        done: Mapping[ClientId, Collection[Range]] | None = None,
        tries: Mapping[EventId, int] | None = None,
        opens_at: float = -math.inf,
        process: int = 0,
    ) -> None:
        self.position = dict(position or {})
        self.given_up: deque[GivenUp] = deque()
        self._config = config
        self._opens_at, self._process = opens_at, process
        self.opened = opens_at == -math.inf  # whether events may be given, and expire
        self._taken = {
            name: Taken(self.position.get(name, 0), some, waits=not self.opened)
            for name, some in (done or {}).items()
        }
        self._tries = dict(tries or {})
        # What an earlier process has given, in order, until the position has passed it: it may never come again.
        self._known: dict[ClientId, deque[int]] = {}
        for name, number in sorted(self._tries):
            self._known.setdefault(name, deque()).append(number)
        self._line_of: dict[EventId, _Line] = {}  # of every event that is not done
        # Those of them that a worker said it holds, and that have not come.
        self._awaited: set[EventId] = set()
        self._keyed: dict[Hashable, _Line] = {}
        self._key_of: dict[_Line, Hashable] = {}
        self._holder: dict[EventId, str] = {}
        self._tokens: dict[EventId, Token] = {}  # of what is held
        self._workers: dict[str, _Worker] = {}
        # Lines without an owner in which something waits: now, or from some time on.
        self._ready: OrderedDict[_Line, None] = OrderedDict()
        self._later: list[tuple[float, int, _Line]] = []
        self._turn = count()
        self._done_by: dict[EventId, str] = {}  # the last ones
        self._suspects: set[EventId] = set()
        self._until: dict[EventId, float] = {}  # when those expire that are not done
        self._expiring: Deadlines[EventId] = Deadlines()  # those of them that wait, and some that do not
        self._dying: dict[EventId, _Line] = {}  # given up, and no dead letters yet

    # Events that come.

    def take(
        self,
        publisher: ClientId,
        sequence: int,
        key: Hashable | None = None,
        until: float | None = None,
    ) -> bool:
        """Take an event of the subscription; return whether it is new, and has to be retained by the host.

        `until` is when it expires, on the clock of `expire`; None for never.
        """
        event = publisher, sequence
        if sequence <= self.position.get(publisher, 0) or event in self._dying:
            return False
        if event in self._line_of and event not in self._awaited:
            return False
        if not self._of(publisher).take(sequence):
            self._advance(publisher)
            return False
        if until is not None:
            self._until[event] = until
            self._expiring.add(event, until, self._until)
        if self._was_awaited(event):  # a worker holds it
            return True
        line = self._line_of[event] = self._line(key)
        line.waiting.append(event)
        self._offer(line)
        return True

    def _line(self, key: Hashable | None) -> _Line:
        """Return the events of a key, maybe none yet; those of no key are each for themselves."""
        line = None if key is None else self._keyed.get(key)
        if line is None:
            line = _Line()
            if key is not None:
                self._keyed[key], self._key_of[line] = line, key
        return line

    def expire(self, now: float) -> list[EventId]:
        """Let those events that wait, and are past their time to live, be done; return them."""
        gone = list[EventId]()
        if not self.opened:
            return gone
        for event in self._expiring.due(now, self._until):
            line = self._line_of.get(event)
            if line is None or event in self._holder:
                continue
            gone.append(event)
            del self._line_of[event]
            line.waiting.remove(event)
            if not line.waiting:
                self._ready.pop(line, None)
                if line.owner is not None and self._workers[line.owner].saving is line:
                    self._workers[line.owner].saving = None
                self._released(line)
            self._finish(event)
        return gone

    def _of(self, publisher: ClientId) -> Taken:
        taken = self._taken.get(publisher)
        if taken is None:
            taken = Taken(self.position.get(publisher, 0), waits=not self.opened)
            self._taken[publisher] = taken
        return taken

    def _was_awaited(self, event: EventId) -> bool:
        """Await an event no more that a worker holds, and return whether it had not come."""
        if event not in self._awaited:
            return False
        self._awaited.remove(event)
        self._of(event[0]).let_go(event[1])
        return True

    def _offer(self, line: _Line, *, first: bool = False) -> None:
        """Put a line in which something waits where it is found."""
        if not line.waiting or line.dying:
            return
        if line.owner is not None:
            self._workers[line.owner].lines[line] = None
        elif line.until:
            heappush(self._later, (line.until, next(self._turn), line))
        else:
            self._ready[line] = None
            if first:
                self._ready.move_to_end(line, last=False)

    def _wake(self, now: float) -> None:
        """Let those lines be given whose time has come."""
        while self._later and self._later[0][0] <= now:
            line = heappop(self._later)[2]
            if line.owner is None and line.until and line.until <= now:
                line.until = 0.0
                self._offer(line, first=True)

    def __len__(self) -> int:
        """Return how many events are neither done nor given up."""
        return len(self._line_of)

    @property
    def outstanding(self) -> int:
        """How many events were taken that the position has not passed."""
        return sum(map(len, self._taken.values()))

    @property
    def waiting(self) -> int:
        """How many events no worker holds, as far as what workers hold has come."""
        return max(0, len(self._line_of) - len(self._holder))

    def is_done(self, event: EventId) -> bool:
        """Return whether an event was acknowledged, or is a dead letter."""
        publisher, sequence = event
        taken = self._taken.get(publisher)
        return sequence <= self.position.get(publisher, 0) or (taken is not None and taken.is_done(sequence))

    def knows(self, name: str) -> bool:
        """Return whether a worker is one of the group."""
        return name in self._workers

    @property
    def crew(self) -> int:
        """How many workers there are."""
        return len(self._workers)

    @property
    def workers(self) -> dict[str, int]:
        """How many events each worker holds."""
        return {name: len(worker.held) for name, worker in self._workers.items()}

    # Workers.

    def hear(self, name: str, now: float, *, asks: bool = True) -> None:
        """Record a sign of life of a worker, which joins with the first. With `asks` its program waits for an event."""
        self._open(now)
        worker = self._workers.get(name)
        if worker is None:
            worker = self._workers[name] = _Worker(now, now)
        worker.heard_at = now
        worker.stands_still = worker.stands_still and not asks

    def _open(self, now: float) -> None:
        """Give events and let them expire from here on, if it is time."""
        if not self.opened and now >= self._opens_at:
            self.opened = True
            for publisher in list(self._taken):
                self._taken[publisher].open()
                self._advance(publisher)

    def withdraw(self, name: str) -> list[EventId]:
        """Return what a worker has lost since this was last asked: it is to hear that before it is given anything."""
        worker = self._workers[name]
        lost, worker.withdrawn = worker.withdrawn, []
        return lost

    def claim(self, name: str, held: Mapping[EventId, Hold], now: float) -> list[EventId]:
        """Let a worker join with what it got from an earlier process of the group; return those that are not its own.

        One that has joined claims nothing more: what it does not hold any more it may have refused.
        """
        if name in self._workers:
            return [event for event in held if self._holder.get(event) != name]
        self.hear(name, now)
        in_order = sorted(held.items(), key=lambda each: each[1].token)
        return [event for event, hold in in_order if not self._believes(name, event, hold, now)]

    def _believes(self, name: str, event: EventId, hold: Hold, now: float) -> bool:
        """Let a worker hold what it says that it got from an earlier process, unless something speaks against it."""
        if self.is_done(event) or event in self._dying or now >= self._opens_at:
            return False
        line = self._line_of.get(event) or self._line(hold.key)
        if line.dying or not self._yielded(name, line, hold.token) or _is_behind(line, event):
            self._released(line)
            return False
        if event in self._line_of:
            line.waiting.remove(event)
        else:
            self._line_of[event] = line
            self._awaited.add(event)
            self._of(event[0]).hold(event[1])
        self._ready.pop(line, None)
        line.owner = name
        line.held[event] = None
        self._workers[name].lines.pop(line, None)
        self._offer(line)
        self._holds(name, event, now, hold.token)
        self._tries[event] = max(1, self._tries.get(event, 0))
        known = self._known.setdefault(event[0], deque())
        if event[1] not in known:
            insort(known, event[1])
        return True

    def _yielded(self, name: str, line: _Line, token: Token) -> bool:
        """Let who was given events of a line before lose them, and return whether nobody else holds some now."""
        owner = line.owner
        if owner in (None, name):
            return True
        if any(self._tokens[event] > token for event in line.held):
            return False
        worker = self._workers[owner]
        worker.withdrawn += line.held
        for event in reversed(list(line.held)):
            self._loses(owner, event)
            del line.held[event]
            self._waits_again(line, event)
        worker.lines.pop(line, None)
        line.owner = None
        return True

    def give(self, name: str, now: float, most: int | None = None) -> list[Given]:
        """Return the events that a worker gets now, at most so many."""
        worker = self._workers[name]
        given: list[Given] = []
        if not self.opened or worker.stands_still:
            return given
        self._wake(now)
        room = self._config.unacknowledged_max - len(worker.held)
        while not worker.alone and len(given) < (room if most is None else min(room, most)):
            line = self._next_line(name, worker, now)
            if line is None:
                break
            event = line.waiting[0]
            if event in self._suspects:
                if worker.held:
                    self._reserve(name, worker, line)
                    break
                worker.alone = True
            worker.saving = None
            line.waiting.popleft()
            self._ready.pop(line, None)
            line.owner, line.until = name, 0.0
            line.held[event] = None
            worker.lines.pop(line, None)
            self._offer(line)
            token = self._process, next(self._turn)
            self._holds(name, event, now, token)
            self._tries[event] = self._tries.get(event, 0) + 1
            given.append(Given(*event, self._tries[event], Hold(self._key_of.get(line), token)))
        return given

    def _next_line(self, name: str, worker: _Worker, now: float) -> _Line | None:
        if worker.saving is not None:
            saving = worker.saving
            return None if worker.held or saving.dying or saving.until > now else saving
        for line in worker.lines:
            if line.until <= now:
                return line
        return next(iter(self._ready), None)

    def _reserve(self, name: str, worker: _Worker, line: _Line) -> None:
        self._ready.pop(line, None)
        worker.lines.pop(line, None)
        worker.saving, line.owner = line, name

    def _holds(self, name: str, event: EventId, now: float, token: Token) -> None:
        worker = self._workers[name]
        if not worker.held:
            worker.moved_at = now
            worker.settled.clear()
        worker.held[event] = next(self._turn), now
        self._holder[event], self._tokens[event] = name, token

    def _loses(self, name: str, event: EventId) -> None:
        worker = self._workers[name]
        del self._holder[event], self._tokens[event], worker.held[event]
        if not worker.held:
            worker.alone = False

    # What workers say.

    def held(self, name: str, publisher: ClientId, sequence: int) -> list[EventId]:
        """Return what a worker holds of a publisher up to this number, in order."""
        worker = self._workers.get(name)
        of = () if worker is None else worker.held
        return sorted(event for event in of if event[0] == publisher and event[1] <= sequence)

    def holds(self, name: str, event: EventId) -> bool:
        """Return whether a worker holds an event."""
        return self._holder.get(event) == name

    def settle(
        self,
        name: str,
        acknowledged: Iterable[EventId],
        refused: Iterable[tuple[EventId, float]],
        now: float,
    ) -> tuple[Settled, list[EventId]]:
        """Record what a worker is done with, and what it refuses, with a delay; also return what is done now.

        A call may be repeated, also with a later process of the group: what is done by its worker is not foreign.
        """
        if name not in self._workers:
            return Settled(stranger=True), []
        foreign, withdrawn, done = list[EventId](), list[EventId](), list[EventId]()
        for event in acknowledged:
            if self.acknowledge(name, event, now):
                done.append(event)
                self._done_by[event] = name
            elif self._done_by.get(event) != name and not (self._is_later and self.is_done(event)):
                foreign.append(event)
        while len(self._done_by) > DONE_MAX:
            del self._done_by[next(iter(self._done_by))]
        for event, seconds in refused:
            taken = self.refuse(name, event, now, seconds)
            if taken is None:
                foreign.append(event)
            else:
                withdrawn += taken
        return Settled(tuple(foreign), tuple(withdrawn)), done

    @property
    def _is_later(self) -> bool:
        """Whether an earlier process of the group has died, whose acknowledgements may be repeated."""
        return self._opens_at > -math.inf

    def acknowledge(self, name: str, event: EventId, now: float) -> bool:
        """Record that a worker is done with an event; return False if the event is not its own (any more)."""
        if self._holder.get(event) != name:
            return False
        self._moves(name, event, now)
        self._loses(name, event)
        line = self._line_of.pop(event)
        del line.held[event]
        self._released(line)
        self._was_awaited(event)
        self._finish(event)
        return True

    def refuse(self, name: str, event: EventId, now: float, seconds: float = 0.0) -> list[EventId] | None:
        """Take an event back that a worker refuses, and give it to a worker in so many seconds.

        Returns
        -------
        withdrawn
            What the worker holds no more: the event, and those behind it of the same key; None if the event is not its
            own (any more). `withdraw` returns them as well.
        """
        if self._holder.get(event) != name:
            return None
        self._moves(name, event, now)
        return self._take_back(
            name, event, f"worker {name!r} refused it", now + seconds if seconds > 0 else 0.0
        )

    def _take_back(self, name: str, event: EventId, why: str, until: float = 0.0) -> list[EventId]:
        """Take an event back, as delivered, and what its worker holds behind it of the same key."""
        line = self._line_of[event]
        held = list(line.held)
        behind = held[held.index(event) :]
        self._back(name, line, behind[1:])
        self._back(name, line, [event], why)
        self._workers[name].withdrawn += behind
        line.until = until
        self._released(line, first=True)
        return behind

    def _moves(self, name: str, event: EventId, now: float) -> None:
        """Note that a worker settles an event: for those given after it time begins anew."""
        worker = self._workers[name]
        worker.moved_at, place = now, worker.held[event][0]
        while worker.settled and worker.settled[-1][0] >= place:
            worker.settled.pop()
        worker.settled.append((place, now))

    def _first(self, worker: _Worker) -> tuple[EventId, float]:
        """Return the event that a worker holds for the longest time, and since when; no other one is overdue before."""
        event, (place, since) = next(iter(worker.held.items()))
        while len(worker.settled) > 1 and worker.settled[1][0] < place:
            worker.settled.popleft()
        if worker.settled and worker.settled[0][0] < place:
            since = max(since, worker.settled[0][1])
        return event, since

    def leave(self, name: str, why: str = "") -> None:
        """Record that a worker is gone; others get what it held, as delivered only if `why` says how it ended."""
        if name in self._workers:
            self._lose_all(name, why)
            del self._workers[name]

    def tick(self, now: float) -> None:
        """Take back what workers hold that are silent, or stand still, and what is overdue."""
        limit = self._config.ack_seconds
        self._open(now)
        for name, worker in list(self._workers.items()):
            if now - worker.heard_at > self._config.silent_seconds:
                self.leave(name, "died" if worker.held else "")
                continue
            while worker.held and now - (first := self._first(worker))[1] > limit:
                if now - worker.moved_at > limit:
                    worker.stands_still = True
                    worker.withdrawn += worker.held
                    self._lose_all(name, f"stood still for {limit:g} s")
                else:
                    self._take_back(name, first[0], f"worker {name!r} passed over it for {limit:g} s")

    def _lose_all(self, name: str, why: str) -> None:
        worker = self._workers[name]
        lines = dict.fromkeys(self._line_of[event] for event in worker.held)
        for line in lines:
            held = list(line.held)
            self._suspects.update(held if why else ())
            self._back(name, line, held, f"worker {name!r} {why}" if why else None)
        if worker.saving is not None:
            lines[worker.saving] = None
            worker.saving = None
        for line in reversed(lines):
            self._released(line, first=True)

    def _back(self, name: str, line: _Line, events: list[EventId], why: str | None = None) -> None:
        """Put events back, the first of their line; with `why` they were delivered, and are given up in the end."""
        for event in reversed(events):
            self._loses(name, event)
            del line.held[event]
            if why is None:
                self._tries[event] -= 1
            elif self._tries[event] >= self._config.deliveries_max and event not in self._awaited:
                del self._line_of[event]
                self._dying[event] = line
                line.dying += 1
                times = self._tries[event]
                self.given_up.append(GivenUp(*event, f"deliveries: {times}, and at the last one {why}"))
                continue
            self._waits_again(line, event)

    def _waits_again(self, line: _Line, event: EventId) -> None:
        """Put an event that nobody holds any more before those that wait, if it has come."""
        if self._was_awaited(event):
            del self._line_of[event]
            self._advance(event[0])
            return
        line.waiting.appendleft(event)
        if event in self._until:
            self._expiring.add(event, self._until[event], self._until)

    def _released(self, line: _Line, *, first: bool = False) -> None:
        """Let any worker have the events of a line of which its owner holds none, and wants none."""
        owner = None if line.owner is None else self._workers[line.owner]
        if owner is not None:
            owner.lines.pop(line, None)
            if not line.held and owner.saving is not line:
                line.owner = None
        self._offer(line, first=first)
        if line.owner is None and not line.waiting and not line.dying and line in self._key_of:
            del self._keyed[self._key_of.pop(line)]

    # What is done.

    def buried(self, event: EventId) -> None:
        """Record that an event that was given up is a dead letter."""
        line = self._dying.pop(event, None)
        self._finish(event)
        if line is not None:
            line.dying -= 1
            self._released(line, first=True)

    def _finish(self, event: EventId) -> None:
        publisher, sequence = event
        self._tries.pop(event, None)
        self._until.pop(event, None)
        self._suspects.discard(event)
        if sequence > self.position.get(publisher, 0):
            self._of(publisher).finish(sequence)
            self._advance(publisher)

    def _advance(self, publisher: ClientId) -> None:
        """Take over the position of a publisher, and forget what it has passed."""
        taken = self._taken[publisher]
        if taken.position:
            self.position[publisher] = taken.position
        known = self._known.get(publisher)
        while known and known[0] <= taken.position:
            event = publisher, known.popleft()
            if event not in self._holder:
                self._tries.pop(event, None)
                self._suspects.discard(event)
        if known is not None and not known:
            del self._known[publisher]
        if not taken and not taken.done and not taken.holds:
            del self._taken[publisher]

    def progress(self) -> GroupProgress:
        """Return what a later process of the group has to know."""
        done = {name: found for name, taken in self._taken.items() if (found := taken.done)}
        return GroupProgress(dict(self.position), done, dict(self._tries))

    def check(self) -> None:
        """Assert the invariants; for tests."""
        for line in {*self._line_of.values()}:
            assert not line.held or line.owner is not None
            assert all(self._holder[event] == line.owner for event in line.held)
            found = line in self._ready or (
                line.owner is not None and line in self._workers[line.owner].lines
            )
            found |= line.owner is None and any(line is each for _, _, each in self._later)
            saved = line.owner is not None and self._workers[line.owner].saving is line
            assert saved or found == (bool(line.waiting) and not line.dying), "what waits is found"
        for name, worker in self._workers.items():
            assert all(self._holder[event] == name for event in worker.held)
            assert len(worker.held) <= self._config.unacknowledged_max
        assert sum(len(worker.held) for worker in self._workers.values()) == len(self._holder)
        assert self._awaited <= self._holder.keys() == self._tokens.keys() <= self._line_of.keys()
        waiting = sum(len(line.waiting) + len(line.held) for line in {*self._line_of.values()})
        assert waiting == len(self._line_of), "each event is in one place"
