"""The data of the live page: one status per second of the network for all viewers, and a timeline of changes.

Rules
-----
* The network is polled while anyone watches. After a pause the next poll reports what has changed since the
  last.
* A slow viewer misses frames and delays no other viewer: it gets the newest frame when it is ready.
* The timeline keeps `ENTRIES_MAX` entries; the oldest are dropped.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final, Literal, TypeAlias

from ray.exceptions import RayError

from ...actors.network.status import BrokerStatus, NetworkStatus
from ...protocol.durables import DurableStatus
from ...protocol.errors import RayvousError
from ...protocol.printable import printable

Mood: TypeAlias = Literal["good", "bad", ""]

ENTRIES_MAX: Final = 100
BOOKS_MAX: Final = 100
"""Rows of books that are shown, the fullest first; entries without a limit are left out."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Something that happened: when it was observed, in words, and whether it is good."""

    at: float
    text: str
    mood: Mood = ""


class Timeline:
    """Describes the differences between successive statuses in words. Pure."""

    def __init__(self) -> None:
        self.entries: deque[Entry] = deque(maxlen=ENTRIES_MAX)
        self._before: NetworkStatus | None = None
        self._looked_at = 0.0
        self._unwell_since: float | None = None
        self._noted_at = -math.inf

    def look(self, now: NetworkStatus, at: float) -> None:
        """Compare a status, taken at `at` seconds of the wall clock, with the previous one."""
        before, self._before = self._before, now
        if before is not None:
            self._brokers(before, now, at)
        self._condition(before, now, at)
        for note in now.notes:
            if note.at > self._noted_at:
                self._say(note.at, f"game day: {note.text}", note.mood)  # type: ignore[arg-type]  # for people
        self._noted_at = max([self._noted_at, *(note.at for note in now.notes)])
        self._looked_at = at

    def _brokers(self, before: NetworkStatus, now: NetworkStatus, at: float) -> None:
        then = {one.broker: one for one in before.brokers}
        for one in now.brokers:
            was = then.pop(one.broker, None)
            if was is None:
                self._say(at, f"broker {one.broker} came", "good")
            elif was.state != one.state:
                back = one.state == "alive"
                self._say(
                    at, f"broker {one.broker} is {'back' if back else one.state}", "good" if back else "bad"
                )
            elif was.role != one.role and one.state == "alive":
                self._say(at, f"broker {one.broker} is {one.role} now, was {was.role}")
        for one in then.values():
            self._say(at, f"broker {one.broker} left")

    def _condition(self, before: NetworkStatus | None, now: NetworkStatus, at: float) -> None:
        if now.problems or now.condition in ("healing", "broken"):
            if self._unwell_since is None:
                self._unwell_since = at
                self._say(at, f"{now.condition}: {'; '.join(now.problems[:2])}".rstrip(": "), "bad")
            return
        since, self._unwell_since = self._unwell_since, None
        if since is None and before is not None and not now.healthy and now.condition != before.condition:
            since = self._looked_at  # it has healed between two looks
        if since is not None:
            self._say(at, f"{now.condition} after {at - since:.1f} s", "good")

    def _say(self, at: float, text: str, mood: Mood = "") -> None:
        self.entries.append(Entry(at, printable(text), mood))


def frame_of(now: NetworkStatus, before: NetworkStatus | None, at: float) -> dict[str, object]:
    """Return the page's data of a status: the activity of each broker and link, per second since the previous one."""
    rates = {} if before is None else now.rates(before)
    totals = {name: sum(each[name] for each in rates.values()) for name in ("events_in", "notifications")}
    return {
        "kind": "look",
        "at": at,
        "name": printable(now.name),
        "scheme": now.scheme,
        "state": now.condition,
        "problems": [printable(problem) for problem in now.problems[:10]],
        "latency_seconds": now.latency_seconds,
        "events_per_second": totals["events_in"],
        "notified_per_second": totals["notifications"],
        "brokers": [_broker(one, rates.get(one.broker, {})) for one in now.brokers],
        "links": [] if before is None else _links(now, before),
        "books": _books(now),
        "durables": [_durable(one) for one in now.durables],
    }


