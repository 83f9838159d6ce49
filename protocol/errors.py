"""Every error that Rayvous raises on purpose, each with a name that a caller can catch.

Rule: the caller can fix an :class:`InputError`; its message says what is wrong and where. The command line prints
it as one line and exits with status 2. Every other :class:`RayvousError` is about the state of the system.
"""

from pathlib import Path
from typing import Any


class RayvousError(Exception):
    """Base of all errors that Rayvous raises on purpose."""


class InputError(RayvousError, ValueError):
    """The input cannot be used; the message says what is wrong and where."""


class MissingExtra(InputError):
    """The request needs packages that are not installed; the message has the command that installs them."""


class SelectorError(InputError):
    """A selector does not follow the grammar, or compares values that cannot be compared.

    Attributes
    ----------
    line, column
        The position, counted from 1; 0 when it is not known (a filter that was not built from text).
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class NoTruthValue(SelectorError, TypeError):
    """A condition was used as a truth value (with ``and``, ``or``, ``not``, ``if``); only an event gives it one."""


class FilterTooComplex(InputError):
    """The normal form of a filter exceeds the limit."""


class EventError(InputError):
    """An event has an invalid attribute name or a value of no known kind, or is too large."""


class TopologyError(InputError):
    """The described network cannot be built (for example, its degree is too small or a broker does not exist)."""


class ScenarioError(InputError):
    """A scenario, workload or input file is missing, empty or broken."""


class UnreadableFile(InputError):
    """A file of telemetry or of a trace is not as it was written: cut, changed, of another program or version.

    Attributes
    ----------
    path
        The file.
    table
        The table whose part it is, or "".
    row
        The row, from 1, or None if it is about the whole file.
    why
        What is wrong.
    """

    def __init__(self, path: Path | str, why: str, table: str = "", row: int | None = None) -> None:
        place = "".join((f"table {table}, " if table else "", f"row {row}, " if row is not None else ""))
        super().__init__(f"{path}: {place[:-2]}: {why}" if place else f"{path}: {why}")
        self.path, self.table, self.row, self.why = Path(path), table, row, why

    def __reduce__(self) -> tuple[object, ...]:
        return UnreadableFile, (self.path, self.why, self.table, self.row)


class NetworkNotFound(InputError):
    """No network of that name exists on this Ray cluster."""


class NetworkExists(InputError):
    """A network of that name already exists on this Ray cluster."""


class ClientError(InputError):
    """A client was used in an invalid way (for example, its name is taken or it is already closed)."""


class NameTaken(ClientError):
    """The name of a client is in use by another process, or another process has taken it over."""


class BrokerUnavailable(RayvousError):
    """A broker or its host is unreachable and did not answer."""


class BrokerLeaving(BrokerUnavailable):
    """The broker is about to leave the network; its clients must move to another broker."""


class GroupEnded(ClientError):
    """A consumer group has ended, or another process has its name: its workers get nothing more."""


class NotGiven(ClientError):
    """A worker of a group settles an event that was not given to it, or was taken from it since."""


class NotARequest(InputError):
    """An event does not say to whom a reply would go."""


class RequestTimeout(RayvousError, TimeoutError):
    """No reply to a request came in time. It may or may not have been carried out."""


class TooManyKeys(ClientError):
    """A subscriber asked for the last event of each key, and there are more keys than are kept for it."""


class SubscriptionTimeout(RayvousError):
    """A subscription was not installed up to the root within the caller's timeout."""


class SubscriptionRejected(RayvousError):
    """A network with admission control cannot carry a subscription.

    Attributes
    ----------
    refusals
        The reason of each refusing broker: `broker`, `resource`, `asked`, `free` and, for bandwidth, `link`.
    asked
        How many brokers were asked.
    """

    def __init__(self, message: str, refusals: tuple[Any, ...] = (), asked: int = 0) -> None:
        super().__init__(message)
        self.refusals = refusals
        self.asked = asked

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.refusals, self.asked)


class NotAdvertised(InputError):
    """A publisher published an event that none of its advertisements covers."""


class RateExceeded(RayvousError):
    """A publisher exceeded its advertised rate, and had asked for an error in this case."""


class AccessDenied(RayvousError):
    """A gateway client requested something that it has no right to.

    Attributes
    ----------
    right
        The missing right: ``"token"``, ``"publish"`` or ``"subscribe"``.
    """

    def __init__(self, message: str, right: str = "token") -> None:
        super().__init__(message)
        self.right = right

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.right)


class LimitReached(RayvousError):
    """A gateway client requested more than a limit allows at the moment.

    Attributes
    ----------
    limit
        The name of the limit, as in the network file.
    after_seconds
        How long the client should wait before it retries; None when waiting does not help.
    """

    def __init__(self, message: str, limit: str = "", after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.after_seconds = after_seconds

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.limit, self.after_seconds)


class KeyReused(InputError):
    """Different events were already published under this key."""


class PublicationUnderWay(RayvousError):
    """A publication was retried under its key while the outcome of the first attempt is still unknown.

    Attributes
    ----------
    after_seconds
        How long the client should wait before it retries.
    """

    def __init__(self, message: str, after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.after_seconds)


class StreamEnded(RayvousError):
    """A gateway stream has ended: it was closed, too slow or taken over, or the network is gone."""


class RayUnavailable(RayvousError):
    """Ray could not be started, or the named cluster could not be joined."""


class HostsUnavailable(RayvousError):
    """Emulated hosts cannot be created on this machine; the message says why, and what to do."""


class SparkUnavailable(RayvousError):
    """Spark could not be started: no Ray, no Java where Ray's workers run, or no free CPU for an executor."""


class SimulationStepLimit(RayvousError):
    """A simulation did not become quiescent within the number of steps that its caller allowed."""


class ProcessLost(RayvousError):
    """A worker process ended before its share of the work was done; the message says what remains."""


class StorageFailed(RayvousError):
    """Stable storage could not be read or written. Nothing that depends on the failed operation was acknowledged."""


class StateDamaged(StorageFailed):
    """A broker has found its state damaged, that is, not reachable by its own transitions. The broker must restart."""
