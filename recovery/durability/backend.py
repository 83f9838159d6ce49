"""What a kind of stores is: how its addresses are read and shown, and how stores there are claimed and opened.

Rules
-----
* A backend is one class with four verbs: `parse`, `open`, `claim` and `show`. `recovery.durability.stable` has the
  table of those that are built in. One of a user stands in an address as ``module:Class://...``.
* Parsing and showing open nothing and import no driver.
* An address may contain a password, so it is shown by `show` alone: not in errors, not in a repr.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Self

from ...protocol.ids import BrokerId
from ...protocol.stability import Synchronous
from .stores import Store


@dataclass(frozen=True, slots=True)
class Opening:
    """How the store of one broker is opened.

    Attributes
    ----------
    synchronous
        What a commit waits for: "off", "normal" or "full".
    pages_max
        The maximum size of the store in pages of 4 KiB, for a backend that has such a limit; None for no limit.
    incarnation
        How often the broker was restarted, as counted by the rendezvous point.
    fresh
        Whether to require that no earlier network has written anything.
    wait_seconds
        How long to wait for a process that has the store and is about to end.
    """

    synchronous: Synchronous = "normal"
    pages_max: int | None = None
    incarnation: int = 0
    fresh: bool = False
    wait_seconds: float = 5.0


class Backend(ABC):
    """The stores at one address, for the brokers of one process. Its first store, or claim, opens what they share."""

    form: ClassVar[str]
    """How an address is written, for errors."""
    extra: ClassVar[str | None] = None
    """The extra that has the driver."""
    limits_pages: ClassVar[bool] = False
    """Whether a store can be limited to a number of pages."""

    def __init__(self, address: str | Path) -> None:
        self.address = address

    @classmethod
    def parse(cls, address: str | Path) -> Self:
        """Return the backend of an address.

        Raises
        ------
        InputError
            If the address cannot be used; the message does not repeat it.
        """
        return cls(address)

    @abstractmethod
    def open(self, broker: BrokerId, how: Opening) -> Store:
        """Return the store of a broker, or of the rendezvous point, with what was committed to it before.

        Raises
        ------
        StorageFailed
            If it cannot be read, or it shall be fresh and is not, or a later process of the broker has it.
        """

    @abstractmethod
    def show(self) -> str:
        """Return the address without secrets."""

    @abstractmethod
    def claim(self, how: Opening) -> None:
        """Refuse the address to other networks for the lifetime of this process; claiming again checks the claim.

        It has nothing to do where only one process can have the store of the rendezvous point open.

        Raises
        ------
        StorageFailed
            If another network has claimed it.
        """

    def part(self, name: str) -> str | Path:
        """Return the address of a separate part: `name` has small letters, digits and ``-``."""
        return f"{self.address}/{name}"

    def beside(self, folder: Path) -> str | Path:
        """Return the address as it reads in a file of a folder: relative paths begin there."""
        return self.address

    def close(self) -> None:
        """Close what the stores share, if anything; each store is closed by itself."""
        return