def _broker(one: BrokerStatus, rates: Mapping[str, float]) -> dict[str, Any]:
    return {
        "broker": one.broker,
        "name": one.name,
        "cluster": one.cluster,
        "role": one.role,
        "state": one.state,
        "parent": one.parent,
        "clients": one.sizes.get("subscribers", 0),
        "filters": one.sizes.get("filters", 0),
        "in": rates.get("events_in"),
        "out": rates.get("events_out"),
        "notified": rates.get("notifications"),
        "queued": one.queued,
        "lost": one.lost,
    }


def _durable(one: DurableStatus) -> dict[str, Any]:
    shown = {name: getattr(one, name) for name in ("broker", "attached", "away_seconds", "events", "seconds")}
    return {"name": printable(one.name), **shown}


def _links(now: NetworkStatus, before: NetworkStatus) -> list[tuple[int, int, float]]:
    """Return ``(from, to, events per second)`` of each link."""
    seconds = max(now.at_seconds - before.at_seconds, 1e-9)
    then = {one.broker: one.sent for one in before.brokers}
    return [
        (one.broker, to, max(0, sent - then.get(one.broker, {}).get(to, 0)) / seconds)
        for one in now.brokers
        for to, sent in one.sent.items()
    ]


def _books(now: NetworkStatus) -> list[dict[str, object]]:
    rows = [
        {"broker": one.broker, "of": name, "reserved": pair[0], "limit": pair[1]}
        for one in now.brokers
        for name, pair in (one.books or {}).items()
        if isinstance(pair, tuple) and pair[1] < math.inf
    ]
    rows.sort(key=lambda row: -row["reserved"] / max(row["limit"], 1e-9))
    return rows[:BOOKS_MAX]


class Watch:
    """Polls a network while anybody watches.

    Parameters
    ----------
    look
        Gets the status; it may take seconds, and is called in a thread.
    every_seconds
        The interval between two polls.
    """

    def __init__(self, look: Callable[[], NetworkStatus], every_seconds: float = 1.0) -> None:
        self._look, self._every_seconds = look, every_seconds
        self._timeline = Timeline()
        self._before: NetworkStatus | None = None
        self._frame: dict[str, object] | None = None
        self._number = 0
        self._watching = 0
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Condition()

    async def frames(self) -> AsyncGenerator[dict[str, Any]]:
        """Yield frames as they come, the newest each time."""
        self._watching += 1
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        seen = 0
        try:
            while True:
                seen, frame = await self._newer(seen)
                yield frame
        finally:
            self._watching -= 1
            if not self._watching and self._task is not None:
                self._task.cancel()
                self._task = None

    async def _newer(self, seen: int) -> tuple[int, dict[str, object]]:
        async with self._news:
            await self._news.wait_for(lambda: self._number > seen)
            assert self._frame is not None
            return self._number, self._frame

    async def _run(self) -> None:
        while True:
            began = time.monotonic()
            frame = await self._next_frame()
            async with self._news:
                self._frame = frame
                self._number += 1
                self._news.notify_all()
            await asyncio.sleep(max(0.0, self._every_seconds - (time.monotonic() - began)))

    async def _next_frame(self) -> dict[str, object]:
        try:
            now = await asyncio.to_thread(self._look)
        except (RayvousError, RayError) as error:
            return {
                **(self._frame or _NOTHING),
                "at": time.time(),
                "state": "unseen",
                "problems": [printable(str(error))],
            }
        at = time.time()
        self._timeline.look(now, at)
        frame = frame_of(now, self._before, at)
        frame["timeline"] = [asdict(entry) for entry in self._timeline.entries]
        self._before = now
        return frame


_NOTHING: Final[dict[str, Any]] = {
    "kind": "look",
    "name": "",
    "scheme": "",
    "latency_seconds": {"p50": None, "p99": None},
    "events_per_second": None,
    "notified_per_second": None,
    "brokers": [],
    "links": [],
    "books": [],
    "timeline": [],
}
