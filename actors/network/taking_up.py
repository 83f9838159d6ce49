"""A network that goes on where an earlier one ended, all of whose processes are gone: it heals, and has stores.

Rules
-----
* The stores say which brokers there are, and what they are made of; the topology that it is launched with counts for
  new ones. What they are made of must be as it was: the scheme, admission control, and whether stores have sums.
* Every broker begins its next life, as one does that is started again, and they find each other as brokers do whose
  whole network has died: there is nothing else that they have to know.
* What the rendezvous point had written counts on: names with their positions and numbers, identities, the last root,
  what seals the ids of gateways. No client is attached any more.
* The clock of the network stands still from the last moment at which it may have lived, so what was accepted is
  delivered however long there was nobody to do so.
* Who had published under a name goes on above what any broker has accepted of it.
* Nothing is written before the network stands: a launch that fails leaves all for the next.
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
"""How often at most it is written that the network lives."""

NOTES_A_RETENTION: Final = 10

_NETWORK: Final = "network"
_ALIVE_UNTIL: Final = "alive until"
_LIVES: Final = "lives"
_LAST: Final = "last"


@dataclass(frozen=True, slots=True)
class Earlier:
    """The network that one goes on from.

    Attributes
    ----------
    positions
        Its brokers' places.
    life
        Which all of them begin now.
    launches, still_seconds, seal
        Of the one that is launched, as in `Directory`.
    """

    positions: tuple[Position, ...]
    life: int
    launches: int
    still_seconds: float
    seal: str


def made_of(scheme: str, admission: object, recovery: Recovery | None) -> dict[str, Any]:
    """Return what stores of brokers depend on, by the names that settings have."""
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
    """Return how often it is written that the network lives: some times in a retention."""
    return min(ALIVE_SECONDS, recovery.retention_seconds / NOTES_A_RETENTION)


def alive_at(now: float, recovery: Recovery) -> dict[str, Any]:
    """Return what the copy has of how long the network may have lived, when it is written at this moment."""
    return {_ALIVE_UNTIL: now + note_seconds(recovery) + 2 * recovery.heartbeat_seconds}


def earlier_of(left: Mapping[str, Any], wanted: Mapping[str, Any], now: float) -> Earlier | None:
    """Return the network that a copy is of; None where there is none.

    Parameters
    ----------
    left
        The copy, by name.
    wanted
        What the one that is launched is made of.
    now
        The wall clock.

    Raises
    ------
    InputError
        If that was made of something else.
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
    """Return what is stored, and what is copied beside, as a network begins that goes on from another.

    Parameters
    ----------
    left
        The copy of that, by name.
    earlier
        The same in short.
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
    """Return where the rendezvous point of a network keeps what must outlive its process; None for nowhere."""
    if settings.recovery is not None and settings.stable is not None:
        return LastingStore(RayStore(token), settings.stable)
    return RayStore(token) if settings.recovery is not None or settings.stable is not None else None


def take_up(settings: Settings, rendezvous: Any) -> Earlier | None:
    """Return the network that the stores are of, from which the one that is launched goes on; None where it begins."""
    with broker_errors(f"launching network {settings.name!r}"):
        wanted = made_of(settings.scheme, settings.admission, settings.recovery)
        found: Earlier | None = ray.get(rendezvous.earlier.remote(wanted))
    return found


def accepted(hosts: Sequence[Any]) -> dict[ClientId, int]:
    """Return the last number that any broker of these hosts has accepted of each publisher."""
    return highest(*ray.get([host.accepted_here.remote() for host in hosts]))
