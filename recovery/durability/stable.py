"""Where the stores of a network are: an address, and the backend that its scheme names.

Rules
-----
* An address is a folder, or begins with a scheme: that of a row of `BACKENDS`, or ``module:Class://`` for a backend of
  a user. Every process that hosts brokers imports that module by name, so it must be importable there.
* An error about an invalid address does not repeat it, since it may contain a password.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ...protocol.checks import instance, one_of, whole_number
from ...protocol.errors import InputError
from ...protocol.extras import require
from ...protocol.stability import SYNCHRONOUS, Stability, Synchronous
from ...routing.schemes.own import own
from .backend import Backend
from .postgresql_backend import PostgresqlBackend
from .sqlite_store import SqliteBackend

BACKENDS: Final[dict[str, type[Backend]]] = {
    "sqlite": SqliteBackend,
    "postgresql": PostgresqlBackend,
    "postgres": PostgresqlBackend,
}
"""The built-in backends by the scheme of their addresses. A folder is an address of the first one."""

_SCHEME: Final = re.compile(r"([A-Za-z_][\w.]*:[A-Za-z_]\w*(?=://)|[A-Za-z][A-Za-z0-9+.-]+(?=:/))")


def backend_of(address: str | Path) -> Backend:
    """Return the backend of an address. It opens nothing yet.

    Raises
    ------
    InputError
        If no backend has that scheme, or the address cannot be used.
    """
    found = _SCHEME.match(str(address)) if isinstance(address, str | Path) else None
    if found is None:
        return SqliteBackend.parse(address)
    kind = _own(found[0]) if ":" in found[0] else BACKENDS.get(found[0].lower())
    if kind is None:
        forms = ", ".join(dict.fromkeys(each.form for each in BACKENDS.values()))
        raise InputError(
            f"address: {found[0]}:/... is not a known kind of address: it must be a folder, {forms}, or "
            "module:Class://... for a backend of your own"
        )
    return kind.parse(address)


def _own(name: str) -> type[Backend]:
    found: type[Backend] = own(name)
    if not issubclass(found, Backend):
        raise InputError(f"address: {name} is not a backend: derive it from {Backend.__module__}.Backend")
    return found


def part_of(address: str | Path, name: str) -> str | Path:
    """Return the address of a separate part below an address; see `Backend.part`."""
    return backend_of(address).part(name)


def shown_address(address: str | Path) -> str:
    """Return an address in a form without secrets."""
    try:
        return repr(backend_of(address).show())
    except InputError:
        return "an address that cannot be used"


@dataclass(frozen=True, slots=True)
class Stable:
    """Where the brokers of a network store the state that must outlive their processes.

    Attributes
    ----------
    address
        A folder, or ``sqlite:///folder``: it holds one file per broker, ``broker-3.sqlite``. On several machines
        each machine must see the files of its own brokers. Alternatively
        ``postgresql://user@host/database?schema=name``: a database also outlives the machines of the brokers. The
        schema is ``rayvous`` when none is given; a schema belongs to one network. Alternatively
        ``module:Class://...``: a backend of your own.
    synchronous
        What a commit waits for: "off", "normal" or "full".
    pages_max
        Maximum size of a file in pages of 4 KiB, which protects against full disks; None for no limit.
    stability
        Timeouts and limits.
    """

    address: str | Path
    synchronous: Synchronous = "normal"
    pages_max: int | None = None
    stability: Stability = field(default_factory=Stability)

    def __repr__(self) -> str:
        """Show everything except possible secrets."""
        rest = f"{self.synchronous!r}, pages_max={self.pages_max!r}, stability={self.stability!r}"
        return f"Stable({shown_address(self.address)}, {rest})"

    def validate(self) -> Stable:
        """Validate the settings and return them.

        Raises
        ------
        InputError
            If a setting cannot be used. The message does not repeat an invalid address.
        MissingExtra
            If the driver of the address is not installed.
        """
        one_of("synchronous", self.synchronous, SYNCHRONOUS)
        if self.pages_max is not None:
            whole_number("pages_max", self.pages_max, 1)
        instance("stability", self.stability, Stability, "a Stability()").validate()
        backend = self.backend()
        if self.pages_max is not None and not backend.limits_pages:
            raise InputError("pages_max is a limit of files: a database has limits of its own")
        if backend.extra is not None:
            require(backend.extra)
        return self

    def backend(self) -> Backend:
        """Return the stores at this address, none of which is open yet."""
        return backend_of(self.address)
