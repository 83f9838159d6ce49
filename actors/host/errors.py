"""Translation of Ray's errors into ours: the one place that says what a failed call to a broker means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import ray
from ray.exceptions import GetTimeoutError, RayActorError, RayTaskError

from ...protocol.errors import BrokerUnavailable, RayvousError


@contextmanager
def broker_errors(what: str, whose: str = "the broker's host") -> Iterator[None]:
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
    try:
        yield
    except RayTaskError as error:
        cause = error.cause
        if isinstance(cause, RayvousError):
            raise cause from None
        raise
    except GetTimeoutError:
        raise BrokerUnavailable(f"{what}: no answer in time") from None
    except RayActorError as error:
        raise BrokerUnavailable(f"{what}: {whose} is gone ({type(error).__name__})") from None
    except (ray.exceptions.OwnerDiedError, ray.exceptions.ObjectLostError) as error:
        raise BrokerUnavailable(f"{what}: the answer of {whose} was lost ({type(error).__name__})") from None
