"""Commands that need no Ray, in this process; the installed command is tested in tests/on_ray."""

import json

import pytest


def test_a_scenario_runs_on_the_simulator(rayvous, tmp_path):
    scenario = {
        "name": "small",
        "topology": {"clusters": 2, "brokers_per_cluster": 2},
        "workload": {"subscribers": 4, "publishers": 2, "publications": 20},
    }
    (tmp_path / "small.json").write_text(json.dumps(scenario))
    status, out, told = rayvous("run", str(tmp_path / "small.json"), "--json")
    assert status == 0, told
    assert json.loads(out)["verdict"] == "holds"


def test_a_selector_is_explained(rayvous):
    status, out, told = rayvous("selector", "price > 2", "--covers", "price > 3 AND sym = 'X'", "--json")
    assert status == 0, told
    result = json.loads(out)
    assert result["covers"] is True and result["is_covered"] is False
    status, out, told = rayvous("selector", "NOT (a = 1)", "--dialect", "jms", "--json")
    assert status == 0 and "LIKE '%'" in json.loads(out)["normal_form"], told


@pytest.mark.slow
def test_schemes_are_compared(rayvous):
    words = ("--schemes", "hybrid,lbdd", "--events", "20", "--clusters", "2", "--brokers-per-cluster", "2")
    status, out, told = rayvous("compare", *words, "--json")
    assert status == 0, told
    result = json.loads(out)
    assert result["verdict"] == "holds"
    assert [row["scheme"] for row in result["results"]] == ["hybrid", "lbdd"]
