"""The driver of a host's brokers: it passes them events and carries out their effects.

Rules
-----
* Effects are carried out in order. A send goes into the outbox of its link, never straight to the network.
* Changes that a broker makes stable are committed in a thread, and later effects wait (`commits`). A broker
  that finds that its file is an old one halts.
* Who gets a delivery is determined when the broker makes it, and not after the commit (`absent`).
* A numbered message that finds its outbox full is dropped: it is retransmitted.
* A broker that detects that its state is damaged ends its process, as in a crash. The operator of the network
  restarts it (paper 4, section 2).
* A broker that is late (`clock`) is told the time before anything else.
* Telemetry and counts are written down when the events of the step have left (`departures`): no event waits for them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

import numpy as np

from ...protocol.configs import Limits
from ...protocol.effects import (
    Acknowledge,
    Confirm,
    Deliver,
    Drain,
    Effect,
    Flushed,
    Inform,
    Meet,
    Multicast,
    Persist,
    Propose,
    Received,
    Regroup,
    Renew,
    Send,
    TellLost,
    TickAt,
    Ticked,
)
from ...protocol.errors import StateDamaged, StorageFailed
from ...protocol.expiry import timely
from ...protocol.gathering import TTLS
from ...protocol.ids import GROUP, BrokerId, Link
from ...protocol.messages.admission import CONCERNS_ADMISSION
from ...protocol.messages.beats import LASTING, is_beat
from ...protocol.messages.pubsub import Directed, Events, Flush, Numbered, Register
from ...protocol.messages.recovery import TIMED
from ...protocol.queries import OtherMembers
from .absent import still_there
from .admission import HostAdmission
from .attachments import Attachments
from .clock import Clock
from .departures import Departures
from .hosted_broker import Given, Happened, HostedBroker
from .outbox import CARRIERS, LinkMessage, Outbox, wait_for_room
from .resting import Awake
from .sessions import ProcessSession, split
from .standing import Stands
from .telemetry import HostTelemetry
from .transport import Transport

NONE: Final = np.zeros(0, np.intp)
SENDS: Final = (Send, Multicast)


@dataclass(slots=True, eq=False)
class Backpressure:
    """The queues that one call has filled: the caller waits until they have room again.

    One is made for each call and passed along with its messages, so it also tells how long they have been waiting.

    Attributes
    ----------
    made
        When the call was made; empty if its waiting time does not count.
    outboxes, sessions
        The queues to other brokers and to client processes.
    """

    made: tuple[float, ...] = ()
    outboxes: dict[Outbox, None] = field(default_factory=dict)
    sessions: dict[ProcessSession, None] = field(default_factory=dict)

    @property
    def filled(self) -> bool:
        """Whether anything has to be waited for."""
        return bool(self.outboxes or self.sessions)

    def uncounted(self) -> None:
        """Let the waiting time of the call no longer count, since what it brought waits for its quota."""
        self.made = ()

    def from_clients(self) -> Backpressure:
        """Return one with the same sessions, for messages after which nobody waits for links."""
        return Backpressure(self.made, sessions=self.sessions)


class Driver:
    """Feeds the brokers of one host and carries out their effects.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    ways
        The transport to other brokers.
    departures
        The queues of the host that have something to send.
    clock
        The time of the brokers.
    attachments, admission, telemetry
        Carry out the effects for clients, for admission control and for the collector.
    resting
        Sends heartbeats on behalf of brokers, and lets them rest.
    limits
        The limits of the network.
    link_wait_seconds
        How long a call that filled outboxes waits for room at most; None for no limit.
    end
        Ends the process when the state of a broker is damaged.

    Attributes
    ----------
    handled
        The number of messages that the brokers have handled, heartbeats excluded.
    """

    def __init__(
        self,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        ways: Transport,
        departures: Departures,
        clock: Clock,
        attachments: Attachments,
        admission: HostAdmission,
        telemetry: HostTelemetry,
        resting: Awake,
        limits: Limits,
        link_wait_seconds: float | None,
        end: Callable[[StateDamaged], None],
    ) -> None:
        self.handled = 0
        self._hosted_brokers = hosted_brokers
        self._transport = ways
        self._departures = departures
        self._clock = clock
        self._attachments = attachments
        self._admission = admission
        self._telemetry = telemetry
        self._resting = resting
        self._delivery_wait_seconds = limits.delivery_wait_seconds
        self._link_wait_seconds = link_wait_seconds
        self._end = end

    # An event in.

    def handle(
        self,
        hosted: HostedBroker,
        source: Link,
        message: Given,
        pressure: Backpressure | None = None,
    ) -> None:
        """Pass a message to a broker; note the queues that this fills in `pressure`."""
        if hosted.rests_until is not None:
            self._resting.wake(hosted)
        carried = message.message if isinstance(message, Numbered) else message
        if isinstance(carried, CARRIERS):
            self.handled += 1
            since = pressure.made[0] if pressure is not None and pressure.made else None
            if self._admission.looks_at_events and not self._admission.take_in(hosted, carried, since):
                if not isinstance(message, Numbered):
                    return
                carried = _emptied(carried)
                message = replace(message, message=carried)  # it must still be acknowledged
            hosted.events_in += len(carried.batch.sequence)
        else:
            self.handled += not is_beat(message)
            if self._admission.measures_delays and isinstance(carried, CONCERNS_ADMISSION):
                here = hosted.broker.position.broker
                self.drive(hosted, Received(here, self._admission.delays(hosted)))
        if isinstance(message, TIMED) or (self._clock.ticks and self._clock.is_late(hosted.ticked_at)):
            self.tell_time(hosted)
        self.drive(hosted, Received(source, message), pressure)
        self._telemetry.flush_when_due(hosted)

    async def host_beat(self, host: str, stands: Sequence[Stands]) -> list[bool]:
        """Take in the heartbeat of another host; return which of the changes of standing heartbeats it has taken."""
        return await self._resting.hear(host, stands)

    def reborn(self, broker: BrokerId) -> None:
        """Note that everything said by or to this broker so far belongs to an earlier incarnation."""
        self._resting.reborn(broker)

    def tell_time(self, hosted: HostedBroker) -> None:
        """Tell a broker the time of the network, and by how much that is behind the wall clock."""
        hosted.ticked_at = self._clock.now()
        self.drive(hosted, Ticked(hosted.ticked_at, self._clock.behind(), self._clock.stalled()))

    def drive(
        self,
        hosted: HostedBroker,
        event: Happened,
        pressure: Backpressure | None = None,
    ) -> None:
        """Pass an event to a broker, and carry out its effects, now or when everything before them is stable."""
        if hosted.rests_until is not None:
            self._resting.wake(hosted)
        commits = hosted.commits
        if commits is not None and commits.error is not None:
            return
        try:
            effects = hosted.broker.handle(event)
        except StateDamaged as error:
            self._end(error)
            return
        except StorageFailed as error:  # the broker detected that its file is an old one
            if commits is None:
                raise
            commits.stand_still(error)
            return
        if commits is None:
            for effect in effects:
                self.carry_out(hosted, effect, pressure)
            return
        for effect in effects:
            if type(effect) is not Persist and commits.passes:
                self.carry_out(hosted, effect, pressure)
            elif isinstance(effect, Deliver):
                commits.put(effect, self._delivery(hosted, effect, pressure))
            else:
                commits.put(effect, partial(self.carry_out, hosted, effect, pressure))

    # Its effects carried out.

    def carry_out(self, hosted: HostedBroker, effect: Effect, pressure: Backpressure | None = None) -> None:
        """Carry out an effect of a broker."""
        if isinstance(effect, SENDS) and isinstance(effect.message, LASTING):
            if self._holds_back(hosted, effect):
                return
        now = time.time()
        if isinstance(effect, Deliver):
            whole = self._timely(hosted, effect, now)
            if whole is not None:
                self._departures.afterwards(hosted.delivered, now, whole)
                here = hosted.absent.reachable(whole, hosted.owners, hosted.durable)
                if here is not None:
                    self._deliver(hosted, here, pressure)
            return
        self._departures.afterwards(hosted.telemetry.effect, now, effect)
        match effect:
            case Send():
                box = hosted.links.get(effect.to)
                self._put(hosted, box or self._box(hosted, effect.to), effect.message, pressure)
            case Multicast(message):
                if hosted.group is not None:
                    self._put(hosted, hosted.group, message, pressure)
            case Regroup(members):
                hosted.group = self._transport.regroup(hosted.broker.position.broker, members, hosted.group)
            case Renew(to, over_group):
                hosted.renew(to, over_group)
            case Propose(client, broker):
                if (owner := hosted.owners.get(client)) is not None:  # publishers do not poll
                    owner.propose(client, broker, hosted.tally)
            case Confirm(client, subscription):
                hosted.answers.give((client, Register, subscription), effect.begins)
            case Flushed(client, number):
                hosted.answers.give((client, Flush, number))
            case TellLost(client, losses):
                self._attachments.tell_losses(hosted, client, losses)
            case Drain(number):
                self._attachments.drain_soon(hosted, number)
            case Inform(client, news):
                self._admission.inform(hosted, client, news, effect.number)
            case Acknowledge(client, "events", number):
                hosted.answers.give((client, Numbered, number))
            case TickAt(at):
                self._tick_at(hosted, at)
            case Meet(brokers):
                self._transport.prepare(brokers)

    def _tick_at(self, hosted: HostedBroker, at: float) -> None:
        """Tell a broker the time at `at`, if it is still here then."""
        broker = hosted.broker.position.broker

        def tick() -> None:
            if self._hosted_brokers.get(broker) is not hosted:
                return
            if self._clock.now() < at:  # the timer of the loop is coarser than the clock
                self._tick_at(hosted, at)
            else:
                self.tell_time(hosted)

        asyncio.get_running_loop().call_later(max(0.0, at - self._clock.now()), tick)

    def _box(self, hosted: HostedBroker, to: BrokerId) -> Outbox:
        box = hosted.links.get(to)
        if box is None:
            box = hosted.links[to] = self._transport.link(hosted.broker.position.broker, to)
        return box

    def _holds_back(self, hosted: HostedBroker, effect: Send | Multicast) -> bool:
        """Return whether the heartbeat of this host replaces a heartbeat of a broker."""
        if isinstance(effect, Send):
            box = self._box(hosted, effect.to)
            return self._resting.holds_back(hosted, effect.to, (effect.to,), effect.message, box)
        if hosted.group is None:
            return True  # the group is empty
        return self._resting.holds_back(
            hosted, GROUP, hosted.broker.ask(OtherMembers()), effect.message, hosted.group
        )

    def _put(
        self, hosted: HostedBroker, box: Outbox, message: LinkMessage, pressure: Backpressure | None
    ) -> None:
        if isinstance(message, Numbered) and box.full:
            return  # it is retransmitted
        filled = box.put(message)
        if isinstance(message, CARRIERS):
            hosted.events_out += len(message.batch.sequence)
        if filled and pressure is not None:
            pressure.outboxes[box] = None

    def _timely(self, hosted: HostedBroker, deliver: Deliver, now: float) -> Deliver | None:
        """Return a delivery without the events whose time to live has passed, which are counted."""
        if TTLS not in deliver.batch.columns:
            return deliver
        given, gone = timely(deliver, now)
        hosted.past_ttl += gone
        return given

    def _delivery(
        self, hosted: HostedBroker, deliver: Deliver, pressure: Backpressure | None
    ) -> Callable[[], None]:
        """Return what carries out a delivery after a commit, for those who are to have it now.

        A subscriber that comes back while the delivery waits for a commit gets it again with all that it has not had
        before. The waiting one would come first, and what is before it would then be dropped as old.
        """
        whole = self._timely(hosted, deliver, time.time())
        if whole is None:
            return _nothing
        here = hosted.absent.reachable(whole, hosted.owners, hosted.durable)
        before = [] if here is None else hosted.absent.stays(here, hosted.owners)

        def carry_out() -> None:
            self._departures.afterwards(hosted.delivered, time.time(), whole)
            if here is None:
                return
            left = still_there(here, before, hosted.absent.stays(here, hosted.owners))
            if left is not None:
                self._deliver(hosted, left, pressure)

        return carry_out

    def _deliver(self, hosted: HostedBroker, deliver: Deliver, pressure: Backpressure | None) -> None:
        owners = [hosted.owners[client] for client in deliver.clients]
        for session, delivery in split(deliver, owners):
            if deliver.number:
                delivery = replace(delivery, broker=hosted.broker.position.broker, note=deliver.number)
            session.put(delivery, hosted.tally)
            if pressure is not None and session.full and delivery.clients[0] not in hosted.durable:
                pressure.sessions[session] = None

    async def room(self, pressure: Backpressure) -> None:
        """Wait until the queues that a call has filled have room again; sessions shed after a while, or are given up.

        First, what the call has put into idle outboxes and for waiting polls leaves: the caller can wait,
        events cannot.
        """
        await asyncio.sleep(0)
        if pressure.outboxes:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._link_wait_seconds):
                    await wait_for_room(list(pressure.outboxes))
        for session in pressure.sessions:
            if session.gone(time.monotonic()):
                self._attachments.give_up(session.name)
            else:
                await session.room(self._delivery_wait_seconds)


def _nothing() -> None:
    """Carry out what is past its time to live."""


def _emptied(message: Events | Directed) -> Events | Directed:
    """Return a message without its events."""
    batch = message.batch.take(NONE)
    if isinstance(message, Directed):
        return Directed(replace(message.events, batch=batch), message.origin, (), ())
    return replace(message, batch=batch)
