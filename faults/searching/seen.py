"""What a run reaches, noted while it is made in virtual time.

Rules
-----
* It looks and changes nothing, so a case with it is the same run as without it. It is told of every step of a broker
  (`record`) and of every message between processes (`observer`).
* What is reached is a set of *points*. Those that have words stand for themselves: a kind of message handled with a
  part of a layer in a state, or while another kind is on its way to or from the same broker, or while others are dead
  or paused, or after another kind; and what came out. Those without are checksums of words: the state of a whole part
  at a kind of message, and pairs of states of parts. They are the same in every process.
* How often something happened is reached, too: how often one broker has handled a kind of message, how often it has
  been restarted, and the highest number in each field of a message that is one. Up to seven each number is a point of
  its own, beyond that each power of two.
* Steps that are only heartbeats are left out. The state of a layer is read from its attributes: truth values, words,
  whether there is something, and whether a collection has none, one or more.
* Of the steps in which something with words was reached first during the faults at most :data:`MOMENTS_MAX` are kept: a
  search aims faults at them.
"""

from __future__ import annotations

import zlib
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from heapq import heappop, heappush
from itertools import combinations
from typing import Final, NamedTuple, TypeAlias

from ...broker import Broker
from ...protocol.effects import Multicast, Received, Send, Ticked
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.beats import is_beat
from ...protocol.messages.pubsub import Lost, Numbered
from ...protocol.messages.recovery import Recovery
from ...recovery.replay.history import Page, ReadHistory
from ...simulator.hosts import Connection
from ...simulator.network import Step
from ...simulator.simulation import Simulation

MOMENTS_MAX: Final = 500
DEPTH_MAX: Final = 4
EXACT_MAX: Final = 7
OF_LAYERS: Final = tuple(
    f"rayvous.{folder}." for folder in ("admission", "broker", "recovery", "routing.schemes")
)
"""Where classes whose state is looked at are."""

Point: TypeAlias = str | int


class Moment(NamedTuple):
    """A step of a broker during the faults, with what was reached first in it, of what has words.

    Attributes
    ----------
    at_seconds
        The time from the start of the faults.
    broker, source
        The broker, and from whom it had its message.
    points
        What was reached first.
    """

    at_seconds: float
    broker: BrokerId
    source: BrokerId | str | None
    points: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Seen:
    """What one run has reached.

    Attributes
    ----------
    points
        What it has reached.
    moments
        When it did so first during the faults.
    taken
        The names of the types of messages and events that its brokers take at all.
    """

    points: frozenset[Point]
    moments: tuple[Moment, ...]
    taken: frozenset[str]


