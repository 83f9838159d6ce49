"""The report of a game day as a page: the verdict, what was broken, when it was whole again, what clients got."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Final

from ...actors.pictures.pages import filled, text
from .drawing import after, drawn_over_time
from .report import GameDayReport

_UNIT: Final = re.compile(r"(\d) s\b")
"""A time: its unit stays in its line."""


def page_of(report: GameDayReport) -> str:
    """Return the report as one file of HTML, which fetches nothing."""
    verdict = report.verdict
    begun = datetime.fromtimestamp(report.started_at, UTC)
    spared = ", ".join(map(str, sorted(report.terms.spare, key=str))) or "nobody"
    summary = {
        "ended": report.reason,
        "scheme": report.scheme,
        **({"in the name of": report.operator} if report.operator else {}),
        "began": f"{begun:%Y-%m-%d %H:%M:%S} UTC",
        "kinds": f"{', '.join(report.terms.kinds)}; spared: {spared}; seed {report.terms.seed}",
        "faults": f"{len(report.faults):,}",
        "canary": f"{verdict.events_published:,} events; {verdict.notifications_expected:,} notifications due by its "
        f"last check, {verdict.notifications_delivered:,} delivered by the end",
    }
    if report.left_dead:
        summary["still dead"] = ", ".join(map(str, report.left_dead))
    wrong = [*report.problems, *(each.sentence for each in verdict.violations)]
    return filled(
        "game_day",
        {
            "title": text(f"Network {report.network}"),
            "outcome": report.outcome,
            "summary": "".join(
                f"<div><dt>{name}</dt><dd>{text(value)}</dd></div>" for name, value in summary.items()
            ),
            "wrong": _list("What is wrong", wrong),
            "drawing": drawn_over_time(report),
            "faults": "".join(
                f'<tr><td class="number">{each.strike.number}</td>'
                f"{_cells(f'{each.at_seconds:,.1f} s', str(each.strike), after(each.whole_seconds))}</tr>"
                for each in report.faults
            ),
            "conditions": "".join(
                f'<tr><td>{text(name)}</td><td class="at">{found.checked:,}</td>'
                f'<td class="at">{found.violated:,}</td></tr>'
                for name, found in verdict.findings.items()
            ),
            "timeline": "".join(f"<tr>{_cells(f'{at:,.1f} s', what)}</tr>" for at, what in report.timeline),
        },
        script=False,
    )


def _cells(at: str, what: str, last: str | None = None) -> str:
    more = "" if last is None else f'<td class="at">{last}</td>'
    whole = _UNIT.sub("\\1\N{NO-BREAK SPACE}s", text(what))
    return f'<td class="at">{at}</td><td>{whole}</td>{more}'


def _list(title: str, sentences: list[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{text(each)}</li>" for each in sentences)
    return f'<section class="sheet"><h2 class="violated">{title}</h2><ul>{items}</ul></section>'


__all__ = ["page_of"]
