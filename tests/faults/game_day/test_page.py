"""The page of a game day's report: what people read afterwards, in one file."""

import json
import re
from pathlib import Path

import pytest
from chromium import Browser
from rayvous.faults.checker.reliability import judge
from rayvous.faults.checker.verdict import Finding, Violation, total
from rayvous.faults.game_day.drawing import APART
from rayvous.faults.game_day.latencies import LatencyRow
from rayvous.faults.game_day.machine import End, Strike
from rayvous.faults.game_day.page import page_of
from rayvous.faults.game_day.report import GameDayReport
from rayvous.faults.game_day.terms import KINDS, ROOT, Terms
from rayvous.protocol.features import Features
from rayvous.protocol.traces.account import Account
from rayvous.protocol.traces.trace import Trace


def report_of(faults: list[tuple[float, Strike, float | None]], seconds: float = 60.0) -> GameDayReport:
    report = GameDayReport("flights", "hybrid", Terms(seconds))
    for at, strike, whole in faults:
        report.struck(at, strike)
        report.say(at, f"fault {strike.number}: {strike}")
        if whole is not None:
            report.whole(whole)
    report.ended(seconds, End("the time is over"))
    return report


def styles(page: str, tag: str, kind: str = "") -> list[str]:
    return re.findall(f'<{tag}{kind} style="([^"]*)"', page)


def test_it_has_the_verdict_every_fault_and_what_was_wrong_and_runs_nothing_that_users_wrote() -> None:
    terms = Terms(60.0, 0.1, ("kill", "cut"), spare=frozenset({ROOT, 3}))
    report = GameDayReport("<b>flights</b>", "hybrid", terms, "olga", started_at=1_795_824_000.0)
    for at, strike, whole in (
        (5.0, Strike(1, "kill", (4,), 2.0, 0.1), 9.0),
        (30.0, Strike(2, "cut", (1, 2), 4.0, 0.1), None),
    ):
        report.struck(at, strike)
        report.say(at, f"fault {strike.number}")
        if whole is not None:
            report.whole(whole)
    report.verdict.findings["complete"] = Finding(checked=1_410)
    report.problem("<script>alert(1)</script> is not whole")
    report.left_dead = [4]
    report.ended(60.0, End("not whole", healed=False, whole=False))
    page = page_of(report)
    assert page.startswith("<!doctype html>") and "http:" not in page and "https:" not in page
    assert "<script" not in page and "<b>" not in page and "&lt;script&gt;alert(1)" in page
    for what in (
        '&lt;b&gt;flights&lt;/b&gt;: <span class="violated">violated',
        "olga", "2026-11-28 00:00:00 UTC", "kill broker 4, dead for 2.0\N{NO-BREAK SPACE}s",
        "cut brokers 1, 2 for 4.0\N{NO-BREAK SPACE}s", "not seen whole", "1,410", "spared: 3, root",
        "still dead",
    ):  # fmt: skip
        assert what in page, what


def test_more_may_be_delivered_by_the_end_than_was_due_when_the_canary_was_checked_last() -> None:
    """What it publishes after that has to be right, and nothing of it is due."""
    parts = []
    for number in (1, 2):
        account = Account(Features())
        account.subscribed(0.0, "s", 1, "n > 0")
        account.confirmed(0.0, "s", 1)
        account.published(1.0, "p", number, [{"n": number}])
        account.notified(2.0, "s", "p", number)
        parts.append(account)
    parts[0].settled(3.0)
    report = report_of([])
    report.verdict = total([judge(each) for each in parts])
    assert report.verdict.holds
    assert "2 events; 1 notifications due by its last check, 2 delivered by the end" in page_of(report)


def test_a_fault_is_drawn_as_long_as_it_lasts_and_until_the_network_was_whole() -> None:
    report = report_of([
        (5.0, Strike(1, "kill", (4,), 3.0, 0.1), 9.0),
        (30.0, Strike(2, "reset", (1,), 6.0, 0.1), 1.5),
        (45.0, Strike(3, "cut", (1, 2), 4.0, 0.1), None),
        (54.0, Strike(4, "pause", (2,), 12.0, 0.1), 3.0),
    ])  # fmt: skip
    page = page_of(report)
    bands = [
        "left:8.3333%;width:15.0000%",
        "left:50.0000%;width:2.5000%",
        "left:75.0000%;width:25.0000%",
        "left:90.0000%;width:5.0000%",
    ]
    assert styles(page, "u") == bands
    lasts = {"kill": "5.0000", "reset": "0.0000", "cut": "6.6667", "pause": "5.0000"}
    for band, fault in zip(bands, report.faults, strict=True):
        lane = page.partition(f"<span>{fault.strike.kind}</span>")[2].partition("</div></div>")[0]
        left = band.partition(";")[0]
        assert f'<i style="{band}"' in lane and f">{fault.strike.number}</em>" in lane
        assert f'<i class="lasts" style="{left};width:{lasts[fault.strike.kind]}%"' in lane, fault


