"""The effects of a broker, held back until everything before them is stable.

Rules (`protocol.effects`)
--------------------------
* An effect is carried out when every `Persist` before it, also of earlier steps, is stable.
* A commit that waits for nothing (`Store.may_wait`) is made at once: to hand it to a thread takes longer. Of one step
  that is the first, so that a step with many changes makes two. If one has taken long all the same, later ones run in
  a thread for a while.
* Other commits run in a thread, so that the host's event loop does not wait for the disk. Everything that arrives
  during such a commit goes into the next one (group commit). A slow disk therefore makes commits larger, not queues
  longer.
* A commit in a thread begins when its step ends, and in the turn of the event loop in which it is stable its effects
  leave, as one step (`departures`): the two threads have to hand over, and no turn of the loop is waited for.
* When a commit fails, or an effect that waited for one cannot be carried out, the broker halts: it carries out
  nothing more, and whoever waits for it gets the error. So nobody waits for a reply that never comes. In a
  network that heals, its process ends instead (`ending`).
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Final

from ...protocol.effects import Effect, Persist, Write
from ...protocol.errors import StorageFailed
from ...recovery.durability.stores import Store
from ..later import Later
from ..logs import HOST, Log
from .departures import Departures

AT_ONCE_SECONDS_MAX: Final = 0.02
"""A commit that should wait for nothing, and has taken longer, has probably waited for the disk."""
IN_THREAD_SECONDS: Final = 10.0
"""For how long commits run in a thread after that."""

_THREADS: Final = ThreadPoolExecutor(max_workers=8, thread_name_prefix="rayvous-commits")
"""Carry out the commits of all brokers of this process; a thread is started when it is needed."""


class Commits:
    """Passes one broker's effects through its store.

    Parameters
    ----------
    name
        The name of the broker, for messages.
    store
        Where its changes are made stable.
    failed
        Called once, when the broker halts.
    log
        The log of the broker.
    departures
        The queues of its host that have something to send.

    Attributes
    ----------
    error
        Why the broker halted; None while it works.
    made
        The number of commits so far.
    """

    def __init__(
        self,
        name: str,
        store: Store,
        failed: Callable[[StorageFailed], None] | None = None,
        log: Log = HOST,
        departures: Departures | None = None,
    ) -> None:
        self._log = log
        self._departures = departures or Departures(log)
        self.name = name
        self.error: StorageFailed | None = None
        self.made = 0
        self._store = store
        self._failed = failed
        self._put = self._left = 0
        self._waiting: deque[Persist | Callable[[], None]] = deque()
        self._step: list[Persist | Callable[[], None]] = []  # what the commit under way covers
        self._busy = False
        self._asking: deque[tuple[int, Later[None]]] = (
            deque()
        )  # answers for when as much has been carried out
        self._moved = asyncio.Event()
        self._since: float | None = None  # when the commit under way began
        self._step_at_once = -1  # the last step with a commit that was made at once
        self._in_thread_until = -math.inf

    def put(self, effect: Effect, leave: Callable[[], None]) -> None:
        """Take an effect: `leave` carries it out, at once or when everything before it is stable."""
        if self.error is not None:
            return
        if not self._busy:
            if not isinstance(effect, Persist):
                leave()
                return
            if self._committed_at_once(effect.writes):
                return
        self._waiting.append(effect if isinstance(effect, Persist) else leave)
        self._put += 1
        if not self._busy:
            self._busy = True
            self._departures.afterwards(self._begin)

    def _committed_at_once(self, writes: Sequence[Write]) -> bool:
        """Commit changes now, if nothing has to be waited for; return whether that was tried."""
        step = self._departures.steps
        if step == self._step_at_once or self._store.may_wait(writes):
            return False
        began = time.monotonic()
        if began < self._in_thread_until:
            return False
        self._step_at_once = step
        failed = self._tried(writes)
        if failed is not None:
            self.stand_still(failed)
            return True
        self.made += 1
        ended = time.monotonic()
        if ended - began > AT_ONCE_SECONDS_MAX:
            self._in_thread_until = ended + IN_THREAD_SECONDS
        return True

    @property
    def passes(self) -> bool:
        """Whether an effect other than a `Persist` is carried out when it is put."""
        return not self._busy and self.error is None

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be made stable."""
        return not self._busy

    @property
    def seconds(self) -> float:
        """How long the commit under way has taken so far; 0 if there is none."""
        return 0.0 if self._since is None else time.monotonic() - self._since

    async def stable(self) -> None:
        """Wait until everything put so far has been carried out.

        Raises
        ------
        StorageFailed
            If the broker has halted.
        """
        last = self._put
        while self._left < last and self.error is None:
            self._moved.clear()
            await self._moved.wait()
        self.raise_error()

    def stable_later(self) -> Later[None]:
        """Do what `stable` does without a task: the answer is given when what was carried out has left."""
        answer: Later[None] = Later()
        if self.error is not None:
            answer.fail(self._stopped())
        elif self._left >= self._put:
            answer.give(None)
        else:
            self._asking.append((self._put, answer))
        return answer

    def raise_error(self) -> None:
        """Raise the error that halted the broker, if it has halted."""
        if self.error is not None:
            raise self._stopped()

    def _stopped(self) -> StorageFailed:
        return StorageFailed(f"{self.name} has stopped: {self.error}")

    def stand_still(self, error: StorageFailed) -> None:
        """Halt the broker: carry out nothing more."""
        self._log.error("%s has stopped: %s", self.name, error)
        self.error = error
        self._waiting.clear()
        self._step, self._busy = [], False
        asking, self._asking = self._asking, deque()
        for _, answer in asking:
            answer.fail(self._stopped())
        self._moved.set()
        if self._failed is not None:
            self._failed(error)

    def _begin(self) -> None:
        """Commit everything that waits, or go on if that changes nothing."""
        if self.error is not None:
            return
        self._step = list(self._waiting)
        self._waiting.clear()
        writes: list[Write] = [
            write for each in self._step if isinstance(each, Persist) for write in each.writes
        ]
        if writes:
            self._since = time.monotonic()
            _THREADS.submit(self._commit, writes, asyncio.get_running_loop())
        else:
            self._go_on()

    def _commit(self, writes: list[Write], loop: asyncio.AbstractEventLoop) -> None:
        """Commit changes, in a thread, and tell the event loop."""
        failed = self._tried(writes)
        with suppress(RuntimeError):  # the loop has ended, and the host with it
            loop.call_soon_threadsafe(self._committed, failed)

    def _tried(self, writes: Sequence[Write]) -> StorageFailed | None:
        """Commit changes; return why that failed, None if it did not."""
        try:
            self._store.commit(writes)
        except StorageFailed as error:
            return error
        except Exception as error:  # an unexpected error means that the store is broken, too
            return StorageFailed(f"the store failed ({type(error).__name__}: {error})")
        return None

    def _committed(self, failed: StorageFailed | None) -> None:
        self._since = None
        if self.error is not None:
            return
        if failed is not None:
            self.stand_still(failed)
            return
        self.made += 1
        self._departures.hold()
        try:
            self._go_on()
        finally:
            self._departures.go()

    def _go_on(self) -> None:
        """Carry out what is stable now, and commit what has come meanwhile."""
        try:
            for waiting in self._step:
                if not isinstance(waiting, Persist):
                    waiting()
            self._left += len(self._step)
            while self._waiting and not isinstance(self._waiting[0], Persist):
                self._carry_out_first()
        except StorageFailed as error:
            self.stand_still(error)
            return
        except Exception as error:  # nobody would see it
            self.stand_still(
                StorageFailed(f"an effect was not carried out ({type(error).__name__}: {error})")
            )
            return
        self._step = []
        self._moved.set()
        while self._asking and self._asking[0][0] <= self._left:
            self._departures.afterwards(self._asking.popleft()[1].give, None)
        if self._waiting:
            self._departures.afterwards(self._begin)
        else:
            self._busy = False

    def _carry_out_first(self) -> None:
        first = self._waiting.popleft()
        assert not isinstance(first, Persist)
        first()
        self._left += 1
