"""The same scenario gives the same trace: again, in another process, and under another hash order."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tracing
from rayvous.protocol.scenarios.scenario import LinkModel, Scenario, Workload
from rayvous.routing.topologies.cluster_trees import topology_of
from rayvous.simulator import run_scenario

DIGEST = """
import hashlib
from rayvous.protocol.scenarios.scenario import Scenario
from rayvous.routing.topologies.cluster_trees import topology_of
from rayvous.simulator import run_scenario
from tracing import Tracer
scenario = Scenario.load({path!r})
tracer = Tracer(topology_of(scenario.topology).positions())
run_scenario(scenario, record=tracer.record)
print(hashlib.sha256("\\n".join(tracer.lines).encode()).hexdigest())
"""


def scenario(seed=0, scheme="hybrid"):
    return Scenario(
        "again",
        {"clusters": 9, "brokers_per_cluster": 3, "degree": 3, "shape": "transit-stub", "seed": 5},
        scheme,
        seed,
        links=LinkModel(spread_seconds=0.01, jitter_seconds=0.05, loss=0.01),
        workload=Workload(25, 6, 25, 2, rounds=2),
    )


def digest(given):
    tracer = tracing.Tracer(topology_of(given.topology).positions())
    run_scenario(given, record=tracer.record)
    assert len(tracer.lines) > 1000
    return hashlib.sha256("\n".join(tracer.lines).encode()).hexdigest()


@pytest.mark.parametrize("scheme", ["hybrid", "hierarchical"])
def test_the_same_seed_gives_the_same_trace(scheme):
    assert digest(scenario(1, scheme)) == digest(scenario(1, scheme))
    assert digest(scenario(1, scheme)) != digest(scenario(2, scheme))


@pytest.mark.slow
def test_hash_order_and_process_make_no_difference(tmp_path):
    path = tmp_path / "scenario.json"
    scenario().save(path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", DIGEST.format(path=str(path))],
            env=os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(Path(tracing.__file__).parent)},
            stdout=subprocess.PIPE,
            text=True,
        )
        for hash_seed in ("1", "2")
    ]
    digests = {process.communicate()[0].strip() for process in processes}
    assert digests == {digest(scenario())}