def test_numbers_of_faults_that_are_close_to_each_other_do_not_stand_on_each_other() -> None:
    close = APART * 60.0 / 2.0
    faults = [(5.0 + place * close, Strike(place + 1, "reset", (1,), 1.0, 0.1), 0.5) for place in range(4)]
    lane = page_of(report_of(faults)).partition("<span>reset</span>")[2].partition("</div></div>")[0]
    assert re.findall(r">(\d+)</em>", lane) == ["1", "3"] and lane.count('class="lasts"') == 4


def test_latencies_are_columns_in_a_scale_of_powers_of_ten_and_violations_are_marked() -> None:
    report = report_of([])
    report.latencies = [
        LatencyRow(0.0, 0.5, 4, 12, 0.001, 0.1),
        LatencyRow(30.0, 0.5, 4, 12, 0.01, 10.0),
        LatencyRow(45.0, 0.5, 2, 0),
    ]
    finding = Finding(checked=3, violated=1)
    finding.violations.append(Violation("complete", "<s>", ("p", 1), 15.0, "<s> got nothing", Trace()))
    report.verdict.findings["complete"] = finding
    page = page_of(report)
    chart = page.partition('<div class="chart">')[2].partition("</div>")[0]
    assert styles(chart, "i") == [
        "left:0.0000%;width:0.8333%;bottom:0.0000%;height:50.0000%",
        "left:50.0000%;width:0.8333%;bottom:25.0000%;height:75.0000%",
    ]
    assert "30.0 s: 4 events, 12 notifications, after 10 ms to 10 s" in chart
    assert '<b class="violated" style="left:25.0000%" title="&lt;s&gt; got nothing">' in chart
    assert len(styles(chart, "s")) == 3
    scale = page.partition('<span class="scale">')[2].partition("</span>")[0]
    assert re.findall(r">([^<]+)</em>", scale) == ["1 ms", "10 ms", "100 ms", "1 s", "10 s"]


@pytest.mark.parametrize(
    ("seconds", "marks"),
    [
        (0.0, ["0 s"]),
        (7.0, ["0 s", "2 s", "4 s", "6 s"]),
        (130.0, ["0 s", "30 s", "60 s", "90 s", "120 s"]),
        (600.0, ["0 min", "2 min", "4 min", "6 min", "8 min", "10 min"]),
        (7 * 86_400.0, ["0 d", "2 d", "4 d", "6 d"]),
    ],
)
def test_the_axis_has_few_round_times(seconds: float, marks: list[str]) -> None:
    axis = page_of(report_of([], seconds)).partition('<div class="axis">')[2].partition("</div>")[0]
    assert re.findall(r">([^<]+)</em>", axis) == marks


@pytest.mark.slow
@pytest.mark.parametrize("width", [1280, 400])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_browser_shows_it_whole_on_any_screen(
    browser: Browser, tmp_path: Path, width: int, scheme: str
) -> None:
    faults = [(10.0 * turn, Strike(turn, kind, (4,), 3.0, 0.1), 6.0) for turn, kind in enumerate(KINDS, 1)]
    report = report_of(faults, 80.0)
    report.latencies = [LatencyRow(float(turn), 1.0, 4, 12, 0.002, 0.2 + turn) for turn in range(80)]
    path = tmp_path / "day.html"
    path.write_text(page_of(report), encoding="utf-8")
    browser.open(path.as_uri(), width, scheme)
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(18, 22, 28)" if scheme == "dark" else "rgb(246, 247, 249)"
    )
    box = "document.querySelector('{}').getBoundingClientRect()"
    chart, axis = (
        json.loads(browser.evaluate(f"JSON.stringify({box.format(each)})")) for each in (".chart", ".axis")
    )
    assert chart["width"] > 0.7 * width - 100 and chart["left"] == axis["left"]
    outside = """[...document.querySelectorAll('.chart i, .chart u, .lane i')].filter(each => {
        const mine = each.getBoundingClientRect(), all = each.parentElement.getBoundingClientRect();
        return mine.left < all.left - 1 || mine.right > all.right + 3 || mine.top < all.top - 4;
    }).length"""
    assert browser.evaluate(outside) == 0
    assert browser.evaluate("document.querySelectorAll('.lane').length") == len(KINDS)
    overlapping = """[...document.querySelectorAll('.axis em, .scale em')].filter((each, place, all) =>
        all.some((other, at) => at > place && each.parentElement === other.parentElement &&
            each.getBoundingClientRect().right > other.getBoundingClientRect().left &&
            each.getBoundingClientRect().left < other.getBoundingClientRect().right &&
            each.getBoundingClientRect().bottom > other.getBoundingClientRect().top &&
            each.getBoundingClientRect().top < other.getBoundingClientRect().bottom)).length"""
    assert browser.evaluate(overlapping) == 0
    assert browser.said() == [] and browser.requested() == [path.as_uri()]