class Watch:
    """Notes what a run reaches.

    Attributes
    ----------
    network
        The network, once it exists.
    """

    def __init__(self) -> None:
        self.network: Simulation | None = None
        self._points: set[Point] = set()
        self._moments: list[Moment] = []
        self._parts: dict[Broker, _Parts] = {}
        self._last: dict[BrokerId, str] = {}
        self._under_way: dict[BrokerId, list[tuple[float, int, str]]] = {}
        self._number = 0
        self._states: dict[str, set[tuple[str, ...]]] = {}
        self._pairs: set[tuple[str, ...]] = set()
        self._fresh: set[str] = set()
        self._first: list[str] = []
        self._taken: set[str] = set()
        self._handled: Counter[tuple[BrokerId, str]] = Counter()
        self._highest: dict[tuple[str, str], int] = {}
        self._during = False
        self._began_at = 0.0

    def begin(self, began_at: float) -> None:
        """Note that faults begin, those of an act: moments from here on are of use, counted from `began_at`."""
        self._during, self._began_at = True, began_at
        for known in (self._fresh, self._states, self._pairs):
            known.clear()

    def end(self) -> None:
        """Note that everything is healed."""
        self._during = False

    def options(self) -> dict[str, object]:
        """Return the options of a simulation that is to be watched."""
        return {"record": self.stepped, "observer": self}

    def seen(self) -> Seen:
        """Return what the run has reached so far."""
        return Seen(frozenset(self._points), tuple(self._moments), frozenset(self._taken))

    # Messages between processes.

    def under_way(
        self, connection: Connection, received: Received, leaves: float, arrives: float
    ) -> Callable[[Received], None]:
        """Note a message on its way."""
        if not is_beat(received.message):
            kind = _kind_of(received)
            self._number += 1
            heappush(self._under_way.setdefault(connection.target.id, []), (arrives, self._number, kind))
            heappush(self._under_way.setdefault(connection.source.id, []), (arrives, -self._number, kind))
        return connection.arrive

    def lost(self, connection: Connection, received: Received, leaves: float, why: str) -> None:
        """Note a message that was lost as it left."""
        if not is_beat(received.message):
            self._points.add(f"{_kind_of(received)} is lost: {why}")

    def past_begins(self, client: ClientId, todo: Mapping[ClientId, tuple[int, int]]) -> None:
        """Note nothing."""

    def past_asked(
        self, client: ClientId, broker: BrokerId, question: ReadHistory, page: Page | None
    ) -> None:
        """Note whether a broker that was asked of the past had something."""
        self._points.add(f"a page of the past: {'nothing' if page is None or not page.upto else 'something'}")

    def past_lost(self, client: ClientId, lost: Sequence[Lost], answered: Collection[BrokerId]) -> None:
        """Note that something of the past is given up."""
        self._points.add("what is past is lost")

    # Steps of brokers.

    def stepped(self, step: Step) -> None:
        """Note a step of a broker, before its effects are carried out."""
        received, effects = step.received, step.effects
        if type(received) is Ticked or (isinstance(received, Received) and is_beat(received.message)):
            if all(isinstance(each, Send | Multicast) and is_beat(each.message) for each in effects):
                return
        kind, here = _kind_of(received), step.broker.position.broker
        out = sorted({_kind_of(each) for each in effects})
        self._first.clear()
        self._note(f"{kind}: {', '.join(out) or 'nothing'}")
        if (last := self._last.get(here)) is not None:
            self._note(f"{kind} after {last}")
        self._last[here] = kind
        for other in self._around(here, step.now):
            self._note(f"{kind} while {other}")
        self._count(kind, here, received)
        self._state(step.broker, kind)
        if self._first and self._during and len(self._moments) < MOMENTS_MAX:
            source = received.source if isinstance(received, Received) else None
            self._moments.append(Moment(step.now - self._began_at, here, source, tuple(self._first)))

    def _count(self, kind: str, here: BrokerId, received: object) -> None:
        """Note how often a broker has handled a kind, and the highest numbers in what it handles."""
        self._handled[here, kind] = times = self._handled[here, kind] + 1
        if times > 1 and _often(times) != _often(times - 1):
            self._note(f"{kind} handled {_often(times)} by one broker")
        for given in (received, _message_in(received)):
            for name in _numbers_in(given):
                number = getattr(given, name)
                if number > self._highest.get((kind, name), 0):
                    self._highest[kind, name] = number
                    self._note(f"{kind}.{name} is {_often(number)}")

    def _around(self, here: BrokerId, now: float) -> Iterator[str]:
        """Yield what is on its way to or from a broker, and what is wrong with others."""
        waiting = self._under_way.get(here, [])
        while waiting and waiting[0][0] < now:
            heappop(waiting)
        for _, number, kind in waiting[:8]:
            yield f"{kind} {'comes' if number > 0 else 'goes'}"
        if (network := self.network) is None:
            return  # it is being made
        cluster = network.hosts[here].cluster
        for host in network.hosts.values():
            if not host.alive or host.paused or host.factor > 1.0:
                who = (
                    "this broker" if host.id == here else "a member" if host.cluster == cluster else "another"
                )
                yield f"{who} is {'dead' if not host.alive else 'paused' if host.paused else 'slow'}"
        if network.rendezvous is not None and not network.rendezvous.alive:
            yield "the rendezvous point is dead"
        if network.cuts.reasons:
            yield "a link is cut"
        if times := network.hosts[here].incarnation:
            yield f"this broker has been restarted {_often(times)}"
        if network.rendezvous is not None and (times := network.rendezvous.incarnation):
            yield f"the rendezvous point has been restarted {_often(times)}"

    def _state(self, broker: Broker, kind: str) -> None:
        """Note in which state a broker is after a step."""
        parts = self._parts.get(broker)
        if parts is None:
            parts = self._parts[broker] = _parts_of(broker)
            self._taken.update(each.__name__ for each in broker.pipeline.takes)
        state = tuple([_word(getattr(owner, name, None)) for owner, name in parts.reads])
        known = self._states.setdefault(kind, set())
        if state in known:
            return
        known.add(state)
        words = [f"{name}={word}" if word else "" for name, word in zip(parts.names, state, strict=True)]
        whole = [" ".join(filter(None, words[first:last])) for first, last in parts.spans]
        for each in filter(None, words):
            self._note(f"{kind} at {each}")
        self._points.update([zlib.crc32(f"{kind} {part}".encode()) for part in whole])
        if state not in self._pairs:
            self._pairs.add(state)
            sums = [zlib.crc32(part.encode()) for part in whole]
            self._points.update([one << 32 | other for one, other in combinations(sums, 2)])

    def _note(self, point: str) -> None:
        if point not in self._fresh:
            self._fresh.add(point)
            self._points.add(point)
            self._first.append(point)


