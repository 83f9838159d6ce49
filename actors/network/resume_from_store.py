"""Resuming a network from the stores of an earlier one whose processes are all gone. The network heals and has stores.

Rules
-----
* The stores determine which brokers there are and how they are built. The topology of the launch counts only where
  the stores are new. The scheme, admission control, and whether stores have checksums must be as before.
* Every broker begins its next incarnation, as a restarted broker does. The brokers find each other as the brokers of a
  network do that has died completely; they need to know nothing else.
* What the rendezvous point has written remains valid: names with their positions and numbers, identities, the last
  root, and the seal of the ids of gateways. No client is attached any more.
* The network's clock stands still from the last moment at which the network may have been alive. Accepted events
  are therefore delivered, however long the network was down.
* A publisher that used a name before resumes above the highest number that any broker has accepted from it.
* Nothing is written before all brokers have been launched: a launch that fails leaves the stores to the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ray

from ...protocol.configs import Position
from ...protocol.errors import InputError
from ...protocol.features import Features
from ...protocol.ids import ClientId
from ...protocol.messages.recovery import Recovery
from ..host.errors import broker_errors
from ..host.handle import HostHandle
from ..host.survey import highest
from .directory import Directory
from .names import PUBLISHER, SEQUENCE, SUBSCRIBER, seen_later
from .settings import Settings
from .store import BORN, CLIENTS, ROOT, LastingStore, RayStore, RendezvousStore

ALIVE_SECONDS: Final = 5.0
"""The longest interval between notes that the network is alive."""

NOTES_A_RETENTION: Final = 10

_NETWORK: Final = "network"
_ALIVE_UNTIL: Final = "alive until"
_INCARNATIONS: Final = "lives"
_LAST: Final = "last"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The network that a launch resumes.

    Attributes
    ----------
    positions
        The positions of its brokers.
    incarnation
        The incarnation that all of them begin now.
    launches, still_seconds, seal
        Values for the network being launched, as in `Directory`.
    """

    positions: tuple[Position, ...]
    incarnation: int
    launches: int
    still_seconds: float
    seal: str


def made_of(scheme: str, features: Features) -> dict[str, Any]:
    """Return the settings that the brokers' stores depend on, by name."""
    return {"scheme": scheme, "admission": features.admits, "compare_heartbeats": features.compares}


def written_of(directory: Directory) -> dict[str, Any]:
    """Return what the copy holds about the network itself."""
    return {
        _NETWORK: {
            "made_of": made_of(directory.scheme, directory.features),
            "positions": directory.positions,
            "launches": directory.launches,
            "still_seconds": directory.still_seconds,
            "seal": directory.seal,
        }
    }


def note_seconds(recovery: Recovery) -> float:
    """Return the interval between notes that the network is alive: several of them fit into a retention."""
    return min(ALIVE_SECONDS, recovery.retention_seconds / NOTES_A_RETENTION)


def alive_at(now: float, recovery: Recovery) -> dict[str, Any]:
    """Return the copy's entry for how long the network may have been alive, if it is written at this moment."""
    return {_ALIVE_UNTIL: now + note_seconds(recovery) + 2 * recovery.heartbeat_seconds}


def earlier_of(left: Mapping[str, Any], wanted: Mapping[str, Any], now: float) -> Earlier | None:
    """Return the network that a copy belongs to; None if the copy is new.

    Parameters
    ----------
    left
        The copy, by name.
    wanted
        The settings of the network being launched that stores depend on (`made_of`).
    now
        The wall clock.

    Raises
    ------
    InputError
        If the earlier network had other settings.
    """
    was = left.get(_NETWORK)
    if was is None:
        return None
    for what, here in wanted.items():
        if (there := was["made_of"].get(what)) != here:
            raise InputError(
                f"stable: the stores belong to a network with {what}={there!r}, and this one has {here!r}: "
                "launch it as it was, or name another place"
            )
    incarnation = 1 + max(left.get(_INCARNATIONS, {}).values(), default=0)
    still = was["still_seconds"] + max(0.0, now - left[_ALIVE_UNTIL])
    return Earlier(was["positions"], incarnation, was["launches"] + 1, still, was["seal"])


def carried_over(
    left: Mapping[str, Any], earlier: Earlier, accepted: Mapping[ClientId, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the values to store, and those to copy in addition, when a network begins that resumes another.

    Parameters
    ----------
    left
        The copy of the earlier network, by name.
    earlier
        A summary of the same network.
    accepted
        The last numbers of publishers, as the brokers know them.
    """
    passed = earlier.still_seconds - left[_NETWORK]["still_seconds"]
    told = {name.removeprefix(SEQUENCE): its for name, its in left.items() if name.startswith(SEQUENCE)}
    numbers = highest(told, accepted)
    incarnations = {place.broker: earlier.incarnation for place in earlier.positions}
    stored = {name: value for name, value in left.items() if name == _LAST or name.startswith(PUBLISHER)}
    stored |= {name: seen_later(value, passed) for name, value in left.items() if name.startswith(SUBSCRIBER)}
    stored |= {_INCARNATIONS: incarnations, BORN: dict(incarnations), CLIENTS: (({}, set(), {}), numbers)}
    copied = {f"{SEQUENCE}{publisher}": number for publisher, number in numbers.items()}
    if ROOT in left:
        stored[ROOT] = copied[ROOT] = left[ROOT]
    return stored, copied


def store_of(settings: Settings, token: str) -> RendezvousStore | None:
    """Return the store of a network's rendezvous point for values that outlive its process; None if it needs none."""
    features = settings.features
    if settings.stable is not None and features.heals:
        return LastingStore(RayStore(token), settings.stable)
    return RayStore(token) if features.outlives_processes else None


def resume(settings: Settings, rendezvous: Any) -> Earlier | None:
    """Return the network that the launched one resumes from the stores; None if the stores are new."""
    with broker_errors(f"launching network {settings.name!r}"):
        wanted = made_of(settings.scheme, settings.features)
        found: Earlier | None = ray.get(rendezvous.earlier.remote(wanted))
    return found


def accepted(hosts: Sequence[Any]) -> dict[ClientId, int]:
    """Return the last number of each publisher that any broker of these hosts has accepted."""
    return highest(*ray.get([HostHandle(host).accepted_here() for host in hosts]))
