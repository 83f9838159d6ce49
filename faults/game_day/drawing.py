"""What happened over time, drawn: how long the canary's notifications took, and below it each fault.

Rules
-----
* Everything stands at percents of the width and the height, so a narrow screen shows the same as a wide one; names
  stand beside it and below.
* A column is the range from the fastest to the slowest notification of the events published then, in a logarithmic
  scale. A band is the time from a fault until the network was whole again.
* Pure: HTML without a script. Words of users are escaped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from math import ceil, floor, log10
from typing import Final

from ...actors.pictures.pages import text
from .latencies import LatencyRow
from .report import CausedFault, GameDayReport
from .terms import KINDS

TICKS_MAX: Final = 6
STEPS: Final = (
    *((count, "s", 1.0) for count in (1, 2, 5, 10, 20, 30)),
    *((count, "min", 60.0) for count in (1, 2, 5, 10, 20, 30)),
    *((count, "h", 3_600.0) for count in (1, 2, 4, 6, 12)),
    *((count, "d", 86_400.0) for count in (1, 2)),
)
"""How far two marks of the time axis are from each other: in units, their name, and the seconds of one."""
APART: Final = 0.04
"""How far from each other two numbers of faults stand at least, in parts of the width: others are left out."""
WRONG_MAX: Final = 50


def drawn_over_time(report: GameDayReport) -> str:
    """Return the drawing of a game day as HTML; its style is that of the page."""
    seconds = max(report.seconds, 1e-9)
    return "".join(
        (
            f'<div class="plot"><span class="scale">{"".join(_scale(report.latencies))}</span>',
            f'<div class="chart">{"".join(_chart(report, seconds))}</div></div>',
            *_lanes(report, seconds),
            f'<div class="plot"><span></span><div class="axis">{"".join(_axis(seconds))}</div></div>',
        )
    )


def after(seconds: float | None) -> str:
    """Return in words after how long the network was whole again."""
    return "not seen whole" if seconds is None else f"{seconds:,.1f} s"


def _chart(report: GameDayReport, seconds: float) -> Iterator[str]:
    low, high = _decades(report.latencies)
    for fault in report.faults:
        left, width = _band(fault, seconds)
        yield f'<u style="left:{left:.4%};width:{width:.4%}"></u>'
    for decade in range(low + 1, high):
        yield f'<s style="bottom:{(decade - low) / (high - low):.4%}"></s>'
    for row in report.latencies:
        left = min(row.at_seconds / seconds, 1.0)
        width = min(row.seconds / seconds, 1.0 - left)
        if not row.notified:
            continue
        bottom, top = (
            (_decade(each) - low) / (high - low) for each in (row.fastest_seconds, row.slowest_seconds)
        )
        title = (
            f"{row.at_seconds:,.1f} s: {row.published:,} events, {row.notified:,} notifications, after "
            f"{_duration(row.fastest_seconds)} to {_duration(row.slowest_seconds)}"
        )
        place = f"left:{left:.4%};width:{width:.4%};bottom:{bottom:.4%};height:{top - bottom:.4%}"
        yield f'<i style="{place}" title="{title}"></i>'
    for wrong in report.verdict.violations[:WRONG_MAX]:
        left = min(max(wrong.at_seconds / seconds, 0.0), 1.0)
        yield f'<b class="violated" style="left:{left:.4%}" title="{text(wrong.sentence)}">✕</b>'


def _scale(rows: Iterable[LatencyRow]) -> Iterator[str]:
    low, high = _decades(rows)
    for decade in range(low, high + 1):
        yield f'<em style="bottom:{(decade - low) / (high - low):.4%}">{_duration(10.0**decade)}</em>'


def _decades(rows: Iterable[LatencyRow]) -> tuple[int, int]:
    """Return the powers of ten of seconds between which all latencies are."""
    notified = [row for row in rows if row.notified]
    least = min((_decade(row.fastest_seconds) for row in notified), default=-2.0)
    most = max((_decade(row.slowest_seconds) for row in notified), default=0.0)
    return floor(least), max(ceil(most), floor(least) + 1)


def _decade(seconds: float) -> float:
    return log10(max(seconds, 1e-4))


def _duration(seconds: float) -> str:
    return f"{seconds:,.3g} s" if seconds >= 1.0 else f"{1e3 * seconds:.3g} ms"


def _lanes(report: GameDayReport, seconds: float) -> Iterator[str]:
    """Yield a lane for each kind, with its faults, and their numbers as far as there is room for them."""
    for kind in KINDS:
        bars, free = list[str](), 0.0
        for fault in report.faults:
            if fault.strike.kind != kind:
                continue
            left, width = _band(fault, seconds)
            lasts = min(_lasted(fault) / seconds, width)
            title = text(f"{fault.at_seconds:.1f} s: {fault.strike}, {after(fault.whole_seconds)}")
            bars.append(f'<i style="left:{left:.4%};width:{width:.4%}" title="{title}"></i>')
            bars.append(f'<i class="lasts" style="left:{left:.4%};width:{lasts:.4%}" title="{title}"></i>')
            if left >= free:
                bars.append(f'<em style="left:{left:.4%}">{fault.strike.number}</em>')
                free = left + APART
        if bars:
            yield f'<div class="plot"><span>{kind}</span><div class="lane">{"".join(bars)}</div></div>'


def _band(fault: CausedFault, seconds: float) -> tuple[float, float]:
    """Return where a fault begins, and how long it was until the network was whole, in parts of the width."""
    left = min(fault.at_seconds / seconds, 1.0)
    lasted = seconds if fault.whole_seconds is None else fault.whole_seconds
    return left, min(lasted / seconds, 1.0 - left)


def _lasted(fault: CausedFault) -> float:
    """Return how long a fault lasted by itself: one that is over at once has no length, one that kills has its time."""
    return 0.0 if fault.strike.kind == "reset" else fault.strike.seconds


def _axis(seconds: float) -> Iterator[str]:
    fit = (each for each in STEPS if seconds <= TICKS_MAX * each[0] * each[2])
    count, name, unit = next(fit, STEPS[-1])
    for turn in range(int(seconds / (count * unit)) + 1):
        left = turn * count * unit / seconds  # the last one stands before its place, not behind it
        yield f'<em style="left:{left:.4%};transform:translateX(-{left:.4%})">{turn * count} {name}</em>'


__all__ = ["after", "drawn_over_time"]
