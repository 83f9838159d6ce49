"""The multicast group of a cluster, on Ray: one object in the store, read by every member (paper 1: MC).

Rules
-----
* A large load is put into the object store once and its reference is sent to the members, so a node holds one
  copy however many members read it. A small load travels inside the calls, which is quicker than a trip to the
  store. So does a load that a full store does not accept.
* The group reports each load: how many calls it took, to how many nodes, and how many bytes of events were
  written for it. A member reports its node with its answer.
* A member of the same process takes a load at once, without a task: in a large cluster that is most of what its
  beats cost. After some of them others on the event loop have a turn (`transport.PASSED_AT_ONCE`).
* A dead member does not block the others. In a network that heals, a member that does not answer does not block
  them either: the group waits `patience_seconds` for it with each call, and the calls stay in flight in order.
  The group does not wait for a member whose host is unreachable while few calls to it are in flight. Otherwise
  a member that Ray does not yet know to be dead would delay each load, including those of an election.
* A live member may miss a load because a call failed or because `CALLS_OUT_MAX` calls are already in flight.
  The group then reports this to the broker and sends the member nothing but heartbeats, until a load contains
  `Renewed` for it; it sends everything from there on. The same holds for a restarted member, once its restart
  is known and if anything was lost since it died. Without the heartbeats, two members that have both missed
  something would drop each other and never recover. What the member does not get meanwhile counts as lost only
  while its host is reachable: of an unreachable member, nobody knows whether it is alive.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final

import ray
from ray.exceptions import ActorDiedError, RayError

from ...protocol.ids import BrokerId
from ...protocol.messages.beats import is_beat
from ...protocol.messages.pubsub import Events, Numbered
from ...protocol.telemetry.tables import CarriedOut
from ..channels.pool import node_here
from ..logs import HOST, Log
from .outbox import Peer, Queued, Regrouped, Renewed, first_line

INLINE_BYTES_MAX: Final = 2 * 1024 * 1024
"""Measured: decision 0138."""
CALLS_OUT_MAX: Final = 64
CALLS_UNWAITED_MAX: Final = 16
"""More calls than an election takes; from this number on, the group waits for an unreachable member as for others."""


def machine_here() -> str:
    """Return what tells this machine, and the processes that can be signalled on it, from all others; "" if unknown."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return ""


def _events_of(load: Sequence[Queued]) -> tuple[int, int]:
    """Return how many events a load carries, and their bytes."""
    contents = (message.message if isinstance(message, Numbered) else message for message in load)
    batches = [message.batch for message in contents if isinstance(message, Events)]
    return sum(map(len, batches)), sum(batch.nbytes for batch in batches)


