"""The terms of a subscription: what it asks beside its selector. Pure.

A right decides what a client outside Ray may ask for, because both are paid by others: a priority by those who are
refused or degraded instead, and a promised delay by those whom brokers refuse to keep it.

Where in the past a durable name begins is for the first time that it is opened: a client that connects again says the
same, and goes on where it was.

Source: decisions 0183, 0181 and 0190.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Final

from ..clients.beginnings import At, asked_for
from ..protocol import checks
from ..protocol.errors import InputError

PRIORITY_MAX: Final = 1_000_000
_WHOLE: Final = re.compile(r"-?[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Terms:
    """What a subscription asks of admission control, and where it begins; see `Subscriber.subscribe`.

    Attributes
    ----------
    priority
        Who is degraded last, and with `priority_shares` admitted first: a whole number.
    max_delay
        How long its events may wait on their way, in seconds; None if that does not matter.
    at
        Where in the past a durable name begins; None for the present, or with `last_per` for all that is retained.
    last_per
        The attribute of which only the last event of each value is wanted of the past; None for every event.

    Raises
    ------
    InputError
        If one of them cannot be meant.
    """

    priority: int = 0
    max_delay: float | None = None
    at: At | None = None
    last_per: str | None = None

    def __post_init__(self) -> None:
        checks.whole_number("priority", self.priority, -PRIORITY_MAX, PRIORITY_MAX)
        checks.optional_seconds("max_delay", self.max_delay)
        if self.at is not None:
            asked_for(self.at, math.inf)  # whether it is in the future is seen when it begins
        if self.last_per is not None:
            checks.text("last_per", self.last_per)

    def require_durable(self, durable: str | None) -> None:
        """Require a durable name if it begins in the past; InputError if there is none."""
        for name in ("at", "last_per"):
            if durable is None and getattr(self, name) is not None:
                raise InputError(f"{name}: only a durable name begins in the past: give durable")

    @classmethod
    def of(
        cls, priority: str | None, max_delay: str | None, at: str | None = None, last_per: str | None = None
    ) -> Terms:
        """Return the terms that a query or the headers of a frame give as text; None where nothing is given."""
        number = priority is not None and _WHOLE.fullmatch(priority)
        try:
            seconds: object = None if max_delay is None else float(max_delay)
        except ValueError:
            seconds = max_delay
        begins: At | None = at
        if at is not None and at.startswith("{"):  # a position: a number for each publisher
            try:
                begins = json.loads(at)
            except (ValueError, RecursionError):
                begins = at
        rank = 0 if priority is None else int(priority) if number else priority
        return cls(rank, seconds, begins, last_per)  # type: ignore[arg-type]


NO_TERMS: Final = Terms()
