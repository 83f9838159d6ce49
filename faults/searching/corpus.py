"""The cases that a search has kept: each reached something that none before it had.

Rules
-----
* A case is kept if it is the first to reach a point. Beyond :data:`ENTRIES_MAX` cases the one goes of which
  everything new was reached most often since.
* A case whose points are rare is chosen more often, and less often each time that nothing new with words came of it.
* In a folder a case is a file as ``--shrink`` writes them, named after its content. Files of other names are left
  alone. A file that cannot be read, is too large or is no case is reported, and stays.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Final

from ...protocol.errors import InputError
from ..plans.case_files import case_to_dict, load_case, save_case
from ..plans.cases import Case
from .seen import Moment, Point, Seen

ENTRIES_MAX: Final = 256
BYTES_MAX: Final = 1 << 20
"""The size of a file beyond which it is no case of a corpus."""

NEW_MAX: Final = 512
"""How many of the points that were new with a case it is remembered for."""


CHECKSUMS_MAX: Final = 1.0
"""What all new points without words are worth at most, beside one with words: nearly every run has hundreds of them."""


@dataclass(slots=True)
class Entry:
    """A case that was kept.

    Attributes
    ----------
    case, name
        The case, and a name after its content.
    new
        The points that it was the first to reach.
    moments
        The moments of its run.
    chosen
        How often another case was made of it since something new came of one.
    """

    case: Case
    name: str
    new: tuple[Point, ...]
    moments: tuple[Moment, ...]
    chosen: int = 0


class Corpus:
    """The kept cases, and how often each point was reached.

    Parameters
    ----------
    entries_max
        The maximum number of cases.

    Attributes
    ----------
    entries
        The cases.
    reached
        In how many runs each point was reached.
    taken
        The names of the types of messages and events that any broker takes.
    """

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self.entries: list[Entry] = []
        self.reached: Counter[Point] = Counter()
        self.taken: set[str] = set()
        self._entries_max = entries_max

    def take(self, case: Case, seen: Seen) -> bool:
        """Count what a run has reached; keep its case if something is new; return True if something with words is."""
        new = sorted((each for each in seen.points if each not in self.reached), key=_order)
        self.reached.update(seen.points)
        self.taken |= seen.taken
        if not new:
            return False
        self.entries.append(Entry(case, name_of(case), tuple(new[:NEW_MAX]), seen.moments))
        if len(self.entries) > self._entries_max:
            self.entries.remove(min(self.entries[:-1], key=self._worth))
        return isinstance(new[0], str)

    def _worth(self, entry: Entry) -> float:
        words = sum(1.0 / self.reached[each] for each in entry.new if isinstance(each, str))
        sums = sum(1.0 / self.reached[each] for each in entry.new if isinstance(each, int))
        return words + min(sums, CHECKSUMS_MAX)

    def weights(self) -> list[float]:
        """Return how much each case is worth another one made of it."""
        return [self._worth(entry) ** 0.5 / (1 + entry.chosen) for entry in self.entries]

    def choose(self, rng: Random, weights: list[float]) -> Entry:
        """Return one of the cases, and count that it was chosen."""
        entry = rng.choices(self.entries, weights)[0]
        entry.chosen += 1
        return entry

    def rare(self, entry: Entry, rng: Random, count: int) -> list[Moment]:
        """Return moments of a case, most of them when its run reached something rare."""
        if not entry.moments:
            return []
        weights = [max(1.0 / self.reached[each] for each in moment.points) for moment in entry.moments]
        return rng.choices(entry.moments, weights, k=count)


def _order(point: Point) -> tuple[bool, str]:
    """Order points: those with words first, because they say most."""
    return isinstance(point, int), str(point)


def name_of(case: Case) -> str:
    """Return the name of a case in a folder, after its content."""
    text = json.dumps(case_to_dict(case), sort_keys=True)
    return f"case-{hashlib.sha256(text.encode()).hexdigest()[:16]}.json"


def read_corpus(folder: Path, entries_max: int = ENTRIES_MAX) -> tuple[list[Case], list[str]]:
    """Return the cases in a folder, by name, and what is wrong with files that are none; the folder is made if missing.

    Raises
    ------
    InputError
        If it is no folder, or cannot be read or made.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        paths = sorted(folder.glob("case-*.json"))
    except OSError as error:
        raise InputError(f"--corpus {folder}: it must be a folder: {error.strerror or error}") from None
    cases: list[Case] = []
    wrong: list[str] = []
    for path in paths:
        if len(cases) >= entries_max:
            wrong.append(f"{folder}: more than {entries_max} cases: the others are not read")
            break
        try:
            size = path.stat().st_size
            if size > BYTES_MAX:
                raise InputError(f"it has {size:,} bytes: at most {BYTES_MAX:,} are read")
            cases.append(load_case(path))
        except (InputError, OSError) as error:
            wrong.append(f"{path} is left out: {error}")
    return cases, wrong


def write_corpus(folder: Path, kept: Iterable[Entry], read: Iterable[Case]) -> None:
    """Write the kept cases to a folder, and remove those that were read from it and are not kept any more."""
    names = {entry.name for entry in kept}
    for entry in kept:
        if not (folder / entry.name).exists():
            save_case(entry.case, folder / entry.name)
    for case in read:
        if (name := name_of(case)) not in names:
            (folder / name).unlink(missing_ok=True)


__all__ = ["Corpus", "Entry", "name_of", "read_corpus", "write_corpus"]
