"""A burden reaches the brokers that it names, and no others."""

from types import SimpleNamespace
from typing import Any

import pytest
import rayvous as rv
from rayvous.faults.real.burden import Burden


@pytest.mark.parametrize(
    ("here", "burdened"), [([0], [(0.5, 0.25)]), ([1, 2], [(0.1, 0.25)]), ([3], [])], ids=["0", "1-2", "3"]
)
def test_a_host_is_burdened_with_the_cost_of_its_brokers(
    here: list[int], burdened: list[tuple[float, float]]
) -> None:
    done: list[tuple[float, float]] = []
    host: Any = SimpleNamespace(
        hosted_brokers=dict.fromkeys(here), admission=SimpleNamespace(burden=lambda *what: done.append(what))
    )
    Burden({0: 0.5, 2: 0.1}, 0.25)(host)
    assert done == burdened


@pytest.mark.parametrize(
    ("costs", "share", "name"),
    [
        (3, 1.0, "cpu_seconds"),
        ({0: -1.0}, 1.0, r"cpu_seconds\[0\]"),
        ({0: 1.0}, 0.0, "share"),
        ({0: 1.0}, 2, "share"),
    ],
    ids=["no mapping", "negative", "no share", "two CPUs"],
)
def test_a_wrong_burden_is_refused_by_name(costs: Any, share: float, name: str) -> None:
    with pytest.raises(rv.InputError, match=name):
        Burden(costs, share)
