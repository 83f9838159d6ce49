"""What paper 1 says of self-configuration, and how its cost grows; the paper measures nothing of it.

Rules
-----
* Its claims are that a tree heals by itself after any node or link has failed, and by simple and efficient
  algorithms.
* "Efficient" has no number in the paper. It is taken to mean that a tree of more clusters takes hardly longer
  (the exponent of the time is at most `statements.HARDLY`), and that the messages of healing grow at most in
  proportion to the tree.

Source: paper 1, sections 4.1, 4.2 and 6.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ..rows import Rows
from ..statements import HARDLY, SAME, Sentences, Statement, exponent
from .runs import NOBODY, VICTIMS, WATCHED_HEARTBEATS

KNOWN: Final[dict[tuple[str, str], str]] = {}
"""Why a sentence does not hold, by words of it, and of the victim."""


def judge_healing(rows: Rows) -> list[Statement]:
    """Return the statements; `rows` from `pipelines.figures.experiments.healing_by_victim`."""
    found = []
    for victim in VICTIMS:
        mine = sorted(
            (row for row in rows if row["victim"] == victim),
            key=lambda row: (row["members"], row["clusters"]),
        )
        said = Sentences(
            "paper 1, section 6", KNOWN, f"dies: {victim}" if victim != NOBODY else "nobody dies"
        )
        felt = {_size(row): (round(row["structure"], 2), round(row["heard"], 2)) for row in mine}
        found += [
            said(
                "the tree heals by itself (seconds until it is one tree, and until the last subscriber hears again)",
                felt,
                all(max(pair) < WATCHED_HEARTBEATS for pair in felt.values()),
            ),
            said(
                "and nothing is lost or comes twice (late notifications, events sent again, part of runs that hold)",
                {
                    _size(row): tuple(round(row[name], 2) for name in ("late", "again", "holds"))
                    for row in mine
                },
                all(row["holds"] == 1 for row in mine),
            ),
        ]
        if victim != NOBODY:
            found += _growth(said, mine)
    return found


def _growth(said: Sentences, mine: Rows) -> list[Statement]:
    least = min(row["members"] for row in mine)
    same = [row for row in mine if row["members"] == least]
    ours = Sentences("for comparison", KNOWN, said.reading)
    times = {row["clusters"]: row["structure"] for row in same}
    messages = {row["clusters"]: round(row["messages"], 1) for row in same}
    power, more = exponent(times), exponent(messages)
    return [
        ours(
            f"larger trees take hardly longer (exponent of the seconds by clusters; at most {HARDLY})",
            {"seconds": times, "exponent": _shown(power)},
            not power > HARDLY,
        ),
        ours(
            f"nor more messages than in proportion (exponent at most {1 + SAME})",
            {"messages": messages, "exponent": _shown(more)},
            not more > 1 + SAME,
        ),
    ]


def _shown(power: float) -> float | None:
    return None if power != power else round(power, 3)


def _size(row: Mapping[str, object]) -> str:
    return f"{row['clusters']} x {row['members']}"
