"""Where in the past a durable subscriber begins: a time, a position, or all that is retained; and what is refused.

Rules
-----
* A *beginning* is, per publisher, the last number that is not owed, as it was resolved from what all brokers answer. So
  it means the same wherever the subscriber goes later.
* A time is compared with the times of publication that events carry. It may be older than the network; it is refused
  if an event since then was forgotten, and if it is in the future.
* A position names publishers. It is refused if a broker has forgotten an event behind it, if a publisher is unknown, or
  has not published so much. A publisher that it does not name begins now, or stays where it is when a subscriber is
  rewound.
* Where brokers are dead that have events of the time, the numbers of others may say that something is missing. The
  beginning is in front of that, and what does not come is reported as lost.

Pure: a host asks its brokers (`HistoryAt`) and gives the answers.
Source: docs/decisions/0181-replay.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from ..protocol import checks
from ..protocol.errors import InputError
from ..protocol.features import Features
from ..protocol.ids import ClientId
from ..recovery.replay.history import EVER, Span

OLDEST: Final = "oldest"

At: TypeAlias = "str | float | datetime | Mapping[ClientId, int]"
"""A time as text of ISO 8601, as a `datetime`, or in seconds since 1970; "oldest"; or a position."""

Spans: TypeAlias = Sequence[Mapping[ClientId, Span]]
"""What each broker answers."""


class Beginning(NamedTuple):
    """Where subscriptions begin: per publisher, the last number that is not owed; nothing published before `since`."""

    marks: Mapping[ClientId, int]
    since: float = EVER


class Asked(NamedTuple):
    """What a user asks for, checked: a moment, minus infinity for all that is retained; or a position."""

    moment: float
    position: Mapping[ClientId, int] | None = None


def require_history(features: Features) -> None:
    """Require that a network keeps a history.

    Raises
    ------
    InputError
        If it does not; the message says what to do.
    """
    if not features.heals:
        raise InputError(
            "to begin in the past, launch the network with recovery=Recovery(history_seconds=86400) and "
            "stable=Stable(...)"
        )
    if not features.stores:
        raise InputError(
            "to begin in the past, launch the network with a store, stable=Stable(...), and "
            "recovery=Recovery(history_seconds=86400)"
        )
    if not features.times.history_seconds:
        raise InputError(
            "to begin in the past, launch the network with a history: recovery=Recovery(history_seconds=86400), or "
            "history_seconds = 86400 under [recovery] of its file"
        )


def asked_for(at: object, now: float) -> Asked:
    """Check a beginning that a user gives; a time without a zone is of UTC.

    Raises
    ------
    InputError
        If it is no time and no position, or a time in the future.
    """
    if isinstance(at, Mapping):
        for name, number in at.items():
            checks.text("at: publisher", name)
            checks.whole_number(f"at: position of {name!r}", number, 0)
        return Asked(EVER, dict(at))
    if at == OLDEST:
        return Asked(EVER)
    moment = _seconds(at)
    if moment > now:
        raise InputError(f"at is {_shown(moment)}, which is in the future: it is {_shown(now)}")
    return Asked(moment)


def _seconds(at: object) -> float:
    if isinstance(at, datetime):
        return (at if at.tzinfo is not None else at.replace(tzinfo=UTC)).timestamp()
    if isinstance(at, int | float) and not isinstance(at, bool) and math.isfinite(at):
        return float(at)
    if isinstance(at, str):
        try:
            return _seconds(datetime.fromisoformat(at))
        except (ValueError, OverflowError):
            pass
    raise InputError(
        f"at is {checks.shown(at)}: it must be a time such as '2026-11-25T10:00', seconds since 1970, 'oldest', or a "
        "position, a number for each publisher"
    )


def beginning_of(asked: Asked, spans: Spans) -> Beginning:
    """Return where that is, given what the brokers know, divided at its moment.

    Raises
    ------
    InputError
        If something that was asked for was forgotten, or nobody knows a publisher of the position.
    """
    if asked.position is not None:
        now = {name: max(span.last for span in _of(name, spans)) for name in _names(spans)}
        return Beginning(now | {name: _known(name, number, spans) for name, number in asked.position.items()})
    marks = {name: _divided(_of(name, spans), asked.moment, spans) for name in _names(spans)}
    return Beginning(marks, asked.moment)


def _names(spans: Spans) -> Iterable[ClientId]:
    return sorted({name for each in spans for name in each})


def _of(name: ClientId, spans: Spans) -> list[Span]:
    return [each[name] for each in spans if name in each]


def _divided(known: list[Span], moment: float, spans: Spans) -> int:
    """Return the last number of a publisher that is older than the moment, as far as anybody knows."""
    if any(span.forgot for span in known):
        raise InputError(f"at is {_shown(moment)}, which is older than what is retained. {_oldest(spans)}")
    later = min((span.later for span in known if span.later), default=math.inf)
    if moment == EVER:
        return int(later - 1 if later < math.inf else max(span.last for span in known))
    return int(min(max(span.older for span in known), later - 1))


def _known(name: ClientId, number: int, spans: Spans) -> int:
    """Return a number of a position if all behind it is retained."""
    known = _of(name, spans)
    if not known:
        names = ", ".join(map(repr, list(_names(spans))[:5])) or "none"
        raise InputError(f"at: no broker knows a publisher {name!r}; those with a history are {names}")
    last = max(span.last for span in known)
    if number > last:
        raise InputError(f"at: the position of {name!r} is {number}, and it has published only {last} events")
    gone = _divided(known, EVER, spans)
    if number < gone:
        raise InputError(
            f"at: the position of {name!r} is {number}, and events up to {gone} are not retained any more. "
            f"Begin at {gone}, or at='oldest'"
        )
    return number


def _oldest(spans: Spans) -> str:
    since = min((span.since for each in spans for span in each.values()), default=math.inf)
    return "Begin at='oldest'" + ("" if since == math.inf else f": the oldest event is of {_shown(since)}")


def _shown(moment: float) -> str:
    try:
        return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds")
    except (ValueError, OverflowError, OSError):
        return f"{moment:g} s"


def last_of(spans: Iterable[Mapping[ClientId, Span]]) -> dict[ClientId, int]:
    """Return the last number of each publisher that any broker knows."""
    last: dict[ClientId, int] = {}
    for each in spans:
        for name, span in each.items():
            last[name] = max(span.last, last.get(name, 0))
    return last
