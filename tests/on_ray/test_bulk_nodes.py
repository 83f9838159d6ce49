"""The bytes that leave each Ray node when a payload follows the LBDD tree; run in its own process."""

import pytest
from rayvous.faults.machines.fence import why_not


@pytest.mark.slow
def test_bytes_leave_the_nodes_that_the_plan_says(found_by):
    """Ray counts what each node's object store has sent. Reference: paper 5, 3.3 and 4.3."""
    if why_not() is None:
        pytest.skip("here test_distribute counts these bytes, on links between hosts")
    came = found_by("several_nodes.py")
    assert sum(came["expected"]) > 0
    assert came["pushed"] == pytest.approx(came["expected"], rel=0.05, abs=1 << 20)
