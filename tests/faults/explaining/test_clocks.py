"""Clocks aligned by messages: bounds hold for every delay, and a clock is moved only if it must be."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.faults.explaining.clocks import align


def messages(ahead, delays):
    """Return one message each way between every two clocks that are so far ahead."""
    found, at = [], 100.0
    for one in ahead:
        for other in ahead:
            if one != other:
                at += 1.0
                found.append((one, at + ahead[one], other, at + delays.pop() + ahead[other]))
    return found


@given(
    st.lists(st.floats(-50, 50), min_size=2, max_size=4),
    st.lists(st.floats(0.0001, 3.0), min_size=12, max_size=12),
)
def test_the_true_clocks_are_within_the_error(offsets, delays):
    ahead = dict(enumerate(offsets))
    found = align(messages(ahead, list(delays)), 0, ahead)
    for clock in ahead:
        if clock:
            true = ahead[clock] - ahead[0]
            assert abs(found.ahead[clock] - true) <= found.errors[clock] + 1e-6
            at = 7.0
            assert found.time(clock, at) == at - found.ahead[clock]
    assert found.time(0, 7.0) == 7.0


def test_clocks_that_may_agree_are_left_alone():
    found = align([(0, 1.0, 1, 1.002), (1, 2.0, 0, 2.004)], 0, [0, 1])
    assert found.ahead == {1: 0.0} and found.errors[1] == pytest.approx(0.004)
    assert (
        found.words
        == "as far as messages tell, the clocks agree; times of different brokers compare to within 4.0 ms"
    )


def test_a_clock_that_is_ahead_is_moved_to_the_middle_of_its_bounds():
    found = align([(0, 1.0, 1, 6.002), (1, 7.0, 0, 2.004)], 0, [0, 1])
    assert found.ahead[1] == pytest.approx(4.999) and found.errors[1] == pytest.approx(0.003)
    assert "1 of 1 clocks were moved" in found.words and "within 3.0 ms" in found.words


def test_bounds_add_up_over_other_processes():
    found = align([(0, 0.0, 1, 10.1), (1, 20.0, 2, 5.2), (2, 9.0, 1, 24.1), (1, 30.0, 0, 20.1)], 0, [0, 1, 2])
    assert found.ahead[2] == pytest.approx(-4.85, abs=0.2) and found.errors[2] < 0.3


def test_messages_one_way_bound_one_side():
    early = align([(0, 10.0, 1, 4.0)], 0, [0, 1, 2])
    assert early.ahead == {1: -6.0, 2: 0.0} and early.errors == {1: math.inf, 2: math.inf}
    assert "nothing bounds 2 clocks on both sides" in early.words
    assert align([(0, 10.0, 1, 14.0)], 0, [0, 1]).ahead == {1: 0.0}
