"""The journey of one event towards one subscriber: what was seen of it, as values.

Rules
-----
* Pure data. A recorder makes it from a run (:mod:`.recorder`, :mod:`.traces`); :mod:`.finding` says where it ended,
  :mod:`.words` tells it, and :mod:`.picture` draws it.
* A process is a broker (its number) or a client (its name). Times are seconds on one clock; a recorder that has several
  clocks aligns them first and says how exact that is (`Journey.clocks`).
* Rows are in the order of time. Everything is bounded; what is left out is counted in `Journey.left_out`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple, TypeAlias

from ...protocol.ids import GROUP, BrokerId, ClientId, EventId, Link

Process: TypeAlias = BrokerId | ClientId

OUTSIDE: Final = "around the layers of the broker"
"""The place of what a broker returned otherwise than its layers did: nothing that ships does so."""


class Copy(NamedTuple):
    """One message on one link.

    Attributes
    ----------
    sent_at, source, to
        When it left, and its ends.
    kind
        The type of the message.
    arrives_at
        When it arrived; None if it was lost, or the run ended before.
    lost
        Why it was lost; "" if it arrived.
    carries
        Whether it carries the event.
    wants
        Whether it is about a filter of the subscriber.
    retransmitted
        Whether the events in it are retransmitted.
    """

    sent_at: float
    source: Process
    to: Process
    kind: str
    arrives_at: float | None
    lost: str = ""
    carries: bool = False
    wants: bool = False
    retransmitted: bool = False


class Entry(NamedTuple):
    """A filter in the table of a broker that matches the event, and over which link it is wanted."""

    link: Link
    filter: str


class Stop(NamedTuple):
    """A rule that kept the event from going on.

    Attributes
    ----------
    toward
        To which neighbour, group or client it did not go; None if it went nowhere.
    layer, place
        The layer, and the file and method in which the rule stands.
    why
        The rule, as it applied.
    mends
        Whether a later round of retransmission has to bring the event.
    """

    toward: Link | None
    layer: str
    place: str
    why: str
    mends: bool = False


@dataclass(frozen=True, slots=True)
class Taken:
    """A broker handled a message with the event.

    Attributes
    ----------
    at, broker, cluster, incarnation
        When, and who.
    source
        Who it came from; the broker itself when it sends again what it retains.
    round, retransmitted
        The round under which it went on, or else came, and whether it was retransmitted.
    entries
        The entries of the broker's table that match the event.
    to
        Where the broker sent it: neighbours, the group, and clients, in order; a link twice if it did so twice.
    stops
        Which rules kept it back.
    router_to
        Where the broker's own layers sent it, if that differs from `to`.
    home
        The broker that the subscriber was attached to.
    ways
        The brokers on the way from here to there, both ends included, by the tree as it was; () if there was none.
    over_group
        Whether the next of them is a member of the same cluster.
    judged
        What the judge of routes found wrong here at that time.
    router
        Where the rules of routing stand.
    came_in
        Whether the message that came in had the event.
    """

    at: float
    broker: BrokerId
    cluster: int
    source: Process
    incarnation: int = 0
    round: tuple[int, int] = (0, 0)
    retransmitted: bool = False
    entries: tuple[Entry, ...] = ()
    to: tuple[Link, ...] = ()
    stops: tuple[Stop, ...] = ()
    router_to: tuple[Link, ...] | None = None
    home: BrokerId | None = None
    ways: tuple[BrokerId, ...] = ()
    over_group: bool = False
    judged: tuple[str, ...] = ()
    router: str = ""
    came_in: bool = True

    @property
    def next_link(self) -> Link | None:
        """The link towards the subscriber's broker; None there, and where no way is known."""
        if len(self.ways) < 2:
            return None
        return GROUP if self.over_group else self.ways[1]

    @property
    def goes_on(self) -> bool:
        """Whether it was sent towards the subscriber."""
        if len(self.ways) < 2:
            return False
        return self.ways[1] in self.to or (self.over_group and GROUP in self.to)


class Round(NamedTuple):
    """A round began at a broker; `resent` says whether it sent the event again, `kept` whether it had accepted it."""

    at: float
    broker: BrokerId
    number: tuple[int, int]
    resent: bool
    kept: bool


