"""Failing seeds of brokers with a rule switched off, made small (docs/chaos.md has the figures of all twenty)."""

import pytest
from broken_brokers import BROKEN
from rayvous.faults.plans.case_files import load_case
from rayvous.faults.shrinking.shrink import shrink
from rayvous.faults.simulated.chaos import run_case

QUICK = "deliver_backwards", "renumber"
SLOW = "skip_dedup", "pass_closed_links", "forget_one_filter_at_succession", "losing"


def test_there_are_twenty():
    assert len({broken.name for broken in BROKEN}) == 20


@pytest.mark.parametrize("name", [*QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_a_failing_seed_becomes_small(name, tmp_path):
    broken = next(each for each in BROKEN if each.name == name)
    found = shrink(broken.case, run=broken.run, seconds_max=1e6)
    assert found.finished
    assert found.size.actions <= 8 and found.size.brokers <= 5 and found.size.faults <= 2, str(found.size)
    assert run_case(found.case).outcome != "violated", "a right broker passes it"
    command = found.save(tmp_path / "small.json")
    assert command == f"rayvous chaos --on sim --case {tmp_path}/small.json"
    again = broken.run(load_case(tmp_path / "small.json"))
    assert found.reason.is_of(again) and again.to_dict()["verdict"] == found.report.to_dict()["verdict"]
