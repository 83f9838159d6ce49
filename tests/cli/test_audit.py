"""The audit without Spark, and the traces that commands write for it."""

import json

import pytest
from rayvous.cli.verbs.audit import check_trace_dir, keep_trace, run_audit
from rayvous.cli.verbs.chaos import run_chaos_seeds
from rayvous.cli.verbs.scenarios import run_scenario_file
from rayvous.pipelines.audit.trace_files import load_trace, save_trace
from rayvous.protocol.errors import InputError
from rayvous.protocol.traces.trace import Trace, trace_of

PUBLISHED = {("p", number): {"x": number} for number in (1, 2, 3)}


def written(folder, notified):
    return save_trace(trace_of(PUBLISHED, {"c": ["x > 1"]}, {"c": notified}), folder)


def test_a_trace_that_holds_and_one_that_does_not(tmp_path, capsys):
    good = run_audit(written(tmp_path / "good", [("p", 2), ("p", 3)]), spark=False, as_json=False)
    assert good["verdict"] == "holds" and good["checked_by"] == "python"
    bad = run_audit(written(tmp_path / "bad", [("p", 3), ("p", 3)]), spark=False, as_json=True)
    assert bad["verdict"] == "violated" and (bad["missing"], bad["duplicates"]) == (1, 1)
    assert bad["conditions"]["once"] == {"checked": 2, "violated": 1, "indeterminate": 0}
    assert bad["examples"] == ["c was notified again of p #3", "c was never notified of p #2"]
    pieces = {violation["condition"]: violation["piece"] for violation in bad["violations"]}
    assert pieces["complete"][0] == "0.000 s  Registered(c, 1, x > 1)"
    json.dumps(bad, allow_nan=False)


def test_a_trace_that_decides_nothing(tmp_path, capsys, rayvous):
    folder = save_trace(Trace(), tmp_path / "empty")
    status, out, _ = rayvous("audit", str(folder), "--no-spark")
    assert (
        status == 3
        and "Nothing had to come for certain" in out
        and out.rstrip().endswith("verdict: undecided")
    )
    status, out, _ = rayvous("audit", str(written(tmp_path / "bad", [])), "--no-spark", "--json")
    assert status == 1 and json.loads(out)["verdict"] == "violated"
    status, out, _ = rayvous(
        "audit", str(written(tmp_path / "good", [("p", 2), ("p", 3)])), "--no-spark", "--json"
    )
    assert status == 0 and json.loads(out)["verdict"] == "holds"


def test_what_is_no_trace_is_refused_before_anything_starts(tmp_path):
    for spark in (True, False):
        with pytest.raises(InputError, match="is not a trace"):
            run_audit(tmp_path, spark=spark, as_json=True)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(InputError, match="must be a folder"):
        check_trace_dir(file)
    assert keep_trace(None, None) == {}


def test_chaos_and_scenarios_write_their_trace(tmp_path):
    said = run_chaos_seeds(2, 1, "sim", None, 4, tmp_path / "chaos", as_json=True)
    assert said["trace"] == str(tmp_path / "chaos")
    again = run_audit(tmp_path / "chaos", spark=False, as_json=True)
    assert again["conditions"] == said["conditions"] and again["verdict"] == "holds"
    with pytest.raises(InputError, match="for a single seed"):
        run_chaos_seeds(2, 2, "sim", None, 4, tmp_path / "chaos", as_json=True)
    scenario = {
        "name": "small",
        "topology": {"clusters": 2, "brokers_per_cluster": 2},
        "workload": {"subscribers": 4, "publishers": 2, "publications": 20, "rounds": 3, "leave": True},
    }
    (tmp_path / "small.json").write_text(json.dumps(scenario))
    said = run_scenario_file(tmp_path / "small.json", "sim", tmp_path / "run", as_json=True)
    again = run_audit(tmp_path / "run", spark=False, as_json=True)
    assert again["conditions"] == said["conditions"] and said["verdict"] == "holds"
    assert said["conditions"]["complete"]["checked"] == said["notifications_expected"] > 0
    assert len(load_trace(tmp_path / "run")) > 60
