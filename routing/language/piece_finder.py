"""A piece of a LIKE pattern, what stands between two ``%``, and where in a text it stands first.

Rules
-----
* However a piece and a text are chosen, the time is that of one way through the text: no event can hold up a broker.
* Literal characters are found by `str.find`, which is linear (Python's two-way search).
* With ``_`` in it, the longest run of literal characters is looked for, and the others beside it. When that has misled
  `TRIES` times, all places are tried at once instead: bit i of a number says whether the first i + 1 characters of the
  piece end here. A step is a shift of that number, 64 characters of the piece at a time.

Source: Baeza-Yates and Gonnet, A new approach to text searching (1992), section 4: the shift-and search.
"""

from __future__ import annotations

from itertools import groupby
from typing import Final, TypeAlias

Piece: TypeAlias = tuple[str | None, ...]
"""Characters; two of them are either, and None is any one character."""

TRIES: Final = 32
MASKS_MAX: Final = 64
"""Characters of a piece that have a number of their own, as long as the piece: so it takes little memory."""


class PieceFinder:
    """Finds one piece.

    Attributes
    ----------
    length
        In characters.
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
        """Return whether the piece stands at a place of a text that is long enough."""
        return all(text.startswith(run, at + offset) for offset, run in self._runs) and all(
            text[at + offset] in either for offset, either in self._either
        )

    def find(self, text: str, start: int, end: int) -> int:
        """Return where the piece stands first in ``text[start:end]``, or -1."""
        offset, anchor = self._anchor
        if len(anchor) == self.length:
            return text.find(anchor, start, end)
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
        """Return for the commonest characters where in the piece they may stand, and for all others.

        Where one of the others ought to stand anything may; `fits` looks again.
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
    """Return the number that has these bits."""
    digits = bytearray(b"0" * length)
    for place in places:
        digits[length - 1 - place] = ord("1")
    return int(digits, 2) if digits else 0
