"""The limits beyond which an event may be lost, written as formulas that explain a loss.

Rules
-----
* A report that an event is lost is a claim of the judged system. It is accepted only if a limit explains it,
  by what the trace says was retained, its size, its time, and with whom it died.
* A limit is the one in force at that time: a :class:`.Bounded` counts from its place on. So a limit that is
  lowered after a loss was reported, or after the network has settled, explains nothing. Neither does one that is
  set after the subscriber was notified of a later event of the publisher: what has not come by then comes no
  more, since order is promised. For the same reason the age counts up to there. What keepers took counts up to
  the claim, because the record of it may come a little later.
* *retention*: while the network had not settled since the publication, the event exceeded the retention
  period, or its keeper had to retain too much. The broker that took it last is responsible for it, and so is
  its publisher. So is one that took it before and takes a newer event of the publisher afterwards: it does not
  know yet that the publisher has left, or the publisher has come back. A keeper releases whole batches, the
  oldest first, and never the newest one. A durable subscriber may have been disconnected when the loss was
  reported: for it, the event may have come to another broker since.
* *died*: the publisher died before the network had settled, and every broker that had taken the event has
  died since. If no broker is known to have taken it before the report, then none took it later and nobody was
  ever notified of it: who has an event has it from a broker.
* *durable*: what waits for one durable subscriber is older, more, or larger than what is retained for it.
  Seen from outside, that is at most everything published since that matches one of its subscriptions. It must
  have been durable when the event was published.
* Any other limit has its own name (*queue*, *quota*), and the component that drops an event for it reports
  the measured value.
* Once the network has settled, everything has arrived. A limit that is exceeded after that does not excuse a
  loss.

Source: promise 2 of docs/spec.md (a loss within the limits is none);
docs/decisions/0027-losses-are-checked.md, 0082-who-answers-for-a-publisher.md and 0110-limits-at-their-time.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

import numpy as np

from ...protocol.ids import EventId
from ...protocol.traces.trace import (
    ITSELF,
    Bounded,
    Died,
    Kept,
    Notified,
    Operation,
    Published,
    Settled,
    Shed,
    Trace,
)
from .ltl import Formula, Positions, Truths, constant, earlier, eventually, operation
from .predicates import in_pub_noti, publish, quiet, subscriptions, test_of

Keeper: TypeAlias = tuple[int, str]
"""A broker and "", or ITSELF and a publisher."""


def explained(client: str, event: EventId) -> Formula:
    """Return "a limit explains that the event is lost for the client"."""
    return shed(event) | past_retention(client, event) | died_out(event) | past_durable(client, event)


def unsettled(event: EventId) -> Formula:
    """Return "the event is published, and the network had not settled since before this"."""
    return in_pub_noti(event) & ~earlier(quiet() & in_pub_noti(event))


def past_retention(client: str, event: EventId) -> Formula:
    """Return "when it settled, or the client was told, the event no longer had to be retained"."""
    then = unsettled(event) & (_Older("", client, event) | _LetGo(client, event))
    return then | earlier((quiet() | durable(client)) & then)


def died_out(event: EventId) -> Formula:
    """Return "the event has died with its publisher and with all brokers that had it"."""
    death = operation(lambda op: type(op) is Died and op[1:3] == (ITSELF, event[0]))
    gone = _Replayed(lambda now: not now.takers.get(event))
    taken = _Replayed(lambda now: event in now.takers)
    return earlier(unsettled(event) & death) & gone & (taken | ~reached(event))


def reached(event: EventId) -> Formula:
    """Return "at any time a broker has taken the event, or a subscriber was notified of it"."""

    def has_it(op: Operation) -> bool:
        by_broker = type(op) is Kept and op.broker != ITSELF
        return (by_broker or type(op) is Notified) and op[2:4] == event

    return earlier(operation(has_it)) | eventually(operation(has_it))


def durable(client: str) -> Formula:
    """Return "the client is a durable subscriber by now"."""
    return earlier(operation(lambda op: type(op) is Bounded and op.client == client != ""))


def past_durable(client: str, event: EventId) -> Formula:
    """Return "more waits for the client, durable since before the publication, than is retained for it"."""
    return earlier(publish(event) & durable(client)) & (
        _Older(client, client, event) | _Crowded(client, event)
    )


def shed(event: EventId) -> Formula:
    """Return "the event was dropped for a limit that was exceeded"."""
    return earlier(operation(lambda op: type(op) is Shed and op[1:3] == event and op.measured > op.allowed))


class Keepers:
    """Replays, operation by operation, what brokers and publishers have to retain.

    Attributes
    ----------
    kept
        What each keeper has to retain, in order.
    let_go
        What each keeper has had to release since it last took it.
    takers
        The live brokers that have taken each event, in the order in which they last took it.
    """

    def __init__(self) -> None:
        self.kept: dict[Keeper, list[Kept]] = {}
        self.let_go: dict[Keeper, set[EventId]] = {}
        self.takers: dict[EventId, list[int]] = {}
        self._last: dict[EventId, int] = {}
        self._bound: Bounded | None = None

    def after(self, op: Operation) -> None:
        """Apply an operation."""
        if isinstance(op, Bounded) and not op.client:
            self._bound = op
            for keeper in self.kept:
                self._release(keeper)
        elif isinstance(op, Kept):
            keeper, event = _keeper(op), (op.publisher, op.sequence)
            self.kept.setdefault(keeper, []).append(op)
            self.let_go.setdefault(keeper, set()).discard(event)
            self._release(keeper)
            if op.broker != ITSELF:
                self._last[event] = op.broker
                others = [broker for broker in self.takers.get(event, []) if broker != op.broker]
                self.takers[event] = [*others, op.broker]
        elif isinstance(op, Died):
            self.kept.pop(_keeper(op), None)
            for takers in self.takers.values() if op.broker != ITSELF else ():
                takers[:] = [broker for broker in takers if broker != op.broker]

    def _release(self, keeper: Keeper) -> None:
        """Let go of the oldest batches while there is too much; never of the newest."""
        kept = self.kept[keeper]
        while len({each.batch for each in kept}) > 1 and self._too_much(kept):
            oldest = kept[0].batch
            dropped = {(one.publisher, one.sequence) for one in kept if one.batch == oldest}
            kept[:] = [one for one in kept if one.batch != oldest]
            self.let_go[keeper] |= dropped - {(one.publisher, one.sequence) for one in kept}

    def _too_much(self, kept: list[Kept]) -> bool:
        bound = self._bound
        return bound is not None and (
            len(kept) > bound.events_max or sum(each.size_bytes for each in kept) > bound.bytes_max
        )

    def let_go_of(self, event: EventId, also: Iterable[int] = ()) -> bool:
        """Return whether the broker that took an event last, its publisher, or one of `also`, had to release it."""
        answer = [(ITSELF, event[0]), *((broker, "") for broker in also)]
        if event in self._last:
            answer.append((self._last[event], ""))
        return any(event in self.let_go.get(keeper, ()) for keeper in answer)


def _keeper(op: Kept | Died) -> Keeper:
    return op.broker, op.publisher if op.broker == ITSELF else ""


class _Absent(Formula):
    """A formula that is shown by absence where it is False, and only by the claim itself where it is True."""

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        return frozenset((at,)) if truth else frozenset()


class _Replayed(_Absent):
    def __init__(self, test: Callable[[Keepers], bool]) -> None:
        self.test = test

    def truths(self, trace: Trace) -> Truths:
        keepers = Keepers()
        out = np.zeros(len(trace), np.int8)
        for position, op in enumerate(trace):
            out[position] = 2 * self.test(keepers)
            keepers.after(op)
        return out


class _Passing:
    """Follows a trace until a subscriber is notified of a later event of the same publisher."""

    def __init__(self, client: str, event: EventId) -> None:
        self.client = client
        self.event = event
        self.published = self.passed = False

    def after(self, op: Operation) -> None:
        if type(op) is Published:
            self.published = self.published or op[1:3] == self.event
        elif self.published and type(op) is Notified and op.client == self.client:
            publisher, sequence = self.event
            self.passed = self.passed or (op.publisher == publisher and op.sequence > sequence)


class _LetGo(_Absent):
    """By now a broker that is responsible for an event, or its publisher, had to release it; see :class:`_Passing`."""

    def __init__(self, client: str, event: EventId) -> None:
        self.client = client
        self.event = event

    def truths(self, trace: Trace) -> Truths:
        keepers, passing = Keepers(), _Passing(self.client, self.event)
        out = np.zeros(len(trace), np.int8)
        newer = self._newer(trace)
        for position, op in enumerate(trace):
            out[position] = 2 * keepers.let_go_of(
                self.event, (broker for _, broker in newer if broker != ITSELF)
            )
            if not (passing.passed and type(op) is Bounded):
                keepers.after(op)
            if type(op) is Kept and op.broker != ITSELF and op[2:4] == self.event:
                newer = [each for each in newer if each[0] > position]
            passing.after(op)
        return out

    def _newer(self, trace: Trace) -> list[tuple[int, int]]:
        """Return (position, broker) of each newer event of the publisher that a broker took before all settled."""
        publisher, sequence = self.event
        published = False
        found: list[tuple[int, int]] = []
        for position, op in enumerate(trace):
            if published and type(op) is Settled:
                break
            published = published or (type(op) is Published and op[1:3] == self.event)
            if type(op) is Kept and op.publisher == publisher and op.sequence > sequence:
                found.append((position, op.broker))
        return found


class _Older(_Absent):
    """By now the event has exceeded the retention period, for a durable subscriber or, with "", for retransmission."""

    def __init__(self, durable: str, client: str, event: EventId) -> None:
        self.durable = durable
        self.client = client
        self.event = event

    def truths(self, trace: Trace) -> Truths:
        out = constant(False).truths(trace)
        bound: Bounded | None = None
        published: Published | None = None
        passing = _Passing(self.client, self.event)
        older = False
        for position, op in enumerate(trace):
            if bound is not None and published is not None and not passing.passed:
                older = older or op.at_seconds - published.at_seconds > bound.seconds
            out[position] = 2 * older
            if type(op) is Bounded and op.client == self.durable:
                bound = op
            elif type(op) is Published and op[1:3] == self.event:
                published = op
            passing.after(op)
        return out


class _Crowded(_Absent):
    """By now more has been published since, for a durable subscriber, than is retained for it."""

    def __init__(self, client: str, event: EventId) -> None:
        self.client = client
        self.event = event

    def truths(self, trace: Trace) -> Truths:
        out = constant(False).truths(trace)
        subscribed = [test_of(life.selector) for life in subscriptions(self.client)(trace)]
        bound: Bounded | None = None
        events, begun, crowded = 0, False, False
        own: list[Kept] = []
        passing = _Passing(self.client, self.event)
        for position, op in enumerate(trace):
            if begun and bound is not None:
                crowded = crowded or events > bound.events_max or self._size(own) > bound.bytes_max
            out[position] = 2 * crowded
            passing.after(op)
            if type(op) is Bounded and op.client == self.client and not passing.passed:
                bound = op
            elif isinstance(op, Kept) and op.broker == ITSELF:
                # An event that a restarted publisher takes back counts once.
                if all(each[2:4] != op[2:4] for each in own):
                    own.append(op)
            elif isinstance(op, Published):
                begun = begun or op[1:3] == self.event
                events += begun and any(selects(op.event) is True for selects in subscribed)
        return out

    def _size(self, own: list[Kept]) -> int:
        """Return the bytes that publishers have retained from the event's batch on."""
        batch = next((each.batch for each in reversed(own) if each[2:4] == self.event), None)
        first = next((place for place, each in enumerate(own) if each.batch == batch), len(own))
        return sum(each.size_bytes for each in own[first:])
