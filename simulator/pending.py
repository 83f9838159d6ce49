"""What the actions in the heap of a simulated network are: messages under way, ticks, and what else is to come.

Rule: it reads, and changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MethodType
from typing import Any, Final, NamedTuple, Never, TypeAlias

from ..protocol.effects import Acknowledge, Received
from ..protocol.ids import BrokerId, ClientId
from .faults import Faults
from .hosts import FromClient, Ticket
from .network import SimulatedNetwork, _do
from .sessions import ClientSession, Sessions, say_now_and_then
from .transport import SimulatedTransport

Process: TypeAlias = "BrokerId | ClientId"

MESSAGE, REQUEST, ANSWER, OWN, TICK, TURN, LOST, OTHER = (
    *("message", "request", "answer", "own", "tick", "turn", "lost", "other"),
)
"""From broker to broker; from client to broker; from broker to clients; what a client does of its own; the time; the
next input of a slow process; a message of which an end has died, or whose connection has broken; all else."""
UNDER_WAY: Final = (MESSAGE, REQUEST, ANSWER)


class Pending(NamedTuple):
    """An action that is to come.

    Attributes
    ----------
    kind
        One of the kinds above.
    source, targets
        The processes; brokers are numbers, clients are names.
    what
        The message or effect; what a client does, in words; of other actions the words, or the function.
    values
        What an other action is done with.
    """

    kind: str
    source: Process | None
    targets: tuple[Process, ...]
    what: object = None
    values: tuple[object, ...] = ()


_OWN: Final[Mapping[object, str]] = {
    Sessions._remind: "repeats what is not acknowledged",
    Sessions._acknowledge_later: "acknowledges what it was given",
    Sessions.learn: "looks for a broker",
    say_now_and_then: "reports what it has had",
}
_TICKS: Final = (SimulatedNetwork._tick, SimulatedNetwork._tick_once, SimulatedNetwork._tell_time)


def pending_of(action: Callable[[Never], None], value: object) -> Pending:
    """Return what an action of the heap is."""
    if isinstance(action, MethodType) and isinstance(
        action.__self__, list
    ):  # a connection's `arrive`, on its ticket
        ticket: Ticket = action.__self__
        assert isinstance(value, Received)
        if not ticket:
            return Pending(LOST, value.source, (), value.message)
        return Pending(MESSAGE, value.source, (ticket[0].target.id,), value.message)
    if action is not _do or not isinstance(value, tuple):
        return Pending(OTHER, None, (), action, (value,))
    do, values = value
    function = getattr(do, "__func__", do)
    if function in _TICKS:
        return Pending(TICK, None, (values[0].id,), None, values)
    if function is SimulatedNetwork._serve:
        return Pending(TURN, None, (values[0].id,), do, values)
    return _of_client(function, values) or Pending(OTHER, None, (), _words(function, values) or do, values)


def _words(function: object, values: tuple[Any, ...]) -> str:
    """Return what an action does that has no other words than the name of its function; "" for an action of a user."""
    if function is SimulatedNetwork._drained:
        return f"broker {values[0].id} knows that its clients have what it sent them"
    if function is Faults._tell_dead:
        return f"broker {values[0].id} is told that broker {values[2]} is dead"
    if function is SimulatedTransport._found:
        return f"broker {values[0].id} finds the new process of broker {values[2].id}"
    if function is SimulatedTransport._tell_missed:
        return (
            f"broker {values[0].source.id} is told that the connection to broker {values[0].target.id} broke"
        )
    if function is SimulatedTransport.release:
        return (
            f"the link from broker {values[0].source.id} to broker {values[0].target.id} carries what it held"
        )
    return ""


def _of_client(function: object, values: tuple[Any, ...]) -> Pending | None:
    if function is Sessions._reach:
        host, incarnation, given = values
        assert isinstance(given, FromClient)
        there = host.alive and host.incarnation == incarnation
        return Pending(REQUEST if there else LOST, given.source, (host.id,) if there else (), given.message)
    if function is Sessions._hear:
        return Pending(ANSWER, values[0].id, (values[4].client,), values[4])
    if function is Sessions._notify:
        return Pending(ANSWER, values[0].id, tuple(values[3].clients), values[3])
    if function is Sessions._accepted:
        host, name, _, last = values
        return Pending(ANSWER, host.id, (name,), Acknowledge(name, "events", last))
    if function in _OWN:
        session = next(value for value in values if isinstance(value, ClientSession))
        return Pending(OWN, None, (session.name,), _OWN[function])
    return None


def under_way(network: SimulatedNetwork, others: set[int]) -> Iterator[tuple[int, float, Pending]]:
    """Yield (number, time of arrival, message) of each message under way; a message keeps its number.

    Parameters
    ----------
    network
        The network.
    others
        The numbers of actions that are no messages, as far as they are known from earlier calls; others are added.
    """
    for arrives, order, action, value in network.heap:
        if order in others:
            continue
        found = pending_of(action, value)
        if found.kind in UNDER_WAY:
            yield order, arrives, found
        elif found.kind != LOST:
            others.add(order)


def held(network: SimulatedNetwork) -> Iterator[tuple[BrokerId, BrokerId, int]]:
    """Yield (source, target, how many) of each cut link that holds messages."""
    for connection in network.transport.connections():
        if connection.held:
            yield connection.source.id, connection.target.id, len(connection.held)


__all__ = ["Pending", "Process", "held", "pending_of", "under_way"]
