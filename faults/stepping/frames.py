"""A frame: what a simulated network is at one moment, as plain values.

Rules
-----
* A frame is one flat mapping from keys to values that are never changed, so that two frames are compared by key:
  ``b7`` is broker 7, ``t7`` its table, ``s7`` the sizes of its state, ``p7`` its place in the picture, ``calice`` a
  client, ``f31`` a message under way, ``x2-5`` a cut link, ``h2-5`` how many messages a cut link holds, ``more`` the
  clients that are not in it.
* Texts are numbers in a table of texts, since the same ones come again and again.
* The values are tuples, which become lists on the page; `player.js` reads them by place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple, TypeAlias

from ...protocol.ids import BrokerId, ClientId, Link
from ...protocol.printable import printable
from ...simulator.pending import Process

Frame: TypeAlias = "dict[str, object]"
"""Values by key; in the changes from one frame to the next None is for what is no more."""

ALL = "btspcmfxh"
"""The letters of all keys."""
DEAD = ("dead", "gone")


class BrokerThen(NamedTuple):
    """A broker, as it says it.

    Attributes
    ----------
    state
        alive, paused, slow, leaving, dead, or gone for good.
    name, cluster, incarnation
        What it is called in the picture, its cluster, its incarnation.
    role
        root, designated, member; node where no broker is above another; point for the rendezvous point; "" of a dead
        broker.
    above, below
        Who is above it, and who is below it; of a node, who is beside it.
    says
        By what it orders its place: epoch and term, or the view.
    waiting
        How many inputs wait, because it is paused or slow.
    """

    state: str
    name: str
    role: str
    cluster: int
    above: BrokerId | None
    below: tuple[BrokerId, ...]
    says: str
    incarnation: int
    waiting: int

    @property
    def alive(self) -> bool:
        """Whether its process runs."""
        return self.state not in DEAD


class TableThen(NamedTuple):
    """A table: how many entries, and of the first ones the text of the filter, and the link over which it is wanted."""

    size: int
    entries: tuple[tuple[int, Link], ...]


class ClientThen(NamedTuple):
    """A client.

    Attributes
    ----------
    home
        Its broker.
    state
        there, alone (its broker is dead), dead, or left.
    subscriptions
        (number, text of the filter, whether it is in force).
    given
        (publisher, last number that it was given).
    published
        How many events it has published.
    """

    home: BrokerId
    state: str
    subscriptions: tuple[tuple[int, int, bool], ...]
    given: tuple[tuple[ClientId, int], ...]
    published: int


class Flight(NamedTuple):
    """A message under way: from whom, to whom, the texts of its kind and content, when it arrives in microseconds."""

    source: Process | None
    target: Process | None
    kind: int
    about: int
    arrives: int
    is_beat: int


class Texts:
    """Texts by number."""

    def __init__(self) -> None:
        self.all: list[str] = []
        self._numbers: dict[str, int] = {}

    def number(self, text: str) -> int:
        """Return the number of a text."""
        found = self._numbers.get(text)
        if found is None:
            found = self._numbers[text] = len(self.all)
            self.all.append(printable(text))
        return found


def brokers_in(frame: Mapping[str, object]) -> Iterator[tuple[BrokerId, BrokerThen]]:
    """Yield the brokers of a frame."""
    for key, value in frame.items():
        if isinstance(value, BrokerThen):
            yield int(key[1:]), value


def clients_in(frame: Mapping[str, object]) -> Iterator[tuple[ClientId, ClientThen]]:
    """Yield the clients of a frame."""
    for key, value in frame.items():
        if isinstance(value, ClientThen):
            yield key[1:], value


def apply(frame: Frame, changes: Mapping[str, object]) -> None:
    """Change a frame into the next one."""
    for key, value in changes.items():
        if value is None:
            frame.pop(key, None)
        else:
            frame[key] = value


__all__ = [
    "ALL",
    "BrokerThen",
    "ClientThen",
    "Flight",
    "Frame",
    "TableThen",
    "Texts",
    "apply",
    "brokers_in",
    "clients_in",
]
