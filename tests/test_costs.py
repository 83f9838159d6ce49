"""What the tests on Ray and Spark may cost, in what they start: processes are most of what `make test` computes.

A network has a process for each host and two more; a Ray of one's own costs five seconds of a core, and each of its
nodes three. Whoever lowers a number below lowers its ceiling; whoever needs more looks first for a test that has such a
network already (docs/decisions/0195-what-a-test-costs.md).
"""

import ast
from pathlib import Path

import pytest
from sources import nodes_of, tree_of

HERE = Path(__file__).parent
CEILINGS = {"launch": 105, "found_by": 2, "Cluster": 2, "run_ray_chaos": 5}
"""Calls of each name in `tests/on_ray` and `tests/on_spark`: networks, programs with a Ray of their own, clusters."""


def calls(name: str) -> int:
    """Return how often tests on Ray and Spark call a function or method of that name."""
    return sum(
        isinstance(node, ast.Call) and name in (getattr(node.func, "attr", ""), getattr(node.func, "id", ""))
        for folder in ("on_ray", "on_spark")
        for path in sorted((HERE / folder).glob("*.py"))
        for node in nodes_of(tree_of(path))
    )


@pytest.mark.parametrize("name", CEILINGS)
def test_no_more_is_started_than_was_decided(name: str) -> None:
    assert calls(name) <= CEILINGS[name], (
        f"{name}: which test has such a network already? If none has, raise the ceiling"
    )
