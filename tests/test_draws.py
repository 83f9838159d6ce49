"""A quick run draws a tenth of the examples of every property test, `make test` a fifth, `make thorough` all."""

import re
from pathlib import Path

import pytest
from draws import EXAMPLES_MIN, IN_TURN, KINDS, PARTS, draw_fewer, of_each_kind, seeds
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from rayvous.routing.schemes.claims import Membership
from rayvous.routing.schemes.registry import NAMES, scheme

MAKEFILE = Path(__file__).parent.parent / "Makefile"


@pytest.mark.parametrize(("asked", "drawn"), [(200, 20), (20, EXAMPLES_MIN), (3, 3)])
def test_a_property_test_draws_a_tenth_but_not_almost_none(asked, drawn):
    seen = []

    @settings(max_examples=asked, deadline=None, database=None)
    @given(st.integers())
    def prop(number):
        seen.append(number)

    draw_fewer([prop, prop, len])
    draw_fewer([prop])
    prop()
    assert len(seen) == drawn


def test_a_state_machine_has_a_tenth_of_its_lives():
    lives = []

    class Machine(RuleBasedStateMachine):
        def __init__(self):
            super().__init__()
            lives.append(self)

        @rule()
        def step(self):
            pass

    Machine.TestCase.settings = settings(
        max_examples=100, stateful_step_count=2, deadline=None, database=None
    )
    case = Machine.TestCase("runTest")
    draw_fewer([case.runTest])
    case.runTest()
    assert 0 < len(lives) <= 11, "the first is made to look at its rules"


@pytest.mark.parametrize("part", PARTS)
def test_a_profile_says_which_part(part):
    seen = []

    @settings(max_examples=50, deadline=None, database=None)
    @given(st.integers())
    def prop(number):
        seen.append(number)

    draw_fewer([prop], PARTS[part])
    prop()
    assert len(seen) == {"quick": 5, "usual": 10}[part]


def marks_of(case):
    return {mark.name for mark in getattr(case, "marks", ())}


def test_of_many_seeds_a_fifth_is_always_drawn_and_as_many_again_in_a_test_of_everything():
    marks = [marks_of(case) for case in seeds(10)]
    assert marks == [set()] * 2 + [{"slow"}] * 2 + [{"slow", "thorough"}] * 6
    assert [marks_of(case) for case in seeds(3, quick=1, usual=3)] == [set(), {"slow"}, {"slow"}]


def test_of_all_schemes_one_of_each_kind_is_always_drawn():
    others = [name for name in NAMES if name not in (*KINDS, "hybrid+quench")]
    cases = of_each_kind(NAMES, "hybrid+quench")
    quick = [case for case in cases if not marks_of(case)]
    assert sorted(quick) == sorted([*KINDS, "hybrid+quench"])
    marks = [marks_of(case) for case in cases if case not in quick]
    assert marks.count({"slow"}) in (len(others) // IN_TURN, len(others) // IN_TURN + 1)
    assert marks.count({"slow", "thorough"}) == len(others) - marks.count({"slow"})
    assert {scheme(name).membership for name in KINDS} == {Membership.CLUSTERS, Membership.VIEWS}


def test_what_one_target_leaves_out_another_runs():
    """`make check` is quick, `make test` draws more, `make thorough` draws all; none runs a test twice."""
    rules = {}
    for line in MAKEFILE.read_text(encoding="utf-8").splitlines():
        if found := re.match(r"([a-z]+):(?!=)", line):
            rules[name := found[1]] = line
        elif line.startswith("\t"):
            rules[name] += line
    profiles = {
        name: found[1] for name, does in rules.items() if (found := re.search(r"PROFILE:-([a-z]+)", does))
    }
    assert profiles == {"fast": "quick", "slow": "usual", "beside": "usual", "thorough": "steady"}
    chosen = {
        name: found[1]
        for name, does in rules.items()
        if (found := re.search(r"NO_RAY\) -m \"([^\"]+)", does))
    }
    assert chosen == {
        "fast": "not slow",
        "slow": "slow and not thorough",
        "beside": "not thorough",
    }
    assert "$(NO_RAY)" in rules["thorough"] and "$(TYPES);" in rules["beside"]
    assert not re.search(r"\b(check|fast|slow|thorough)\b", rules["test"].partition("##")[0])
