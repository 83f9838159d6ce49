"""Fault plans: read, written, refused, and drawn so that some broker survives."""

import json
import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.faults.plans import plans
from rayvous.faults.plans.draws import KINDS, draw
from rayvous.faults.plans.plans import FAULTS, FaultPlan, describe, fault_from, plain_fault
from rayvous.protocol.errors import ScenarioError
from rayvous.routing.topologies.cluster_trees import ClusterTree, figure_1, fixed

EVERY_FAULT = (
    plans.Crash(0.0, 1),
    plans.CrashCluster(0.5, 2),
    plans.Leave(1.0, 2, False),
    plans.CrashRoot(1.0, comes_back=False),
    plans.CrashRendezvous(1.0),
    plans.Pause(1.5, 3),
    plans.Slow(2.0, 4, 20.0),
    plans.Cut(2.0, 4, 5),
    plans.CutClusters(2.0, 0, 1),
    plans.Partition(2.5, (1, 2), True),
    plans.Shake(3.0, 2.0, 0.5, 0.1, 0.05, (1, 2)),
    plans.Restart(4.0, 1),
    plans.Resume(4.0, 3),
    plans.Mend(4.0, 4, 5),
    plans.MendClusters(4.0, 0, 1),
    plans.Heal(4.0),
    plans.RestartRendezvous(5.0),
    plans.Damage(5.5, 3),
    plans.HostLink(5.5, 1, 2.0, 0.5, 0.05),
    plans.ResetConnections(5.5, 1),
    plans.StopReading(5.5, 2, 0.5),
    plans.RefuseConnections(5.5, 3, 0.5),
)

NOT_DRAWN = {plans.Damage, plans.HostLink, plans.ResetConnections, plans.StopReading, plans.RefuseConnections}
"""Damage is found only by comparing tables; links of hosts and connections are only on Ray."""


def test_every_fault_has_a_word_and_goes_through_json():
    assert {type(fault) for fault in EVERY_FAULT} == set(FAULTS.values())
    for fault in EVERY_FAULT:
        plain = json.loads(json.dumps(plain_fault(fault)))
        assert fault_from(plain, "here") == fault


def test_a_plan_is_saved_and_loaded(tmp_path):
    plan = FaultPlan("all", EVERY_FAULT, 6.0, (1,))
    path = tmp_path / "plan.json"
    plan.save(path)
    assert FaultPlan.load(path) == plan
    lines = path.read_text(encoding="utf-8").splitlines()
    assert sum('"fault":' in line for line in lines) == len(EVERY_FAULT)
    empty = FaultPlan("none")
    empty.save(path)
    assert FaultPlan.load(path) == empty


def test_a_fault_in_words():
    assert describe(plans.Crash(3.0, 0)) == "crash broker 0"
    assert describe(plans.Slow(3.0, 0, 20.0)) == "slow broker 0 factor 20.0"
    assert describe(plans.Partition(1.0, (1, 2))) == "partition clusters 1 2"
    assert describe(plans.Partition(1.0, (1, 2), True)) == "partition clusters 1 2 with the rendezvous"
    assert describe(plans.CrashRoot(1.0, False)) == "crash root for good"
    assert describe(plans.Cut(1.0, 0, 2)) == "cut 0 - 2"
    assert describe(plans.ResetConnections(1.0, 2)) == "reset connections broker 2"
    assert describe(plans.StopReading(1.0, 2, 0.5)) == "stop reading broker 2 seconds 0.5"


@pytest.mark.parametrize(
    ("broken", "message"),
    [
        ([], "plan is a list: it must be an object"),
        ({}, "plan: 'name' is missing"),
        ({"name": "x", "fault": []}, "plan: unknown key 'fault': there are name, faults"),
        ({"name": 3}, "plan: name is 3: it must be text"),
        ({"name": "x", "faults": {}}, "plan: faults is {}: it must be a list"),
        ({"name": "x", "stay_dead": [-1]}, "stay_dead is .* a list of whole numbers"),
        ({"name": "x", "heal_seconds": True}, "heal_seconds is True: it must be a number, 0 or more"),
        ({"name": "x", "faults": ["crash"]}, r"faults\[0\] is a str: it must be an object"),
        (
            {"name": "x", "faults": [{"fault": "explode"}]},
            r"faults\[0\]: 'fault' is 'explode': .* crash, restart",
        ),
        ({"name": "x", "faults": [{"fault": "crash", "at_seconds": 0}]}, r"faults\[0\]: 'broker' is missing"),
        (
            {"name": "x", "faults": [{"fault": "crash", "at_seconds": 0, "broker": 1.5}]},
            r"faults\[0\]: broker is 1.5: it must be a whole number",
        ),
        (
            {"name": "x", "faults": [{"fault": "slow", "at_seconds": 0, "broker": 1, "factor": 0.5}]},
            "factor is 0.5: it must be a number, 1 or more",
        ),
        (
            {"name": "x", "faults": [{"fault": "shake", "at_seconds": 0, "seconds": 1, "drop": 1}]},
            "drop is 1: it must be a number from 0, below 1",
        ),
        (
            {"name": "x", "faults": [{"fault": "heal", "at_seconds": float("nan")}]},
            "at_seconds is nan",
        ),
        (
            {"name": "x", "faults": [{"fault": "heal", "at_seconds": 1}]},
            r"plan 'x', faults\[0\]: is at 1 s, after the healing at 0 s",
        ),
        (
            {
                "name": "x",
                "heal_seconds": 9,
                "faults": [{"fault": "heal", "at_seconds": 2}, {"fault": "heal", "at_seconds": 1}],
            },
            r"faults\[1\]: is at 1 s, before the preceding fault",
        ),
    ],
)
def test_what_is_wrong_with_a_plan_is_named(broken, message):
    with pytest.raises(ScenarioError, match=message):
        FaultPlan.from_dict(broken)


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (plans.Crash(0.0, 8), r"faults\[0\]: there is no broker 8: there are 8, from 0 to 7"),
        (plans.Cut(0.0, 0, 99), "no broker 99"),
        (plans.Shake(0.0, 1.0, brokers=(3, 77)), "no broker 77"),
        (plans.CrashCluster(0.0, 6), "no cluster 6: there are 6, from 0 to 5"),
        (plans.MendClusters(0.0, 0, 7), "no cluster 7"),
        (plans.Partition(0.0, (1, 9)), "no cluster 9"),
    ],
)
def test_a_plan_for_another_network_is_refused(fault, message):
    positions = figure_1().positions()
    with pytest.raises(ScenarioError, match=message):
        FaultPlan("x", (fault,)).check(positions)
    with pytest.raises(ScenarioError, match="stay_dead: there is no broker 9"):
        FaultPlan("x", stay_dead=(9,)).check(positions)
    FaultPlan("x", EVERY_FAULT, 6.0).check(positions)


