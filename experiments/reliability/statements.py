"""What paper 4 says of the cost of crashes and damaged state under its crash/recover protocol; it measures nothing.

Rules
-----
* Theorem 1 is judged by the condition itself, in every run.
* "Efficiently and locally" (abstract) has no number. Efficiently: messages for an event at the highest rate
  of crashes are at most half more than without crashes. Locally: the messages that a crash causes hardly grow
  with the network.
* "From any state" (section 2) has no time; the time of decisions 0028 and 0043 is used: the damage is found
  after four comparisons, and healed like a crash.

Source: paper 4, abstract, section 2, and theorem 1; decision 0028.
"""

from __future__ import annotations

from typing import Final

from ...faults.chaos_run import CONVERGE_HEARTBEATS
from ...recovery.membership.comparing import STRIKES
from ..rows import Rows
from ..statements import HARDLY, Sentences, Statement, curve, exponent
from .runs import COMPARE_HEARTBEATS, CRASHES, DAMAGE

MORE: Final = 1.5
MENDED_SECONDS: Final = (STRIKES + 1) * COMPARE_HEARTBEATS + 1 + CONVERGE_HEARTBEATS
"""For one heartbeat per second."""

KNOWN: Final[dict[tuple[str, str], str]] = {}
"""Why a sentence does not hold, by words of it."""


def judge_reliability(rows: Rows) -> list[Statement]:
    """Return the statements; `rows` from `pipelines.figures.experiments.reliability_by_point`."""
    crashes = [row for row in rows if row["mode"] == CRASHES]
    damage = [row for row in rows if row["mode"] == DAMAGE]
    most = max(row["rate"] for row in crashes)
    calm, worst = curve(crashes, "size", "messages", rate=0), curve(crashes, "size", "messages", rate=most)
    extra = curve(crashes, "size", "extra", rate=most)
    said = Sentences("paper 4, abstract", KNOWN)
    return [
        Sentences("paper 4, theorem 1", KNOWN)(
            "the protocol fulfils the condition of reliability (part of runs)",
            _shown(crashes, "holds"),
            all(row["holds"] == 1 for row in crashes),
        ),
        said(
            f"it copes with crashes efficiently (messages for an event without and with; at most {MORE} times)",
            {size: (round(calm[size], 2), round(worst[size], 2)) for size in calm},
            all(worst[size] <= MORE * calm[size] for size in calm),
        ),
        said(
            f"and locally (messages for a crash, by brokers; exponent at most {HARDLY})",
            {"messages": {size: round(many, 2) for size, many in extra.items()}, "exponent": exponent(extra)},
            not exponent(extra) > HARDLY,
        ),
        Sentences("for comparison", KNOWN)(
            f"crashes cause at most {MORE} times the stable writes for an event",
            _shown(crashes, "commits"),
            all(
                row["commits"] <= curve(crashes, "size", "commits", rate=0)[row["size"]] * MORE
                for row in crashes
            ),
        ),
        Sentences("paper 4, section 2; decision 0028", KNOWN)(
            f"from any state of its tables the network comes back (seconds; at most {MENDED_SECONDS:g})",
            _shown(damage, "consistent"),
            all(row["consistent"] <= MENDED_SECONDS and row["holds"] == 1 for row in damage),
        ),
    ]


def _shown(rows: Rows, value: str) -> dict[str, object]:
    ordered = sorted(rows, key=lambda row: (row["size"], row["rate"]))
    return {f"{row['size']} brokers, {row['rate']:g}": round(row[value], 2) for row in ordered}
