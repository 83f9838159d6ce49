"""The transport from one host to other brokers: their current actors, and the outboxes that lead to them.

Rules
-----
* In a network that heals any broker can be reached; the transport asks the rendezvous point for an unknown one.
* A restarted broker has a new actor and a higher *incarnation*, and sends that with each call. A host that receives a
  new incarnation looks up the actor, drops what waits for the old one, and only then handles the call. Messages of an
  earlier incarnation are ignored from then on.
* A call that finds its actor dead is reported: machines may use what the transport knows for certain. A call that
  fails while the actor may be alive is also reported, if brokers repair such a loss.
* A transport that finds an actor dead asks the rendezvous point whether the broker was restarted. The new one may
  never send anything here by itself, and whoever restarted it may not have reached this host.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Coroutine, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol

from ray.exceptions import ActorDiedError

from ...admission.meters import DelayMeter
from ...protocol.configs import Limits, Position
from ...protocol.effects import Missed
from ...protocol.errors import BrokerUnavailable
from ...protocol.features import Features
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.telemetry.tables import CarriedOut
from ..channels.pool import Channels
from ..logs import HOST, Log
from .departures import Departures
from .group import MulticastGroup
from .handle import HostHandle
from .outbox import Flight, Flying, LinkMessage, Outbox, Peer, Regrouped, Unreached, first_line
from .overdue import Overdue

Receive = Callable[..., Awaitable[object]]
AtOnce = Callable[..., str | Awaitable[str]]

PASSED_AT_ONCE: Final = 64
"""How often messages are passed on within this host in one turn of the event loop, before others have a turn."""

LINK: Final = "link"
GROUP_LANE: Final = "group"
CARRIERS: Final = ("hosts_by_channel", "hosts_by_ray")


class Passage(Protocol):
    """What every message passes that leaves this host for another broker, or arrives at a broker here."""

    async def passage(self, source: BrokerId, to: BrokerId, lane: str) -> None:
        """Wait until a message may leave; a caller that proceeds at once keeps the order of its lane."""

    async def service(self, broker: BrokerId, messages: int = 1) -> None:
        """Wait until a broker here may take in this many messages."""


class Transport:
    """The outgoing paths of one host.

    Parameters
    ----------
    limits, features
        Those of the network.
    hosted
        The brokers on this host.
    receive
        How local brokers are passed messages: ``receive(to, source, messages, incarnation, since)``.
    died
        Called with (broker here, other) when a call finds that the other broker's process is dead.
    reborn
        Called with a broker that has a new actor; what waits for the old one must be dropped.
    missed
        Called with a broker here and what another broker has missed from it; None if nothing can repair that.
    carried_out
        Called with a broker here and the report of a load for its group.
    deadline_seconds
        How long events may wait for their turn on a link; None for no limit.
    log
        The log of the host.
    channels
        Those of this host; None where all calls go by Ray.
    departures
        The queues of this host that have something to send.
    receive_now
        As `receive`, but at once: it gives the Ray node of this host, or what is to be awaited.

    Attributes
    ----------
    passage
        What messages pass on their way; None unless a test of faults has set it.
    preparing
        The searches for brokers that are likely to be sent to soon.
    """

    def __init__(
        self,
        limits: Limits,
        features: Features,
        hosted: Container[BrokerId],
        receive: Receive,
        died: Callable[[BrokerId, BrokerId], None],
        reborn: Callable[[BrokerId], None],
        missed: Callable[[BrokerId, Missed], None] | None = None,
        carried_out: Callable[[BrokerId, CarriedOut], None] | None = None,
        deadline_seconds: float | None = None,
        log: Log = HOST,
        channels: Channels | None = None,
        departures: Departures | None = None,
        receive_now: AtOnce | None = None,
    ) -> None:
        self.log = log
        self._missed = missed
        self._carried_out = carried_out
        self._deadline_seconds = deadline_seconds
        self._delay_window_seconds = features.delay_window_seconds
        self._rendezvous: Any = None
        self.channels = channels
        self._departures = departures or Departures()
        self.passage: Passage | None = None
        self._unreached: set[Any] = set()  # hosts to which the last heartbeat failed
        self._limits = limits
        self._heals = features.heals
        self._link_seconds = limits.call_seconds if features.heals else None
        self._member_patience_seconds = features.member_patience_seconds
        self._hosted = hosted
        self._receive = receive
        self._receive_now = receive_now
        self._passed_now = 0  # how often messages were passed to a broker here in this turn of the event loop
        self._died = died
        self._reborn = reborn
        self._peers: dict[BrokerId, Peer] = {}
        self._actors: dict[BrokerId, Any] = {}  # of brokers that are not here
        self._incarnations: dict[BrokerId, int] = {}  # of brokers here, and of others that have restarted
        self._own_incarnations: dict[BrokerId, int] = {}
        self._groups: dict[BrokerId, MulticastGroup] = {}
        self._learning = asyncio.Lock()
        self._unlearned: Counter[BrokerId] = (
            Counter()
        )  # calls from each broker that wait for its new incarnation
        self._sought: dict[BrokerId, asyncio.Task[None]] = {}
        self.preparing: set[asyncio.Task[None]] = set()

    def ask_at(self, rendezvous: Any) -> None:
        """Ask this rendezvous point for unknown brokers; None in a network that does not heal."""
        self._rendezvous = rendezvous

    def born(self, broker: BrokerId, incarnation: int) -> None:
        """Note which incarnation of a broker starts here: its messages to others here need no inquiry."""
        self._own_incarnations[broker] = incarnation
        self._incarnations[broker] = incarnation

    # Making links.

    def peer(self, broker: BrokerId, hosts: Mapping[BrokerId, Any]) -> Peer:
        """Return the peer of a broker, made from its actor if it is not known yet."""
        peer = self._peers.get(broker)
        if peer is None:
            local = broker in self._hosted
            if not local:
                self._actors[broker] = hosts[broker]
                handle = self.handle_of(hosts[broker])
                peer = Peer(broker, handle.receive, False, None if self.channels is None else handle.send)
            else:
                peer = Peer(broker, self._receive, True, at_once=self._at_once)
            self._peers[broker] = peer
        return peer

    def meet(self, broker: BrokerId, hosts: Mapping[BrokerId, Any]) -> None:
        """Know another broker from the start, unless it has meanwhile left a network that heals."""
        if broker in hosts or broker in self._hosted or not self._heals:
            self.peer(broker, hosts)

    def host_of(self, broker: BrokerId) -> Any:
        """Return the known actor of a broker, None for a broker here; raise KeyError for an unknown one."""
        return None if broker in self._hosted else self._actors[broker]

    def handle_of(self, host: Any) -> HostHandle:
        """Return the handle by which a host is called."""
        return HostHandle(host, self.channels)

    def note(self, host: Any, *, reached: bool) -> None:
        """Note whether the last heartbeat to a host arrived."""
        (self._unreached.discard if reached else self._unreached.add)(host)

    def unreached(self, broker: BrokerId) -> bool:
        """Return whether the last heartbeat to the host of a broker failed."""
        return broker not in self._hosted and self._actors.get(broker) in self._unreached

    def own_incarnation(self, broker: BrokerId) -> int:
        """Return the incarnation of a broker here."""
        return self._own_incarnations.get(broker, 0)

    def told_dead(self, source: BrokerId, to: BrokerId) -> None:
        """Tell a broker here that the process of another broker was found dead."""
        if source in self._hosted:
            self._died(source, to)

    def carriers(self) -> dict[str, int]:
        """Return how many other hosts this one calls by a channel, and how many by Ray; nothing without channels."""
        return {} if self.channels is None else dict(zip(CARRIERS, self.channels.carriers(), strict=True))

    def lost(self, host: Any) -> None:
        """Tell the brokers here that a host was found dead when its channel ended."""
        if not self._heals:
            return  # a call finds that
        for broker, actor in list(self._actors.items()):
            if actor == host:
                for source in list(self._own_incarnations):
                    self.told_dead(source, broker)
                self._seek(broker)

    async def actor_of(self, broker: BrokerId) -> Any:
        """Ask the rendezvous point for the current actor of a broker."""
        host, _ = await self._whereabouts(broker)
        return host

    async def _whereabouts(self, broker: BrokerId) -> tuple[Any, int]:
        found = await self._rendezvous.whereabouts.remote(broker)
        if found is None:
            raise BrokerUnavailable(f"the rendezvous point knows no broker {broker}")
        host, incarnation = found
        return host, incarnation

    async def _find(self, broker: BrokerId) -> Peer:
        if broker not in self._peers and broker not in self._hosted:
            host, incarnation = await self._whereabouts(broker)
            if broker not in self._peers:
                self._incarnations[broker] = max(incarnation, self.incarnation_of(broker))
            return self.peer(broker, {broker: host})
        return self.peer(broker, {})

    def prepare(self, brokers: Iterable[BrokerId]) -> None:
        """Find the actors of brokers that are likely to be sent to soon, and open channels to them."""
        for broker in brokers:
            if broker not in self._hosted:
                task = asyncio.get_running_loop().create_task(self._prepare(broker))
                self.preparing.add(task)
                task.add_done_callback(self.preparing.discard)

    async def _prepare(self, broker: BrokerId) -> None:
        try:
            async with asyncio.timeout(self._limits.call_seconds):
                await self._find(broker)
        except Exception as error:  # it is found when it is sent to
            self.log.debug("broker %d was not found: %s", broker, first_line(error))
            return
        if self.channels is not None and broker in self._actors:
            self.channels.way(self._actors[broker]).prepare()

    def _seek(self, broker: BrokerId) -> None:
        """Look up the actor of a broker whose actor is dead, unless a lookup is pending."""
        if not self._heals or self._rendezvous is None or broker in self._sought:
            return

        async def seek() -> None:
            try:
                async with asyncio.timeout(self._limits.call_seconds):
                    self.relink(broker, *await self._whereabouts(broker))
            except Exception as error:  # the next call asks again
                self.log.debug("broker %d was not found: %s", broker, first_line(error))
            finally:
                del self._sought[broker]

        self._sought[broker] = asyncio.get_running_loop().create_task(seek())

    def link(self, source: BrokerId, to: BrokerId) -> Outbox:
        """Return a new outbox from a broker here to another broker, or to the rendezvous point."""
        if to == RENDEZVOUS:
            return self._outbox(source, f"broker {source} to the rendezvous point", self._report(source))
        reach = self._reach(source, LINK)
        seconds = self._link_seconds

        async def carry_slowly(load: list[LinkMessage]) -> int:
            made = time.monotonic()
            try:
                begun = self._at_once(to, source, load)
                if begun is None:
                    await reach(to, source, load, seconds)
                elif not isinstance(begun, str):
                    async with asyncio.timeout(seconds):
                        await begun
            except ActorDiedError:
                raise
            except Exception as error:
                raise Unreached(time.monotonic() - made, first_line(error)) from error
            return 0

        overdue = None if seconds is None else Overdue(seconds)

        carry = partial(self._carry, source, to, overdue, carry_slowly)

        def missed(ago: float, anew: bool) -> None:
            assert self._missed is not None
            self._missed(source, Missed(to, False, ago, anew))

        return self._outbox(
            source, f"broker {source} to broker {to}", carry, None if self._missed is None else missed
        )

    def group(self, position: Position, hosts: Mapping[BrokerId, Any]) -> Outbox | None:
        """Return a new outbox to all other members of a broker's cluster; None if there are none."""
        source = position.broker
        others = [other for other in position.members if other != source]
        for other in others:
            self.meet(other, hosts)
        return self.regroup(source, others, None)

    def regroup(self, source: BrokerId, members: Sequence[BrokerId], known: Outbox | None) -> Outbox | None:
        """Set the group of a broker here from now on; return the outbox to it, a new one if there was none."""
        reach = self._reach(source, GROUP_LANE)
        peers = [Peer(other, reach, other in self._hosted, at_once=self._at_once) for other in members]
        if known is not None:
            known.put(Regrouped(tuple(peers)))
            return known
        if not peers:
            return None

        def missed(member: BrokerId, ago: float, anew: bool) -> None:
            assert self._missed is not None
            self._missed(source, Missed(member, True, ago, anew))

        group = MulticastGroup(
            source,
            peers,
            self._member_patience_seconds,
            None if self._missed is None else missed,
            None if self._carried_out is None else partial(self._carried_out, source),
            log=self.log_of(source),
            unreached=self.unreached,
        )
        self._groups[source] = group
        return self._outbox(source, f"broker {source} to its group", group.fly)

    def _outbox(
        self,
        source: BrokerId,
        name: str,
        fly: Flight,
        missed: Callable[[float, bool], None] | None = None,
    ) -> Outbox:
        most = self._limits.call_events_max, self._limits.outbox_events_max
        log, departures = self.log_of(source), self._departures
        window = self._delay_window_seconds
        waits = None if window is None else DelayMeter(window)
        return Outbox(
            name, fly, *most, missed, self._deadline_seconds, log=log, departures=departures, waits=waits
        )

    def log_of(self, source: BrokerId) -> Log:
        """Return the log of a broker here."""
        return self.log.of(broker=source, incarnation=self._own_incarnations.get(source, 0))

    def _reach(self, source: BrokerId, lane: str) -> Callable[..., Awaitable[object]]:
        """Return the function by which a broker here passes messages to any other broker, without needless awaits.

        The function returns the Ray node of the other broker.
        """

        async def reach(to: BrokerId, _: BrokerId, load: Any, seconds: float | None = None) -> object:
            if self.passage is not None:
                await self.passage.passage(source, to, lane)
            peer = self._peers.get(to) or await self._find(to)
            try:
                async with asyncio.timeout(seconds):  # in a network that heals no call blocks a link forever
                    return await peer.receive(to, source, load, *self._said(source))
            except ActorDiedError as error:
                raise self._found_dead(source, to, peer, error) from None

        return reach

    def _at_once(self, to: BrokerId, source: BrokerId, load: Any) -> str | Awaitable[str] | None:
        """Pass messages to a broker here now; None if it is elsewhere, or something has to be waited for before."""
        if self._receive_now is None or self.passage is not None or to not in self._hosted:
            return None
        if self._passed_now == 0:
            asyncio.get_running_loop().call_soon(self._next_turn)
        elif self._passed_now == PASSED_AT_ONCE:
            return None
        self._passed_now += 1
        return self._receive_now(to, source, load, *self._said(source))

    def _next_turn(self) -> None:
        self._passed_now = 0

    def _said(self, source: BrokerId) -> tuple[float, ...]:
        """Return what a call of a broker here says beside its messages: the broker's incarnation, and the time."""
        incarnation = self._own_incarnations.get(source, 0)
        if self._deadline_seconds is not None or self._delay_window_seconds is not None:
            return incarnation, time.time()
        return (incarnation,) if incarnation else ()

    def _found_dead(self, source: BrokerId, to: BrokerId, peer: Peer, error: Exception) -> Exception:
        """Report that an actor is dead; return the error of the call that found that."""
        if self._peers.get(to) is not peer:
            return BrokerUnavailable(f"broker {to} has been restarted meanwhile")
        self._died(source, to)
        self._seek(to)
        return error

    def _carry(
        self,
        source: BrokerId,
        to: BrokerId,
        overdue: Overdue | None,
        slowly: Flight,
        load: list[LinkMessage],
    ) -> Flying:
        """Pass messages to a broker now, without a task; or `slowly` if something has to be waited for before.

        The answer is the call itself: its errors are those of the link, and it fails if it is not answered in time.
        """
        peer = self._peers.get(to)
        if self.passage is not None or peer is None or peer.send is None:
            return slowly(load)
        made = time.monotonic()
        call = peer.send(to, source, load, *self._said(source))
        if call is None:
            return slowly(load)

        def explained(error: Exception) -> Exception:
            dead = isinstance(error, ActorDiedError)
            found = self._found_dead(source, to, peer, error) if dead else error
            still_dead = isinstance(found, ActorDiedError)
            return found if still_dead else Unreached(time.monotonic() - made, first_line(found))

        if not call.done:
            call.explain = explained
        elif call.error is not None:
            call.error = explained(call.error)
        if overdue is not None:
            overdue.watch(call)
        return call

    def _report(self, source: BrokerId) -> Callable[[list[LinkMessage]], Coroutine[Any, Any, int]]:
        async def report(load: list[LinkMessage]) -> int:
            if self.passage is not None:
                await self.passage.passage(source, RENDEZVOUS, LINK)
            async with asyncio.timeout(self._limits.call_seconds):
                await self._rendezvous.receive.remote(source, load)
            return 0

        return report

    # Brokers that are started again.

    def incarnation_of(self, broker: BrokerId) -> int:
        """Return the incarnation of another broker, as known here."""
        return self._incarnations.get(broker, 0)

    def knows(self, source: BrokerId, incarnation: int) -> bool:
        """Return whether this incarnation of a broker is the current one, and no call waits until it is known."""
        return incarnation == self._incarnations.get(source, 0) and source not in self._unlearned

    def current(self, source: BrokerId, incarnation: int) -> Awaitable[bool]:
        """Return, later, whether this incarnation of a broker is the current one; a new one is made known first.

        Calls of a broker continue in the order in which this was called for them: a call that finds it known
        waits for earlier calls.
        """
        self._unlearned[source] += 1
        return self._learn(source, incarnation)

    async def _learn(self, source: BrokerId, incarnation: int) -> bool:
        try:
            if incarnation != self.incarnation_of(source) or self._unlearned[source] > 1:
                async with self._learning:
                    if incarnation > self.incarnation_of(source):
                        found = await self._rendezvous.whereabouts.remote(source)
                        if found is None:
                            return False  # the broker has left
                        self.relink(source, found[0], max(incarnation, found[1]))
        finally:
            self._unlearned[source] -= 1
            if not self._unlearned[source]:
                del self._unlearned[source]
        return incarnation == self.incarnation_of(source)

    def relink(self, broker: BrokerId, host: Any, incarnation: int) -> None:
        """Use a broker's new actor, unless it is known already."""
        if incarnation <= self.incarnation_of(broker):
            return
        self._incarnations[broker] = incarnation
        self._peers.pop(broker, None)
        self.peer(broker, {broker: host})
        self._reborn(broker)
        for group in self._groups.values():
            group.begin_anew(broker)
