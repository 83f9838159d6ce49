"""``rayvous chaos --search``: what it accepts, says, keeps and writes."""

import json
from contextlib import contextmanager
from pathlib import Path

import pytest
from rayvous.cli.verbs import chaos_search
from rayvous.cli.verbs.chaos_search import bound_of, run_search
from rayvous.faults.plans.case_files import load_case
from rayvous.faults.searching.search import one_by_one
from rayvous.faults.simulated.chaos import run_case
from rayvous.protocol.errors import InputError
from rayvous.recovery.replay.deduplicator import Deduplicator


@pytest.fixture(autouse=True)
def in_this_process_and_a_folder_of_its_own(tmp_path, monkeypatch):
    @contextmanager
    def here():
        yield one_by_one

    monkeypatch.setattr(chaos_search, "in_processes", here)
    monkeypatch.chdir(tmp_path)


def searched(given="runs=3", **options):
    return run_search(given, 0, {}, {}, shrink_seconds=0.1, **{"brokers": 2, "as_json": False, **options})


@pytest.mark.slow
def test_a_search_says_what_was_reached_and_what_never_and_keeps_its_cases(capsys):
    result = searched(corpus=Path("cases"))
    said = capsys.readouterr()
    assert result["verdict"] == "holds" and result["runs"] == 3 and result["runs_per_second"] > 0
    kept = sorted(Path("cases").glob("case-*.json"))
    assert len(kept) == result["corpus"]["cases"] > 0 and run_case(load_case(kept[0])).holds
    assert "Resign" in result["never"]["handled"] and "Resign" in said.out, (
        "nobody leaves a cluster in good order"
    )
    lines = result["lines"]
    assert 0 < lines["reached"] < lines["lines"] and lines["cases"] >= 1
    assert any(each["function"] == "Succession._on_resign" for each in lines["unreached"])
    assert "search: 3 of 3 runs" in said.err and "verdict: holds" in said.out
    Path("cases/case-damaged.json").write_text("{")
    again = searched(corpus=Path("cases"))
    assert again["corpus"]["read"] == len(kept) and "case-damaged.json is left out" in capsys.readouterr().err
    assert again["reached"]["points"] >= result["reached"]["points"]


def test_a_case_that_fails_is_written_shrunk_and_replayed(monkeypatch, capsys):
    monkeypatch.setattr(Deduplicator, "admit", lambda self, client, batch, rows, *, accepted: rows)
    result = searched("runs=50", brokers=4, as_json=True)
    assert json.loads(capsys.readouterr().out)["verdict"] == result["verdict"] == "violated"
    shrunk = result["shrunk"]
    assert shrunk["reason"] == "once is violated" and Path(shrunk["file"]).exists()
    assert result["replay"] == f"rayvous chaos --on sim --case {failed()}"
    assert run_case(load_case(failed())).outcome == "violated"


def failed():
    (path,) = Path().glob("failed-????????????????.json")
    return path


def test_when_a_search_ends():
    assert bound_of("minutes=30") == (None, 1800.0) and bound_of("runs=500") == (500, None)
    assert bound_of(" minutes=0.5, runs=7") == (7, 30.0)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "30m",
        "minutes",
        "minutes=-1",
        "minutes=0",
        "minutes=1e9",
        "runs=0",
        "runs=1.5",
        "runs=5,runs=6",
        "hours=1",
    ],
)
def test_what_is_no_end_of_a_search_is_refused(given):
    with pytest.raises(InputError, match="--search"):
        searched(given)


def test_options_that_do_not_go_with_a_search(rayvous):
    Path("file").write_text("")
    for options, words in (
        (("--search", "runs=1", "--on", "ray"), "--on does not go with --search"),
        (("--search", "runs=1", "--seeds", "2"), "--seeds does not go with --search"),
        (("--search", "runs=1", "--corpus", "file"), "it must be a folder"),
        (("--search", "runs=1", "--brokers", "1"), "--brokers at least 2"),
        (("--search", "runs=1", "--scheme", "none"), "no routing scheme"),
        (("--corpus", "cases"), "--corpus needs --search"),
    ):
        status, out, err = rayvous("chaos", *options)
        assert (status, out) == (2, "") and words in " ".join(err.split()), (options, err)
