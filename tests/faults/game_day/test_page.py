"""The page of a game day's report: what people read afterwards, in one file."""

from rayvous.faults.checker.verdict import Finding
from rayvous.faults.game_day.machine import End, Strike
from rayvous.faults.game_day.page import page_of
from rayvous.faults.game_day.report import GameDayReport
from rayvous.faults.game_day.terms import ROOT, Terms


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
        "olga", "2026-11-28 00:00:00 UTC", "kill broker 4, dead for 2.0 s",
        "cut brokers 1, 2 for 4.0 s", "not seen whole", "1,410", "spared: 3, root", "left:8.3333%;width:15.0000%",
        "still dead",
    ):  # fmt: skip
        assert what in page, what
