"""Addresses of stores (a folder of files, or a database), and how addresses are shown.

Rules
-----
* An address is a folder, ``sqlite:///folder`` (``sqlite:////folder`` from the root), or
  ``postgresql://user@host:port/database?schema=flights``.
* An address may contain a password, so it is never shown in full: not in errors, not in a repr. An error about an
  invalid address does not repeat it.
* This module opens nothing.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

from .checks import path
from .errors import InputError

DEFAULT_SCHEMA: Final = "rayvous"

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
_SQLITE: Final = "sqlite:///"
_POSTGRESQL: Final = ("postgresql", "postgres")
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


def is_database(address: str | Path) -> bool:
    """Return whether an address names PostgreSQL."""
    found = _SCHEME.match(str(address)) if isinstance(address, str | Path) else None
    return found is not None and found[1].lower() in _POSTGRESQL


def folder_of(address: str | Path) -> Path:
    """Return the folder that an address names.

    Raises
    ------
    InputError
        If it names none.
    """
    if isinstance(address, str) and address.startswith(_SQLITE) and address != _SQLITE:
        return path("address", address.removeprefix(_SQLITE))
    if isinstance(address, str | Path) and (found := _SCHEME.match(str(address))):
        raise InputError(
            f"address: {found[1]}:/... is not a known kind of address: it must be a folder, sqlite:///folder, or "
            "postgresql://user@host/database"
        )
    return path("address", address)


def database_of(address: str | Path) -> Database:
    """Return the database that an address of PostgreSQL names.

    Raises
    ------
    InputError
        If the address cannot be parsed; the message does not repeat it.
    """
    text = str(address)
    found = _ADDRESS.fullmatch(text)
    if found is None or _BAD_ESCAPE.search(text):
        raise InputError(
            "address: this address of PostgreSQL cannot be read (it is not shown, as it may hold a password): write "
            "postgresql://user@host:port/database?schema=name, with % and two digits for what is special in a name"
        )
    query = dict(part.partition("=")[::2] for part in (found["query"] or "").split("&") if part)
    schema = query.pop("schema", DEFAULT_SCHEMA)
    if not _SCHEMA.fullmatch(schema):
        raise InputError(f"address: schema is {schema!r}: it must have small letters, digits and _ only")
    bare = text.partition("?")[0]
    user = f"{found['user']}@" if found["user"] else ""
    named = f"/{found['database']}" if found["database"] else ""
    secrets = [found["password"] or "", *(query.get(key, "") for key in ("password", "sslpassword"))]
    return Database(
        conninfo=f"{bare}?{'&'.join(map('='.join, query.items()))}" if query else bare,
        schema=schema,
        shown=f"postgresql://{user}{found['hosts']}{named}?schema={schema}",
        secrets=tuple({each for secret in secrets if secret for each in (secret, unquote(secret))}),
    )


def apart(address: str | Path, name: str) -> str | Path:
    """Return the address of a separate part below an address: a subfolder, or a schema with a suffix.

    Parameters
    ----------
    address
        The address of the whole.
    name
        The name of the part: small letters, digits and ``-``; in the name of a schema, ``-`` becomes ``_``.
    """
    if not is_database(address):
        return folder_of(address) / name
    bare, _, query = str(address).partition("?")
    rest = [part for part in query.split("&") if part and part.partition("=")[0] != "schema"]
    schema = f"{database_of(address).schema}_{name.replace('-', '_')}"
    return f"{bare}?{'&'.join([*rest, f'schema={schema}'])}"


def shown_address(address: Any) -> str:
    """Return an address in a form without secrets."""
    try:
        return repr(database_of(address).shown if is_database(address) else str(folder_of(address)))
    except InputError:
        return "an address that cannot be used"
