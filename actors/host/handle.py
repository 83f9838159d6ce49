"""The typed handle of a host's actor: every call that one process makes to the `BrokerHost` of another.

Rules
-----
* A method here has the name and the arguments of the method of `BrokerHost` that it calls; a test compares them.
  So mypy checks what one process asks of another.
* A call is made at once, and calls of one process to one host begin there in the order in which they were made.
  The answer can be awaited, or waited for with ``ray.get``; who ignores it does not wait.
* `publish`, `poll` and `receive` carry events: their arguments and answers travel as bytes (`frames`).
* With channels, these and everything else whose order matters to them (`request`, `end_session`, `host_beat`) go by
  the channel to the host if there is one. Everything else, and a reference into the object store, goes by Ray.
* The handle is put around the actor where a call is made. Directories, messages and comparisons hold Ray's own
  handle, which Ray serialises, kills and compares.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypeVar

import ray
from ray import ObjectRef

from ...protocol.batch import EventBatch
from ...protocol.configs import Position
from ...protocol.ids import BrokerId, ClientId
from ...protocol.messages.payloads import Bytes, Outcome, Payload
from ...protocol.messages.pubsub import Events, Numbered
from ...protocol.queries import Said
from ..answers import answered
from ..channels.lanes import Lane
from ..channels.pool import Channels
from ..channels.replies import Reply
from ..later import Later
from .frames import called, in_pieces, load_of, packed, published_of, unpacked
from .outbox import LinkMessage
from .requests import Request

if TYPE_CHECKING:
    from ...recovery.replay.history import Page, ReadHistory
    from ..channels.config import Door
    from .sessions import Taken
    from .standing import Stands
    from .survey import Look


AHEAD_EVENTS: Final = 64
"""How many notifications a poll brings, as parts of its answer, before it is answered and another one acknowledges."""

T = TypeVar("T")

Question: TypeAlias = Literal[
    "accepted_here",
    "books",
    "check",
    "cpu_seconds",
    "dead_letters",
    "describe",
    "durables",
    "flush_telemetry",
    "history",
    "inject",
    "look",
    "own_bytes",
    "quiet",
    "seen",
    "survey",
]
"""What is asked of every host of a network alike; these are methods of `BrokerHost`."""


Answer: TypeAlias = ObjectRef[T] | Reply[T]
"""The answer to a call that carries something; it can be awaited. A thread waits for it with `waited`."""


class HostHandle:
    """What other processes ask of a host.

    Parameters
    ----------
    actor
        The actor of the host.
    channels
        Those of this process; None where all calls go by Ray.
    again
        How often Ray repeats a call on a restarted host (``max_task_retries``); -1 without limit. Only for
        questions, which may be asked twice.
    """

    __slots__ = ("_actor", "_again", "_way")

    def __init__(self, actor: Any, channels: Channels | None = None, *, again: int = 0) -> None:
        self._actor = actor
        self._way = None if channels is None else channels.way(actor)
        self._again = again

    def _call(self, method: str, *arguments: Any) -> ObjectRef[Any]:
        made = getattr(self._actor, method)
        if self._again:
            made = made.options(max_task_retries=self._again)
        return made.remote(*arguments)

    # Between brokers.

    async def receive(
        self,
        to: BrokerId,
        source: BrokerId,
        messages: Sequence[LinkMessage],
        incarnation: int = 0,
        *since: float,
    ) -> str:
        """Hand messages, or a reference to them in the object store, to a broker; return the Ray node of its host."""
        if not isinstance(messages, ObjectRef):
            return await self._ask((to, source), load_of(to, source, messages, incarnation, *since))  # type: ignore[no-any-return]
        said = (incarnation, *since) if incarnation or since else ()
        if self._way is None:
            return await self._call("receive", to, source, messages, *said)  # type: ignore[no-any-return]
        lane = self._way.lane((to, source))
        await lane.enter_ray()
        return await _by_ray(lane, self._call("receive", to, source, messages, *said))

    def send(
        self,
        to: BrokerId,
        source: BrokerId,
        messages: Sequence[LinkMessage],
        incarnation: int = 0,
        *since: float,
    ) -> Later[Any] | None:
        """Do what `receive` does, at once, by the channel; return None if the next call of the link cannot go by it.

        The answer is as it has come.
        """
        if self._way is None:
            return None
        lane = self._way.straight((to, source))
        if lane is None:
            return None
        return self._way.call_straight(lane, load_of(to, source, messages, incarnation, *since))

    async def _ask(self, sender: Any, content: bytes) -> Any:
        """Make a call of bytes of a sender, whose calls begin in order; return the answer."""
        if self._way is None:
            return unpacked([await answered(self._actor.call.remote(*in_pieces(content)))])
        lane = self._way.lane(sender)
        if lane.enter(self._way.ready):
            return unpacked([await self._way.call(lane, content)])
        return unpacked([await _by_ray(lane, self._actor.call.remote(*in_pieces(content)))])

    def _post(self, written: Callable[[], bytes], by_ray: Callable[[], ObjectRef[T]]) -> Answer[T]:
        """Make a call of a client process, whose calls begin in order; from any thread."""
        if self._way is None:
            return by_ray()
        reply: Reply[T] = Reply()
        self._way.post(written(), reply, by_ray)
        return reply

    def tell(self, to: BrokerId, source: BrokerId, messages: Sequence[LinkMessage]) -> ObjectRef[str]:
        """Hand messages to a broker as `receive` does, by a call of Ray alone; for the rendezvous point."""
        return self._call("receive", to, source, messages)

    async def host_beat(self, host: str, stands: Sequence[Stands]) -> list[bool]:
        """Tell the host that another host lives; `stands` says what changes in the heartbeats that this replaces.

        Returns which of the changes it has taken.
        """
        if self._way is None:
            return await self._call("host_beat", host, stands)  # type: ignore[no-any-return]
        return await self._ask(host, packed(("host_beat", (host, stands))))  # type: ignore[no-any-return]

    # Of clients.

    def request(
        self, at: BrokerId, client: ClientId, messages: Sequence[Request], session: str = ""
    ) -> Answer[Any]:
        """Pass a client's messages to its broker, in order; the answer is the answer to the last (see `requests`)."""
        said = at, client, messages, *((session,) if session else ())
        return self._post(lambda: packed(("request", said)), lambda: self._call("request", *said))

    def publish(
        self,
        at: BrokerId,
        client: ClientId,
        messages: Sequence[Events | Numbered],
        since: float,
        ticket: str = "",
    ) -> Answer[Any]:
        """Pass a publisher's events to its broker, which accepts them.

        `since` is when the publisher called, and `ticket` that of the call by which it attached.
        """
        said = at, client, messages, ticket, since
        return self._post(lambda: published_of(*said), lambda: called(self._actor, "request", *said))

    async def poll(
        self,
        session: str,
        acknowledged: int,
        timeout_seconds: float,
        take: Callable[[list[Any]], None] | None = None,
    ) -> list[Any]:
        """Fetch the delivery batches that wait for a client process; see :meth:`Session.poll`.

        Over a channel, `take` gets what comes while the poll waits, in the turn of the event loop in which it comes,
        as long as little is sent that no poll has acknowledged.
        """
        if take is not None and self._way is not None:
            lane = self._way.straight(session)
            if lane is not None:
                content = packed(("poll", (session, acknowledged, timeout_seconds, AHEAD_EVENTS)))
                lane.enter(True)
                return unpacked([await self._way.call(lane, content, lambda part: take(unpacked([part])))])  # type: ignore[no-any-return]
        content = packed(("poll", (session, acknowledged, timeout_seconds)))
        return await self._ask(session, content)  # type: ignore[no-any-return]

    def end_session(self, name: str) -> Answer[None]:
        """Let the host forget a client process."""
        return self._post(lambda: packed(("end_session", (name,))), lambda: self._call("end_session", name))

    def alive(self, name: str) -> ObjectRef[list[Taken]]:
        """Give a sign of life of a process that does not poll; the answer is which of its names were taken over."""
        return self._call("alive", name)

    def evict(
        self, kind: str, client: ClientId, broker: BrokerId, session: str, ticket: str, durable: bool
    ) -> ObjectRef[None]:
        """End what is left of a client whose name is in use by another process; see :meth:`Attachments.evict`."""
        return self._call("evict", kind, client, broker, session, ticket, durable)

    def ping(self, at: BrokerId) -> ObjectRef[str]:
        """Ask for the Ray node of the host, once the broker has handled everything that arrived before."""
        return self._call("ping", at)

    def read_history(self, broker: BrokerId, query: ReadHistory) -> ObjectRef[Page]:
        """Ask for a page of the history of a broker."""
        return self._call("read_history", broker, query)

    # Payloads; see `Payloads`.

    def bulk_targets(self, at: BrokerId, batch: EventBatch) -> ObjectRef[tuple[BrokerId, ...]]:
        """Ask which brokers have subscribers of a payload."""
        return self._call("bulk_targets", at, batch)

    def bulk_begin(self, to: BrokerId, payload: Payload) -> ObjectRef[int]:
        """Prepare a broker for a payload; the answer is how many slices are there."""
        return self._call("bulk_begin", to, payload)

    def bulk_slices(self, to: BrokerId, name: str, first: int, part: Bytes) -> ObjectRef[None]:
        """Send the slices of a payload from number `first` on."""
        return self._call("bulk_slices", to, name, first, part)

    def bulk_end(self, to: BrokerId, name: str) -> ObjectRef[Outcome]:
        """Say that all slices of a payload were sent; the answer is the outcome at all brokers behind this one."""
        return self._call("bulk_end", to, name)

    def payload(self, at: BrokerId, name: str, start: int) -> ObjectRef[tuple[int, Bytes]]:
        """Ask for the size of a payload, and its bytes from `start` on."""
        return self._call("payload", at, name, start)

    def payload_part(self, at: BrokerId, name: str, start: int) -> ObjectRef[tuple[Payload, Bytes] | None]:
        """Ask for the description of a payload, and its bytes from `start` on."""
        return self._call("payload_part", at, name, start)

    # Launching, and brokers that are started again.

    def start_brokers(self, positions: Sequence[Position], incarnation: int = 0) -> ObjectRef[None]:
        """Make the brokers of these positions."""
        return self._call("start_brokers", positions, incarnation)

    def start_newcomer(self, position: Position, incarnation: int) -> ObjectRef[None]:
        """Make a broker that joins a running network."""
        return self._call("start_newcomer", position, incarnation)

    def connect(self, hosts: Mapping[BrokerId, Any], rendezvous: Any = None) -> ObjectRef[None]:
        """Make the links of every broker of the host."""
        return self._call("connect", hosts, rendezvous)

    def begin(self) -> ObjectRef[None]:
        """Start ticking, once every host is connected."""
        return self._call("begin")

    def relink(self, broker: BrokerId, host: Any, incarnation: int) -> ObjectRef[None]:
        """Tell the host the new actor of a broker."""
        return self._call("relink", broker, host, incarnation)

    # Questions about the host.

    def door(self) -> ObjectRef[Door | None]:
        """Ask where the host takes channels."""
        return self._call("door")

    def pid(self) -> ObjectRef[tuple[str, int]]:
        """Ask for the Ray node and the process id."""
        return self._call("pid")

    def machine(self) -> ObjectRef[str]:
        """Ask for what tells the machine of the host from others; "" if that is unknown."""
        return self._call("machine")

    def describe(self) -> ObjectRef[dict[BrokerId, dict[str, int]]]:
        """Ask for the sizes of the state of each broker."""
        return self._call("describe")

    def look(self) -> ObjectRef[dict[BrokerId, Look]]:
        """Ask for the status of each broker."""
        return self._call("look")

    def accepted_here(self, *publishers: ClientId) -> ObjectRef[dict[ClientId, int]]:
        """Ask which sequence of each of these publishers, or of all, was accepted last."""
        return self._call("accepted_here", *publishers)

    def flush_telemetry(self) -> ObjectRef[None]:
        """Make the host send its telemetry."""
        return self._call("flush_telemetry")

    def ask(self, question: Question, *arguments: Any) -> ObjectRef[Any]:
        """Ask a question that is put to every host of a network alike, by its name; see `BrokerHost`."""
        return self._call(question, *arguments)

    # Questions of who waits for a network; they go by the channel if one is open, and none is opened for them.

    def quiet(self, deliveries: bool = True) -> Answer[int]:
        """Wait until nothing waits to leave; the answer is how many messages the host has handled."""
        return self._ask_straight("quiet", deliveries)

    def survey(self) -> Answer[dict[BrokerId, Said]]:
        """Ask for the place of each broker, in a network that heals."""
        return self._ask_straight("survey")

    def _ask_straight(self, question: Question, *arguments: object) -> Answer[T]:
        if self._way is None or not self._way.opened:
            return self._call(question, *arguments)
        return self._post(lambda: packed((question, arguments)), lambda: self._call(question, *arguments))

    # Brokers that leave.

    def dismiss(self, broker: BrokerId) -> ObjectRef[None]:
        """Let clients start nothing more at a broker, and send them away."""
        return self._call("dismiss", broker)

    def attached(self, broker: BrokerId) -> ObjectRef[int]:
        """Ask how many subscribers a broker has."""
        return self._call("attached", broker)

    def holds(self, broker: BrokerId) -> ObjectRef[int]:
        """Ask how many durable subscribers a broker holds."""
        return self._call("holds", broker)

    def detach_all(self, broker: BrokerId) -> ObjectRef[None]:
        """Detach all clients of a broker."""
        return self._call("detach_all", broker)

    def left(self, broker: BrokerId) -> ObjectRef[bool]:
        """Ask whether a broker has left the network."""
        return self._call("left", broker)

    def end_broker(self, broker: BrokerId) -> ObjectRef[int]:
        """Remove a broker that has left; the answer is how many brokers are still there."""
        return self._call("end_broker", broker)

    # Faults, for tests.

    def inject(self, fault: Callable[[Any], T]) -> ObjectRef[T]:
        """Call this with the `BrokerHost` in its process; the answer is what it returns."""
        return self._call("inject", fault)


def waited(answer: Answer[T], seconds: float | None) -> T:
    """Wait in a thread for an answer.

    Raises
    ------
    GetTimeoutError
        If there is none in time.
    """
    if isinstance(answer, Reply):
        return answer.result(seconds)
    found: T = ray.get(answer, timeout=seconds)
    return found


async def _by_ray(lane: Lane, call: ObjectRef[T]) -> T:
    """Return the answer to a call of Ray, which is in its lane until it is answered."""
    try:
        answer: T = await answered(call)
    except asyncio.CancelledError:
        loop = asyncio.get_running_loop()

        def leave(_: object) -> None:
            with suppress(RuntimeError):  # the loop has ended: this process calls nobody any more
                loop.call_soon_threadsafe(lane.leave)

        call.future().add_done_callback(leave)
        raise
    except BaseException:
        lane.leave()
        raise
    lane.leave()
    return answer
