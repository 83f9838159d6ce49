"""The part of a host that sends heartbeats on behalf of its brokers, and lets idle brokers rest.

Rules
-----
* A host sends one heartbeat per period, one call to each other host that holds standing heartbeats of brokers here
  (`standing`). When another host's heartbeat arrives, it is passed to the brokers that are not resting, as if the
  brokers whose heartbeats stand had sent them.
* A broker rests when it need not be told the time, when the heartbeats of all brokers that it listens to stand, and
  when everything that it repeats stands. While it rests it is told nothing and uses no CPU time.
* A resting broker is woken by anything that arrives for it, by its own next deadline, when a host of brokers that
  it listens to falls silent, and after this host itself was suspended. It is first told when those brokers were
  last heard. It therefore suspects a broker as early as a broker that never rested.
* A host that goes on, but takes long to tell its brokers the time, was not suspended: it has much to do, and would have
  more of it if it woke them. No host is taken for silent for a time in which this one did not get to what it said.
* While messages have a `passage` to pass, which is of single links, every heartbeat is sent by itself, and no broker
  rests.

Source: docs/decisions/0092-hosts-beat-for-their-brokers.md.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any
from uuid import uuid4

from ray.exceptions import ActorDiedError

from ...protocol.effects import Rested
from ...protocol.ids import BrokerId, BrokerLink
from ...protocol.queries import ListensTo
from .clock import Clock
from .hosted_broker import Drive, Handle, HostedBroker
from .outbox import Outbox, first_line
from .standing import HERE, Host, StandingHeartbeats, Stands
from .transport import Transport


class Awake:
    """Brokers that never rest, and send each heartbeat by themselves: those of a network that does not heal.

    Attributes
    ----------
    suspended_at
        The last time before this host was suspended: a broker that has rested since then is to be told of that.
    """

    def __init__(self) -> None:
        self.suspended_at = -math.inf

    def holds_back(
        self, hosted: HostedBroker, link: BrokerLink, to: Sequence[BrokerId], beat: object, box: Outbox
    ) -> bool:
        """Return False: no heartbeat is replaced."""
        return False

    def turn(self) -> None:
        """Do nothing before the brokers are told the time."""

    def go_on(self) -> None:
        """Do nothing while the brokers are told the time: every heartbeat is sent by itself."""

    def try_rest(self, hosted: HostedBroker) -> None:
        """Let a broker go on."""

    def wake(self, hosted: HostedBroker) -> None:
        """Do nothing: no broker rests."""

    def stop(self) -> None:
        """Do nothing: every heartbeat is sent by itself."""

    def reborn(self, broker: BrokerId) -> None:
        """Do nothing: nothing stands for a broker."""

    async def hear(self, host: str, stands: Sequence[Stands]) -> list[bool]:
        """Ignore a heartbeat of another host."""
        return [False] * len(stands)


class Resting(Awake):
    """The heartbeats of one host, and the rest of its brokers.

    Parameters
    ----------
    hosted_brokers
        A live view of the host's brokers.
    ways
        The transport to other brokers.
    heartbeat_seconds
        The time between two heartbeats.
    clock
        The time of the brokers.
    hand, drive
        Pass a broker a message, and any other event.
    tell_time
        Tells a broker the time.
    """

    def __init__(
        self,
        hosted_brokers: Mapping[BrokerId, HostedBroker],
        ways: Transport,
        heartbeat_seconds: float,
        clock: Clock,
        hand: Handle,
        drive: Drive,
        tell_time: Callable[[HostedBroker], None],
    ) -> None:
        super().__init__()
        self.standing = StandingHeartbeats(heartbeat_seconds, ways.host_of, ways.own_incarnation)
        self._hosted_brokers = hosted_brokers
        self._ways = ways
        self._seconds = heartbeat_seconds
        self._clock = clock
        self._hand = hand
        self._drive = drive
        self._tell_time = tell_time
        self._name = uuid4().hex  # by which other hosts know this one
        self._went_on_at, self._stalled_at = clock.now(), clock.stalled()
        self._beat_at = self._handed_on_at = 0.0
        self._silent: set[Host] = set()
        self._calls: dict[Host, asyncio.Task[None]] = {}

    # Heartbeats of brokers here.

    def holds_back(
        self, hosted: HostedBroker, link: BrokerLink, to: Sequence[BrokerId], beat: object, box: Outbox
    ) -> bool:
        """Take in a heartbeat of a broker; return whether the heartbeat of this host replaces it."""
        if self._ways.passage is not None:
            return False
        return self.standing.says(
            hosted.broker.position.broker, link, to, beat, self._clock.now(), clear=box.clear
        )

    # Time.

    def turn(self) -> None:
        """Send the heartbeat when it is due, and wake brokers that are due, before the others are told the time."""
        now, stalled = self._clock.now(), self._clock.stalled()
        self.go_on()
        if self._beat_at > self._handed_on_at:
            self._handed_on_at = self._beat_at
            self._hand_on(HERE)
        silent = set(self.standing.silent(now, stalled))
        fallen, self._silent = silent - self._silent, silent
        if fallen:
            self._wake(
                lambda hosted: not fallen.isdisjoint(self.standing.speakers(hosted.broker.position.broker))
            )
        self._wake(lambda hosted: hosted.rests_until is not None and now >= hosted.rests_until)

    def go_on(self) -> None:
        """Send the heartbeat when it is due, also while a long turn lasts: others would take this host for silent.

        After a time in which the host did not go on, all brokers are to be woken, as they have to know of it: in this
        turn, but not at once, or it would not go on for as long as that takes.
        """
        now = self._clock.now()
        if now - self._went_on_at > self._seconds:
            self.suspended_at = self._went_on_at
        self._went_on_at, self._stalled_at = now, self._clock.stalled()
        if now < self._beat_at:
            return
        self._beat_at = now + self._seconds
        self.standing.goes_on(now, self._stalled_at)
        for host in self.standing.receivers():
            if host not in self._calls:
                self._calls[host] = asyncio.get_running_loop().create_task(self._beat(host))

    def try_rest(self, hosted: HostedBroker) -> None:
        """Let a broker rest that has just been told the time, if it can."""
        if self._ways.passage is not None or (hosted.commits is not None and not hosted.commits.idle):
            return
        now, broker = self._clock.now(), hosted.broker.position.broker
        self.standing.lapse(broker, now)
        until = hosted.broker.pipeline.rests_until()
        if until <= now + self._seconds:
            return
        listens_to = hosted.broker.ask(ListensTo())
        self.standing.settle(broker, listens_to, hosted.clear)
        if self.standing.alive_by_host(
            broker, now, self._clock.stalled()
        ) == listens_to and self.standing.all_held(broker, listens_to):
            hosted.rests_until = until

    # Waking.

    def _wake(self, whom: Callable[[HostedBroker], bool]) -> None:
        for hosted in list(self._hosted_brokers.values()):
            if hosted.rests_until is not None and whom(hosted):
                self.wake(hosted)

    def wake(self, hosted: HostedBroker) -> None:
        """Tell a resting broker that it rested, and the time."""
        broker = hosted.broker.position.broker
        until = self.suspended_at if hosted.ticked_at <= self.suspended_at else self._went_on_at
        heard = self.standing.heard(broker, hosted.ticked_at, self._stalled_at)
        hosted.rests_until, hosted.ticked_at = None, until
        self.standing.renew(broker, until)
        self._drive(hosted, Rested(until, heard))
        self._tell_time(hosted)

    def stop(self) -> None:
        """Wake all brokers, and let every heartbeat be sent by itself from now on."""
        self._wake(lambda hosted: True)
        self.standing.forget_all()

    def reborn(self, broker: BrokerId) -> None:
        """Forget what was said by and to a broker that has restarted or left."""
        self._wake(lambda hosted: broker in hosted.broker.ask(ListensTo()))
        self.standing.forget(broker)

    # Other hosts.

    async def _beat(self, host: Any) -> None:
        stands = self.standing.unconfirmed(host)
        try:
            taken = await self._ways.handle_of(host).host_beat(self._name, stands)
        except ActorDiedError:
            self._ways.note(host, reached=False)
            for source, to in self.standing.died(host):
                self._ways.told_dead(source, to)
        except Exception as error:  # the next heartbeat tells it again
            self._ways.note(host, reached=False)
            self._ways.log.debug("a beat of this host was lost: %s", first_line(error))
        else:
            self._ways.note(host, reached=True)
            self.standing.told(host, [each for each, held in zip(stands, taken, strict=True) if held])
        finally:
            del self._calls[host]

    async def hear(self, host: str, stands: Sequence[Stands]) -> list[bool]:
        """Take in a heartbeat of another host; return which of these need not be said again.

        What is revoked need not, whoever is here: nothing of it stands.
        """
        current = [await self._ways.current(each.source, each.incarnation) for each in stands]
        taken = [
            known and each.to in self._hosted_brokers for each, known in zip(stands, current, strict=True)
        ]
        now, stalled = self._clock.now(), self._clock.stalled()
        news = self.standing.hears(host, compress(stands, taken), now, stalled)
        for each in news:
            self._hand(
                self._hosted_brokers[each.to], each.source, each.beat
            )  # what was sent before may have been lost
        self._hand_on(host, {(each.source, each.to) for each in news})
        return [each.beat is None or held for each, held in zip(stands, taken, strict=True)]

    def _hand_on(
        self, host: Host, news: set[tuple[BrokerId, BrokerId]] | frozenset[Any] = frozenset()
    ) -> None:
        """Pass the standing heartbeats of a host to the brokers that are awake, except those passed just now."""
        for broker, hosted in list(self._hosted_brokers.items()):
            if hosted.rests_until is None:
                for source, beat in self.standing.beats(broker, host):
                    if (source, broker) not in news:
                        self._hand(hosted, source, beat)
