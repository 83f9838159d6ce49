"""Settings of brokers that recover from crashes: retransmission, limits and storage (paper 4, section 3).

Every queue of such a broker has its limit here (promise 9).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal, TypeAlias

from .checks import instance, one_of, positive_fields, whole_number
from .errors import InputError
from .extras import require
from .ids import BrokerId
from .messages.recovery import RENDEZVOUS
from .stores import Database, database_of, folder_of, is_database, shown_address

Synchronous: TypeAlias = Literal["off", "normal", "full"]
SYNCHRONOUS: Final = ("off", "normal", "full")
"""What a commit waits for; `recovery.durability.sqlite_store` says what each setting guarantees."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Timeouts and limits of the crash-recovery protocol.

    Attributes
    ----------
    retransmit_seconds
        How long a message may be unacknowledged before it is retransmitted; the wait doubles with each
        retransmission.
    retransmit_seconds_max
        The longest such wait.
    window_messages
        Messages of one interface that may be in flight at once; the others wait for acknowledgements.
    queue_events_max
        Events (and other messages) of one interface that may wait to be acknowledged. Past this limit the broker
        accepts nothing that could add to them, so its senders wait; the backpressure reaches the publishers.
    notifications_max
        Notifications of one subscriber that may wait to be acknowledged. Past this limit the oldest are shed
        and counted.
    inputs_max
        Messages about subscriptions that are stored as received. Past this limit, and past the number of filters,
        the broker stores the resulting state instead.
    """

    retransmit_seconds: float = 0.25
    retransmit_seconds_max: float = 4.0
    window_messages: int = 64
    queue_events_max: int = 131_072
    notifications_max: int = 1_048_576
    inputs_max: int = 1_024

    def validate(self) -> Stability:
        """Validate the settings and return them.

        Raises
        ------
        InputError
            If a setting is not a number above 0.
        """
        positive_fields(self, "stability")
        return self


@dataclass(frozen=True, slots=True)
class Stable:
    """Where the brokers of a network store the state that must outlive their processes.

    Attributes
    ----------
    address
        A folder, or ``sqlite:///folder``: it holds one file per broker, ``broker-3.sqlite``. On several machines
        each machine must see the files of its own brokers. Alternatively
        ``postgresql://user@host/database?schema=name``: a database also outlives the machines of the brokers. The
        schema is ``rayvous`` when none is given; a schema belongs to one network.
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
            If the address names PostgreSQL and the driver is not installed.
        """
        one_of("synchronous", self.synchronous, SYNCHRONOUS)
        if self.pages_max is not None:
            whole_number("pages_max", self.pages_max, 1)
        instance("stability", self.stability, Stability, "a Stability()").validate()
        if self.database is None:
            folder_of(self.address)
            return self
        if self.pages_max is not None:
            raise InputError("pages_max is a limit of files: a database has limits of its own")
        require("postgresql")
        return self

    @property
    def database(self) -> Database | None:
        """The database that holds the stores; None when the stores are files."""
        return database_of(self.address) if is_database(self.address) else None

    def file_of(self, broker: BrokerId) -> Path:
        """Return the store file of a broker or of the rendezvous point."""
        name = "rendezvous" if broker == RENDEZVOUS else f"broker-{broker}"
        return folder_of(self.address).absolute() / f"{name}.sqlite"
