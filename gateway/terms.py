"""The terms of a subscription: what it asks of admission control beside its selector. Pure.

A right decides what a client outside Ray may ask for, because both are paid by others: a priority by those who are
refused or degraded instead, and a promised delay by those whom brokers refuse to keep it.

Source: decision 0183.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from ..protocol import checks

PRIORITY_MAX: Final = 1_000_000
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a subscription asks of admission control; see `Subscriber.subscribe`.

    Attributes
    ----------
    priority
        Who is degraded last, and with `priority_shares` admitted first: a whole number.
    max_delay
        How long its events may wait on their way, in seconds; None if that does not matter.

    Raises
    ------
    InputError
        If one of them is no such number.
    """

    priority: int = 0
    max_delay: float | None = None

    def __post_init__(self) -> None:
        checks.whole_number("priority", self.priority, -PRIORITY_MAX, PRIORITY_MAX)
        checks.optional_seconds("max_delay", self.max_delay)

    @classmethod
    def of(cls, priority: str | None, max_delay: str | None) -> Terms:
        """Return the terms that a query or the headers of a frame give as text; None where nothing is given."""
        number = priority is not None and _WHOLE.fullmatch(priority)
        try:
            seconds: object = None if max_delay is None else float(max_delay)
        except ValueError:
            seconds = max_delay
        return cls(0 if priority is None else int(priority) if number else priority, seconds)  # type: ignore[arg-type]


NO_TERMS: Final = Terms()
