"""The rendezvous point: the one address that everybody knows (paper 1, section 2: RP).

It knows the root, where every broker lives, and which clients there are, so that a process that knows the network's
name can attach to it. It takes no part in routing, so where it stands does not matter.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..protocol.configs import Limits, Position
from ..protocol.errors import ClientError, InputError
from ..protocol.ids import BrokerId, ClientId


@dataclass(frozen=True, slots=True)
class Directory:
    """What a process needs to take part in a network.

    Attributes
    ----------
    name, scheme
        The network's name and routing scheme.
    limits
        What its brokers keep at most.
    positions
        Every broker's place, in rising order.
    hosts
        The actor that hosts each broker.
    collector
        The actor that takes telemetry.
    """

    name: str
    scheme: str
    limits: Limits
    positions: tuple[Position, ...]
    hosts: Mapping[BrokerId, Any]
    collector: Any

    @property
    def root(self) -> BrokerId:
        """The root broker."""
        return next(position.broker for position in self.positions if position.role == "REB")


class Rendezvous:
    """Keeps the directory of one network and places its clients."""

    def __init__(self) -> None:
        self._directory: Directory | None = None
        self._clients: dict[tuple[str, ClientId], BrokerId] = {}
        self._load: dict[BrokerId, int] = {}

    def open(self, directory: Directory) -> None:
        """Take the directory; from now on processes can attach."""
        self._directory = directory
        self._load = {position.broker: 0 for position in directory.positions}

    def directory(self) -> Directory | None:
        """Return the directory, or None while the network is being launched."""
        return self._directory

    def place(self, kind: str, names: Sequence[ClientId], broker: BrokerId | None) -> list[BrokerId]:
        """Give each client a broker: the one that is asked for, else the one with the fewest clients.

        Raises
        ------
        ClientError
            If a name is taken by a client of the same kind that is still attached.
        InputError
            If there is no such broker.
        """
        if broker is not None and broker not in self._load:
            known = f"{len(self._load)}, from {min(self._load)} to {max(self._load)}"
            raise InputError(f"no broker {broker}: there are {known}")
        named: set[ClientId] = set()
        for name in names:
            if name in named:
                raise ClientError(f"{kind} {name!r} is named twice")
            named.add(name)
            if (kind, name) in self._clients:
                raise ClientError(
                    f"there is already a {kind} {name!r} in this network: close it, or take another name"
                )
        places = []
        for name in names:
            chosen = (
                min(self._load, key=lambda other: (self._load[other], other)) if broker is None else broker
            )
            self._load[chosen] += 1
            self._clients[kind, name] = chosen
            places.append(chosen)
        return places

    def leave(self, kind: str, names: Sequence[ClientId]) -> None:
        """Let clients go."""
        for name in names:
            broker = self._clients.pop((kind, name), None)
            if broker is not None:
                self._load[broker] -= 1
