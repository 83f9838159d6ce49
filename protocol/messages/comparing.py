"""What brokers tell each other to compare: whether what both have to know is the same at both.

Source: paper 4, section 2; docs/decisions/0028-damaged-tables.md and 0043-damaged-state.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ids import FIRST_ROUND, RoundNumber


@dataclass(frozen=True, slots=True)
class Compare:
    """Digests of what the sender and this broker have to know alike; empty where the sender knows nothing of that.

    Attributes
    ----------
    told
        Of what the sender has told this broker that it wants.
    place
        Of where both stand.
    stream
        Of the numbers under which events have gone between the two.
    books
        Of the advertisements that the sender has passed on to this broker, and the filters that it has asked it for.
    round
        The last round that has begun at the sender.
    """

    told: bytes = b""
    place: bytes = b""
    stream: bytes = b""
    books: bytes = b""
    round: RoundNumber = FIRST_ROUND
