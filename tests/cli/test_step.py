"""``rayvous step``: moments in words, the network at one of them, the page; odd and hostile input gets one line."""

import json
import re
from pathlib import Path

import pytest
from rayvous.cli.verbs.step import run_step
from rayvous.protocol.errors import InputError

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
ELECTION, SMALL = EXAMPLES / "cases" / "election.json", EXAMPLES / "scenarios" / "small.json"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_without_options_each_moment_is_a_line(capsys):
    run_step(ELECTION, None, None, None, None, as_json=False)
    lines = capsys.readouterr().out.splitlines()
    assert "    6.0000 s  broker 5 dies" in lines and not any("TreeBeat" in line for line in lines)
    assert any("broker 4 speaks for cluster 1" in line for line in lines)


def test_the_network_at_a_moment(capsys):
    run_step(ELECTION, None, None, 5.0, "election", as_json=False)
    out = capsys.readouterr().out
    assert "broker 4: alive, cluster 1, below 2, epoch 1, term 1, waits, 1 entries" in out
    assert (
        "  broker 5: dead\n" in out and "  alice: at broker 4, wants price > 10, was given exchange:1" in out
    )
    said = run_step(ELECTION, None, None, 6.0, None, as_json=True)
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(said))
    assert said["then"][0]["brokers"][5]["state"] == "dead" and said["moments"]["election"] == 3


@pytest.mark.parametrize("other", ["hierarchical", str(SMALL)])
def test_two_runs_side_by_side(other, capsys):
    said = run_step(SMALL, other, Path("both.html"), None, None, as_json=False)
    assert said["out"] == "both.html" and "player: both.html" in capsys.readouterr().out
    runs = json.loads(re.search(r'id="data">(.*?)</script>', Path("both.html").read_text()).group(1))["runs"]
    names = ["small", "small"] if other == str(SMALL) else ["hybrid", "hierarchical"]
    assert [run["name"] for run in runs] == names and all(len(run["moments"]) > 100 for run in runs)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (None, "given.json: cannot be read: No such file or directory"),
        (b"", "given.json: the file is empty"),
        (b'{"rayvous_chaos_case": 1, "seed', "not JSON"),
        (bytes(range(256)), "given.json: cannot be read"),
        (b'{"hello": [1, 2]}', "given.json"),
        (b"[" * 100_000, "given.json: it is nested too deeply"),
        (b'{"rayvous_chaos_case": 99}', "rayvous_chaos_case is 99"),
    ],
)
def test_hostile_files_get_one_line(content, words):
    if content is not None:
        Path("given.json").write_bytes(content)
    for given, compare in ((Path("given.json"), None), (SMALL, "given.json")):
        with pytest.raises(InputError, match=words) as said:
            run_step(given, compare, Path("never.html"), None, None, as_json=True)
        assert "\n" not in str(said.value) and len(str(said.value)) < 400 and not Path("never.html").exists()


def test_a_folder_is_no_run_and_it_says_who_reads_a_trace():
    with pytest.raises(InputError, match=r"it is a folder, no scenario and no case: .*: rayvous explain"):
        run_step(Path(), None, None, None, None, as_json=True)


@pytest.mark.parametrize(
    ("compare", "out", "at", "to", "words"),
    [
        ("nonsense", None, None, None, "nonsense"),
        (None, "a.svg", None, None, r"must end in \.html"),
        (None, None, None, "lunch", "kind is 'lunch': it must be one of message"),
        (None, None, None, "death", r"there is no death after 0\.000 s"),
        (None, None, float("nan"), None, "seconds is nan"),
    ],
)
def test_wrong_options_get_one_line(compare, out, at, to, words):
    with pytest.raises(InputError, match=words):
        run_step(SMALL, compare, None if out is None else Path(out), at, to, as_json=True)


@pytest.mark.slow
def test_a_huge_scenario_ends_early(capsys):
    Path("huge.json").write_text(
        json.dumps(
            {
                "name": "huge",
                "topology": {"clusters": 50, "brokers_per_cluster": 3},
                "workload": {"subscribers": 100, "publishers": 10, "publications": 4_000},
            }
        )
    )
    run_step(Path("huge.json"), None, Path("huge.html"), None, None, as_json=False)
    assert "not all is shown: so much has happened" in capsys.readouterr().out
    assert Path("huge.html").stat().st_size < 4_000_000
