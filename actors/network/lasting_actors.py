"""What actors do that outlive whoever started them: they find out that their network has ended, and end themselves."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, Protocol

import ray
from ray import ObjectRef
from ray.actor import ActorHandle
from ray.exceptions import RayError

from ...protocol.errors import InputError
from .directory import NAMESPACE, Directory, kind_of, rendezvous_name
from .remains import parts_of


class Named(Protocol):
    """The configuration of what runs under a name."""

    @property
    def name(self) -> str: ...  # noqa: D102
    def beside(self, other: Any) -> str: ...  # noqa: D102


def actors_of(network: str, kind: str) -> dict[str, ActorHandle]:
    """Return the actors of a network that are of one of the `KINDS`, by their names."""
    found = {}
    for name in parts_of(network):
        if kind_of(name) == kind:
            with suppress(ValueError):  # it has ended meanwhile
                found[name] = ray.get_actor(name, namespace=NAMESPACE)
    return found


def running(network: str, kind: str, title: str) -> ActorHandle | None:
    """Return the actor of a network that is of a kind and has this name; None if it does not run."""
    return actors_of(network, kind).get(title)


def require_same(network: str, kind: str, wanted: Named, known: Named, ending: str) -> None:
    """Require that what runs under a name is what is wanted, and not another one of its kind.

    Raises
    ------
    InputError
        If it is another one; the message has the settings that differ, and `ending` says how it is ended.
    """
    if known != wanted:
        raise InputError(
            f"network {network!r} has another {kind} {wanted.name!r}, with {known.beside(wanted)}. "
            f"{ending} it first, or choose another name"
        )


def close_actors(
    directory: Directory, kind: str, close: Callable[[ActorHandle], ObjectRef], seconds: float
) -> None:
    """End the actors of a kind of a network: each is told to close, has so many seconds for it, and is killed."""
    actors = list[ActorHandle]()
    if directory.features.heals:
        with suppress(RayError):  # they notice that the network is gone
            actors = [*actors_of(directory.name, kind).values()]
    calls = [close(each) for each in actors]
    if calls:
        with suppress(RayError):
            ray.wait(calls, num_returns=len(calls), timeout=seconds)
    for each in actors:
        ray.kill(each)


def has_ended(network: str) -> bool:
    """Return whether Ray reports that the network has no rendezvous point any more."""
    try:
        ray.get_actor(rendezvous_name(network), namespace=NAMESPACE)
    except ValueError:
        return True
    except RayError:
        return False
    return False


def end_for_good() -> None:
    """End this actor so that Ray does not restart it."""
    ray.kill(ray.get_runtime_context().current_actor, no_restart=True)
