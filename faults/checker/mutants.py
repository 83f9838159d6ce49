"""Correct traces made wrong in one way: for checking checkers.

Rules
-----
* A mutant is made from a trace and a source of chance; the same two give the same mutant. None when the trace has no
  place for it.
* Each names the condition that has to notice. Others may notice too: who is notified before the publication is not
  notified after it, so `complete` is violated beside `published`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

from .conditions import test_of
from .trace import (
    Adv,
    EventId,
    Life,
    LossTold,
    Notified,
    Operation,
    Published,
    Settled,
    Trace,
    lives,
)

if TYPE_CHECKING:
    from random import Random

PHANTOM: Final = 1_000_000_000
"""The sequence of events that nobody published."""

_T = TypeVar("_T")
Mutant = Callable[[Trace, "Random"], Trace | None]


def drop(trace: Trace, dice: Random) -> Trace | None:
    """Leave out all notifications of an event that a subscriber had to get."""
    due = list(dict.fromkeys(_due(trace)))
    chosen = _one(due, dice)
    return None if chosen is None else Trace(op for op in trace if not _is_note(op, *chosen))


def duplicate(trace: Trace, dice: Random) -> Trace | None:
    """Notify somebody again, some time later."""
    place = _one([place for place, op in enumerate(trace) if isinstance(op, Notified)], dice)
    if place is None:
        return None
    return _inserted(trace, dice.randint(place + 1, len(trace)), trace.operations[place])


def swap(trace: Trace, dice: Random) -> Trace | None:
    """Exchange two notifications of one subscriber that follow each other and are of one publisher."""
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
    chosen = _one(pairs, dice)
    if chosen is None:
        return None
    out = list(trace)
    first, second = chosen
    out[first], out[second] = (
        out[second]._replace(at_seconds=out[first].at_seconds),
        out[first]._replace(at_seconds=out[second].at_seconds),
    )
    return Trace(out)


def mismatch(trace: Trace, dice: Random) -> Trace | None:
    """Notify somebody of an event that none of its subscriptions, past or present, matches."""
    published = [(place, op) for place, op in enumerate(trace) if isinstance(op, Published)]
    wishes = _by_client(lives(trace))
    choices = [
        (place, client, op)
        for place, op in _some(published, dice)
        for client, mine in wishes.items()
        if not any(test_of(life.selector)(op.event) is True for life in mine)
    ]
    chosen = _one(choices, dice)
    if chosen is None:
        return None
    place, client, op = chosen
    return _notify_at(trace, dice.randint(place + 1, len(trace)), client, (op.publisher, op.sequence))


def after_cancel(trace: Trace, dice: Random) -> Trace | None:
    """Notify somebody for a subscription that was cancelled, and everything had settled since."""
    heard = {(op.client, (op.publisher, op.sequence)) for op in trace if isinstance(op, Notified)}
    wishes = _by_client(lives(trace))
    choices = []
    for life in _some([life for life in lives(trace) if life.cancelled is not None], dice):
        assert life.cancelled is not None
        settled = _next_quiet(trace, life.cancelled)
        if settled is None:
            continue
        for place, op in enumerate(trace):
            if not isinstance(op, Published) or not _matches(life, op):
                continue
            event, at = (op.publisher, op.sequence), max(place, settled) + 1
            others = [other for other in wishes[life.client] if _in_force(trace, other, at)]
            if (life.client, event) not in heard and not any(_matches(other, op) for other in others):
                choices.append((at, life.client, event))
    chosen = _one(choices, dice)
    return None if chosen is None else _notify_at(trace, *chosen)


def phantom(trace: Trace, dice: Random) -> Trace | None:
    """Notify somebody of an event that nobody published."""
    client = _one(list(_by_client(lives(trace))), dice)
    if client is None:
        return None
    publisher = _one([op.publisher for op in trace if isinstance(op, Published)], dice) or "nobody"
    return _notify_at(trace, dice.randint(0, len(trace)), client, (publisher, PHANTOM))


def too_early(trace: Trace, dice: Random) -> Trace | None:
    """Move a notification to before the publication."""
    published = {
        (op.publisher, op.sequence): place for place, op in enumerate(trace) if isinstance(op, Published)
    }
    notes = [place for place, op in enumerate(trace) if isinstance(op, Notified) and op[2:4] in published]
    place = _one(notes, dice)
    if place is None:
        return None
    out = list(trace)
    note = out.pop(place)
    assert isinstance(note, Notified)
    out.insert(dice.randint(0, published[note.publisher, note.sequence]), note)
    return Trace(out)


def stale(trace: Trace, dice: Random) -> Trace | None:
    """Notify somebody of an event that had settled before its subscription was made."""
    heard = {(op.client, (op.publisher, op.sequence)) for op in trace if isinstance(op, Notified)}
    wishes = _by_client(lives(trace))
    choices = []
    for place, op in enumerate(trace):
        if not isinstance(op, Published) or (settled := _next_quiet(trace, place)) is None:
            continue
        for client, mine in wishes.items():
            matching = [life for life in mine if _matches(life, op)]
            late = [life for life in matching if life.registered > settled]
            if matching == late and late and (client, (op.publisher, op.sequence)) not in heard:
                choices.append((late[0].registered + 1, client, (op.publisher, op.sequence)))
    chosen = _one(choices, dice)
    return None if chosen is None else _notify_at(trace, *chosen)


def publish_outside(trace: Trace, dice: Random) -> Trace | None:
    """Publish what the publisher has not advertised; nobody is notified of it."""
    if not any(isinstance(op, Adv) for op in trace):
        return None
    return Trace([*trace, Published(_end(trace), "stranger", 1, {"unannounced": True})])


def notify_outside(trace: Trace, dice: Random) -> Trace | None:
    """Publish what the publisher has not advertised, and notify somebody of it."""
    outside = publish_outside(trace, dice)
    client = _one(list(_by_client(lives(trace))), dice)
    if outside is None or client is None:
        return None
    return _notify_at(outside, len(outside), client, ("stranger", 1))


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
}
"""Every mutant by name, and the condition that has to notice it."""


def _one(choices: Sequence[_T], dice: Random) -> _T | None:
    return dice.choice(choices) if choices else None


def _some(choices: list[Any], dice: Random) -> list[Any]:
    """Return at most 50 of them: enough to choose from, on long traces too."""
    return choices if len(choices) <= 50 else dice.sample(choices, 50)


def _end(trace: Trace) -> float:
    return trace.operations[-1].at_seconds if len(trace) else 0.0


def _is_note(op: Operation, client: str, event: EventId) -> bool:
    return isinstance(op, Notified) and op.client == client and (op.publisher, op.sequence) == event


def _numbers_rise(trace: Trace, first: int, second: int) -> bool:
    return trace.operations[first].sequence < trace.operations[second].sequence  # type: ignore[union-attr]


def _inserted(trace: Trace, place: int, op: Operation) -> Trace:
    at = trace.operations[place].at_seconds if place < len(trace) else _end(trace)
    moved = op._replace(at_seconds=at)
    return Trace([*trace.operations[:place], moved, *trace.operations[place:]])


def _notify_at(trace: Trace, place: int, client: str, event: EventId) -> Trace:
    return _inserted(trace, place, Notified(0.0, client, *event))


def _by_client(found: list[Life]) -> dict[str, list[Life]]:
    out: dict[str, list[Life]] = {}
    for life in found:
        out.setdefault(life.client, []).append(life)
    return out


def _matches(life: Life, op: Published) -> bool:
    return test_of(life.selector)(op.event) is True


def _next_quiet(trace: Trace, place: int) -> int | None:
    return next(
        (at for at in range(place + 1, len(trace)) if isinstance(trace.operations[at], Settled)), None
    )


def _in_force(trace: Trace, life: Life, at: int) -> bool:
    """Return whether a subscription is active or going just before a position."""
    settled = None if life.cancelled is None else _next_quiet(trace, life.cancelled)
    return life.registered < at and (settled is None or settled >= at)


def _due(trace: Trace) -> Iterator[tuple[str, EventId]]:
    """Yield what surely had to come, of what did."""
    wishes = _by_client([life for life in lives(trace) if life.cancelled is None])
    published = {
        (op.publisher, op.sequence): (at, op) for at, op in enumerate(trace) if isinstance(op, Published)
    }
    named = {(op.publisher, op.sequence) for op in trace if isinstance(op, LossTold)}
    settled = max((at for at, op in enumerate(trace) if isinstance(op, Settled)), default=-1)
    for note in trace.notifications():
        event = note.publisher, note.sequence
        at, op = published.get(event, (len(trace), None))
        if op is None or at > settled or event in named:
            continue
        for life in wishes.get(note.client, ()):
            if life.installed is not None and life.installed < at and _matches(life, op):
                yield note.client, event
                break
