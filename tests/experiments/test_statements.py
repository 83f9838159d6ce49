"""Terms of the papers as numbers: each judge on flat, rising and noisy curves."""

from math import isnan

import pytest
from rayvous.experiments.statements import (
    Sentences,
    Statement,
    by_decades,
    correlation,
    differences,
    exponent,
    falls,
    grows,
    is_flat,
    is_less,
    is_same,
    knee,
    never_falls,
    peaks,
    slopes,
    steepens,
)

FLAT = [24.0, 23.9999561, 23.9999121]
"""Differs in the seventh digit: no fall, and no rise read backwards."""
RISING = [1.0, 2.0, 4.0]
NOISY = [10.0, 14.0, 11.0, 18.0]
RIPPLED = [10.0, 14.0, 13.9, 18.0]
"""Rises, but for what is within 5 %."""


@pytest.mark.parametrize(
    ("judge", "holding", "failing"),
    [
        (never_falls, (FLAT, FLAT[::-1], RISING, RIPPLED), (NOISY, RISING[::-1])),
        (grows, (RISING, RIPPLED), (FLAT, FLAT[::-1], NOISY, RISING[::-1])),
        (falls, (RISING[::-1], RIPPLED[::-1]), (FLAT, FLAT[::-1], NOISY[::-1], RISING)),
        (peaks, ([1, 3, 2], [10, 14, 13.9, 9]), (FLAT, [24, 24.0001, 24], RISING, RISING[::-1])),
    ],
    ids=["never falls", "grows", "falls", "peaks"],
)
def test_a_curve_rises_falls_and_peaks_by_more_than_rounding(judge, holding, failing):
    assert all(map(judge, holding)) and not any(map(judge, failing))


@pytest.mark.parametrize(
    ("values", "steeper"),
    [
        ([10, 10.4, 10.3, 16, 28], True),  # what is within 5 % is no rise, and no fall
        ([1, 2, 4, 8, 16], True),
        ([1, 2, 3, 4, 5], False),  # a straight line on this axis
        ([1, 5, 8, 10, 11], False),
        (FLAT, False),
        ([10, 14, 11, 18, 40], False),
    ],
    ids=["flat and then rising", "rising", "straight", "flattening", "flat", "noisy"],
)
def test_a_curve_is_steeper_from_one_power_of_ten_to_the_next(values, steeper):
    curve = {10**power: value for power, value in enumerate(values)}
    assert steepens(curve) is steeper
    assert steepens(curve | {20: 0.0}) is steeper, "points between are not looked at"
    assert by_decades({0: 1, 1: 1, 2: 1, 10: 1, 50: 1, 1_000: 1}) == {1: 1, 10: 1, 1_000: 1}


def test_words():
    assert is_same(100, 105) and not is_same(100, 106) and is_same(0, 0)
    assert is_less(100, 106) and not is_less(100, 105) and not is_less(106, 100) and not is_less(0, 0)
    assert differences({1: 2, 3: 4, 5: 6}, {1: 3, 3: 3}) == {1: 1, 3: -1}
    assert knee({1: 10, 2: 20, 3: 30}, {1: 10, 2: 21, 3: 40}) == 2 and knee({1: 1}, {1: 2}) is None
    assert is_flat({1: 1, 10: 100, 20: 103}, 10) and not is_flat({1: 1, 10: 100, 20: 110}, 10)
    assert not is_flat({10: 100}, 10), "one point is no curve"
    assert slopes({1: 1, 3: 5, 4: 5}) == [2.0, 0.0] and slopes({1: 1, 100: 5}, "logarithmic") == [2.0]
    assert exponent({1: 3, 10: 300, 0: 0}) == pytest.approx(2.0) and isnan(exponent({1: 1, 2: 0}))
    failing, known = Statement("here", "so", 1, False), Statement("here", "so", 1, False, "because")
    assert failing.fails and not known.fails and failing.row("x")["experiment"] == "x"


def test_a_line_is_one_on_the_axes_that_are_named():
    straight, power = {1: 1, 2: 2, 4: 4, 9: 0}, {10**at: 7.0 * 100**at for at in range(4)}
    assert correlation(straight, 4) == pytest.approx(1.0) and correlation(straight, 9) < 0.5
    assert correlation({1: 1, 2: 2}, 9) == correlation({1: 1, 2: 1, 3: 1}, 9) == 0.0
    assert correlation(power, 1_000, across="logarithmic", up="logarithmic") == pytest.approx(1.0)
    assert correlation(power, 1_000, across="logarithmic") < 0.9
    assert correlation({0: 0.0, **power}, 1_000, across="logarithmic", up="logarithmic") == pytest.approx(1.0)
    assert correlation(power | {20: 7.0, 50: 7e6}, 1_000, across="logarithmic", up="logarithmic") < 0.95


def test_the_sentence_that_chose_a_parameter_is_marked_and_no_other():
    said = Sentences("here", {}, "calibrated", ("LBDD takes 3,020 s",))
    assert said("LBDD takes 3,020 s", 1, True).fitted and not said("LBDD is fast", 1, True).fitted


def test_what_no_reading_can_fulfil_has_its_argument_before_other_reasons():
    reasons = {("is fast", ""): "as measured"}
    said = Sentences("here", reasons, "links", impossible={("is fast", "links"): "nothing is that fast"})
    failing, holding = said("it is fast", 1, False), said("it is fast", 1, True)
    assert failing.impossible and failing.known == "nothing is that fast" and not failing.fails
    assert holding.holds and not holding.impossible and not holding.known
    other = Sentences("here", reasons, "disks", impossible=said.impossible)("it is fast", 1, False)
    assert not other.impossible and other.known == "as measured"