def test_a_broken_file_is_named(tmp_path):
    path = tmp_path / "plan.json"
    with pytest.raises(ScenarioError, match="no such file"):
        FaultPlan.load(path)
    path.write_text("", encoding="utf-8")
    with pytest.raises(ScenarioError, match="empty"):
        FaultPlan.load(path)
    path.write_text('{\n"name": }', encoding="utf-8")
    with pytest.raises(ScenarioError, match="line 2, column 9: not JSON"):
        FaultPlan.load(path)
    path.write_text('{"name": 1}', encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"plan\.json: plan: name is 1"):
        FaultPlan.load(path)


NETWORKS = [
    fixed({"A": None}),
    fixed({"A": None}, {"A": ["B"]}),
    ClusterTree(clusters=3, brokers_per_cluster=2, degree=1),
    figure_1(),
    ClusterTree(clusters=8, brokers_per_cluster=5, degree=3),
]


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(NETWORKS), st.floats(1.0, 100.0))
def test_drawn_plans_are_legal_and_leave_somebody(seed, network, seconds):
    positions = network.positions()
    plan = draw(random.Random(seed), positions, seconds)
    assert FaultPlan.from_dict(json.loads(json.dumps(plan.to_dict()))) == plan
    plan.check(positions)
    assert plan.heal_seconds == seconds
    brokers = {place.broker for place in positions}
    clusters = {place.cluster: set(place.members) for place in positions}
    alive = set(brokers)
    for fault in plan.faults:
        if isinstance(fault, plans.Crash):
            alive.discard(fault.broker)
        elif isinstance(fault, plans.CrashCluster):
            alive -= clusters[fault.cluster]
        elif isinstance(fault, plans.Restart):
            alive.add(fault.broker)
        elif isinstance(fault, plans.Partition):
            assert set(fault.clusters) < set(clusters) and fault.clusters
        assert alive, f"nobody is left after {fault}"
    assert brokers - set(plan.stay_dead)
    assert set(plan.stay_dead) <= brokers


def test_the_same_seed_draws_the_same_plan_and_all_kinds_are_drawn():
    positions = NETWORKS[-1].positions()
    drawn = [draw(random.Random(seed), positions, 30.0) for seed in range(300)]
    assert drawn == [draw(random.Random(seed), positions, 30.0) for seed in range(300)]
    never = {plans.Leave, *NOT_DRAWN}
    assert {type(fault) for plan in drawn for fault in plan.faults} == set(FAULTS.values()) - never
    simultaneous = sum(
        any(
            one.at_seconds == other.at_seconds
            for one, other in zip(plan.faults, plan.faults[1:], strict=False)
        )
        for plan in drawn
    )
    assert simultaneous > 60


def test_kinds_can_be_chosen():
    positions = NETWORKS[-1].positions()
    for kind in KINDS:
        found = [
            fault
            for seed in range(20)
            for fault in draw(random.Random(seed), positions, 9.0, kinds=[kind]).faults
        ]
        assert found, kind
    for seed in range(50):
        plan = draw(random.Random(seed), positions, 9.0, kinds=["pause"], faults_max=2)
        assert {type(fault) for fault in plan.faults} <= {plans.Pause, plans.Resume}
        assert sum(isinstance(fault, plans.Pause) for fault in plan.faults) <= 2


def test_a_hypercube_has_no_root_and_no_tree_and_its_brokers_may_leave():
    positions = NETWORKS[-1].positions()
    drawn = [draw(random.Random(seed), positions, 30.0, flat=True) for seed in range(300)]
    kinds = {type(fault) for plan in drawn for fault in plan.faults}
    assert kinds == set(FAULTS.values()) - {
        plans.CrashRoot,
        plans.CutClusters,
        plans.MendClusters,
        *NOT_DRAWN,
    }
