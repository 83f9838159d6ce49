"""The condition of events with a time to live: nobody is notified of one that is past it.

The other side, that what has expired is owed to nobody, is a limit like others: until the network settles, its record
says which events have expired, and how old they were (:meth:`~rayvous.protocol.traces.account.Account.settled`).

In virtual time all clocks are one, and the tolerance is 0. Between machines it is by how much their clocks differ.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.ids import EventId
from ...protocol.traces.trace import Notified


def late_notifications(
    notifications: Iterable[Notified], expires: Mapping[EventId, float], tolerance_seconds: float = 0.0
) -> list[str]:
    """Return who was notified of what after it had expired, in words.

    Parameters
    ----------
    notifications
        What subscribers were given, and when.
    expires
        When each event expires that has a time to live.
    tolerance_seconds
        How late a notification may be.
    """
    return [
        f"timely: {each.client} was notified of {each.publisher} #{each.sequence} {late:.3f} s after it had expired"
        for each in notifications
        if (late := each.at_seconds - expires.get((each.publisher, each.sequence), each.at_seconds))
        > tolerance_seconds
    ]
