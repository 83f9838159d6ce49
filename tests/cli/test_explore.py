"""``rayvous explore crash``: its figures, its verdict, and a schedule that is written and run again."""

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
    assert not Path("crash-schedule.json").exists()


def test_a_depth_is_a_bound_that_is_told(rayvous):
    status, out, _ = rayvous("explore", "crash", "--depth", "6")
    assert status == 0 and "6 actions, not all states" in " ".join(out.split())


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
