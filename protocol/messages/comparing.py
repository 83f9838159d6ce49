"""Comparison of state between brokers: whether both hold the same copy of their shared state.

Source: paper 4, section 2; docs/decisions/0028-damaged-tables.md and 0043-damaged-state.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ids import FIRST_ROUND, RoundNumber


@dataclass(frozen=True, slots=True)
class Compare:
    """Digests of the state that the sender and this broker share; empty where the sender has no such state.

    Attributes
    ----------
    told
        Of the filters that the sender has announced to this broker.
    place
        Of the places of both.
    stream
        Of the numbers of the events sent between the two.
    books
        Of the advertisements that the sender has passed on to this broker, and the filters that it has asked this
        broker for.
    round
        The last round that has begun at the sender.
    """

    told: bytes = b""
    place: bytes = b""
    stream: bytes = b""
    books: bytes = b""
    round: RoundNumber = FIRST_ROUND
