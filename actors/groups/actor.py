"""A consumer group as a Ray actor: it has the durable subscription, and gives its events to workers.

Rules
-----
* What it decides stands in `clients.group`. Everything but calls that block runs on one event loop.
* An acknowledgement is confirmed when the rendezvous point has stored it. One write at a time; what comes meanwhile is
  in the next.
* What makes events dead letters has a task of its own: nothing else waits for a broker that does not answer.
* It takes at most `WINDOW_MAX` events above its position, and none while it has `WINDOW_BYTES_MAX` of them. The broker
  retains the others, within its bounds.
* Ray restarts it when it dies. It then begins by itself: it finds what is done beside its position, and workers say
  what they hold.
* A group that has no subscription and no worker, since its first was refused, ends for good after `LOOK_SECONDS`.
* It ends when its network has ended, when another process has its name, and with the raylet of its node
  (docs/decisions/0102-a-host-ends-with-its-raylet.md).
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, cast

import numpy as np
import ray

from ...clients.beginnings import At
from ...clients.group import Given, GroupMachine, Hold, Settled
from ...clients.keys import keys_of
from ...protocol.batch import EventBatch, concat
from ...protocol.errors import BrokerUnavailable, InputError, NameTaken, NetworkNotFound, RayvousError
from ...protocol.expiry import deadline
from ...protocol.groups import GroupConfig, subscriber_of
from ...protocol.ids import EventId
from ...routing.filters.filter import Filter
from ..clients.durable import DurableSubscriber
from ..host.ending import end_with_raylet
from ..network.lasting_actors import end_for_good, has_ended
from ..network.network import Network, clients_of
from .messages import POLL_SECONDS, Portion

WINDOW_MAX: Final = 10_000
WINDOW_BYTES_MAX: Final = 64 << 20
TICK_SECONDS: Final = 0.2
SIGNS: Final = 3
"""How many signs of life a worker gives in the time after which it is dead."""
AGAIN_SECONDS: Final = 1.0
"""How long it waits before it tries again to make an event a dead letter, or to store what is done."""
LINGER_SECONDS: Final = 5.0
"""How long it answers after its end, for workers that ask then."""
LOOK_SECONDS: Final = 5.0
"""How often it looks whether its network still exists, and whether anybody uses it."""

Last = Literal["close", "end"]

_LOG = logging.getLogger("rayvous.group")


class GroupActor:
    """Shares the events of a durable subscription among workers.

    Parameters
    ----------
    network
        The name of the network.
    config
        The group.
    """

    def __init__(self, network: str, config: GroupConfig) -> None:
        self._network, self._config = network, config
        self._beginning: asyncio.Task[None] | None = None
        self._events: dict[
            EventId, tuple[EventBatch, int, int]
        ] = {}  # those that are not done: row of a batch, bytes
        self._bytes = 0  # of these
        self._news = asyncio.Event()
        self._writing = asyncio.Lock()
        self._subscribing = asyncio.Lock()
        self._changes = self._written = 0
        self._over = ""
        self._tasks: list[asyncio.Task[None]] = []
        if ray.get_runtime_context().was_current_actor_reconstructed:
            self._tasks.append(asyncio.get_running_loop().create_task(self._go_on()))

    # What is asked of it.

    async def config(self) -> GroupConfig:
        """Return its configuration."""
        return self._config

    async def ready(self) -> list[Filter]:
        """Return its subscriptions, once it has its name.

        Raises
        ------
        RayvousError
            If it cannot begin.
        """
        if self._beginning is None:
            self._beginning = asyncio.get_running_loop().create_task(self._begin())
        await asyncio.shield(self._beginning)
        return list(self._subscriber.subscriptions.values())

    async def subscribe(
        self, wanted: Filter, priority: int = 0, max_delay: float | None = None, at: At | None = None
    ) -> int:
        """Subscribe the group, and return the number of its one subscription; the same filter again does nothing.

        Raises
        ------
        InputError
            If it has subscribed to something else, or cannot begin in the past.
        SubscriptionRejected, SubscriptionTimeout, BrokerUnavailable
            As `Subscriber.subscribe`.
        """
        await self.ready()
        async with self._subscribing:
            known = self._subscriber.subscriptions
            if not known:
                return await asyncio.to_thread(
                    self._subscriber.subscribe, wanted, priority=priority, max_delay=max_delay, at=at
                )
            for number, each in known.items():
                if each == wanted:
                    return number
        there = " and ".join(map(str, known.values()))
        raise InputError(
            f"group {self._config.name!r} has subscribed to {there}, not to {wanted}: all its workers share one "
            "subscription; end the group first, or choose another name"
        )

    async def poll(self, worker: str, joined: bool, asks: bool) -> Portion:
        """Give a worker events; wait a while for some.

        Parameters
        ----------
        worker
            Its name in the group.
        joined
            Whether it has joined: then it is a stranger if the group does not know it.
        asks
            Whether its program waits for an event.
        """
        await self.ready()
        loop = asyncio.get_running_loop()
        until = loop.time() + min(POLL_SECONDS, self._config.silent_seconds / SIGNS)
        if joined and not self._machine.knows(worker):
            return Portion(stranger=True)
        self._machine.hear(worker, time.monotonic(), asks=asks)
        while not self._over:
            if not self._machine.knows(worker):  # it has left, or was taken for dead
                return Portion()
            self._expire()
            withdrawn = self._machine.withdraw(worker)
            given = self._machine.give(worker, time.monotonic(), self._share())
            if given or withdrawn or loop.time() >= until:
                return self._portion(given, withdrawn)
            news = self._news
            try:
                async with asyncio.timeout_at(until):
                    await news.wait()
            except TimeoutError:
                pass
        return Portion(over=self._over)

    async def claim(self, worker: str, held: Mapping[EventId, Hold]) -> tuple[EventId, ...]:
        """Let a worker join that holds these events; return those that are not its own.

        A process of the group does not know its workers until they have: before, they can settle nothing.
        """
        await self.ready()
        return tuple(self._machine.claim(worker, held, time.monotonic()))

    async def settle(
        self, worker: str, acknowledged: Sequence[EventId], refused: Sequence[tuple[EventId, float]] = ()
    ) -> Settled:
        """Record what a worker is done with, and what it refuses, with a delay; return once that is stored.

        Raises
        ------
        BrokerUnavailable
            If the rendezvous point does not store it in time. It may or may not be acknowledged then, and the same
            worker may say it again.
        """
        await self.ready()
        settled, done = self._machine.settle(worker, acknowledged, refused, time.monotonic())
        if settled.stranger:
            return settled
        self._changes += bool(done or settled.withdrawn)
        for event in done:
            self._let_go(event)
        self._come()
        if len(settled.foreign) < len(acknowledged) + len(refused):
            await self._store()
        return settled

    async def leave(self, worker: str) -> None:
        """Let a worker go: others get what it holds."""
        if self._beginning is not None:
            await self.ready()
            self._machine.leave(worker)
            self._tell()

    async def workers(self) -> dict[str, int]:
        """Return how many events each worker holds."""
        await self.ready()
        return self._machine.workers

    async def finish(self, last: Last) -> None:
        """End the group, with ``"end"`` for good: its subscription is cancelled and its position deleted."""
        await self.ready()
        self._end("the group has ended" if last == "end" else "the network ends")
        leave = self._subscriber.end if last == "end" else self._subscriber.close
        await asyncio.to_thread(leave)

    async def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    # What it does.

    async def _begin(self) -> None:
        loop = asyncio.get_running_loop()
        end_with_raylet(lambda why: os._exit(1))
        try:
            self._attached = await asyncio.to_thread(Network.attach, self._network)
            self._subscriber = await asyncio.to_thread(self._subscribe_durably)
        except NetworkNotFound:
            end_for_good()
            raise
        except BaseException:
            self._beginning = None  # the next call tries again
            raise
        restarted = ray.get_runtime_context().was_current_actor_reconstructed
        found: Any = self._subscriber.found_beside
        beside = found or {"done": {}, "tries": {}}
        tries = {(name, number): n for name, some in beside["tries"].items() for number, n in some.items()}
        opens_at = time.monotonic() + self._config.silent_seconds if restarted else -math.inf
        known = self._subscriber.position, beside["done"], tries
        self._machine = GroupMachine(self._config, *known, opens_at, self._subscriber.incarnation)
        self._opened = self._machine.opened  # and what that has changed is stored, or will be
        self._subscriber.listen(self._come)
        self._tasks += [loop.create_task(self._run()), loop.create_task(self._tidy())]
        self._come()

    async def _go_on(self) -> None:
        """Begin after a restart, although no worker may be left that asks for it: its broker waits, and may be gone."""
        while self._beginning is None:
            try:
                await self.ready()
            except Exception as error:
                known = isinstance(error, RayvousError)
                _LOG.warning("group %s begins again: %s", self._config.name, error, exc_info=not known)
                await asyncio.sleep(AGAIN_SECONDS)

    def _subscribe_durably(self) -> DurableSubscriber:
        found = clients_of(self._attached).subscriber(subscriber_of(self._config.name), durable=True)
        return cast(DurableSubscriber, found)

    async def _run(self) -> None:
        """Look at the time: who is silent or stands still, and what is overdue."""
        looked, unused = time.monotonic(), False
        while not self._over:
            await asyncio.sleep(TICK_SECONDS)
            self._machine.tick(time.monotonic())
            if self._machine.opened > self._opened:
                self._opened = True
                self._changes += 1
            self._expire()
            self._tell()
            if time.monotonic() - looked > LOOK_SECONDS:
                looked = time.monotonic()
                if await asyncio.to_thread(has_ended, self._network):
                    end_for_good()
                if unused and self._unused:
                    await self.finish("end")
                unused = self._unused

    @property
    def _unused(self) -> bool:
        there = self._subscriber.subscriptions or self._machine.workers or self._subscribing.locked()
        return not there

    async def _tidy(self) -> None:
        """Make events dead letters that are given up, and store what an acknowledgement could not."""
        while not self._over:
            try:
                if self._machine.given_up:
                    await self._bury()
                elif self._written < self._changes and not self._writing.locked():
                    await self._store()
                else:
                    await asyncio.sleep(TICK_SECONDS)
            except NameTaken as error:
                self._end(str(error))
            except Exception as error:
                known = isinstance(error, RayvousError)
                _LOG.warning("group %s tries again: %s", self._config.name, error, exc_info=not known)
                await asyncio.sleep(AGAIN_SECONDS)

    async def _bury(self) -> None:
        """Make an event a dead letter, and then store that it is done."""
        letter = self._machine.given_up[0]
        event = letter.publisher, letter.sequence
        batch, row, _ = self._events[event]
        (said,) = batch.take(np.array([row])).events()
        await asyncio.to_thread(self._subscriber.give_up, *event, said, letter.reason)
        self._machine.given_up.popleft()
        self._machine.buried(event)
        self._changes += 1
        self._let_go(event)
        self._come()
        await self._store()

    def _expire(self) -> None:
        """Let go of what waits and is past its time to live; its broker counts that. The next write stores it."""
        for event in self._machine.expire(time.time()):
            self._changes += 1
            self._let_go(event)

    def _come(self) -> None:
        """Take in what has arrived; called on the loop when there is something, and at the end."""
        try:
            self._take_in()
        except BrokerUnavailable as error:  # it looks for a broker by itself
            _LOG.warning("group %s waits: %s", self._config.name, error)
        except RayvousError as error:
            self._end(str(error))
        self._tell()

    def _take_in(self) -> None:
        machine = self._machine
        while not self._over and self._has_room and (arrival := self._subscriber.take()):
            batch = arrival.batch.take(arrival.rows)
            nbytes = batch.nbytes // max(1, len(batch))  # of each: measured once for all
            for row, key in enumerate(keys_of(batch, self._config.group_key)):
                event = batch.identity(row)
                if machine.take(*event, key, deadline(batch, row)):
                    self._events[event] = batch, row, nbytes
                    self._bytes += nbytes

    @property
    def _has_room(self) -> bool:
        return self._machine.outstanding < WINDOW_MAX and self._bytes < WINDOW_BYTES_MAX

    def _let_go(self, event: EventId) -> None:
        _, _, nbytes = self._events.pop(event, (None, 0, 0))
        self._bytes -= nbytes

    def _tell(self) -> None:
        """Wake all polls."""
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _share(self) -> int:
        """Return how many events a worker gets at once: its share of what waits."""
        machine = self._machine
        return max(1, math.ceil(machine.waiting / max(1, machine.crew)))

    def _portion(self, given: Sequence[Given], withdrawn: Sequence[EventId]) -> Portion:
        found = [self._events[each.publisher, each.sequence] for each in given]
        batch = concat([batch.take(np.array([row])) for batch, row, _ in found]) if found else None
        keys, tokens = tuple(each.hold.key for each in given), tuple(each.hold.token for each in given)
        return Portion(batch, tuple(each.deliveries for each in given), keys, tokens, tuple(withdrawn))

    async def _store(self) -> None:
        """Return once everything that is done by now is stored."""
        mine = self._changes
        async with self._writing:
            if self._written >= mine:
                return
            covers, progress = self._changes, self._machine.progress()
            tries: dict[str, dict[int, int]] = {}
            for (name, number), times in progress.tries.items():
                tries.setdefault(name, {})[number] = times
            beside = {"done": progress.done, "tries": tries}
            await asyncio.to_thread(self._subscriber.acknowledge_up_to, progress.position, beside)
            self._written = covers

    def _end(self, why: str) -> None:
        """Tell all workers that there is nothing more, and end once they have heard it."""
        self._over = why
        self._tell()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, end_for_good)
