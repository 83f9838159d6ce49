"""What telemetry tells of an event: in virtual time as it is, on a wall clock from the second of the event on."""

import math

from rayvous.faults.explaining.seen import (
    NetworkRows,
    NotifiedRow,
    PublishedRow,
    Seen,
    TransferRow,
    explain_seen,
)

NETWORK = NetworkRows(
    brokers=[{"broker": 0, "label": "REB", "cluster": 0}, {"broker": 1, "label": "D1", "cluster": 1}],
    links=[(0, 1, "tree")],
)
ZERO = 1_795_828_448.0


def seen(zero: float) -> Seen:
    return Seen(
        ("faa", 10),
        "alice",
        [PublishedRow(zero + 0.505, 0)],
        [NotifiedRow(zero + 0.517, 1, "alice"), NotifiedRow(math.nan, 1, "bob")],
        1,
        [TransferRow(zero + 0.509, 0, "tree", 1)],
        [(0, zero + 0.1, 1, zero + 0.104), (1, zero + 0.2, 0, zero + 0.203)],
        0,
    )


def timed(text: str) -> list[str]:
    """Return the lines with a time of the event's journey."""
    return [line for line in text.splitlines() if " s  " in line]


def test_times_on_a_wall_clock_count_from_the_second_of_the_event() -> None:
    virtual, wall = (str(explain_seen(seen(zero), NETWORK)) for zero in (0.0, ZERO))
    told = "0.000 s is 2026-11-28 01:14:08 UTC; "
    assert told in " ".join(wall.split()) and told not in " ".join(virtual.split())
    assert "0.517 s" in wall and "1795828448" not in wall and len(timed(wall)) >= 4
    assert timed(wall) == timed(virtual)