def _kind_of(given: object) -> str:
    """Return the name of the type of a message, an event or an effect."""
    return type(_message_in(given)).__name__


def _message_in(given: object) -> object:
    """Return the message in an event or an effect; itself if there is none in it."""
    message = getattr(given, "message", given)
    return message.message if isinstance(message, Numbered) else message


def _numbers_in(given: object) -> tuple[str, ...]:
    """Return the fields of a message or an event that are numbers, and no ids."""
    kind = type(given)
    if (names := _NUMBERS.get(kind)) is None:
        whole = fields(kind) if is_dataclass(kind) else ()
        names = _NUMBERS[kind] = tuple(each.name for each in whole if each.type == "int")
    return names


_NUMBERS: Final[dict[type, tuple[str, ...]]] = {}
"""The fields of each type that are numbers, once they were looked at."""


def _often(times: int) -> str:
    """Return how often something has happened, in few words."""
    return f"{times}x" if times <= EXACT_MAX else f"{1 << times.bit_length() - 1}x or more"


def _word(value: object) -> str:
    """Return a value of a layer as one of few words; "" if it says too much."""
    if value is None:
        return "none"
    kind = type(value)
    if kind is bool:
        return "yes" if value else "no"
    if kind in _COLLECTIONS:
        size = len(value)  # type: ignore[arg-type]
        return "0" if not size else "1" if size == 1 else "more"
    return value.name if isinstance(value, Enum) else ""


_COLLECTIONS: Final = frozenset({dict, set, frozenset, list, tuple, deque})


class _Parts(NamedTuple):
    """The attributes that are the state of a broker: where to read them, their names, and those of each part."""

    reads: list[tuple[object, str]]
    names: list[str]
    spans: list[tuple[int, int]]


def _parts_of(broker: Broker) -> _Parts:
    """Return the attributes of all parts of the layers of a broker that may be state."""
    seen: set[int] = set()
    found = _Parts([], [], [])

    def look(owner: object, depth: int) -> None:
        if id(owner) in seen or depth > DEPTH_MAX:
            return
        seen.add(id(owner))
        first = len(found.reads)
        inner: list[object] = []
        for name in _attributes(owner):
            value = getattr(owner, name)
            if _is_part(value):
                inner.append(value)
            elif name not in _TABLES and _word(value):
                found.reads.append((owner, name))
                found.names.append(f"{type(owner).__name__}.{name}")
        if len(found.reads) > first:
            found.spans.append((first, len(found.reads)))
        for value in inner:
            look(value, depth + 1)

    for layer in broker.pipeline.layers:
        look(layer, 0)
    return found


_TABLES: Final = frozenset({"takes", "sees", "alters", "_handlers", "_events", "home", "members"})
"""Attributes that are no state."""


def _attributes(owner: object) -> Iterable[str]:
    slots = [name for kind in type(owner).__mro__ for name in getattr(kind, "__slots__", ())]
    return [name for name in (*getattr(owner, "__dict__", ()), *slots) if hasattr(owner, name)]


def _is_part(value: object) -> bool:
    kind = type(value)
    return (
        kind.__module__.startswith(OF_LAYERS)
        and not issubclass(kind, Enum | tuple | Recovery)
        and not getattr(kind, "__dataclass_params__", None)
    )


__all__ = ["Moment", "Point", "Seen", "Watch"]
