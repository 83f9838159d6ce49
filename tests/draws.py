"""How many examples a property test draws: all that it asks for, or in a quick run a fifth of them, the first ones."""

from fractions import Fraction

import pytest
from hypothesis import is_hypothesis_test, settings

QUICK = Fraction(1, 5)
EXAMPLES_MIN = 5


def draw_fewer(tests):
    """Let each property test among the functions and methods draw a fifth of its examples.

    Settings cannot be applied to a test twice in any public way, so this is the attribute that hypothesis reads.
    """
    for test in {id(test): test for test in tests if is_hypothesis_test(test)}.values():
        owner, name = test, "_hypothesis_internal_use_settings"
        if hasattr(test, "__self__"):  # a state machine, whose class has the settings
            owner, name = (type(test.__self__), "settings")
        given = getattr(owner, name)
        # A test that has several cases is one function.
        if not hasattr(owner, "asked_for"):
            owner.asked_for = given.max_examples
        fewer = max(min(EXAMPLES_MIN, owner.asked_for), round(owner.asked_for * QUICK))
        setattr(owner, name, settings(given, max_examples=fewer))


def seeds(many, quick=0):
    """Return the parameters of a test for each of so many seeds; the first fifth, or so many, are not `slow`."""
    quick = quick or max(1, round(many * QUICK))
    return [seed if seed < quick else pytest.param(seed, marks=pytest.mark.slow) for seed in range(many)]


def some_of(values, *quick):
    """Return the parameters of a test for each of these values, of which only the quick ones are not `slow`."""
    return [value if value in quick else pytest.param(value, marks=pytest.mark.slow) for value in values]
