"""Stores in SQLite files of one folder: ``broker-3.sqlite``, ``rendezvous.sqlite``.

A file is open in one process at a time, so the file of the rendezvous point is the claim of a network.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ...protocol.checks import path
from ...protocol.errors import InputError, StorageFailed
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS
from .backend import Backend, Opening
from .identity import IDENTITY
from .sqlite_store import SqliteStore
from .stores import Store

_SQLITE: Final = "sqlite:///"


class SqliteBackend(Backend):
    """The files of a folder, which the first store that is opened creates.

    Parameters
    ----------
    address
        The folder, or ``sqlite:///folder`` (``sqlite:////folder`` from the root).
    """

    form = "sqlite:///folder"
    limits_pages = True

    def __init__(self, address: str | Path) -> None:
        super().__init__(address)
        named = isinstance(address, str) and address.startswith(_SQLITE) and address != _SQLITE
        if not named and str(address).lower().startswith("sqlite:/"):
            raise InputError(f"address: an address of files is a folder, or {self.form}")
        self.folder = path("address", str(address).removeprefix(_SQLITE) if named else address)

    def open(self, broker: BrokerId, how: Opening) -> Store:
        """Return the store in a broker's file."""
        file = self.file_of(broker)
        store = SqliteStore(file, how.synchronous, how.pages_max, how.wait_seconds)
        if how.fresh and any(True for _ in store.rows(IDENTITY)):
            raise StorageFailed(
                f"{file} belongs to an earlier network: name an empty directory, or remove it"
            )
        return store

    def claim(self, how: Opening) -> None:
        """Do nothing: the file of the rendezvous point is the claim."""

    def show(self) -> str:
        """Return the folder."""
        return str(self.folder)

    def part(self, name: str) -> Path:
        """Return a folder below this one."""
        return self.folder / name

    def beside(self, folder: Path) -> Path:
        """Return the folder, relative to another one unless it is absolute."""
        return folder / self.folder

    def file_of(self, broker: BrokerId) -> Path:
        """Return the file of a broker or of the rendezvous point."""
        name = "rendezvous" if broker == RENDEZVOUS else f"broker-{broker}"
        return self.folder.absolute() / f"{name}.sqlite"
