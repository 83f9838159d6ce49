"""Mutants: correct traces with one error each, for checking checkers.

Rules
-----
* A mutant is made from a trace and a source of randomness. The same two give the same mutant. It is None if
  the trace has no place for it.
* Each mutant names the condition that must detect it. Other conditions may be violated too: a subscriber that
  is notified before the publication is not notified after it, so `complete` is violated along with
  `published`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from ...protocol.ids import EventId
from ...protocol.traces.trace import (
    ITSELF,
    Adv,
    Advertised,
    Answered,
    Bounded,
    Confirmed,
    Died,
    Kept,
    Life,
    LossTold,
    Notified,
    Operation,
    Published,
    Settled,
    Trace,
    by_client,
    lives,
)
from .predicates import test_of

if TYPE_CHECKING:
    from random import Random

PHANTOM: Final = 1_000_000_000
"""The sequence number of events that were never published."""

ELSEWHERE: Final = 1_000_000
"""A broker number that no network uses."""

_T = TypeVar("_T")
Mutant = Callable[[Trace, "Random"], Trace | None]


def drop(trace: Trace, rng: Random) -> Trace | None:
    """Remove all notifications of an event that a subscriber had to get."""
    due = list(dict.fromkeys(_due(trace)))
    chosen = _one(due, rng)
    return None if chosen is None else Trace(op for op in trace if not _is_note(op, *chosen))


def duplicate(trace: Trace, rng: Random) -> Trace | None:
    """Repeat a notification some time later."""
    place = _one([place for place, op in enumerate(trace) if isinstance(op, Notified)], rng)
    if place is None:
        return None
    return _inserted(trace, rng.randint(place + 1, len(trace)), trace.operations[place])


def swap(trace: Trace, rng: Random) -> Trace | None:
    """Exchange two consecutive notifications of one subscriber that are from one publisher."""
    last: dict[tuple[str, str], int] = {}
    pairs: list[tuple[int, int]] = []
    born = {(op.publisher, op.sequence): at for at, op in enumerate(trace) if isinstance(op, Published)}
    for place, op in enumerate(trace):
        if isinstance(op, Notified):
            before = last.get((op.client, op.publisher))
            there = born.get((op.publisher, op.sequence), place) < (-1 if before is None else before)
            if before is not None and there and _numbers_rise(trace, before, place):
                pairs.append((before, place))
            last[op.client, op.publisher] = place
    chosen = _one(pairs, rng)
    if chosen is None:
        return None
    out = list(trace)
    first, second = chosen
    out[first], out[second] = (
        out[second]._replace(at_seconds=out[first].at_seconds),
        out[first]._replace(at_seconds=out[second].at_seconds),
    )
    return Trace(out)


def mismatch(trace: Trace, rng: Random) -> Trace | None:
    """Notify a subscriber of an event that none of its past or present subscriptions matches."""
    published = [(place, op) for place, op in enumerate(trace) if isinstance(op, Published)]
    subscribed = by_client(lives(trace))
    choices = [
        (place, client, op)
        for place, op in _some(published, rng)
        for client, mine in subscribed.items()
        if not any(test_of(life.selector)(op.event) is True for life in mine)
    ]
    chosen = _one(choices, rng)
    if chosen is None:
        return None
    place, client, op = chosen
    return _notify_at(trace, rng.randint(place + 1, len(trace)), client, (op.publisher, op.sequence))


def after_cancel(trace: Trace, rng: Random) -> Trace | None:
    """Notify a subscriber for a cancelled subscription, after the network has settled since."""
    heard = {(op.client, (op.publisher, op.sequence)) for op in trace if isinstance(op, Notified)}
    subscribed = by_client(lives(trace))
    choices = []
    for life in _some([life for life in lives(trace) if life.cancelled is not None], rng):
        assert life.cancelled is not None
        settled = _next_quiet(trace, life.cancelled)
        if settled is None:
            continue
        for place, op in enumerate(trace):
            if not isinstance(op, Published) or not _matches(life, op):
                continue
            event, at = (op.publisher, op.sequence), max(place, settled) + 1
            others = [other for other in subscribed[life.client] if _in_force(trace, other, at)]
            if (life.client, event) not in heard and not any(_matches(other, op) for other in others):
                choices.append((at, life.client, event))
    chosen = _one(choices, rng)
    return None if chosen is None else _notify_at(trace, *chosen)


def phantom(trace: Trace, rng: Random) -> Trace | None:
    """Notify a subscriber of an event that was never published."""
    client = _one(list(by_client(lives(trace))), rng)
    if client is None:
        return None
    publisher = _one([op.publisher for op in trace if isinstance(op, Published)], rng) or "nobody"
    return _notify_at(trace, rng.randint(0, len(trace)), client, (publisher, PHANTOM))


def too_early(trace: Trace, rng: Random) -> Trace | None:
    """Move a notification to before the publication."""
    published = {
        (op.publisher, op.sequence): place for place, op in enumerate(trace) if isinstance(op, Published)
    }
    notes = [place for place, op in enumerate(trace) if isinstance(op, Notified) and op[2:4] in published]
    place = _one(notes, rng)
    if place is None:
        return None
    out = list(trace)
    note = out.pop(place)
    assert isinstance(note, Notified)
    out.insert(rng.randint(0, published[note.publisher, note.sequence]), note)
    return Trace(out)


def stale(trace: Trace, rng: Random) -> Trace | None:
    """Notify a subscriber of an event that had settled before its subscription was made."""
    heard = {(op.client, (op.publisher, op.sequence)) for op in trace if isinstance(op, Notified)}
    subscribed = by_client(lives(trace))
    choices = []
    for place, op in enumerate(trace):
        if not isinstance(op, Published) or (settled := _next_quiet(trace, place)) is None:
            continue
        for client, mine in subscribed.items():
            matching = [life for life in mine if _matches(life, op)]
            late = [life for life in matching if life.registered > settled]
            if matching == late and late and (client, (op.publisher, op.sequence)) not in heard:
                choices.append((late[0].registered + 1, client, (op.publisher, op.sequence)))
    chosen = _one(choices, rng)
    return None if chosen is None else _notify_at(trace, *chosen)


def publish_outside(trace: Trace, rng: Random) -> Trace | None:
    """Publish an event that the publisher has not advertised, without any notification."""
    if not any(isinstance(op, Advertised) for op in trace):
        return None
    return Trace([*trace, Published(_end(trace), "stranger", 1, {"unannounced": True})])


def notify_outside(trace: Trace, rng: Random) -> Trace | None:
    """Publish an event that the publisher has not advertised, and notify a subscriber of it."""
    outside = publish_outside(trace, rng)
    client = _one(list(by_client(lives(trace))), rng)
    if outside is None or client is None:
        return None
    return _notify_at(outside, len(outside), client, ("stranger", 1))


def unnoticed(trace: Trace, rng: Random) -> Trace | None:
    """Remove the notice for an event that a subscriber is notified of: no upstream router was ever told to send it."""
    born = {(op.publisher, op.sequence): (at, op) for at, op in enumerate(trace) if isinstance(op, Published)}
    given = by_client(lives(trace, Adv))
    choices = []
    for note in _some(trace.notifications(), rng):
        at, op = born.get((note.publisher, note.sequence), (0, None))
        others = [life for client, mine in given.items() if client != note.client for life in mine]
        if op is not None and given.get(note.client) and any(life.registered < at for life in others):
            choices.append((note.client, op))
    chosen = _one(choices, rng)
    if chosen is None:
        return None
    client, event = chosen
    never = {life.registered for life in given[client] if _matches(life, event)}
    return Trace(op for at, op in enumerate(trace) if at not in never)


def silence(trace: Trace, rng: Random) -> Trace | None:
    """Remove all notifications, and report all events as lost."""
    if not any(True for _ in _due(trace)):
        return None
    rest = [op for op in trace if not isinstance(op, Notified)]
    lost = [LossTold(_end(trace), "", op.publisher, op.sequence) for op in rest if isinstance(op, Published)]
    return Trace([*rest, *lost])


def lose_too_soon(trace: Trace, rng: Random) -> Trace | None:
    """Remove an event that a subscriber had to get, and report it at once as lost."""
    chosen = _one(list(dict.fromkeys(_due(trace))), rng)
    if chosen is None:
        return None
    return _lost_at_once(trace, chosen, [], [])


def lose_what_had_settled(trace: Trace, rng: Random) -> Trace | None:
    """Remove an event that a subscriber had to get, and report it as lost long after everything had settled.

    The `Kept` operations are removed too, so that only the age could explain the loss.
    """
    chosen = _one(list(dict.fromkeys(_due(trace))), rng)
    if chosen is None:
        return None
    client, event = chosen
    rest = [op for op in trace if not isinstance(op, Kept) and not _is_note(op, client, event)]
    return Trace([*rest, LossTold(_end(trace) + 1e9, client, *event)])


def keep_room(trace: Trace, rng: Random) -> Trace | None:
    """Attribute what displaced a lost event to another keeper, so that nothing explains the loss."""
    told = [(op.client, op[2:4]) for op in trace if isinstance(op, LossTold)]
    lost = _one([told[place] for place, due in enumerate(_had_to_come(trace, told)) if due], rng)
    if lost is None:
        return None
    mine = [
        place
        for place, op in enumerate(trace)
        if isinstance(op, Kept) and (op.publisher, op.sequence) == lost[1]
    ]
    return Trace(
        op._replace(broker=ELSEWHERE, publisher="else") if isinstance(op, Kept) and place not in mine else op
        for place, op in enumerate(trace)
    )


def lower_afterwards(trace: Trace, rng: Random) -> Trace | None:
    """Remove an event that a subscriber had to get, report it at once as lost, and only then retain nothing."""
    chosen = _one(list(dict.fromkeys(_due(trace))), rng)
    if chosen is None:
        return None
    return _lost_at_once(trace, chosen, [], [Bounded(0.0, "", 0, 0, 0.0), Bounded(0.0, chosen[0], 0, 0, 0.0)])


def lower_when_passed(trace: Trace, rng: Random) -> Trace | None:
    """Remove an event that a subscriber had to get, and retain nothing as soon as it has a later one of the publisher.

    Until then so much is retained that nothing explains the loss, which is reported last.
    """
    dead = {op.publisher for op in trace if isinstance(op, Died)}
    passing: dict[tuple[str, EventId], EventId] = {}
    last: dict[tuple[str, str], EventId] = {}
    for note in reversed(trace.notifications()):
        event = note.publisher, note.sequence
        later = last.get((note.client, note.publisher))
        if later is not None and later[1] > note.sequence:
            passing[note.client, event] = later
        last[note.client, note.publisher] = event
    chosen = _one(
        [due for due in dict.fromkeys(_due(trace)) if due in passing and due[1][0] not in dead], rng
    )
    if chosen is None:
        return None
    client, event = chosen
    out: list[Operation] = []
    for op in trace:
        if isinstance(op, Bounded):
            out.append(op._replace(events_max=10**9, bytes_max=10**15, seconds=1e9))
        elif not _is_note(op, client, event):
            out.append(op)
        if _is_note(op, client, passing[client, event]):
            out += [Bounded(op.at_seconds, who, 0, 0, 0.0) for who in ("", client)]
    return Trace([*out, LossTold(_end(trace), client, *event)])


def durable_afterwards(trace: Trace, rng: Random) -> Trace | None:
    """Remove an event that a subscriber had to get; make it a durable one, with no room, and report the loss."""
    durable = {op.client for op in trace if isinstance(op, Bounded)}
    chosen = _one([due for due in dict.fromkeys(_due(trace)) if due[0] not in durable], rng)
    if chosen is None:
        return None
    return _lost_at_once(trace, chosen, [Bounded(0.0, chosen[0], 0, 0, 0.0)], [])


def die_alone(trace: Trace, rng: Random) -> Trace | None:
    """Let the publisher of an event die, which one subscriber has, and another one is said to have lost by that.

    The `Kept` operations of the event are removed, so that no broker is known to have had it.
    """
    had: dict[EventId, set[str]] = {}
    for note in trace.notifications():
        had.setdefault((note.publisher, note.sequence), set()).add(note.client)
    chosen = _one([due for due in dict.fromkeys(_due(trace)) if len(had[due[1]]) > 1], rng)
    if chosen is None:
        return None
    event = chosen[1]
    rest = Trace(op for op in trace if not (isinstance(op, Kept) and (op.publisher, op.sequence) == event))
    return _lost_at_once(rest, chosen, [Died(0.0, ITSELF, event[0])], [])


def fall(trace: Trace, rng: Random) -> Trace | None:
    """Exchange the numbers of two events that one publisher published one after the other."""
    last: dict[str, int] = {}
    pairs: list[tuple[int, int]] = []
    for place, op in enumerate(trace):
        if isinstance(op, Published):
            if op.publisher in last:
                pairs.append((last[op.publisher], place))
            last[op.publisher] = place
    chosen = _one(pairs, rng)
    if chosen is None:
        return None
    out = list(trace)
    (first, one), (second, two) = ((place, out[place]) for place in chosen)
    assert isinstance(one, Published) and isinstance(two, Published)
    out[first], out[second] = one._replace(sequence=two.sequence), two._replace(sequence=one.sequence)
    return Trace(out)


def unobserved(trace: Trace, rng: Random) -> Trace | None:
    """Leave out that anything was confirmed, settled or delivered."""
    return Trace(op for op in trace if not isinstance(op, Confirmed | Answered | Settled | Notified))


def forge_answer(trace: Trace, rng: Random) -> Trace | None:
    """Claim that a subscription is in force for a publisher of which the subscriber then gets nothing."""
    chosen = _one([(place, event[0]) for place, event, _ in _not_owed(trace)], rng)
    if chosen is None:
        return None
    place, publisher = chosen
    out = list(trace)
    answer = out[place]
    assert isinstance(answer, Answered)
    out[place] = answer._replace(publishers=(*answer.publishers, publisher))
    return Trace(out)


def leave_answer_out(trace: Trace, rng: Random) -> Trace | None:
    """Remove the answer that a subscription is in force for fewer publishers than before."""
    place = _one([place for place, _, owed_before in _not_owed(trace) if owed_before], rng)
    return None if place is None else Trace(op for at, op in enumerate(trace) if at != place)


MUTANTS: Final[dict[str, tuple[Mutant, str]]] = {
    "drop": (drop, "complete"),
    "duplicate": (duplicate, "once"),
    "swap": (swap, "ordered"),
    "mismatch": (mismatch, "wanted"),
    "after cancel": (after_cancel, "wanted"),
    "phantom": (phantom, "published"),
    "too early": (too_early, "published"),
    "stale": (stale, "fresh"),
    "publish outside": (publish_outside, "within"),
    "notify outside": (notify_outside, "advertised"),
    "unnoticed": (unnoticed, "noticed"),
    "silence": (silence, "complete"),
    "lose too soon": (lose_too_soon, "complete"),
    "lose what had settled": (lose_what_had_settled, "complete"),
    "keep room": (keep_room, "complete"),
    "lower afterwards": (lower_afterwards, "complete"),
    "lower when passed": (lower_when_passed, "complete"),
    "durable afterwards": (durable_afterwards, "complete"),
    "die alone": (die_alone, "complete"),
    "forge answer": (forge_answer, "complete"),
    "leave answer out": (leave_answer_out, "complete"),
}
"""All mutants by name, each with the condition that must detect it."""

REFUSED: Final[dict[str, Mutant]] = {"fall": fall}
"""Mutants that are no traces, and must be refused."""

NOT_DECIDED: Final[dict[str, Mutant]] = {"unobserved": unobserved}
"""Mutants that violate nothing, and do not hold either."""


def _one(choices: Sequence[_T], rng: Random) -> _T | None:
    return rng.choice(choices) if choices else None


def _some(choices: list[_T], rng: Random) -> list[_T]:
    """Return at most 50 of the choices, which is enough also for long traces."""
    return choices if len(choices) <= 50 else rng.sample(choices, 50)


def _end(trace: Trace) -> float:
    return trace.operations[-1].at_seconds if len(trace) else 0.0


def _is_note(op: Operation, client: str, event: EventId) -> bool:
    return isinstance(op, Notified) and op.client == client and (op.publisher, op.sequence) == event


def _lost_at_once(
    trace: Trace, due: tuple[str, EventId], before: Sequence[Operation], after: Sequence[Operation]
) -> Trace:
    """Remove a notification, and report its event as lost right after it was published, between other operations."""
    client, event = due
    out: list[Operation] = []
    for op in trace:
        if not _is_note(op, client, event):
            out.append(op)
        if isinstance(op, Published) and op[1:3] == event:
            said = [*before, LossTold(0.0, client, *event), *after]
            out += [each._replace(at_seconds=op.at_seconds) for each in said]
    return Trace(out)


def _numbers_rise(trace: Trace, first: int, second: int) -> bool:
    return trace.operations[first].sequence < trace.operations[second].sequence  # type: ignore[union-attr]


def _inserted(trace: Trace, place: int, op: Operation) -> Trace:
    at = trace.operations[place].at_seconds if place < len(trace) else _end(trace)
    moved = op._replace(at_seconds=at)
    return Trace([*trace.operations[:place], moved, *trace.operations[place:]])


def _notify_at(trace: Trace, place: int, client: str, event: EventId) -> Trace:
    return _inserted(trace, place, Notified(0.0, client, *event))


def _matches(life: Life, op: Published) -> bool:
    return test_of(life.selector)(op.event) is True


def _next_quiet(trace: Trace, place: int) -> int | None:
    return next(
        (at for at in range(place + 1, len(trace)) if isinstance(trace.operations[at], Settled)), None
    )


def _in_force(trace: Trace, life: Life, at: int) -> bool:
    """Return whether a subscription is active or going immediately before a position."""
    settled = None if life.cancelled is None else _next_quiet(trace, life.cancelled)
    return life.registered < at and (settled is None or settled >= at)


def _due(trace: Trace) -> Iterator[tuple[str, EventId]]:
    """Yield the notifications that surely had to come and came, and whose event is not reported as lost."""
    named = {(op.publisher, op.sequence) for op in trace if isinstance(op, LossTold)}
    came = [(note.client, (note.publisher, note.sequence)) for note in trace.notifications()]
    for (client, event), due in zip(came, _had_to_come(trace, came), strict=True):
        if due and event not in named:
            yield client, event


def _had_to_come(trace: Trace, pairs: Sequence[tuple[str, EventId]]) -> Iterator[bool]:
    """Yield for each pair whether the notification surely had to come: wanted to the end, and all has settled."""
    subscribed = by_client([life for life in lives(trace) if life.cancelled is None])
    published = {
        (op.publisher, op.sequence): (at, op) for at, op in enumerate(trace) if isinstance(op, Published)
    }
    settled = max((at for at, op in enumerate(trace) if isinstance(op, Settled)), default=-1)
    for client, event in pairs:
        at, op = published.get(event, (len(trace), None))
        yield (
            op is not None
            and at <= settled
            and any(
                _matches(life, op) and any(begin < at and end is None for begin, end in life.spans(event[0]))
                for life in subscribed.get(client, ())
            )
        )


def _not_owed(trace: Trace) -> Iterator[tuple[int, EventId, bool]]:
    """Yield (place, event, whether its publisher was owed before) for each answer and unsent event that it excludes."""
    about = {(op.client, op.publisher, op.sequence) for op in trace if isinstance(op, Notified)}
    named = {(op.publisher, op.sequence) for op in trace if isinstance(op, LossTold)}
    published = [(at, op) for at, op in enumerate(trace) if isinstance(op, Published)]
    for life in lives(trace):
        ends = [begin for begin, _ in life.terms[1:]] + [
            len(trace) if life.cancelled is None else life.cancelled
        ]
        before: frozenset[str] | None = frozenset()
        for (place, of), end in zip(life.terms, ends, strict=False):  # without terms there is one end
            for at, op in published if of is not None else ():
                event = op.publisher, op.sequence
                outside = op.publisher not in (of or ()) and event not in named
                if outside and place < at < end and (life.client, *event) not in about and _matches(life, op):
                    settled = _next_quiet(trace, at)
                    if settled is not None and settled < end:
                        yield place, event, before is None or op.publisher in before
            before = of
