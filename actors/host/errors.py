"""Translation of Ray's errors into ours: the one place that says what a failed call to a broker means."""

from __future__ import annotations

from typing import Final

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from ...protocol.errors import BrokerUnavailable, RayvousError

LOST: Final = (ray.exceptions.OwnerDiedError, ray.exceptions.ObjectLostError)


class _Translation:
    """A block in which Ray's errors are translated; a generator would take four times as many calls for each event."""

    __slots__ = ("_what", "_whose")

    def __init__(self, what: object, whose: str) -> None:
        self._what, self._whose = what, whose

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, where: object) -> None:
        if error is None:
            return
        what, whose = self._what, self._whose
        if isinstance(error, RayTaskError):
            if isinstance(error.cause, RayvousError):
                raise error.cause from None
        elif isinstance(error, GetTimeoutError):
            raise BrokerUnavailable(f"{what}: no answer in time") from None
        elif isinstance(error, RayActorError):
            raise BrokerUnavailable(f"{what}: {whose} is gone ({type(error).__name__})") from None
        elif isinstance(error, LOST):
            raise BrokerUnavailable(
                f"{what}: the answer of {whose} was lost ({type(error).__name__})"
            ) from None


def broker_errors(what: object, whose: str = "the broker's host") -> _Translation:
    """Translate Ray's errors into ours inside the block.

    Parameters
    ----------
    what
        The operation, for the message: ``"publishing at broker 3"``.
    whose
        The actor that was called, for the message.

    Raises
    ------
    BrokerUnavailable
        If the actor is dead or does not answer in time.
    RayvousError
        The error that the broker's host raised, unchanged.
    """
    return _Translation(what, whose)
