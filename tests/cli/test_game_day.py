"""``rayvous chaos --network`` with a network and a game day that are stand-ins."""

import json
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from rayvous.cli.verbs import game_day as verb
from rayvous.faults.checker.conditions import RULES
from rayvous.faults.game_day.machine import End, Strike
from rayvous.faults.game_day.report import GameDayReport
from rayvous.faults.game_day.terms import Terms, spared
from rayvous.faults.real import game_day

Run = Callable[..., tuple[int, str, str]]


def sound() -> list[str]:
    """A condition that holds."""
    return []


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, object]]:
    """What game days were asked for; each kills broker 3, and the network does not heal from a kill of all."""
    found: list[dict[str, object]] = []

    @contextmanager
    def joined(name: str, address: str | None) -> Iterator[SimpleNamespace]:
        directory = SimpleNamespace(chaos=name != "calm", access=None)
        yield SimpleNamespace(name=name, inspect=SimpleNamespace(directory=directory))

    def have(net: SimpleNamespace, *, dry_run: bool = False, **how: object) -> GameDayReport:
        found.append({"dry_run": dry_run, **how})
        terms = replace(Terms(), spare=spared(str(how["spare"])))
        report = GameDayReport(net.name, "hybrid", terms)
        report.struck(5.0, Strike(1, "kill", (3,), 2.0, 0.1))
        if not dry_run:
            report.verdict.notifications_expected = report.verdict.notifications_delivered = 7
            report.whole(4.0)
            report.left_dead = [3] if net.name == "broken" else []
            report.ended(60.0, End("the time is over", healed=net.name != "broken"))
        return report

    monkeypatch.setattr(verb, "joined", joined)
    monkeypatch.setattr(game_day, "game_day", have)
    return found


def test_a_dry_run_says_what_would_be_done_and_does_nothing(
    rayvous: Run, asked: list[dict[str, object]]
) -> None:
    status, out, _ = rayvous("chaos", "--network", "calm", "--dry-run", "--spare", "root", "--spare", "2")
    assert status == 0 and "kill broker 3, dead for 2.0 s" in out and "Spared: 2, root." in out
    assert [each["dry_run"] for each in asked] == [True]


def test_a_game_day_is_had_as_asked_and_its_verdict_is_the_status(
    rayvous: Run, asked: list[dict[str, object]], tmp_path: Path
) -> None:
    words = ("--for", "1h30m", "--rate", "30/h", "--kinds", "kill", "--seed", "4", "--yes")
    conditions = ("--condition", f"{__name__}:sound", "--condition", f"{__name__}:RULE")
    file = tmp_path / "day.json"
    status, out, _ = rayvous("chaos", "--network", "n", *words, *conditions, "--out", file)
    assert status == 0 and "verdict: holds" in out and "whole after kill" in out
    (day,) = [each for each in asked if not each["dry_run"]]
    assert (day["seconds"], day["per_minute"], day["kinds"], day["seed"]) == (5_400.0, 0.5, "kill", 4)
    assert day["conditions"] == [sound, RULE]
    assert json.loads(file.read_text())["faults"][0]["brokers"] == [3]
    status, out, _ = rayvous("chaos", "--network", "broken", "--yes")
    assert status == 1 and "still dead: rayvous restart broken 3" in out and "! the time is over" in out
    status, out, _ = rayvous("chaos", "--network", "n", "--yes", "--json")
    assert status == 0 and json.loads(out)["verdict"] == "holds"


RULE = RULES["once"]


def test_nothing_is_broken_without_being_asked_for(
    rayvous: Run, asked: list[dict[str, object]], monkeypatch: pytest.MonkeyPatch
) -> None:
    status, _, err = rayvous("chaos", "--network", "n")
    assert status == 2 and "add --yes" in err
    status, _, err = rayvous("chaos", "--network", "calm", "--yes")
    assert status == 2 and "chaos = true" in err
    monkeypatch.setattr(verb.sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: "no\n"))
    assert rayvous("chaos", "--network", "n")[0] == 2
    assert all(each["dry_run"] for each in asked)
    monkeypatch.setattr(verb.sys, "stdin", SimpleNamespace(isatty=lambda: True, readline=lambda: "n\n"))
    assert rayvous("chaos", "--network", "n")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--for", "3m"), "--for is for a game day of a running network"),
        (("--network", "n", "--plan", "p.json"), "--plan is for a network that is drawn from a seed"),
        (("--network", "n", "--rate", "0/s"), "--rate 0/s: write a number above 0"),
        (("--network", "n", "--rate", "often"), "--rate often"),
        (("--network", "n", "--for", "-1"), "--for -1: write a time"),
        (("--network", "n", "--for", "10"), "as 90s, 10m or 1h30m"),
        (("--network", "n", "--condition", "nowhere:it"), "cannot import 'nowhere'"),
        (("--network", "n", "--condition", "math:pi"), "a Rule, or of a function"),
        (("--network", "n", "--out", "/nowhere/at/all.json"), "there is no folder"),
    ],
)
def test_what_makes_no_sense_is_said(
    rayvous: Run, asked: list[dict[str, object]], words: tuple[str, ...], said: str
) -> None:
    status, _, err = rayvous("chaos", *words)
    assert status == 2 and said in err and not asked


def test_times_and_rates_have_units() -> None:
    assert [verb.seconds_of(text) for text in ("90s", "10m", "10min", "1h30m", "1.5d")] == [
        90.0, 600.0, 600.0, 5_400.0, 129_600.0,
    ]  # fmt: skip
    assert math.isclose(verb.rate_of("1/min"), 1 / 60) and verb.rate_of("36/h") == 0.01
