"""How a broker that recovers from crashes sends again, what it keeps, and where (paper 4, section 3).

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
"""What a commit waits for; `faults.durability.sqlite_store` says what each promises."""


@dataclass(frozen=True, slots=True)
class Stability:
    """Times and limits of the crash/recover protocol.

    Attributes
    ----------
    retransmit_seconds
        How long a message may be unacknowledged before it is sent again; then twice as long, and so on.
    retransmit_seconds_max
        The longest such wait.
    window_messages
        Messages of one interface that are under way at once; the rest waits for acknowledgements.
    queue_events_max
        Events (and other messages) of one interface that may wait to be acknowledged; past it the broker takes
        nothing in that could add to them, so whoever sends to it waits, up to the publishers.
    notifications_max
        Notifications of one subscriber that may wait to be acknowledged; past it the oldest are shed and counted.
    inputs_max
        Messages about subscriptions that are kept as they came; past it, and past the number of filters, the broker
        keeps the state that they led to instead.
    """

    retransmit_seconds: float = 0.25
    retransmit_seconds_max: float = 4.0
    window_messages: int = 64
    queue_events_max: int = 131_072
    notifications_max: int = 1_048_576
    inputs_max: int = 1_024

    def validate(self) -> Stability:
        """Return the settings themselves.

        Raises
        ------
        InputError
            If one is not a number above 0.
        """
        positive_fields(self, "stability")
        return self


@dataclass(frozen=True, slots=True)
class Stable:
    """Where the brokers of a network keep what must outlive their processes.

    Attributes
    ----------
    address
        A folder, or ``sqlite:///folder``: it has one file a broker, ``broker-3.sqlite``; on several machines each has
        to see the files of its own brokers. Or ``postgresql://user@host/database?schema=name``: a database outlives the
        machines of the brokers, too. The schema is ``rayvous`` when none is given, and is of one network.
    synchronous
        What a commit waits for: "off", "normal" or "full".
    pages_max
        Pages of 4 KiB that a file may grow to, a limit against full disks; None for none.
    stability
        Times and limits.
    """

    address: str | Path
    synchronous: Synchronous = "normal"
    pages_max: int | None = None
    stability: Stability = field(default_factory=Stability)

    def __repr__(self) -> str:
        """Show all but what may be secret."""
        rest = f"{self.synchronous!r}, pages_max={self.pages_max!r}, stability={self.stability!r}"
        return f"Stable({shown_address(self.address)}, {rest})"

    def validate(self) -> Stable:
        """Return the settings themselves.

        Raises
        ------
        InputError
            If one cannot be used; an address that is wrong is not repeated.
        MissingExtra
            If the address is one of PostgreSQL, and the driver is not installed.
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
        """The database that has the stores; None when they are files."""
        return database_of(self.address) if is_database(self.address) else None

    def file_of(self, broker: BrokerId) -> Path:
        """Return the file where a broker, or the rendezvous point, keeps what it keeps."""
        name = "rendezvous" if broker == RENDEZVOUS else f"broker-{broker}"
        return folder_of(self.address).absolute() / f"{name}.sqlite"
