"""Items are released once and in the order of their numbers, in whatever order they arrive."""

from hypothesis import given
from hypothesis import strategies as st
from rayvous.routing.schemes.hold_back import HoldBack


@given(st.permutations(range(1, 12)), st.lists(st.integers(1, 11)))
def test_each_number_comes_out_once_and_in_order(numbers, twice):
    order = HoldBack()
    out = [each for number in [*numbers, *twice] for each in order.take(number, number)]
    assert out == list(range(1, 12))
    assert len(order) == order.lost == 0


def test_a_gap_is_given_up_and_counted_when_too_many_wait():
    order = HoldBack(held_max=2)
    assert [order.take(number, number) for number in (1, 4, 5)] == [[1], [], []]
    assert order.take(8, 8) == [4, 5]
    assert order.lost == 2 and len(order) == 1
    assert order.take(3, 3) == [], "what was given up does not come late"
    assert order.give_up() == [8]
    assert order.lost == 4


def test_what_waits_waits_on_in_one_that_is_restored():
    order, again = HoldBack(held_max=2), HoldBack(held_max=2)
    for number in (1, 4, 5, 8):
        order.take(number, number)
    again.restore(order.snapshot())
    assert again.snapshot() == order.snapshot() and again.lost == 2
    assert again.take(6, 6) == order.take(6, 6) == [6]
    assert again.take(7, 7) == order.take(7, 7) == [7, 8]
