"""Random cases for small networks, and fault plans that are aimed at a given kind of target."""

import pytest
from rayvous.faults.plans.cases import Case, draw_case, small_topology
from rayvous.faults.plans.draws import AIMS
from rayvous.faults.plans.plans import Crash, CrashCluster, CrashRendezvous, CrashRoot, FaultPlan
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import topology_of


def drawn(seed: int, aim: str, **options: object) -> Case:
    topology = small_topology(seed, 9)
    recovery = Recovery.for_tests(degree=topology["degree"] + 1)
    return draw_case(seed, seconds=8.0, recovery=recovery, topology=topology, aim=aim, **options)


@pytest.mark.parametrize("aim", AIMS)
def test_the_first_fault_kills_whom_it_is_aimed_at(aim: str) -> None:
    for seed in range(40):
        case = drawn(seed, aim)
        positions = {place.broker: place for place in topology_of(case.topology).positions()}
        case.plan.check(list(positions.values()))
        first = case.plan.faults[0]
        assert first.at_seconds < 0.1 * case.plan.heal_seconds + 0.001
        if aim == "root":
            assert isinstance(first, CrashRoot)
        elif aim == "rendezvous":
            assert isinstance(first, CrashRendezvous)
        elif aim == "cluster":
            assert isinstance(first, CrashCluster)
            assert all(place.role != "REB" for place in positions.values() if place.cluster == first.cluster)
        else:
            assert isinstance(first, Crash)
            role = positions[first.broker].role
            homes = {action.broker for action in case.opening}
            assert {"designated": role == "DEB", "normal": role == "NEB", "home": first.broker in homes}[aim]
        assert drawn(seed, aim) == case


def test_some_aimed_plans_go_on_and_some_do_not() -> None:
    later = [len(drawn(seed, "designated").plan.faults) for seed in range(40)]
    assert min(later) == 1 and max(later) > 4
    fates = [drawn(seed, "designated").plan for seed in range(40)]
    assert any(plan.stay_dead for plan in fates) and any(not plan.stay_dead for plan in fates)


def test_a_plan_that_is_given_is_not_aimed() -> None:
    plan = FaultPlan("mine", heal_seconds=3.0)
    assert drawn(3, "root", plan=plan).plan == plan


def test_small_networks_have_somebody_to_aim_at() -> None:
    for most in (4, 5, 6, 9, 12):
        for seed in range(50):
            positions = topology_of(small_topology(seed, most)).positions()
            assert 4 <= len(positions) <= most
            assert {"REB", "DEB", "NEB"} == {place.role for place in positions}
