"""How much of a test of many cases a run does: `make check` and `make test` a part, `make thorough` all.

Of the examples of a property test `make check` draws a tenth, and `make test` a fifth; of seeds a fifth, and two.
"""

import sys
from fractions import Fraction
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import is_hypothesis_test, settings

COLLECTED = pytest.StashKey[list[str]]()
"""The names of all tests that a run has found, before some are left out."""

SEEDS = Fraction(1, 5)
"""What part of its seeds a test has in every run."""

QUICK = Fraction(1, 10)
PARTS = {"quick": QUICK, "usual": 2 * QUICK}
"""What part of its examples a property test draws under these profiles of hypothesis."""

EXAMPLES_MIN = 5


def draw_fewer(tests, part=QUICK):
    """Let each property test among the functions and methods draw a part of its examples, the first ones.

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
        fewer = max(min(EXAMPLES_MIN, owner.asked_for), round(owner.asked_for * part))
        setattr(owner, name, settings(given, max_examples=fewer))


def seeds(many, quick=0, usual=0):
    """Return the parameters of a test for each of so many seeds.

    The first fifth, or ``quick`` of them, are in every run. As many again, or up to ``usual`` of all, are `slow`.
    The others are `thorough`.
    """
    quick = quick or max(1, round(many * SEEDS))
    usual = usual or 2 * quick
    return [seed if seed < quick else slow(seed) if seed < usual else thorough(seed) for seed in range(many)]


def some_of(values, *quick):
    """Return the parameters of a test for each of these values, of which only the quick ones are not `slow`."""
    return [value if value in quick else slow(value) for value in values]


KINDS = ("hybrid", "hypercube", "lbdd")
"""A scheme on a tree, one in views, and one on a mesh."""


IN_TURN = 3
"""Of so many schemes that are of no kind of their own `make test` has one, and others in the tests of other files."""


def of_each_kind(names, *more):
    """Return the parameters of a test for each scheme; only those of `KINDS`, and ``more``, are not `slow`.

    Of the others those are `thorough` whose turn it is not in the file of the test. Every scheme is in `make check`
    all the same: with each network in `tests/simulator/test_conformance.py`.
    """
    first = crc32(Path(sys._getframe(1).f_code.co_filename).name.encode()) % IN_TURN
    always = {*KINDS, *more}
    in_turn = [name for name in names if name not in always][first::IN_TURN]
    return [name if name in always else (slow if name in in_turn else thorough)(name) for name in names]


def slow(*values):
    """Return one case of a test that `make test` runs, and `make check` does not."""
    return pytest.param(*values, marks=pytest.mark.slow)


def thorough(*values):
    """Return one case of a test that only `make thorough` runs."""
    return pytest.param(*values, marks=(pytest.mark.slow, pytest.mark.thorough))
