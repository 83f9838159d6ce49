"""A broker: its machines put together.

Pure: a host (the simulator, the Ray actor) gives it events and carries out its effects.

Rule: ``handle`` is total and synchronous. It reads no clock, does no I/O, and its result depends only on the events so
far; so the same events give the same effects, on every host.
"""

from __future__ import annotations

from ..protocol.configs import Position
from ..protocol.effects import Effect, Received
from ..routing.schemes import scheme


class Broker:
    """One broker of a network.

    Parameters
    ----------
    position
        Its place, as the scheme's ``positions`` gives it.
    scheme_name
        The routing scheme that the whole network uses, for example ``"hybrid"``.
    """

    __slots__ = ("handle", "position", "router")

    def __init__(self, position: Position, scheme_name: str = "hybrid") -> None:
        self.position = position
        self.router = scheme(scheme_name)(position)
        self.handle = self.router.handle

    def describe(self) -> dict[str, int]:
        """Return the sizes of what the broker keeps."""
        return self.router.describe()

    def check(self) -> None:
        """Assert the broker's invariants; for tests."""
        self.router.check()


__all__ = ["Broker", "Effect", "Received"]
