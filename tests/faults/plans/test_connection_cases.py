"""Faults of connections that a seed draws in addition, and what other hosts say to them."""

import pytest
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.plans.connection_cases import CONNECTION_FAULTS_MAX
from rayvous.faults.plans.plans import FaultPlan, RefuseConnections, ResetConnections, StopReading
from rayvous.faults.real.run import draw_ray_case
from rayvous.faults.simulated.chaos import run_case
from rayvous.routing.topologies.cluster_trees import topology_of

KINDS = ResetConnections, StopReading, RefuseConnections


def test_a_network_with_connections_gets_their_faults_and_is_otherwise_the_same() -> None:
    counts = dict.fromkeys(KINDS, 0)
    for seed in range(40):
        case, plain = (draw_ray_case(seed, links=links) for links in ("direct", "ray"))  # type: ignore[arg-type]
        harms = [fault for fault in case.plan.faults if isinstance(fault, KINDS)]
        assert len(harms) <= CONNECTION_FAULTS_MAX
        for fault in harms:
            counts[type(fault)] += 1
        rest = [fault for fault in case.plan.faults if fault not in harms]
        assert tuple(rest) == plain.plan.faults and case.plan.faults[0] == plain.plan.faults[0]
        assert (case.actions, case.topology, case.late) == (plain.actions, plain.topology, plain.late)
        case.plan.check(topology_of(case.topology).positions())
        assert case == draw_ray_case(seed, links="direct"), "a seed draws the same each time"
    assert min(counts.values()) >= 5


def test_a_plan_of_ones_own_and_hosts_of_the_runs_own_get_none() -> None:
    plan = FaultPlan("mine", heal_seconds=2.0)
    assert all(draw_ray_case(seed, links="direct", plan=plan).plan == plan for seed in range(8))
    drawn = [draw_ray_case(seed, links="direct", hosts=3).plan.faults for seed in range(8)]
    assert not any(isinstance(fault, KINDS) for faults in drawn for fault in faults)


@pytest.mark.parametrize(
    "fault",
    [ResetConnections(1.0, 0), StopReading(1.0, 0, 2.0), RefuseConnections(1.0, 0, 2.0)],
    ids=["reset", "stop reading", "refuse"],
)
def test_they_do_nothing_in_virtual_time_and_say_why(
    fault: ResetConnections | StopReading | RefuseConnections,
) -> None:
    report = run_case(draw_case(3, brokers_max=6, plan=FaultPlan("mine", (fault,), 2.0)))
    assert report.holds
    (said,) = [what for _, what in report.timeline if what.startswith("fault: ")]
    assert said.endswith(": there are no connections in virtual time")
