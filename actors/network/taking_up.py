"""A network that goes on where an earlier one ended, all of whose processes are gone: it heals, and has stores.

Rules
-----
* The stores say which brokers there are, and their scheme; the topology that it is launched with counts for new ones.
* Every broker begins its next life, as one does that is started again, and they find each other as brokers do whose
  whole network has died: there is nothing else that they have to know.
* What the rendezvous point had written counts on: names with their positions and numbers, identities, the last root.
  No client is attached any more.
* The clock of the network stands still from the last moment at which it may have lived. So nothing gets older than it
  was, and what was accepted is delivered however long there was nobody to do so.
* Who had published under a name that nobody wrote down goes on above what any broker has accepted of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import ray

from ...protocol.configs import Position
from ...protocol.errors import InputError
from ...protocol.ids import ClientId
from ..host.errors import broker_errors
from .settings import Settings
from .store import LastingStore, RayStore, RendezvousStore

NETWORK: Final = "network"
"""The name of the value that says what is launched."""

ALIVE_UNTIL: Final = "alive until"
"""The name of the value that says when the network may have lived last, by the wall clock."""

_PUBLISHER: Final = "publisher"
_SUBSCRIBER: Final = "subscriber"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The network that one goes on from.

    Attributes
    ----------
    positions
        Its brokers' places.
    life
        Which all of them begin now.
    launches, still_seconds
        Of the one that is launched, as in `Directory`.
    publishers
        Names under which somebody published when it ended, and only brokers know how far they had come.
    """

    positions: tuple[Position, ...]
    life: int
    launches: int
    still_seconds: float
    publishers: tuple[ClientId, ...]


def gone_on(
    left: dict[str, Any], scheme: str, *, admission: bool, now: float
) -> tuple[Earlier, dict[str, Any]] | None:
    """Return an earlier network and what its rendezvous point knows at its next beginning; None where there is none.

    Parameters
    ----------
    left
        What it had written, by name.
    scheme, admission
        Of the one that is launched.
    now
        The wall clock.

    Raises
    ------
    InputError
        If that had another scheme, or admission control and this one has none, or the other way.
    """
    was = left.get(NETWORK)
    if was is None:
        return None
    for what, there, here in (("scheme", was["scheme"], scheme), ("admission", was["admission"], admission)):
        if there != here:
            raise InputError(
                f"stable: the stores are of a network with {what}={there!r}, and this one has {here!r}: "
                "launch it as it was, or name another place"
            )
    still = max(0.0, now - left[ALIVE_UNTIL])
    life = 1 + max(left.get("lives", {}).values(), default=0)
    (attached, _), sequences = left.get("clients", (({}, set()), {}))
    known = {name: value for name, value in left.items() if name not in (NETWORK, ALIVE_UNTIL)}
    for name, value in left.items():
        if name.startswith(f"{_SUBSCRIBER}:"):
            known[name] = value | {"seen": value["seen"] + still}
    for name in ("lives", "born"):
        known[name] = {place.broker: life for place in was["positions"]}
    known["clients"] = ({}, set()), sequences
    unknown = {name for kind, name in attached if kind == _PUBLISHER and f"{_PUBLISHER}:{name}" not in left}
    launches, stood_still = was["launches"] + 1, was["still_seconds"] + still
    return Earlier(was["positions"], life, launches, stood_still, tuple(sorted(unknown))), known


def store_of(settings: Settings, token: str) -> RendezvousStore | None:
    """Return where the rendezvous point of a network keeps what must outlive its process; None for nowhere."""
    if settings.recovery is not None and settings.stable is not None:
        return LastingStore(RayStore(token), settings.stable)
    return RayStore(token) if settings.recovery is not None or settings.stable is not None else None


def take_up(settings: Settings, rendezvous: Any) -> Earlier | None:
    """Let the rendezvous point go on from what the stores have, and return that; None where the network begins."""
    if settings.recovery is None or settings.stable is None:
        return None
    with broker_errors(f"launching network {settings.name!r}"):
        call = rendezvous.take_up.remote(settings.scheme, settings.admission is not None)
        found: Earlier | None = ray.get(call)
    return found


def accepted(earlier: Earlier | None, hosts: Sequence[Any]) -> dict[ClientId, int]:
    """Return the last number that any broker has accepted of each publisher of whom nobody else knows it."""
    names = () if earlier is None else earlier.publishers
    calls = [[host.accepted_here.remote(name) for host in hosts] for name in names]
    return {name: max(ray.get(asked)) for name, asked in zip(names, calls, strict=True)}