class MulticastGroup:
    """The other members of one broker's cluster, and how to reach each of them.

    Parameters
    ----------
    broker
        The broker that owns the group.
    members
        All other members.
    patience_seconds
        How long a call waits for a member that does not answer; None for no limit.
    missed
        Called with a member that has missed a load, how many seconds ago that load was to be sent, and whether
        the member has restarted since. None for no reports.
    carried_out
        Called with the report of a load: calls, nodes, bytes. None for no reports.
    node
        Returns the Ray node of this process.
    unreached
        Returns whether the host of a member is unreachable.
    log
        The log of the broker.
    """

    def __init__(
        self,
        broker: BrokerId,
        members: Sequence[Peer],
        patience_seconds: float | None = None,
        missed: Callable[[BrokerId, float, bool], None] | None = None,
        carried_out: Callable[[CarriedOut], None] | None = None,
        node: Callable[[], str] = node_here,
        log: Log = HOST,
        unreached: Callable[[BrokerId], bool] = lambda member: False,
    ) -> None:
        self._log = log
        self._unreached = unreached
        self._missed = missed
        self._carried_out = carried_out
        self._node = node
        self._nodes: dict[BrokerId, str] = {}  # of the members that have answered
        self._broken: set[BrokerId] = set()
        self._lost_at: dict[BrokerId, float] = {}  # when the first load was lost for a dead member
        self.broker = broker
        self._members = tuple(members)
        self._patience_seconds = patience_seconds
        self._out: Counter[tuple[BrokerId, int]] = Counter()
        self._incarnations: Counter[BrokerId] = Counter()
        self._dead: set[BrokerId] = set()
        self._tasks: set[asyncio.Task[bool]] = set()

    async def fly(self, load: list[Queued]) -> int:
        """Send a load to every member; return how many did not get it. Members that died before are not counted.

        A multicast goes to the members that the group had when it was put: a member that leaves still gets the
        message that says so.
        """
        lost, part = 0, list[Queued]()
        try:
            for message in load:
                if isinstance(message, Regrouped):
                    lost += await self._take(part)
                    self._members, part = message.members, []
                else:
                    part.append(message)
            return lost + await self._take(part)
        except Exception:
            for message in load:
                if isinstance(
                    message, Regrouped
                ):  # the messages are lost, but the membership change must not be
                    self._members = message.members
            raise

    async def _take(self, load: list[Queued]) -> int:
        """Send a load to every current member."""
        if not load:
            return 0
        living = [peer for peer in self._members if peer.broker not in self._dead]
        plain = [message for message in load if not isinstance(message, Renewed)]
        if len(living) < len(self._members) and not all(map(is_beat, plain)):
            for peer in self._members:
                if peer.broker in self._dead:
                    self._lost_at.setdefault(peer.broker, time.monotonic())
        events, size = _events_of(plain)
        remote = sum(not peer.local for peer in living)
        stored = self._stored(plain) if size > INLINE_BYTES_MAX and remote > 1 else None
        by_reference = stored is not None
        shared = stored if by_reference else plain
        calls: dict[asyncio.Task[bool], BrokerId] = {}
        sharing, inline, left_out, taken = [], [], 0, 0
        for peer in living:
            part = self._part(peer.broker, load) if peer.broker in self._broken else plain
            left_out += not part and not self._unreached(peer.broker)
            if part:
                whole = part is plain and not peer.local
                call = self._start(peer, shared if whole else part)
                if call is None:
                    taken += 1
                    continue
                calls[call] = peer.broker
                if whole and by_reference:
                    sharing.append(peer.broker)
                elif not peer.local:
                    inline.append((peer.broker, size if part is plain else _events_of(part)[1]))
        if not calls and not taken:
            return left_out
        if waited := [call for call, member in calls.items() if self._is_waited_for(member)]:
            await asyncio.wait(waited, timeout=self._patience_seconds)
        if self._carried_out is not None:
            nodes = self._nodes_of(sharing)
            sent = sum(nbytes for _, nbytes in inline) + (
                size * len(nodes | {self._node()}) if sharing else 0
            )
            called = len(sharing) + len(inline)
            nodes |= self._nodes_of(broker for broker, _ in inline)
            row = len(plain), events, size, len(calls) + taken, called, len(nodes), int(by_reference), sent
            self._carried_out(CarriedOut(*row))
        return left_out + sum(call.done() and not call.result() for call in calls)

    def _stored(self, load: Sequence[Queued]) -> Any:
        """Put a load into the object store and return its reference; None if the store does not accept it."""
        try:
            return ray.put(load)
        except RayError as error:
            said = first_line(error)
            self._log.warning("broker %d to its group: not in the object store: %s", self.broker, said)
            return None

    def _is_waited_for(self, member: BrokerId) -> bool:
        return (
            not self._unreached(member) or self._out[member, self._incarnations[member]] > CALLS_UNWAITED_MAX
        )

    def _nodes_of(self, members: Iterable[BrokerId]) -> set[str]:
        return {self._nodes[member] for member in members if member in self._nodes}

    def _part(self, member: BrokerId, load: list[Queued]) -> list[Queued]:
        """Return the messages for a member that has missed something: heartbeats, and all from its renewal on."""
        renewals = [place for place, message in enumerate(load) if message == Renewed(member)]
        first = len(load)
        if renewals:
            first = renewals[-1]
            self._broken.discard(member)
        return [
            message
            for place, message in enumerate(load)
            if not isinstance(message, Renewed) and (place >= first or is_beat(message))
        ]

    def begin_anew(self, broker: BrokerId) -> None:
        """Reset the state of a restarted member; the calls in flight to what it was are lost, and reported."""
        self._dead.discard(broker)
        self._broken.discard(broker)
        self._incarnations[broker] += 1
        lost_at = self._lost_at.pop(broker, None)
        if lost_at is not None:
            self._tell_missed(broker, time.monotonic() - lost_at, True)

    def _start(self, peer: Peer, load: Any) -> asyncio.Task[bool] | None:
        """Begin to hand a load to one member; return None if the member has it already."""
        begun = self._begun(peer, load)
        if isinstance(begun, str):
            self._nodes[peer.broker] = begun
            return None
        task = asyncio.get_running_loop().create_task(self._reach(peer, load, begun))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _begun(self, peer: Peer, load: object) -> str | Awaitable[str] | None:
        """Hand a load to a member of this process, after all that went before; None for a call that is to be made."""
        if peer.at_once is None or self._out[peer.broker, self._incarnations[peer.broker]]:
            return None
        try:
            return peer.at_once(peer.broker, self.broker, load)
        except Exception as error:  # as of a call that fails
            failed: asyncio.Future[str] = asyncio.get_running_loop().create_future()
            failed.set_exception(error)
            return failed

    async def _reach(self, peer: Peer, load: Any, begun: Awaitable[str] | None = None) -> bool:
        """Hand a load to one member, or await that it has it; return whether it has."""
        incarnation = member, number = peer.broker, self._incarnations[peer.broker]
        if self._out[incarnation] >= CALLS_OUT_MAX:
            self._tell_missed(member, 0.0, False)
            return False
        self._out[incarnation] += 1
        made = time.monotonic()
        try:
            node = await (begun or peer.receive(peer.broker, self.broker, load))
            if isinstance(node, str):
                self._nodes[peer.broker] = node
            return True
        except Exception as error:
            anew = number != self._incarnations[member]
            if anew or not isinstance(error, ActorDiedError):
                self._tell_missed(member, time.monotonic() - made, anew)
            elif self._patience_seconds is not None:
                self._dead.add(member)
                self._lost_at.setdefault(member, made)
            said = first_line(error)
            self._log.warning(
                "broker %d to its group: lost for broker %d: %s", self.broker, peer.broker, said
            )
            return False
        finally:
            self._out[incarnation] -= 1

    def _tell_missed(self, member: BrokerId, seconds: float, anew: bool) -> None:
        """Send a member nothing more, and report that, unless this was reported already."""
        if self._missed is None or member in self._broken:
            return
        self._broken.add(member)
        self._missed(member, seconds, anew)
