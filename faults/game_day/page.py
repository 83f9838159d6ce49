"""The report of a game day as a page: the verdict, what was broken, when it was whole again, what clients got."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from ...actors.pictures.pages import filled, text
from .report import GameDayReport
from .terms import KINDS


def page_of(report: GameDayReport) -> str:
    """Return the report as one file of HTML, which fetches nothing."""
    seconds = max(report.seconds, 1e-9)
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
        "canary": f"{verdict.events_published:,} events, {verdict.notifications_expected:,} notifications expected, "
        f"{verdict.notifications_delivered:,} delivered",
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
            "seconds": f"{report.seconds:,.0f} s",
            "lanes": "".join(_lanes(report, seconds)),
            "faults": "".join(
                _row(f"{each.at_seconds:,.1f} s", str(each.strike), _after(each.whole_seconds))
                for each in report.faults
            ),
            "conditions": "".join(
                f'<tr><td>{text(name)}</td><td class="at">{found.checked:,}</td>'
                f'<td class="at">{found.violated:,}</td></tr>'
                for name, found in verdict.findings.items()
            ),
            "timeline": "".join(_row(f"{at:,.1f} s", what) for at, what in report.timeline),
        },
        script=False,
    )


def _lanes(report: GameDayReport, seconds: float) -> Iterable[str]:
    for kind in KINDS:
        bars = []
        for fault in report.faults:
            if fault.strike.kind == kind:
                left = min(fault.at_seconds / seconds, 1.0)
                lasted = seconds if fault.whole_seconds is None else fault.whole_seconds
                width = min(lasted / seconds, 1.0 - left)
                title = text(f"{fault.at_seconds:.1f} s: {fault.strike}, {_after(fault.whole_seconds)}")
                bars.append(f'<i style="left:{left:.4%};width:{width:.4%}" title="{title}"></i>')
        if bars:
            yield f'<div class="lane"><span>{kind}</span><div>{"".join(bars)}</div></div>'


def _after(seconds: float | None) -> str:
    return "not seen whole" if seconds is None else f"{seconds:,.1f} s"


def _row(at: str, what: str, after: str | None = None) -> str:
    last = "" if after is None else f'<td class="at">{after}</td>'
    return f'<tr><td class="at">{at}</td><td>{text(what)}</td>{last}</tr>'


def _list(title: str, sentences: list[str]) -> str:
    if not sentences:
        return ""
    items = "".join(f"<li>{text(each)}</li>" for each in sentences)
    return f'<section class="sheet"><h2 class="violated">{title}</h2><ul>{items}</ul></section>'


__all__ = ["page_of"]
