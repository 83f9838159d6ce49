"""The routing schemes, by name, and the small interface that each of them has.

To add one: write a class with these methods in a file of its own and put it into `SCHEMES`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Protocol

from ..protocol.configs import Position
from ..protocol.effects import Effect, Received
from ..protocol.errors import InputError
from .hierarchical import Hierarchical
from .hybrid import Hybrid


class Router(Protocol):
    """What a broker needs of a routing scheme."""

    position: Position

    def __init__(self, position: Position) -> None: ...

    @staticmethod
    def positions(positions: Sequence[Position]) -> list[Position]:
        """Return where the brokers of a cluster tree stand under this scheme."""
        ...

    def handle(self, event: Received) -> list[Effect]:
        """Take in one message and return what is to be done about it."""
        ...

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the router keeps."""
        ...

    def check(self) -> None:
        """Assert the router's invariants; for tests."""
        ...


SCHEMES: Final[dict[str, type[Router]]] = {"hybrid": Hybrid, "hierarchical": Hierarchical}


def scheme(name: str) -> type[Router]:
    """Return the scheme of that name.

    Raises
    ------
    InputError
        If there is none; the message lists the names.
    """
    try:
        return SCHEMES[name]
    except KeyError:
        raise InputError(f"no routing scheme {name!r}: there are {', '.join(SCHEMES)}") from None
