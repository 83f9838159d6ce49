"""What a sink writes into which file, when, and what it leaves out after a restart.

Rules
-----
* Events are collected until they are many, large or old enough: a *roll*. A roll is one file for each partition, all
  of one number. Its events are acknowledged when all of its files have their names, and before the next roll begins.
* A process that dies leaves at most one roll in files, perhaps in part, that is not acknowledged. The next process is
  sent its events again, and leaves out those that are in a file. It may die before all of them are acknowledged, so
  each name has the number of the oldest file, its *floor*, that then held events that were not acknowledged. Who
  begins reads the files from the floor of the last one on.
* The number of a roll is its *position*: the sum over all publishers of the last number of each. It rises from roll
  to roll, also when files were moved away meanwhile, and is above every number in the folder.
* The partition of an event follows from the event alone: the hour or the day in which it was published (UTC),
  within what formats can say (`protocol.published`).

Pure: an actor says what arrives and when, writes what this returns, and says what was acknowledged.
Source: docs/decisions/0168-a-sink-acknowledges-files.md.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...protocol.batch import EventBatch, concat
from ...protocol.ids import ClientId
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
    number, floor
        The roll, and the oldest one whose events may not have been acknowledged before.
    format
        The format.
    """

    stem: str
    number: int
    floor: int
    format: Format

    def __str__(self) -> str:
        return f"{self.stem}-{self.number:012d}-{self.floor:012d}.{self.format}"

    @property
    def unfinished(self) -> str:
        """The name under which it is written. Readers of folders leave such files out."""
        return f"_{self}.tmp"


def stem_of(sink: str, network: str) -> str:
    """Return what names of files of a sink begin with; `network` is what no other network has."""
    return f"{sink}-{network}"


def parsed(stem: str, name: str) -> tuple[FileName, bool] | None:
    """Return the name of a file of a sink, and whether the file is finished; None for other files."""
    formats = "|".join(FORMATS)
    found = re.fullmatch(rf"(_?){re.escape(stem)}-(\d{{12,}})-(\d{{12,}})\.({formats})(\.tmp)?", name)
    if found is None or bool(found[1]) != bool(found[5]):
        return None
    return FileName(stem, int(found[2]), int(found[3]), found[4]), not found[1]  # type: ignore[arg-type]


@dataclass(slots=True)
class Found:
    """The files of a sink in a folder.

    Attributes
    ----------
    last
        The highest number; 0 if there is no file.
    recent
        The files that may hold events that are not acknowledged: path and name.
    unfinished
        The paths of files that have not got their names.
    """

    last: int
    recent: list[tuple[str, FileName]]
    unfinished: list[str]


def found_in(stem: str, paths: Iterable[str]) -> Found:
    """Return which files of a sink there are among all files of a folder."""
    finished, unfinished = list[tuple[str, FileName]](), list[str]()
    for path in paths:
        known = parsed(stem, path.rpartition("/")[2])
        if known is not None and known[1]:
            finished.append((path, known[0]))
        elif known is not None:
            unfinished.append(path)
    last = max((name.number for _, name in finished), default=0)
    floor = min((name.floor for _, name in finished if name.number == last), default=0)
    return Found(last, [each for each in finished if each[1].number >= floor], unfinished)


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
    """What is written and then acknowledged together.

    Attributes
    ----------
    number, floor
        What the names of its files say.
    parts
        The events of each file that is not written yet, by its folder.
    marks
        What is acknowledged once all files are written: the last sequence of each publisher.
    """

    number: int
    floor: int
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
        The highest number of a file in the folder.
    held
        The events in recent files, by number: the sequences of each publisher.

    Attributes
    ----------
    events, bytes
        What waits for the next roll.
    skipped
        How many events were in a file already.
    """

    partition: Partition
    bounds: Bounds
    position: dict[ClientId, int] = field(default_factory=dict)
    last: int = 0
    held: dict[int, dict[ClientId, Sequences]] = field(default_factory=dict)
    events: int = 0
    bytes: int = 0
    skipped: int = 0
    _since: float | None = None  # when the first event of this roll came, also if it was left out
    _waiting: dict[int, list[EventBatch]] = field(default_factory=dict)
    _marks: dict[ClientId, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._forget()

    def take(self, batch: EventBatch, now: float) -> None:
        """Take events as they arrive, in the order of each publisher."""
        if not len(batch):
            return
        self._since = now if self._since is None else self._since
        for code, name in enumerate(batch.publishers):
            of_it = batch.sequence[batch.publisher == code]
            if len(of_it):
                self._marks[name] = max(int(of_it[-1]), self._marks.get(name, 0))
        new = self._new(batch)
        self.skipped += len(batch) - len(new)
        slots = self._slots(new)
        for slot in np.unique(slots).tolist():
            part = new.take(np.flatnonzero(slots == slot))
            self._waiting.setdefault(slot, []).append(part)
            self.bytes += part.nbytes
        self.events += len(new)

    def _new(self, batch: EventBatch) -> EventBatch:
        """Return the events that are in no file."""
        new = np.ones(len(batch), np.bool_)
        for code, name in enumerate(batch.publishers):
            for there in self.held.values():
                if name in there:
                    new &= (batch.publisher != code) | ~np.isin(batch.sequence, there[name])
        return batch.take(np.flatnonzero(new))

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
        made = Roll(number, min(self.held, default=number), parts, dict(self._marks))
        self._waiting, self._marks, self._since = {}, {}, None
        self.events = self.bytes = 0
        return made

    def acknowledged(self, roll: Roll) -> None:
        """Record that a roll is in files and acknowledged: nothing of it comes again."""
        self.position |= roll.marks
        self.last = max(self.last, roll.number)
        self._forget()

    def _forget(self) -> None:
        """Forget what is in files and acknowledged: it does not come again."""
        for number, there in list(self.held.items()):
            left = {
                name: sequences
                for name, sequences in there.items()
                if sequences.max() > self.position.get(name, 0)
            }
            if left:
                self.held[number] = left
            else:
                del self.held[number]


def sequences_of(publishers: Iterable[ClientId], sequences: Sequences) -> dict[ClientId, Sequences]:
    """Return the sequences of each publisher, from columns of publishers and sequences."""
    names = np.array([*publishers], object)
    return {name: sequences[names == name] for name in dict.fromkeys(names.tolist())}


def held_by(files: Iterable[tuple[int, dict[ClientId, Sequences]]]) -> dict[int, dict[ClientId, Sequences]]:
    """Return what files hold, by number, from the number and the sequences of each file."""
    held: dict[int, dict[ClientId, Sequences]] = {}
    for number, there in files:
        known = held.setdefault(number, {})
        for name, sequences in there.items():
            known[name] = np.concatenate([known[name], sequences]) if name in known else sequences
    return held
