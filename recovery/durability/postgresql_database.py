"""The address of stores in PostgreSQL: what a driver needs of it, what may be shown, and what must not.

The address is a URL of libpq with all its parameters, and ``schema``. This module imports no driver.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from ...protocol.errors import InputError

DEFAULT_SCHEMA: Final = "rayvous"

_HOST: Final = r"(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]*)(?::[0-9]{1,5})?"
_ADDRESS: Final = re.compile(
    r"(?:postgresql|postgres)://"
    r"(?:(?P<user>[^:@/?#\s]*)(?::(?P<password>[^@/?#\s]*))?@)?"
    rf"(?P<hosts>{_HOST}(?:,{_HOST})*)"
    r"(?:/(?P<database>[^/@:?#\s]*))?"
    r"(?:\?(?P<query>[^#\s]*))?"
)
_BAD_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,62}")


@dataclass(frozen=True, slots=True)
class Database:
    """A PostgreSQL database that holds the stores of a network.

    Attributes
    ----------
    conninfo
        The connection string for libpq; it may have a password.
    schema
        The schema of the tables.
    shown
        The address without secrets.
    secrets
        The texts to remove from the driver's messages.
    """

    conninfo: str = field(repr=False)
    schema: str
    shown: str
    secrets: tuple[str, ...] = field(default=(), repr=False)

    def told(self, error: object) -> str:
        """Return a driver's error message on one line, without secrets."""
        text = " ".join(str(error).split())
        for secret in self.secrets:
            text = text.replace(secret, "***")
        return text


def database_of(address: str) -> Database:
    """Return the database that an address names.

    Raises
    ------
    InputError
        If the address cannot be parsed; the message does not repeat it.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None or _BAD_ESCAPE.search(address):
        raise InputError(
            "address: this address of PostgreSQL cannot be read (it is not shown, as it may hold a password): write "
            "postgresql://user@host:port/database?schema=name, with % and two digits for what is special in a name"
        )
    query = dict(part.partition("=")[::2] for part in (found["query"] or "").split("&") if part)
    schema = query.pop("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise InputError(f"address: schema is {schema!r}: it must have small letters, digits and _ only")
    bare = address.partition("?")[0]
    user = f"{found['user']}@" if found["user"] else ""
    named = f"/{found['database']}" if found["database"] else ""
    secrets = [found["password"] or "", *(query.get(key, "") for key in ("password", "sslpassword"))]
    return Database(
        conninfo=f"{bare}?{'&'.join(map('='.join, query.items()))}" if query else bare,
        schema=schema,
        shown=f"postgresql://{user}{found['hosts']}{named}?schema={schema}",
        secrets=tuple({each for secret in secrets if secret for each in (secret, unquote(secret))}),
    )
