"""A payload over real links, with the command line: each host is a network namespace with a Ray node."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from patience import PATIENCE_SECONDS
from rayvous.faults.machines.fence import why_not
from rayvous.routing.topologies.lbdd_plan import plan

RAYVOUS = Path(sys.executable).with_name("rayvous")
HOSTS, MBIT, MEGABYTES, PUBLISHER = 3, 80, 8, 0
TO_RUN = f"sudo {sys.executable} -m pytest {Path(__file__).name} (with iproute2)"


def test_lbdd_beside_point_to_point_over_links_of_a_bandwidth():
    """The kernel's byte counts of the publisher's link match the copies in the plan. Paper 5, 4.2 and 4.3."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"{reason}; then: {TO_RUN}")
    words = ["--hosts", HOSTS, "--mbit", MBIT, "--megabytes", MEGABYTES, "--publisher", PUBLISHER, "--json"]
    run = subprocess.run(
        [RAYVOUS, "bench", "distribute", *map(str, words)],
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr[-3000:]
    came = json.loads(run.stdout)
    assert came["between_hosts"].startswith("network namespaces") and came["publisher"] == PUBLISHER
    copies = {"point-to-point": HOSTS - 1, "lbdd": len(plan(PUBLISHER, range(HOSTS)).children[PUBLISHER])}
    nbytes = MEGABYTES << 20
    assert copies["lbdd"] < copies["point-to-point"]
    for row in came["results"]:
        mine = copies[row["scheme"]]
        assert row["copies"] == HOSTS - 1 and row["publisher_sent_bytes"] == mine * nbytes
        assert mine * nbytes < row["publisher_link_bytes"] < (mine + 0.5) * nbytes
        assert row["all_links_bytes"] < (HOSTS - 1 + 0.5) * nbytes  # nothing was sent beyond the plan
        # No scheme is faster than its busiest link, whatever the load of the machine.
        assert row["seconds"] > 0.9 * mine * nbytes * 8 / (MBIT * 1e6)
    assert came["floor_seconds"] > 0.9 * nbytes * 8 / (MBIT * 1e6)
