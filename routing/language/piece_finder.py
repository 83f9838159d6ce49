"""Search for a piece of a LIKE pattern (the part between two ``%``) in a text.

Rules
-----
* For any piece and any text the time is that of one pass over the text, so no event can stall a broker. The shift-and
  search takes more for longer pieces, so pieces with a ``_`` inside have a limit (`conditions.WILD_MAX`).
* Literal characters are found by `str.find`, which is linear (Python's two-way search).
* In a piece with ``_``, the longest run of literal characters is searched for, and the other characters are then
  compared. After `TRIES` false hits, all positions are tested in parallel instead: bit i of a number is set if
  the first i + 1 characters of the piece end here. One step shifts that number, 64 characters of the piece at a
  time.

Source: Baeza-Yates and Gonnet, A new approach to text searching (1992), section 4: the shift-and search.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final, TypeAlias

Piece: TypeAlias = tuple[str | None, ...]
"""A sequence of characters; two characters together mean either of them, and None means any one character."""

TRIES: Final = 32
MASKS_MAX: Final = 64
"""How many characters of a piece get a separate mask, which is as long as the piece; this limits the memory."""


class PieceFinder:
    """Finds one piece.

    Attributes
    ----------
    length
        The length in characters.
    """

    __slots__ = ("_anchor", "_either", "_piece", "_runs", "length")

    def __init__(self, piece: Piece) -> None:
        self._piece = piece
        self.length = len(piece)
        self._runs: list[tuple[int, str]] = []
        start = 0
        for literal, group in groupby(piece, key=lambda element: element is not None and len(element) == 1):
            run = list(group)
            if literal:
                self._runs.append((start, "".join(element or "" for element in run)))
            start += len(run)
        self._either = [(at, element) for at, element in enumerate(piece) if element and len(element) > 1]
        self._anchor = max(self._runs, key=lambda run: len(run[1]), default=(0, ""))

    def fits(self, text: str, at: int) -> bool:
        """Return whether the piece matches at a position of a text that is long enough."""
        return all(text.startswith(run, at + offset) for offset, run in self._runs) and all(
            text[at + offset] in either for offset, either in self._either
        )

    def find(self, text: str, start: int, end: int) -> int:
        """Return the first position of the piece in ``text[start:end]``, or -1."""
        if start + self.length > end:
            return -1
        offset, anchor = self._anchor
        if (
            len(self._runs) <= 1 and not self._either
        ):  # literal characters, with ``_`` before and after them only
            found = text.find(anchor, start + offset, end - self.length + offset + len(anchor))
            return found - offset if found >= 0 else -1
        last = end - self.length
        for _ in range(TRIES):
            start = text.find(anchor, start + offset, last + offset + len(anchor)) - offset
            if start < 0 or start > last:
                return -1
            if self.fits(text, start):
                return start
            start += 1
        return self._find_all_at_once(text, start, end)

    def _find_all_at_once(self, text: str, start: int, end: int) -> int:
        masks, wild = self._masks()
        here, whole = 0, 1 << (self.length - 1)
        for at in range(start, end):
            here = (here << 1 | 1) & masks.get(text[at], wild)
            if here & whole and self.fits(text, at - self.length + 1):
                return at - self.length + 1
        return -1

    def _masks(self) -> tuple[dict[str, int], int]:
        """Return the masks of the positions of the most common characters in the piece, and one mask for all others.

        At the positions of the other characters any character is accepted; `fits` then verifies the match.
        """
        places: dict[str | None, list[int]] = {}
        for place, element in enumerate(self._piece):
            for character in element or (None,):
                places.setdefault(character, []).append(place)
        found = places.pop(None, [])
        common = sorted(places, key=lambda element: -len(places[element]))[:MASKS_MAX]
        for element in places.keys() - common:
            found += places[element]
        wild = _bits(found, self.length)
        return {str(element): _bits(places[element], self.length) | wild for element in common}, wild


def _bits(places: list[int], length: int) -> int:
    """Return the number with these bits set."""
    digits = bytearray(b"0" * length)
    for place in places:
        digits[length - 1 - place] = ord("1")
    return int(digits, 2) if digits else 0
