"""A network that resumes an earlier one whose processes are all gone: it heals, and has stores.

Rules
-----
* The stores define the brokers and their settings; the topology of the launch counts for a new network. Settings
  must be as before: the scheme, admission control, and whether stores have checksums.
* Every broker starts its next life, as a restarted one does, and they find each other like brokers whose whole
  network has died: they need to know nothing else.
* What the rendezvous point had written remains valid: names with their positions and numbers, identities, the last
  root, and what seals the ids of gateways. No client is attached any more.
* The clock of the network stops at the last moment at which it may have lived, so accepted events are delivered
  however long the network was down.
* A publisher continues above what any broker has accepted of it.
* Nothing is written before the network runs: a failed launch leaves everything for the next one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import ray

from ...protocol.configs import Position
from ...protocol.errors import InputError
from ...protocol.ids import ClientId
from ...protocol.messages.recovery import Recovery
from ..host.errors import broker_errors
from ..host.survey import highest
from .directory import Directory
from .names import PUBLISHER, SEQUENCE, SUBSCRIBER, seen_later
from .settings import Settings
from .store import BORN, CLIENTS, ROOT, LastingStore, RayStore, RendezvousStore

ALIVE_SECONDS: Final = 5.0
"""How often at most it is recorded that the network lives."""

NOTES_A_RETENTION: Final = 10

_NETWORK: Final = "network"
_ALIVE_UNTIL: Final = "alive until"
_LIVES: Final = "lives"
_LAST: Final = "last"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The network to be resumed.

    Attributes
    ----------
    positions
        Its brokers' places.
    life
        The life that all of them start now.
    launches, still_seconds, seal
        Of the launched one, as in `Directory`.
    """

    positions: tuple[Position, ...]
    life: int
    launches: int
    still_seconds: float
    seal: str


def made_of(scheme: str, admission: object, recovery: Recovery | None) -> dict[str, Any]:
    """Return the settings on which stores of brokers depend, by name."""
    compares = recovery is not None and recovery.compare_seconds is not None
    return {"scheme": scheme, "admission": admission is not None, "compare_heartbeats": compares}


def written_of(directory: Directory) -> dict[str, Any]:
    """Return what the copy has of a network itself."""
    return {
        _NETWORK: {
            "made_of": made_of(directory.scheme, directory.admission, directory.recovery),
            "positions": directory.positions,
            "launches": directory.launches,
            "still_seconds": directory.still_seconds,
            "seal": directory.seal,
        }
    }


def note_seconds(recovery: Recovery) -> float:
    """Return how often it is recorded that the network lives: several times per retention period."""
    return min(ALIVE_SECONDS, recovery.retention_seconds / NOTES_A_RETENTION)


def alive_at(now: float, recovery: Recovery) -> dict[str, Any]:
    """Return what the copy has of how long the network may have lived, if written at this moment."""
    return {_ALIVE_UNTIL: now + note_seconds(recovery) + 2 * recovery.heartbeat_seconds}


def earlier_of(left: Mapping[str, Any], wanted: Mapping[str, Any], now: float) -> Earlier | None:
    """Return the network of a copy; None if there is none.

    Parameters
    ----------
    left
        The copy, by name.
    wanted
        The settings of the launched network.
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
                f"stable: the stores are of a network with {what}={there!r}, and this one has {here!r}: "
                "launch it as it was, or name another place"
            )
    life = 1 + max(left.get(_LIVES, {}).values(), default=0)
    still = was["still_seconds"] + max(0.0, now - left[_ALIVE_UNTIL])
    return Earlier(was["positions"], life, was["launches"] + 1, still, was["seal"])


def carried_over(
    left: Mapping[str, Any], earlier: Earlier, accepted: Mapping[ClientId, int]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what is stored, and what is copied besides, when a network starts that resumes another.

    Parameters
    ----------
    left
        The copy of that, by name.
    earlier
        Its summary.
    accepted
        The last numbers of publishers, as brokers know them.
    """
    passed = earlier.still_seconds - left[_NETWORK]["still_seconds"]
    told = {name.removeprefix(SEQUENCE): its for name, its in left.items() if name.startswith(SEQUENCE)}
    numbers = highest(told, accepted)
    lives = {place.broker: earlier.life for place in earlier.positions}
    stored = {name: value for name, value in left.items() if name == _LAST or name.startswith(PUBLISHER)}
    stored |= {name: seen_later(value, passed) for name, value in left.items() if name.startswith(SUBSCRIBER)}
    stored |= {_LIVES: lives, BORN: dict(lives), CLIENTS: (({}, set()), numbers)}
    copied = {f"{SEQUENCE}{publisher}": number for publisher, number in numbers.items()}
    if ROOT in left:
        stored[ROOT] = copied[ROOT] = left[ROOT]
    return stored, copied


def store_of(settings: Settings, token: str) -> RendezvousStore | None:
    """Return the place of a rendezvous point's persistent state; None for nowhere."""
    if settings.recovery is not None and settings.stable is not None:
        return LastingStore(RayStore(token), settings.stable)
    return RayStore(token) if settings.recovery is not None or settings.stable is not None else None


def take_up(settings: Settings, rendezvous: Any) -> Earlier | None:
    """Return the network of the stores, which the launched one resumes; None if it is new."""
    with broker_errors(f"launching network {settings.name!r}"):
        wanted = made_of(settings.scheme, settings.admission, settings.recovery)
        found: Earlier | None = ray.get(rendezvous.earlier.remote(wanted))
    return found


def accepted(hosts: Sequence[Any]) -> dict[ClientId, int]:
    """Return the last number that any broker of these hosts has accepted of each publisher."""
    return highest(*ray.get([host.accepted_here.remote() for host in hosts]))
