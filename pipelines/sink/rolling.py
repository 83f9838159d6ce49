"""What a sink writes into which file, when, and what becomes of it after a restart.

Rules
-----
* Events are collected until they are many, large or old enough: a *roll*. A roll is one file for each partition, all
  of one number.
* A roll is first written under names that readers leave out, then acknowledged, and then its files get their names.
  Which roll of which process that is is stored with the acknowledgement, in one write. So whoever begins knows of each
  file without a name whether its events come again. Of that roll they do not, and its files get their names; the files
  of others are removed.
* Whatever has its name is acknowledged, so it may be read, moved and removed at any moment.
* A broker tells of a loss until the position has passed it. How many it has passed is therefore stored, too.
* The number of a roll is its *position*: the sum over all publishers of the last number of each, or one more than the
  last number. It rises although files are moved away, so no name is used twice.
* The partition of an event follows from the event alone: the hour or the day in which it was published (UTC),
  within what formats can say (`protocol.published`).

Pure: an actor says what arrives and when, writes what this returns, and says what was acknowledged.
Source: docs/decisions/0178-spark-reads-what-is-acknowledged.md.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...protocol.batch import EventBatch, concat
from ...protocol.ids import ClientId
from ...protocol.messages.pubsub import Lost
from ...protocol.published import bounded
from ...protocol.sinks import FORMATS, Format, Partition

Sequences = npt.NDArray[np.int64]

SECONDS: Final[dict[Partition, float]] = {"hour": 3_600.0, "day": 86_400.0}

# Names of files.


class FileName(NamedTuple):
    """The name of a file of a sink.

    Attributes
    ----------
    stem
        The sink and its network.
    number
        The roll.
    format
        The format.
    """

    stem: str
    number: int
    format: Format

    def __str__(self) -> str:
        return f"{self.stem}-{self.number:012d}.{self.format}"

    def written_by(self, process: str) -> str:
        """Return the name under which a process writes and acknowledges it; readers of folders leave it out."""
        return f"_{self}.{process}.tmp"


class Acknowledged(NamedTuple):
    """The last roll that was acknowledged: its number, the process that wrote it, and the losses up to its position."""

    number: int
    process: str
    lost: int = 0


NOTHING: Final = Acknowledged(0, "")


def acknowledged_in(beside: object) -> Acknowledged:
    """Return what a sink has stored beside its position; `NOTHING` if it has stored nothing."""
    match beside:
        case [int(number), str(process), int(lost)]:
            return Acknowledged(number, process, lost)
    return NOTHING


def passed(losses: Iterable[Lost], position: Mapping[ClientId, int]) -> int:
    """Return how many losses a position has passed: no later process is told of these."""
    return sum(each.last <= position.get(each.publisher, 0) for each in losses)


def stem_of(sink: str, network: str) -> str:
    """Return what names of files of a sink begin with; `network` is what no other network has."""
    return f"{sink}-{network}"


def parsed(stem: str, name: str) -> tuple[FileName, str] | None:
    """Return the name of a file of a sink, and who wrote it if it has not got its name; None for other files."""
    formats = "|".join(FORMATS)
    known = rf"(?P<un>_)?{re.escape(stem)}-(\d{{12,}})\.({formats})(?(un)\.(\w+)\.tmp)"
    found = re.fullmatch(known, name)
    if found is None:
        return None
    return FileName(stem, int(found[2]), found[3]), found[4] or ""  # type: ignore[arg-type]


class Found(NamedTuple):
    """The files of a sink in a folder.

    Attributes
    ----------
    last
        The highest number of a roll so far.
    newest
        The path of a file of the highest number, without a name so far or with it; None if there is no file.
    to_name, to_remove
        The paths of files without a name: those that are acknowledged, with the paths that they get, and the others.
    """

    last: int
    newest: str | None
    to_name: list[tuple[str, str]]
    to_remove: list[str]


def found_in(stem: str, paths: Iterable[str], acknowledged: Acknowledged) -> Found:
    """Return which files of a sink there are among all files of a folder."""
    highest, newest, to_name, to_remove = 0, None, list[tuple[str, str]](), list[str]()
    for path in paths:
        home, slash, file = path.rpartition("/")
        known = parsed(stem, file)
        if known is None:
            continue
        name, process = known
        if process and (name.number, process) != acknowledged[:2]:
            to_remove.append(path)
            continue
        if process:
            to_name.append((path, f"{home}{slash}{name}"))
        if name.number >= highest:
            highest, newest = name.number, path
    return Found(max(acknowledged.number, highest), newest, to_name, to_remove)


def folder_of(partition: Partition, slot: int) -> str:
    """Return the folder of a partition, relative to that of the sink; `slot` counts hours or days since 1970."""
    if partition == "none":
        return ""
    moment = datetime.datetime.fromtimestamp(slot * SECONDS[partition], datetime.UTC)
    day = f"date={moment:%Y-%m-%d}"
    return day if partition == "day" else f"{day}/hour={moment:%H}"


# Rolls.


@dataclass(frozen=True, slots=True)
class Bounds:
    """When a roll is due: after so many events, bytes, or seconds since its first event."""

    events: int
    bytes: int
    seconds: float


@dataclass(slots=True)
class Roll:
    """What is written, acknowledged, and then gets its names together.

    Attributes
    ----------
    number
        What the names of its files say.
    parts
        The events of each file, by its folder.
    marks
        What is acknowledged once all files are written: the last sequence of each publisher.
    """

    number: int
    parts: dict[str, EventBatch]
    marks: dict[ClientId, int]


@dataclass(slots=True)
class Rolling:
    """The events of a sink on their way into files.

    Parameters
    ----------
    partition, bounds
        How files are divided, and when they are written.
    position
        What was acknowledged when the sink began.
    last
        The highest number of a roll before.

    Attributes
    ----------
    events, bytes
        What waits for the next roll.
    """

    partition: Partition
    bounds: Bounds
    position: dict[ClientId, int] = field(default_factory=dict)
    last: int = 0
    events: int = 0
    bytes: int = 0
    _since: float | None = None  # when the first event of this roll came
    _waiting: dict[int, list[EventBatch]] = field(default_factory=dict)
    _marks: dict[ClientId, int] = field(default_factory=dict)

    def take(self, batch: EventBatch, now: float) -> None:
        """Take events as they arrive, in the order of each publisher."""
        if not len(batch):
            return
        self._since = now if self._since is None else self._since
        for code, name in enumerate(batch.publishers):
            of_it = batch.sequence[batch.publisher == code]
            if len(of_it):
                self._marks[name] = max(int(of_it[-1]), self._marks.get(name, 0))
        slots = self._slots(batch)
        for slot in np.unique(slots).tolist():
            part = batch.take(np.flatnonzero(slots == slot))
            self._waiting.setdefault(slot, []).append(part)
            self.bytes += part.nbytes
        self.events += len(batch)

    def _slots(self, batch: EventBatch) -> Sequences:
        if self.partition == "none":
            return np.zeros(len(batch), np.int64)
        return np.floor_divide(bounded(batch.published_at), SECONDS[self.partition]).astype(np.int64)

    def due_in(self, now: float) -> float | None:
        """Return in how many seconds a roll is due, 0 if it is now; None if nothing waits."""
        if self._since is None:
            return None
        if self.events >= self.bounds.events or self.bytes >= self.bounds.bytes:
            return 0.0
        return max(0.0, self._since + self.bounds.seconds - now)

    def roll(self) -> Roll:
        """Return what waits, and begin the next roll; the caller writes it and acknowledges it first."""
        marks = self.position | self._marks
        number = max(sum(marks.values()), self.last + 1)
        parts = {
            folder_of(self.partition, slot): concat(self._waiting[slot]) for slot in sorted(self._waiting)
        }
        made = Roll(number, parts, self._marks)
        self.position, self.last = marks, number
        self._waiting, self._marks, self._since = {}, {}, None
        self.events = self.bytes = 0
        return made
