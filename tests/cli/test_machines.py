"""Commands that run again on simulated hosts: what is run there, and what happens where there can be none."""

import json
import os
import sys

import pytest
from rayvous.benchmarks import distribution
from rayvous.faults.machines import fence
from rayvous.faults.machines.layout import HEALTH, Layout


@pytest.fixture
def started(monkeypatch):
    """Collect the layout and command of each run among hosts; a run exits with status 5."""
    found = []
    monkeypatch.setattr(fence, "why_not", lambda: None)
    monkeypatch.setattr(
        "rayvous.cli.machines.run_among_hosts",
        lambda layout, command, **streams: found.append((layout, command[-len(sys.argv[1:]) :])) or 5,
    )
    return found


def test_the_same_verb_runs_again_among_the_hosts(rayvous, started):
    words = ["bench", "distribute", "--hosts", "4", "--mbit", "50", "--json"]
    status, out, _ = rayvous(*words)
    assert (status, out) == (5, "") and started == [(Layout(4, 50.0), words)]


def test_where_there_can_be_no_hosts_it_says_why_and_does_without(rayvous, monkeypatch):
    asked = []
    monkeypatch.setattr(fence, "why_not", lambda: "only root may make them")
    monkeypatch.setattr(
        distribution, "run", lambda **options: asked.append(options) or {"benchmark": "distribute"}
    )
    status, out, err = rayvous("bench", "distribute", "--hosts", "4", "--megabytes", "2", "--json")
    assert status == 0 and json.loads(out) == {"benchmark": "distribute"}
    assert "only root may make them" in err
    assert asked[0]["hosts"] == 4 and asked[0]["megabytes"] == 2


def test_chaos_among_hosts_looks_after_its_nodes_often(rayvous, started, monkeypatch):
    for name in HEALTH:
        monkeypatch.setenv(name, "77")
    for name in sorted(HEALTH)[1:]:
        monkeypatch.delenv(name)
    words = ["chaos", "--on", "ray", "--hosts", "3", "--stable", "--admission", "--operations"]
    status, _, _ = rayvous(*words)
    assert status == 5 and started == [(Layout(3), words)]
    first, *others = sorted(HEALTH)
    assert os.environ[first] == "77"  # a value that the user has set stays
    assert {name: os.environ[name] for name in others} == {name: HEALTH[name] for name in others}


def test_a_plan_for_a_host_that_is_not_there_is_refused_before_hosts_are_made(rayvous, started, tmp_path):
    plan = {"name": "far", "heal_seconds": 5.0}
    plan["faults"] = [{"fault": "host_link", "at_seconds": 1.0, "host": 3, "seconds": 1.0}]
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    status, _, err = rayvous("chaos", "--on", "ray", "--hosts", "3", "--plan", tmp_path / "plan.json")
    assert status == 2 and "link of host 3 cannot get faults: there are 3" in err and not started
    status, _, err = rayvous("chaos", "--plan", tmp_path / "plan.json")
    assert status == 2 and "there are none: give --on ray --hosts N" in err


def test_the_publisher_is_the_one_whose_tree_is_like_the_papers():
    """Reference: paper 5, section 4.2: a largest out-degree of 4 for eleven subscribers."""
    assert distribution.publisher_of(12) == 10 and distribution.out_degree("lbdd", 12, 10) == 4
    assert distribution.out_degree("point-to-point", 12, 10) == 11
    for hosts in range(2, 30):
        assert 0 <= distribution.publisher_of(hosts) < hosts
