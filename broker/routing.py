"""The innermost layer in a network that does not heal: the router of a scheme."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..protocol.configs import Placed
from ..protocol.effects import Effect, Plain, Received
from ..protocol.layers import Handler
from ..protocol.queries import Answering
from ..routing.schemes.local_first import answers_by
from ..routing.schemes.router import Router


class Routing:
    """One router as a layer.

    Parameters
    ----------
    router
        The router, of any scheme.
    """

    alters: Mapping[type, Handler] = {}
    sees: Mapping[type, Handler] = {}

    def __init__(self, router: Router) -> None:
        self.router = router
        self.handle: Callable[[Received], list[Effect]] = router.handle
        self.changed_by: Callable[[Received], bool] = router.changed_by
        self.takes: Mapping[type, Handler] = dict.fromkeys(router.takes, router.handle)
        self.answers: Answering = answers_by(router)

    @property
    def placed(self) -> Placed:
        """The place of the broker."""
        return self.router.placed()

    def snapshot(self) -> Plain:
        """Return the state of the router."""
        return self.router.snapshot()

    def restore(self, plain: Plain) -> None:
        """Restore the state of a snapshot of the router."""
        self.router.restore(plain)

    def describe(self) -> Mapping[str, int]:
        """Return the sizes of the router's state."""
        return self.router.describe()

    def check(self) -> None:
        """Assert the invariants of the router; for tests."""
        self.router.check()