PRESENT: Final = "present"
OLDER: Final = "older"
WAITS: Final = "waits"
SILENT: Final = "silent"
BROUGHT: Final = "brought"
PASSED: Final = "passed"
LOST: Final = "lost"
"""Kinds of steps in which a subscriber reads its past: the event comes by itself, is in front of the beginning, is to
be read, was asked for in vain, was brought, was passed by, was given up."""

BRINGS: Final = "and brings it"


class PastStep(NamedTuple):
    """A step in which the subscriber reads its past, as far as it concerns the event: `kind` is one of those above."""

    at: float
    kind: str
    broker: BrokerId | None
    words: str


class Mark(NamedTuple):
    """Something that happened at a process, or with None in the network: `kind` is one of :data:`MARKS`."""

    at: float
    process: Process | None
    kind: str
    what: str


MARKS: Final = {
    "death": "a process dies or restarts",
    "fault": "a fault",
    "election": "suspicion, succession, join",
    "round": "a round, or a view",
    "client": "a client subscribes or moves",
    "other": "other",
}
"""The kinds of marks, and what they are called."""


@dataclass(frozen=True, slots=True)
class Journey:
    """What was seen of one event on its way to one subscriber.

    Attributes
    ----------
    event
        (publisher, number).
    content
        The event; None if nobody published it.
    published_at
        When it was published.
    subscriber
        Who should have had it, or had it.
    selectors
        The subscriptions of that client, by number.
    matching
        The numbers of those that match the event.
    taken, copies, rounds, marks
        What brokers, links and the network did.
    past
        How the subscriber read it, if it begins in the past.
    notified
        When the subscriber was notified of it.
    reported_lost
        When it was reported lost to the subscriber; with why, if a limit explains it.
    clusters
        The cluster of each broker.
    names
        Names of brokers, for people.
    heals
        Whether the network heals.
    clocks
        How exact times of different processes compare; "" for one clock.
    left_out
        What was seen and is not here, in words.
    """

    event: EventId
    subscriber: ClientId
    content: Mapping[str, object] | None = None
    published_at: float | None = None
    selectors: Mapping[int, str] = field(default_factory=dict)
    matching: tuple[int, ...] = ()
    taken: tuple[Taken, ...] = ()
    copies: tuple[Copy, ...] = ()
    rounds: tuple[Round, ...] = ()
    marks: tuple[Mark, ...] = ()
    past: tuple[PastStep, ...] = ()
    notified: tuple[float, ...] = ()
    reported_lost: tuple[float, ...] = ()
    clusters: Mapping[BrokerId, int] = field(default_factory=dict)
    names: Mapping[BrokerId, str] = field(default_factory=dict)
    heals: bool = True
    clocks: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def id(self) -> str:
        """The event as it is written on the command line."""
        return f"{self.event[0]}:{self.event[1]}"

    @property
    def delivered(self) -> list[Taken]:
        """The steps in which a broker handed the event to the subscriber."""
        return [step for step in self.taken for link in step.to if link == self.subscriber]


def with_timeline(journey: Journey, timeline: Sequence[tuple[float, str]]) -> Journey:
    """Return a journey with what the timeline of its run says."""
    marks = [Mark(at, _process(what), _kind(what), what) for at, what in timeline]
    return replace(journey, marks=tuple(sorted((*journey.marks, *marks), key=lambda mark: mark.at)))


def _kind(what: str) -> str:
    return next((kind for begin, kind in _KINDS.items() if what.startswith(begin)), "other")


def _process(what: str) -> Process | None:
    brokers = {int(number) for number in re.findall(r"\bbroker (\d+)\b", what)}
    return brokers.pop() if len(brokers) == 1 else None


_KINDS: Final = {
    "fault": "fault",
    "everything healed": "fault",
    "broker": "death",
    "takeover": "election",
    "suspicion": "election",
    "join": "election",
    "refused": "election",
    "new root": "election",
    "round": "round",
    "view": "round",
}

__all__ = [
    "BRINGS",
    "BROUGHT",
    "LOST",
    "MARKS",
    "OLDER",
    "OUTSIDE",
    "PASSED",
    "PRESENT",
    "SILENT",
    "WAITS",
    "Copy",
    "Entry",
    "Journey",
    "Mark",
    "PastStep",
    "Process",
    "Round",
    "Stop",
    "Taken",
    "with_timeline",
]
