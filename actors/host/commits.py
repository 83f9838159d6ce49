"""The effects of a broker, held back until everything before them is stable.

Rules (`protocol.effects`)
--------------------------
* An effect is carried out when every `Persist` before it, also of earlier steps, is stable.
* Commits run in a thread, so that the host's event loop does not wait for the disk. Everything that arrives
  during a commit goes into the next one (group commit). A slow disk therefore makes commits larger, not queues
  longer.
* When a commit fails, or an effect that waited for one cannot be carried out, the broker halts: it carries out
  nothing more, and whoever waits for it gets the error. So nobody waits for a reply that never comes. In a
  network that heals, its process ends instead (`ending`).
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable

from ...protocol.effects import Effect, Persist, Write
from ...protocol.errors import StorageFailed
from ...recovery.durability.stores import Store
from ..logs import HOST, Log


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
    ) -> None:
        self._log = log
        self.name = name
        self.error: StorageFailed | None = None
        self.made = 0
        self._store = store
        self._failed = failed
        self._put = self._left = 0
        self._waiting: deque[Persist | Callable[[], None]] = deque()
        self._task: asyncio.Task[None] | None = None
        self._moved = asyncio.Event()
        self._since: float | None = None  # when the commit under way began

    def put(self, effect: Effect, leave: Callable[[], None]) -> None:
        """Take an effect: `leave` carries it out, at once or when everything before it is stable."""
        if self.error is not None:
            return
        if not isinstance(effect, Persist) and self._task is None:
            leave()
            return
        self._waiting.append(effect if isinstance(effect, Persist) else leave)
        self._put += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    @property
    def idle(self) -> bool:
        """Whether nothing waits to be made stable."""
        return self._task is None

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

    def raise_error(self) -> None:
        """Raise the error that halted the broker, if it has halted."""
        if self.error is not None:
            raise StorageFailed(f"{self.name} has stopped: {self.error}")

    def stand_still(self, error: StorageFailed) -> None:
        """Halt the broker: carry out nothing more."""
        self._log.error("%s has stopped: %s", self.name, error)
        self.error = error
        self._waiting.clear()
        self._moved.set()
        if self._failed is not None:
            self._failed(error)

    async def _run(self) -> None:
        while self._waiting:
            step = list(self._waiting)
            self._waiting.clear()
            try:
                await self._commit([each for each in step if isinstance(each, Persist)])
                for waiting in step:
                    if not isinstance(waiting, Persist):
                        waiting()
            except StorageFailed as error:
                self.stand_still(error)
                break
            except Exception as error:  # nobody awaits this task: its error would be lost
                self.stand_still(
                    StorageFailed(f"an effect was not carried out ({type(error).__name__}: {error})")
                )
                break
            self._left += len(step)
            self._moved.set()
        self._task = None

    async def _commit(self, steps: list[Persist]) -> None:
        writes: list[Write] = [write for step in steps for write in step.writes]
        if not writes:
            return
        self._since = time.monotonic()
        try:
            await asyncio.to_thread(self._store.commit, writes)
        except StorageFailed:
            raise
        except Exception as error:  # an unexpected error means that the store is broken, too
            raise StorageFailed(f"the store failed ({type(error).__name__}: {error})") from error
        finally:
            self._since = None
        self.made += 1
