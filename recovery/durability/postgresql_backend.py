"""Stores in PostgreSQL by address: ``postgresql://user@host:port/database?schema=flights``.

This module imports no driver: it reads addresses (`postgresql_database`) on machines that have none, and
`postgresql_store` is imported with the first store.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ...protocol.ids import BrokerId
from .backend import Backend, Opening
from .postgresql_database import database_of
from .stores import Store

if TYPE_CHECKING:
    from .postgresql_store import PostgresqlStores


class PostgresqlBackend(Backend):
    """The stores in one schema of a database.

    Parameters
    ----------
    address
        The address.
    """

    form = "postgresql://user@host/database"
    extra = "postgresql"

    def __init__(self, address: str | Path) -> None:
        super().__init__(address)
        self.database = database_of(str(address))
        self._stores: PostgresqlStores | None = None

    def open(self, broker: BrokerId, how: Opening) -> Store:
        """Return a broker's rows, and begin its next incarnation."""
        return self._shared(how).store_of(broker, how.incarnation, fresh=how.fresh)

    def claim(self, how: Opening) -> None:
        """Claim the schema."""
        self._shared(how).claim(how.wait_seconds)

    def show(self) -> str:
        """Return the address without passwords and settings of the connection."""
        return self.database.shown

    def part(self, name: str) -> str:
        """Return the address of a schema whose name has a suffix: ``-`` becomes ``_``."""
        bare, _, query = str(self.address).partition("?")
        rest = [part for part in query.split("&") if part and part.partition("=")[0] != "schema"]
        schema = f"schema={self.database.schema}_{name.replace('-', '_')}"
        return f"{bare}?{'&'.join([*rest, schema])}"

    def close(self) -> None:
        """Close the connections."""
        if self._stores is not None:
            self._stores.close()

    def _shared(self, how: Opening) -> PostgresqlStores:
        if self._stores is None:
            from .postgresql_store import PostgresqlStores

            self._stores = PostgresqlStores(self.database, how.synchronous)
        return self._stores
