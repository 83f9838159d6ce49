"""The game day of a network, as its rendezvous point knows it: who has it, and what it said. Pure.

Rules
-----
* A network has one game day at a time. Whoever has it says so again at intervals; `CLAIM_SECONDS` after the last time
  another may have one, so a process that was killed blocks nobody for long. A restarted rendezvous point is told who
  had it, and waits for that one as long.
* What it said is for people: the newest `NOTES_MAX` notes are retained, also after its end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

CLAIM_SECONDS: Final = 30.0
NOTES_MAX: Final = 100
NOTE_CHARACTERS_MAX: Final = 500


class Note(NamedTuple):
    """Something that a game day did or saw: seconds since 1970, in words, and whether it is "good" or "bad", or ""."""

    at: float
    text: str
    mood: str = ""


class GameDays:
    """The game days of one network."""

    def __init__(self) -> None:
        self.holder = ""
        """Who has the network; "" for nobody."""
        self._until = float("-inf")
        self._notes: deque[Note] = deque(maxlen=NOTES_MAX)

    def resume(self, holder: str, now: float) -> None:
        """Go on after a restart, before which this game day had the network, or nobody if it is ""."""
        self.holder, self._until = holder, now + CLAIM_SECONDS

    def claim(self, holder: str, notes: Sequence[Note], now: float, *, ends: bool) -> str:
        """Take what a game day says, which has the network from now on, or no longer; return who else has it, or "".

        Parameters
        ----------
        holder
            Names the game day, for people.
        notes
            What it did and saw since it last said so.
        now
            The time, in seconds.
        ends
            Whether it is over.
        """
        if self.holder not in ("", holder) and now < self._until:
            return self.holder
        self.holder = "" if ends else holder
        self._until = now + CLAIM_SECONDS
        self._notes.extend(note._replace(text=note.text[:NOTE_CHARACTERS_MAX]) for note in notes)
        return ""

    def notes(self) -> tuple[Note, ...]:
        """Return the newest notes, oldest first."""
        return tuple(self._notes)
