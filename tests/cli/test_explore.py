"""``rayvous explore crash``: its figures, its verdict, and a schedule that is written and run again."""

import itertools
import json
from pathlib import Path

import pytest
from rayvous.recovery.durability.numbered_links import CrashRecover


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_it_tells_how_far_it_came_and_that_all_holds(rayvous):
    status, out, _ = rayvous("explore", "crash", "--crashes", "0", "--json")
    said = json.loads(out)
    assert status == 0 and said["verdict"] == "holds" and said["complete"]
    assert (said["states"], said["steps"], said["ends"], said["traces"]) == (2_961, 8_758, 5, 12)
    assert said["ends_decided"] == 1 and said["schedule_file"] is None
    assert not Path("crash-schedule.json").exists()


def test_a_depth_is_a_bound_that_is_told(rayvous):
    status, out, _ = rayvous("explore", "crash", "--depth", "6")
    assert status == 0 and "6 actions, not all states" in " ".join(out.split())
    assert "verdict: holds to depth 6" in out
    status, out, _ = rayvous("explore", "crash", "--depth", "6", "--json")
    assert status == 0 and json.loads(out)["verdict"] == "holds to depth 6"


def test_a_search_that_time_has_cut_off_is_undecided(monkeypatch, rayvous):
    monkeypatch.setattr("rayvous.faults.model_checking.search.PROGRESS_EVERY", 1)
    monkeypatch.setattr("rayvous.cli.verbs.explore.time.process_time", itertools.count().__next__)
    status, out, _ = rayvous("explore", "crash", "--seconds", "10")
    assert status == 3 and "verdict: undecided" in out
    status, out, _ = rayvous("explore", "election", "--seconds", "10", "--json")
    assert status == 3 and json.loads(out)["verdict"] == "undecided"


def test_beside_a_schedule_other_options_are_refused(rayvous):
    for verb, options in (
        ("crash", ["--crashes", "1", "--cancels"]),
        ("election", ["--rivals", "--depth", "3"]),
    ):
        status, out, err = rayvous("explore", verb, "--schedule", "x.json", *options)
        names = " and ".join(each for each in options if each.startswith("--"))
        assert status == 2 and not out and f"leave out {names}" in err and len(err.splitlines()) == 1


def test_a_violation_is_told_written_and_repeated(monkeypatch, rayvous):
    right = CrashRecover._ack
    ahead = staticmethod(lambda interface, number: right(interface, number + 1))
    with monkeypatch.context() as broken:
        broken.setattr(CrashRecover, "_ack", ahead)
        status, out, _ = rayvous("explore", "crash", "--crashes", "0")
        assert status == 1 and "verdict: violated" in out
        assert "replay: rayvous explore crash --schedule crash-schedule.json" in out
        assert "message 1 (Announce) from broker 1 arrives at broker 0" in out
        status, out, _ = rayvous("explore", "crash", "--schedule", "crash-schedule.json", "--json")
        said = json.loads(out)
        assert status == 1 and "ends at 1" in said["violations"][0]
        status, out, _ = rayvous("explore", "crash", "--crashes", "0", "--json")
        assert status == 1 and json.loads(out)["schedule_file"] == "crash-schedule.json"
        assert len(said["story"]) == len(json.loads(Path("crash-schedule.json").read_text())["actions"])
    # The right broker acknowledges another number, and the rest of the schedule is the same.
    status, out, _ = rayvous("explore", "crash", "--schedule", "crash-schedule.json")
    assert status == 0 and "verdict: holds" in out


@pytest.mark.parametrize(
    ("option", "value", "said"),
    [
        ("--routers", "5", "routers is 5: it must be 2 or 3"),
        ("--schedule", "nowhere.json", "nowhere.json: cannot be read: No such file"),
        ("--crashes", "3000000000", "crashes is 3000000000: it must be a whole number from 0 to 500"),
        ("--events", "1000000000", "events is 1000000000: it must be a whole number from 1 to 500"),
        ("--seconds", "nan", "Invalid value for '--seconds'"),
        ("--scheme", "nonsense", "nonsense"),
    ],
)
def test_a_mistake_is_one_line(option, value, said, rayvous):
    status, out, err = rayvous("explore", "crash", option, value)
    assert status == 2 and not out and said in err and len(err.splitlines()) == 1
