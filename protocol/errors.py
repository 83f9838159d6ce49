"""Every error that Rayvous raises on purpose, each with a name a caller can catch.

Rule: an :class:`InputError` is the caller's to mend and says what is wrong and where; the command line prints it as
one line and exits with status 2. Every other :class:`RayvousError` is about the state of the system.
"""

from typing import Any


class RayvousError(Exception):
    """Base of all errors that Rayvous raises on purpose."""


class InputError(RayvousError, ValueError):
    """What was given cannot be used; the message says what and where."""


class MissingExtra(InputError):
    """What was asked for needs packages that are not installed; the message has the line that installs them."""


class SelectorError(InputError):
    """A selector is not in the grammar, or compares what cannot be compared.

    Attributes
    ----------
    line, column
        Where, counted from 1; 0 when the place is not known (a filter that was not built from text).
    """

    def __init__(self, message: str, *, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.line = line
        self.column = column


class NoTruthValue(SelectorError, TypeError):
    """A condition was used as a truth value (with ``and``, ``or``, ``not``, ``if``); it has one only for an event."""


class FilterTooComplex(InputError):
    """The normal form of a filter is larger than the limit."""


class EventError(InputError):
    """An event has a bad attribute name, a value of no known kind, or is too large."""


class TopologyError(InputError):
    """The network that was described cannot be built (a degree too small, a broker that is not there)."""


class ScenarioError(InputError):
    """A scenario, workload or input file is missing, empty or broken."""


class NetworkNotFound(InputError):
    """There is no network of that name on this Ray cluster."""


class NetworkExists(InputError):
    """There is already a network of that name on this Ray cluster."""


class ClientError(InputError):
    """A client was used in a way that it does not allow (a name taken, closed already)."""


class BrokerUnavailable(RayvousError):
    """A broker or its host is gone and did not answer."""


class BrokerLeaving(BrokerUnavailable):
    """The broker is about to leave the network: its clients go to another one."""


class SubscriptionTimeout(RayvousError):
    """A subscription was not installed up to the root in the time that the caller allowed."""


class SubscriptionRejected(RayvousError):
    """A network with admission control cannot carry a subscription.

    Attributes
    ----------
    refusals
        What each refusing broker said: `broker`, `resource`, `asked`, `free` and, for bandwidth, `link`.
    asked
        How many brokers were asked.
    """

    def __init__(self, message: str, refusals: tuple[Any, ...] = (), asked: int = 0) -> None:
        super().__init__(message)
        self.refusals = refusals
        self.asked = asked

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.refusals, self.asked)


class NotAdvertised(InputError):
    """A publisher published what none of its advertisements covers."""


class RateExceeded(RayvousError):
    """A publisher published more than it advertised, and had asked to be told so."""


class AccessDenied(RayvousError):
    """A client of a gateway asked for what it has no right to.

    Attributes
    ----------
    right
        Which is missing: ``"token"``, ``"publish"`` or ``"subscribe"``.
    """

    def __init__(self, message: str, right: str = "token") -> None:
        super().__init__(message)
        self.right = right

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.right)


class LimitReached(RayvousError):
    """A client of a gateway asked for more than a limit allows just now.

    Attributes
    ----------
    limit
        The name of the limit, as the file of the network has it.
    after_seconds
        When it may come again; None when waiting does not help.
    """

    def __init__(self, message: str, limit: str = "", after_seconds: float | None = None) -> None:
        super().__init__(message)
        self.limit = limit
        self.after_seconds = after_seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.limit, self.after_seconds)


class KeyReused(InputError):
    """Other events were published under a key before."""


class PublicationUnderWay(RayvousError):
    """What is published again under its key is not known to have been accepted yet, nor not to have been.

    Attributes
    ----------
    after_seconds
        When it may be asked again.
    """

    def __init__(self, message: str, after_seconds: float = 1.0) -> None:
        super().__init__(message)
        self.after_seconds = after_seconds

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self), self.after_seconds)


class StreamEnded(RayvousError):
    """A stream of a gateway brings nothing more: closed, too slow, taken over, or the network is gone."""


class RayUnavailable(RayvousError):
    """Ray could not be started, or the cluster that was named could not be joined."""


class HostsUnavailable(RayvousError):
    """Hosts of one's own cannot be made on this machine; the message says why, and what to do."""


class SparkUnavailable(RayvousError):
    """Spark could not be started: no Ray, no Java where Ray's workers run, or no free CPU for an executor."""


class SimulationStepLimit(RayvousError):
    """A simulation did not come to rest within the steps that its caller allowed."""


class ProcessLost(RayvousError):
    """A process that had a share of the work ended before it was done; the message says what is left."""


class StorageFailed(RayvousError):
    """Stable storage could not be read or written; nothing that depends on it was acknowledged."""


class StateDamaged(StorageFailed):
    """A broker has seen that its state is not what it can have come to by itself: it has to start again."""
