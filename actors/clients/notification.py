"""A notification as the user receives it.

Rule: timestamps are datetimes here; inside the system they are numbers.
"""

from __future__ import annotations

import datetime
import time
from dataclasses import dataclass
from html import escape

from ...protocol.printable import printable
from ...protocol.quick import quick
from ...protocol.values import Timestamp, Value, is_null


@quick
@dataclass(frozen=True, slots=True)
class Notification:
    """One event of which a subscriber was notified.

    Attributes
    ----------
    event
        Attribute names and values; timestamps are aware datetimes in UTC.
    publisher, sequence
        The publisher, and the event's number there.
    published_at, received_at
        Seconds since 1970 on the publisher's and on this process's clock.
    deliveries
        How often the event was given to a worker of a consumer group, with this time; 1 for other subscribers.
    expires_at
        When it expires, in seconds since 1970 on the publisher's clock; None for never.
    """

    event: dict[str, Value | datetime.datetime | None]
    publisher: str
    sequence: int
    published_at: float
    received_at: float
    deliveries: int = 1
    expires_at: float | None = None

    @property
    def expired(self) -> bool:
        """Whether its time to live has passed by now, on this process's clock."""
        return self.expires_at is not None and time.time() > self.expires_at

    @property
    def latency_seconds(self) -> float:
        """The time from the publisher to this process."""
        return self.received_at - self.published_at

    def _repr_html_(self) -> str:
        cells = "".join(
            f"<tr><td>{escape(printable(name))}</td><td>{escape(printable(str(value)))}</td></tr>"
            for name, value in self.event.items()
        )
        head = f"{escape(printable(self.publisher))} #{self.sequence}, {self.latency_seconds * 1000:.1f} ms"
        return f"<table><caption>{head}</caption>{cells}</table>"


def for_people(value: Value) -> Value | datetime.datetime | None:
    """Return a value as users see it."""
    if is_null(value):
        return None
    return value.datetime if isinstance(value, Timestamp) else value
