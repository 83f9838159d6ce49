"""The part of a host that sends beats for its brokers, and lets idle brokers rest.

Rules
-----
* A host sends one beat per heartbeat, one call for each other host that holds beats of its brokers
  (`standing`). A beat of another host is handed to the brokers that do not rest, as if the brokers with
  standing beats had sent it.
* A broker rests when it needs no ticks, when all brokers that it listens to have standing beats, and when all
  its own repeated beats stand. It then gets no events and takes no time.
* A broker wakes when a message arrives for it, at its own next moment, when a host with a broker that it
  listens to falls silent, and when this host itself was stalled. It is first told when those were heard last,
  so it suspects a broker as soon as one that never rested.
* During link faults (`link_faults`), which affect single links, every beat travels by itself, and no broker
  rests.

Source: docs/decisions/0092-hosts-beat-for-their-brokers.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any
from uuid import uuid4

from ray.exceptions import ActorDiedError

from ...protocol.effects import Rested
from ...protocol.ids import BrokerId, BrokerLink
from ...protocol.messages.recovery import Recovery
from .hosted_broker import HostedBroker
from .outbox import Outbox, first_line
from .standing import HERE, Host, Standing, Stands
from .transport import Transport


class Resting:
    """The beats of one host, and the rest of its brokers.

    Parameters
    ----------
    seats
        The brokers of the host, as they are at any time.
    ways
        Their transport to other brokers.
    recovery
        Of the network.
    now
        Returns the time that brokers are told.
    hand
        Hands a broker a message: ``hand(seat, source, message)``.
    drive
        Hands a broker an event.
    tell_time
        Sends a broker a tick.
    """

    def __init__(
        self,
        seats: dict[BrokerId, HostedBroker],
        ways: Transport,
        recovery: Recovery,
        now: Callable[[], float],
        hand: Callable[[HostedBroker, BrokerId, Any], None],
        drive: Callable[[HostedBroker, Rested], None],
        tell_time: Callable[[HostedBroker], None],
    ) -> None:
        self.standing = Standing(recovery.heartbeat_seconds, ways.host_of, ways.own_life)
        self._seats = seats
        self._ways = ways
        self._seconds = recovery.heartbeat_seconds
        self._now = now
        self._hand = hand
        self._drive = drive
        self._tell_time = tell_time
        self._name = uuid4().hex  # by which other hosts know this one
        self._went_on_at = now()
        self._beat_at = 0.0
        self._silent: set[Host] = set()
        self._calls: dict[Host, asyncio.Task[None]] = {}
        self._unreached: set[Host] = set()  # hosts to which the last call failed
        ways.unreached = self.is_unreached

    # Beats of brokers here.

    def holds_back(
        self, seat: HostedBroker, link: BrokerLink, to: Sequence[BrokerId], beat: Any, box: Outbox
    ) -> bool:
        """Process a beat of a broker; return whether the beat of this host stands for it."""
        if self._ways.link_faults is not None:
            return False
        return self.standing.says(seat.broker.position.broker, link, to, beat, self._now(), clear=box.clear)

    # Time.

    def turn(self) -> None:
        """Send beats when due, and wake brokers whose time has come; before the others get a tick."""
        now = self._now()
        if now - self._went_on_at > self._seconds:
            self._wake(lambda seat: True)
        self._went_on_at = now
        if now >= self._beat_at:
            self._beat_at = now + self._seconds
            self.standing.goes_on(now)
            self._hand_on(HERE)
            for host in self.standing.ears():
                if host not in self._calls:
                    self._calls[host] = asyncio.get_running_loop().create_task(self._beat(host))
        silent = set(self.standing.silent(now))
        fallen, self._silent = silent - self._silent, silent
        if fallen:
            self._wake(
                lambda seat: not fallen.isdisjoint(self.standing.speakers(seat.broker.position.broker))
            )
        self._wake(lambda seat: seat.rests_until is not None and now >= seat.rests_until)

    def try_rest(self, seat: HostedBroker) -> None:
        """Let a broker rest that has just had a tick, if it can."""
        if self._ways.link_faults is not None or (seat.commits is not None and not seat.commits.idle):
            return
        now, broker = self._now(), seat.broker.position.broker
        self.standing.lapse(broker, now)
        until = seat.broker.pipeline.rests_until()
        if until <= now + self._seconds:
            return
        listens_to = seat.broker.listens_to
        if self.standing.vouched(broker, now) == listens_to and self.standing.all_held(broker, listens_to):
            seat.rests_until = until

    # Waking.

    def _wake(self, whom: Callable[[HostedBroker], bool]) -> None:
        for seat in list(self._seats.values()):
            if seat.rests_until is not None and whom(seat):
                self.wake(seat)

    def wake(self, seat: HostedBroker) -> None:
        """Tell a resting broker that it rested, and the time."""
        broker, until = seat.broker.position.broker, self._went_on_at
        heard = self.standing.heard(broker, seat.told_at)
        seat.rests_until, seat.told_at = None, until
        self.standing.renew(broker, until)
        self._drive(seat, Rested(until, heard))
        self._tell_time(seat)

    def stop(self) -> None:
        """Wake all, and let every beat travel by itself from now on."""
        self._wake(lambda seat: True)
        self.standing.forget_all()

    def reborn(self, broker: BrokerId) -> None:
        """Forget the beats of, and to, a broker that has been restarted or has left."""
        self._wake(lambda seat: broker in seat.broker.listens_to)
        self.standing.forget(broker)

    # Other hosts.

    def is_unreached(self, broker: BrokerId) -> bool:
        """Return whether the last beat could not be delivered to the host of a broker."""
        try:
            return self._ways.host_of(broker) in self._unreached
        except KeyError:
            return False

    async def _beat(self, host: Any) -> None:
        stands = self.standing.untold(host)
        try:
            await host.host_beat.remote(self._name, stands)
        except ActorDiedError:
            self._unreached.add(host)
            for source, to in self.standing.died(host):
                self._ways.told_dead(source, to)
        except Exception as error:  # it is repeated with the next one
            self._unreached.add(host)
            self._ways.log.debug("a beat of this host was lost: %s", first_line(error))
        else:
            self._unreached.discard(host)
            self.standing.told(host, stands)
        finally:
            del self._calls[host]

    async def hear(self, host: str, stands: Sequence[Stands]) -> None:
        """Process a beat of another host."""
        known = [
            each
            for each in stands
            if each.to in self._seats and await self._ways.current(each.source, each.life)
        ]
        news = self.standing.hears(host, known, self._now())
        for each in news:
            self._hand(
                self._seats[each.to], each.source, each.beat
            )  # what was sent before may have been lost
        self._hand_on(host, {(each.source, each.to) for each in news})

    def _hand_on(
        self, host: Host, news: set[tuple[BrokerId, BrokerId]] | frozenset[Any] = frozenset()
    ) -> None:
        """Hand the standing beats of a host to brokers that do not rest, except those just handed over."""
        for broker, seat in list(self._seats.items()):
            if seat.rests_until is None:
                for source, beat in self.standing.beats(broker, host):
                    if (source, broker) not in news:
                        self._hand(seat, source, beat)
