"""A sink as a Ray actor: a durable subscriber whose events go to files. Ray restarts it when it dies.

Rules
-----
* What it decides stands in `rolling`, what it writes in `folder`. One thread does both, and takes no more events while
  files cannot be written or nothing is acknowledged: they wait at the broker.
* An error before it has begun is reported to whoever starts it, who ends the actor. Later it waits, says why in its
  status, and tries again.
* It ends when its network has ended, when another process has its name, and with the raylet of its node
  (docs/decisions/0102-a-host-ends-with-its-raylet.md), so that no other process of this sink writes beside it.
* Who has its name may be its successor, which Ray started when its node was cut off. Ending the actor would end that
  one, so a process ends only itself, unless Ray has never restarted the actor.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Final, Literal

import ray

from ...actors.clients.durable import DurableSubscriber
from ...actors.clients.inbox import Arrival
from ...actors.host.ending import end_with_raylet
from ...actors.network.lasting_actors import end_for_good, has_ended
from ...actors.network.network import Network
from ...actors.network.sinks import mark_of, subscriber_of
from ...protocol.errors import BrokerUnavailable, InputError, NameTaken, NetworkNotFound, StorageFailed
from ...protocol.messages.recovery import Recovery
from ...protocol.sinks import SinkConfig, SinkState, SinkStatus, shown
from ...routing.language.questions import to_filter
from .checkpoints import read_by_all
from .delta import DeltaTarget
from .folder import SinkFolder, attempt
from .rolling import Bounds, Roll, Rolling, acknowledged_in, passed, stem_of

AGAIN_SECONDS: Final = 2.0
"""How long a sink waits before it tries again what was refused."""
WAKE_SECONDS: Final = 0.2
"""How long a sink waits for events before it looks whether it shall write what it has, or end."""
LOOK_SECONDS: Final = 5.0
"""How often a sink that gets no events checks whether its network still exists."""
SWEEP_SECONDS: Final = 5.0
"""How often a sink looks which files have been read."""
EVENTS_SHARE, BYTES_SHARE = 2, 4
"""A roll has at most this part of what a broker retains of unacknowledged events: more would be given up there."""

Last = Literal["close", "end"]

_LOG = logging.getLogger("rayvous.sink")


class SinkActor:
    """Writes the events of a selector to files.

    Parameters
    ----------
    network
        The name of the network.
    config
        What it writes, and where.
    """

    def __init__(self, network: str, config: SinkConfig) -> None:
        self._network, self._config = network, config
        self._target = shown(config.target)
        self._ready: Future[None] = Future()
        self._problem = ""
        self._looked = self._swept = time.monotonic()
        self._last: Last | None = None
        self._flushes: list[Future[None]] = []
        self._turn = threading.Lock()
        self._over: Future[None] = Future()
        threading.Thread(target=_end_with_raylet, name="raylet", daemon=True).start()
        threading.Thread(target=self._run, name="sink", daemon=True).start()

    # What is asked of it.

    def config(self) -> SinkConfig:
        """Return its configuration."""
        return self._config

    def ready(self) -> None:
        """Return once it has subscribed, and has looked at its folder.

        Raises
        ------
        InputError
            If the folder cannot be used, or the name belongs to a sink with another selector.
        """
        self._ready.result()

    def status(self) -> SinkStatus:
        """Return its state now."""
        state: SinkState = "silent" if not self._ready.done() else "waiting" if self._problem else "writing"
        said = SinkStatus(self._config.name, self._target, state, self._problem)
        if not self._ready.done() or self._ready.exception() is not None:
            return said
        rolling, folder = self._rolling, self._folder
        return SinkStatus(
            said.name, said.target, said.state, said.problem, self._written, folder.files, folder.bytes,
            rolling.events + self._rolled, folder.conflicts, self._lost + len(self._subscriber.losses),
        )  # fmt: skip

    def flush(self, seconds: float) -> None:
        """Return when every event that has arrived by now is acknowledged and in a file.

        Raises
        ------
        TimeoutError
            If that takes longer. By then nobody waits for the answer.
        """
        done: Future[None] = Future()
        with self._turn:
            self._flushes.append(done)
        done.result(seconds)

    def finish(self, last: Last) -> None:
        """Write and acknowledge what has arrived; then leave, and with ``"end"`` forget the subscription."""
        self._last = last
        self._over.result()

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()

    # What it does.

    def _run(self) -> None:
        try:
            self._attached = Network.attach(self._network)
            self._begin()
            self._ready.set_result(None)
            while not self._step():
                pass
            self._over.set_result(None)
        except NetworkNotFound as error:
            self._fail(error)
            end_for_good()
        except NameTaken as error:
            if may_have_a_successor():
                self._exit()
            self._fail(error)
            end_for_good()
        except BaseException as error:
            if self._ready.done() or may_have_a_successor():
                self._exit()
            self._fail(error)
            # Whoever starts it ends it, unless that process has gone.
            while not has_ended(self._network):
                time.sleep(LOOK_SECONDS)
            end_for_good()

    def _exit(self) -> None:
        """End this process only. Ray starts the next one, which answers what was asked."""
        _LOG.exception("this process of sink %s ends", self._config.name)
        os._exit(1)

    def _fail(self, error: BaseException) -> None:
        _LOG.exception("sink %s has ended", self._config.name)
        for future in (self._ready, self._over, *self._flushes):
            if not future.done():
                future.set_exception(error)

    def _begin(self) -> None:
        """Take the subscription over, and look what is in the folder."""
        directory = self._attached.inspect.directory
        stem = stem_of(self._config.name, mark_of(directory))
        config = self._config
        if config.format == "delta":
            self._folder: SinkFolder = DeltaTarget(config.target, stem, config.columns)
        else:
            self._folder = SinkFolder(config.target, stem, config.format, config.columns)
        self._subscriber = self._attached.subscriber(subscriber_of(self._config.name), durable=True)
        found: list[Rolling] = []
        bounds, partition = bounds_of(self._config, directory.features.times), self._config.partition
        acknowledged = acknowledged_in(self._subscriber.found_beside)
        self._lost = acknowledged.lost  # before this process

        def find() -> None:
            last = self._folder.find(acknowledged)
            found.append(Rolling(partition, bounds, self._subscriber.position, last))

        if ray.get_runtime_context().was_current_actor_reconstructed:
            self._until_done(find)
        elif refused := attempt(find):
            raise InputError(f"target {self._target!r} cannot be used: {self._without_secrets(refused)}")
        self._rolling = found[0]
        self._written = self._rolled = 0
        self._subscribe(self._subscriber)

    def _subscribe(self, subscriber: DurableSubscriber) -> None:
        wanted, known = to_filter(self._config.selector), subscriber.subscriptions
        if not known:
            subscriber.subscribe(wanted)
        elif wanted not in known.values():
            there = " and ".join(str(each) for each in known.values())
            raise InputError(
                f"sink {self._config.name!r} has subscribed to {there}: end it first, or name another"
            )

    def _step(self) -> bool:
        """Take what arrives, or write what is due; return whether the sink is over."""
        with self._turn:
            flushes, self._flushes = self._flushes, []
        last = self._last
        arrival = self._next()
        while arrival is not None:
            self._rolling.take(arrival.batch.take(arrival.rows), time.monotonic())
            if self._rolling.due_in(time.monotonic()) == 0:
                self._write(self._rolling.roll())
            arrival = self._next(0) if flushes or last else None
        due = self._rolling.due_in(time.monotonic())
        if due == 0 or (due is not None and (flushes or last)):
            self._write(self._rolling.roll())
        for each in flushes:
            each.set_result(None)
        if last == "end":
            self._subscriber.end()
        if last is not None:
            self._attached.close()
        return last is not None

    def _next(self, seconds: float | None = None) -> Arrival | None:
        """Return what arrives next, or None if nothing does in time."""
        due = self._rolling.due_in(time.monotonic())
        if seconds is None:
            waits = 0.0 if self._flushes or self._last else WAKE_SECONDS
            seconds = waits if due is None else min(due, waits)
        try:
            arrival = next(self._subscriber.arrivals(seconds), None)
        except (BrokerUnavailable, StorageFailed) as error:  # it goes on looking for a broker by itself
            self._wait(str(error))
            return None
        if arrival is None and time.monotonic() - self._looked > LOOK_SECONDS:
            self._require_network()
        self._problem = ""
        return arrival

    def _write(self, roll: Roll) -> None:
        """Write the files of a roll, acknowledge it, and give them their names, however long that takes."""
        self._rolled = sum(map(len, roll.parts.values()))
        for place, batch in roll.parts.items():
            self._until_done(partial(self._folder.write, roll.number, place, batch))
        while True:
            lost = self._lost + passed(self._subscriber.losses, self._rolling.position)
            try:
                self._subscriber.acknowledge_up_to(roll.marks, [roll.number, self._folder.process, lost])
                break
            except (BrokerUnavailable, StorageFailed) as error:
                self._wait(f"not acknowledged: {error}")
        self._until_done(self._folder.name)
        self._written += self._rolled
        self._rolled = 0
        self._remove_what_was_read()

    def _remove_what_was_read(self) -> None:
        """Remove the files that all queries have read, now and then; what is refused is tried again then."""
        if self._config.checkpoints and time.monotonic() - self._swept > SWEEP_SECONDS:
            self._swept = time.monotonic()
            if refused := attempt(lambda: self._folder.remove(read_by_all(self._config.checkpoints))):
                _LOG.warning("sink %s keeps files: %s", self._config.name, self._without_secrets(refused))

    def _until_done(self, work: Callable[[], object]) -> None:
        while refused := attempt(work):
            self._wait(f"{self._target}: {self._without_secrets(refused)}")
        self._problem = ""

    def _without_secrets(self, text: str) -> str:
        return text.replace(self._config.target, self._target)

    def _wait(self, problem: str) -> None:
        if problem != self._problem:
            _LOG.warning("sink %s waits: %s", self._config.name, problem)
        self._problem = problem
        self._require_network()
        time.sleep(AGAIN_SECONDS)

    def _require_network(self) -> None:
        self._looked = time.monotonic()
        if has_ended(self._network):
            raise NetworkNotFound(f"network {self._network!r} has ended")


def bounds_of(config: SinkConfig, recovery: Recovery) -> Bounds:
    """Return when a sink rolls: as configured, and before its broker has to give unacknowledged events up."""
    events = min(config.roll_events, max(1, recovery.durable_events_max // EVENTS_SHARE))
    return Bounds(events, max(1, recovery.durable_bytes_max // BYTES_SHARE), config.roll_seconds)


def may_have_a_successor() -> bool:
    """Return whether this process may not be the actor's present one: Ray has restarted it, or does not say."""
    try:
        return bool(ray.get_runtime_context().was_current_actor_reconstructed)
    except Exception:  # whatever keeps Ray from answering
        return True


def _end_with_raylet() -> None:
    async def watch() -> None:
        end_with_raylet(lambda why: os._exit(1))
        await asyncio.Event().wait()

    with suppress(RuntimeError):
        asyncio.run(watch())
