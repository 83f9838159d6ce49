"""A quick run draws a fifth of the examples of every property test, and `make test` all of them."""

import re
from pathlib import Path

import pytest
from draws import EXAMPLES_MIN, draw_fewer
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

MAKEFILE = Path(__file__).parent.parent / "Makefile"


@pytest.mark.parametrize(("asked", "drawn"), [(200, 40), (20, EXAMPLES_MIN), (3, 3)])
def test_a_property_test_draws_a_fifth_but_not_almost_none(asked, drawn):
    seen = []

    @settings(max_examples=asked, deadline=None, database=None)
    @given(st.integers())
    def prop(number):
        seen.append(number)

    draw_fewer([prop, prop, len])
    draw_fewer([prop])
    prop()
    assert len(seen) == drawn


def test_a_state_machine_has_a_fifth_of_its_lives():
    lives = []

    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            lives.append(self)

        @rule()
        def step(self):
            pass

    Machine.TestCase.settings = settings(max_examples=50, stateful_step_count=2, deadline=None, database=None)
    case = Machine.TestCase("runTest")
    draw_fewer([case.runTest])
    case.runTest()
    assert 0 < len(lives) <= 11, "the first is made to look at its rules"


def test_only_check_is_quick():
    """What `make check` does not draw, `make test` draws: the same tests, and none of them twice."""
    rules = {}
    for line in MAKEFILE.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([a-z]+):(?!=)", line):
            rules[name := found[1]] = line
        elif line.startswith("\t"):
            rules[name] += line
    assert [name for name, does in rules.items() if "HYPOTHESIS_PROFILE" in does] == ["fast"]
    assert "$(NO_RAY);" in rules["beside"] and "$(TYPES);" in rules["beside"], "slow or not"
    assert not re.search(r"\b(check|fast|slow)\b", rules["test"].partition("##")[0])
