"""``rayvous explain``: scenarios, cases and traces; odd and hostile input gets one line."""

import json
import os
from pathlib import Path

import pytest
from rayvous.cli.verbs.explain import run_explain
from rayvous.faults.plans.case_files import save_case
from rayvous.faults.plans.plans import Crash, FaultPlan, Restart
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.pipelines.audit import trace_part
from rayvous.pipelines.audit.trace_files import save_trace
from rayvous.protocol.errors import InputError
from rayvous.protocol.scenarios.files import FILE_BYTES_MAX
from rayvous.protocol.traces.trace import Trace

SMALL = Path(__file__).resolve().parents[2] / "examples" / "scenarios" / "small.json"


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def a_trace(losses=True):
    trace = Trace()
    trace.subscribed(0.0, "alice", 1, "price > 9")
    trace.confirmed(0.5, "alice", 1)
    for number in range(1, 40):
        trace.published(float(number), "faa", number, [{"price": 9 + number}])
        if number % 5 or not losses:
            trace.notified(number + 0.2, "alice", "faa", number)
    if losses:
        trace.lost(60.0, "faa", 10, "alice")
    trace.settled(100.0)
    return trace


def test_a_scenario_is_explained_and_drawn(capsys):
    said = run_explain(SMALL, "s4", "p1:23", Path("why.html"), as_json=False)
    out = capsys.readouterr().out
    assert said["outcome"] == "delivered" and said["out"] == "why.html"
    assert "p1:23 and s4: delivered" in out and "diagram: why.html" in out
    assert "p1 publishes #23" in Path("why.html").read_text()


def test_a_case_is_explained_as_json(capsys):
    case = draw_sim_case(4, brokers_max=4, plan=FaultPlan("one", (Crash(1.0, 0), Restart(2.0, 0)), 4.0))
    save_case(case, "case.json")
    note = run_case(case, keep_trace=True).trace.notifications()[0]
    run_explain(Path("case.json"), note.client, f"{note.publisher}:{note.sequence}", None, as_json=True)
    said = json.loads(capsys.readouterr().out)
    assert said["event"] == [note.publisher, note.sequence] and said["outcome"] == "delivered"


def test_a_trace_is_explained_by_its_first_violation(capsys):
    save_trace(a_trace(), "trace")
    said = run_explain(Path("trace"), None, None, Path("why.svg"), as_json=True)
    capsys.readouterr()
    assert said["outcome"] == "missing" and said["event"] == ["faa", 5] and "complete" in said["chosen"]
    assert Path("why.svg").read_text().startswith("<svg")


@pytest.mark.parametrize(
    ("subscriber", "event", "found"),
    [
        (None, None, ["faa", 10]),
        ("alice", None, ["faa", 10]),
        (None, "faa:7", ["faa", 7]),
        ("alice", "faa:5", ["faa", 5]),
    ],
)
def test_of_a_large_trace_only_a_part_is_read(monkeypatch, capsys, subscriber, event, found):
    save_trace(a_trace(), "trace")
    monkeypatch.setattr(trace_part, "WHOLE_ROWS_MAX", 10)
    monkeypatch.setattr(trace_part, "load_trace", None)
    said = run_explain(Path("trace"), subscriber, event, None, as_json=True)
    assert said["event"] == found and said["subscriber"] == "alice"
    assert said["outcome"] == ("delivered" if found == ["faa", 7] else "missing")
    capsys.readouterr()


def test_a_large_trace_without_losses_gives_a_sample(monkeypatch, capsys):
    save_trace(a_trace(losses=False), "trace")
    monkeypatch.setattr(trace_part, "WHOLE_ROWS_MAX", 10)
    said = run_explain(Path("trace"), None, None, None, as_json=False)
    assert said["event"] == ["faa", 1] and said["outcome"] == "delivered"
    assert "so large a trace is judged by rayvous audit" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.json", None, "none.json: cannot be read: No such file or directory"),
        ("empty.json", b"", "empty.json: the file is empty"),
        ("half.json", b'{"rayvous_chaos_case": 1, "seed', "not JSON"),
        ("bytes.json", bytes(range(256)), "bytes.json: cannot be read"),
        ("foreign.json", b'{"hello": [1, 2]}', "foreign.json"),
        ("list.json", b"[]", "list.json"),
        ("deep.json", b"[" * 100_000, "deep.json: it is nested too deeply"),
        ("version.json", b'{"rayvous_chaos_case": 99}', "rayvous_chaos_case is 99"),
    ],
)
def test_hostile_files_get_one_line(name, content, words):
    if content is not None:
        Path(name).write_bytes(content)
    with pytest.raises(InputError, match=words.replace(".", r"\.")) as said:
        run_explain(Path(name), None, None, None, as_json=True)
    assert "\n" not in str(said.value) and len(str(said.value)) < 400


def test_a_file_that_is_too_large_is_not_read():
    with Path("big.json").open("wb") as file:
        file.truncate(FILE_BYTES_MAX + 1)
    with pytest.raises(InputError, match="no scenario and no case; a trace is a folder"):
        run_explain(Path("big.json"), None, None, None, as_json=True)


def test_a_device_or_a_pipe_is_not_read():
    os.mkfifo("pipe")
    for path in ("pipe", "/dev/zero"):
        with pytest.raises(InputError, match="it is no regular file: copy what it contains to one"):
            run_explain(Path(path), None, None, None, as_json=True)


def test_hostile_folders_get_one_line(monkeypatch):
    Path("empty").mkdir()
    with pytest.raises(InputError, match=r"is not a trace: it has no trace\.json"):
        run_explain(Path("empty"), None, None, None, as_json=True)
    save_trace(a_trace(), "cut")
    whole = Path("cut/notified.parquet").read_bytes()
    Path("cut/notified.parquet").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"notified\.parquet"):
        run_explain(Path("cut"), None, None, None, as_json=True)
    save_trace(a_trace(), "large")
    monkeypatch.setattr(trace_part, "WHOLE_ROWS_MAX", 10)
    for subscriber, event, words in (
        ("zoe", "faa:7", "there is no subscriber 'zoe'"),
        (None, "faa:999", "nobody was notified of faa:999; say whose"),
        ("zoe", None, "nothing to explain: zoe was notified of nothing"),
    ):
        with pytest.raises(InputError, match=words):
            run_explain(Path("large"), subscriber, event, None, as_json=True)


@pytest.mark.parametrize("out", ["why.png", "why", "why.html.exe"])
def test_the_file_to_write_is_checked_first(out):
    with pytest.raises(InputError, match=r"must end in \.html or \.svg"):
        run_explain(Path("none.json"), None, None, Path(out), as_json=True)
