"""Real partitions between Ray nodes: a host's link is down for less and for more time than Ray waits."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_SECONDS
from rayvous.faults.machines.fence import why_not

RAYVOUS = Path(sys.executable).with_name("rayvous")
TO_RUN = f"sudo {sys.executable} -m pytest {Path(__file__).name} (with iproute2)"
QUICK = {
    "RAY_health_check_initial_delay_ms": "500",
    "RAY_health_check_period_ms": "500",
    "RAY_health_check_timeout_ms": "500",
    "RAY_health_check_failure_threshold": "4",
}
"""Ray gives a node up after some three seconds."""

SEED = 17
"""Its clients publish more than those of others with as few processes that die."""

SHORT, LONG = 1.6, 5.0
PLAN = {
    "name": "a short and a long partition",
    "heal_seconds": 9.0,
    "faults": [
        {"fault": "host_link", "at_seconds": 0.2, "host": 1, "seconds": SHORT},
        {"fault": "host_link", "at_seconds": 3.5, "host": 1, "seconds": LONG},
    ],
}


@pytest.mark.slow
def test_short_partitions_heal_and_long_ones_cost_ray_a_node_and_us_nothing(tmp_path):
    """Promises 1 to 3, 6 and 7; brokers that Ray gives up restart on another host, from their stores."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"{reason}; then: {TO_RUN}")
    (tmp_path / "plan.json").write_text(json.dumps(PLAN))
    words = ["--on", "ray", "--hosts", "2", "--brokers", "4", "--stable", "--seed", str(SEED), "--json"]
    run = subprocess.run(
        [RAYVOUS, "chaos", *words, "--plan", str(tmp_path / "plan.json")],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=os.environ | QUICK,
    )  # fmt: skip
    assert run.stdout, run.stderr[-3000:]
    came = json.loads(run.stdout)
    story = [(moment["seconds"], moment["what"]) for moment in came["report"]["timeline"]]
    assert run.returncode == 0 and came["verdict"] == "holds", (came["report"]["problems"], story)
    cuts = [when for when, what in story if what.startswith("fault: host link")]
    lost = [when for when, what in story if what == "Ray has given up host 1"]
    assert len(cuts) == 2 and len(lost) == 1
    assert cuts[1] < lost[0] < cuts[1] + LONG  # not for the short one
    suspected = [when for when, what in story if what.startswith("suspicion")]
    assert [when for when in suspected if cuts[0] < when < cuts[0] + SHORT + 1.0]
    (healed,) = [what for _, what in story if what.startswith("everything healed")]
    assert healed == "everything healed, started 1 3"  # the brokers of host 1
