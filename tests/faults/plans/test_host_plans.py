"""Faults of the links of whole hosts: which are drawn, and which are refused."""

import pytest
from rayvous.faults.plans.host_plans import HOST_AIMS, check_hosts, host_plan
from rayvous.faults.plans.plans import FaultPlan, HostLink
from rayvous.protocol.errors import ScenarioError

GIVES_UP_SECONDS = 8.0


def kind(fault):
    if not fault.carries:
        return "short" if fault.seconds < GIVES_UP_SECONDS else "long"
    return "lossy" if fault.drop else "slow"


def test_four_seeds_in_a_row_have_every_kind_and_host_0_is_spared():
    for seed in range(0, 200, 4):
        drawn = [host_plan(seed + more, 3, GIVES_UP_SECONDS) for more in range(4)]
        assert drawn == [host_plan(seed + more, 3, GIVES_UP_SECONDS) for more in range(4)]
        faults = [fault for plan in drawn for fault in plan.faults]
        assert tuple(kind(fault) for fault in faults) == HOST_AIMS
        for plan in drawn:
            check_hosts(plan, 3)
            assert plan.faults[0].at_seconds + plan.faults[0].seconds < plan.heal_seconds


def test_every_host_but_the_first_is_harmed_at_some_time():
    assert {host_plan(seed, 4, GIVES_UP_SECONDS).faults[0].host for seed in range(40)} == {1, 2, 3}


@pytest.mark.parametrize(
    ("host", "hosts", "said"), [(0, 3, "Ray's head are there"), (3, 3, "there are 3"), (1, 0, "--hosts N")]
)
def test_a_link_that_cannot_be_harmed_is_named(host, hosts, said):
    plan = FaultPlan("mine", (HostLink(0.0, host, 1.0),), 2.0)
    with pytest.raises(ScenarioError, match=rf"plan 'mine', faults\[0\]: the link of host {host} .*{said}"):
        check_hosts(plan, hosts)


def test_a_plan_without_hosts_needs_none():
    check_hosts(FaultPlan("none"), 0)
    check_hosts(None, 0)
