"""What a group's actor and its workers say to each other."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Final

from ...clients.group import Token
from ...protocol.batch import EventBatch
from ...protocol.ids import EventId

POLL_SECONDS: Final = 2.0
"""How long a poll waits for events; a worker is heard at least as often."""


@dataclass(frozen=True, slots=True, eq=False)
class Portion:
    """The answer to a poll.

    Attributes
    ----------
    batch, deliveries
        The events, and how often each was given, with this time; None for no events.
    keys, tokens
        The key of each, and the token with which it was given.
    withdrawn
        Events that the worker holds no more.
    stranger
        Whether the group does not know the worker (any more): it has to say what it holds, and joins anew.
    over
        Why the group has ended, and there will be no more events; "" while it has not.
    """

    batch: EventBatch | None = None
    deliveries: tuple[int, ...] = ()
    keys: tuple[Hashable | None, ...] = ()
    tokens: tuple[Token, ...] = ()
    withdrawn: tuple[EventId, ...] = ()
    stranger: bool = False
    over: str = ""
