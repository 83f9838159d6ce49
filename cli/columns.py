"""Split a table with many columns into several that fit the terminal, one below the other: nothing is cut off.

Rule: the first column holds names and is repeated in every part.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

GAP: Final = 1
"""Spaces after each column."""

Rows = Sequence[Sequence[str]]


def fitting(names: Sequence[str], rows: Rows, width: int) -> Iterator[tuple[list[str], list[list[str]]]]:
    """Yield headings and rows of each part.

    Parameters
    ----------
    names
        A heading for each column; at least one.
    rows
        A text for each column.
    width
        Characters in a line. A part has at least one column beside the names, even if that is too wide.
    """
    widths = [max(len(name), *(len(row[place]) for row in rows), 0) for place, name in enumerate(names)]
    part: list[int] = []
    taken = widths[0] + GAP
    for place in range(1, len(names)):
        if part and taken + widths[place] + GAP > width:
            yield _part([0, *part], names, rows)
            part, taken = [], widths[0] + GAP
        part.append(place)
        taken += widths[place] + GAP
    yield _part([0, *part], names, rows)


def _part(places: Sequence[int], names: Sequence[str], rows: Rows) -> tuple[list[str], list[list[str]]]:
    return [names[place] for place in places], [[row[place] for place in places] for row in rows]
