"""What a group has done of a publisher's events is kept as ranges: beside a reference that keeps each number.

Reference: docs/decisions/0179-consumer-groups.md.
"""

from hypothesis import given
from hypothesis import strategies as st
from rayvous.clients.group_taken import Taken


class Dumb:
    """The reference: the numbers that came, and those that are done, each."""

    def __init__(self) -> None:
        self.came: list[int] = []
        self.done: set[int] = set()

    @property
    def position(self) -> int:
        """The last of those that came before the first that is not done."""
        found = 0
        for number in self.came:
            if number not in self.done:
                break
            found = number
        return found


@given(
    gaps=st.lists(st.integers(1, 4), min_size=1, max_size=30),
    order=st.randoms(use_true_random=False),
    ahead=st.lists(st.integers(0, 29), max_size=3),
    restarts=st.sets(st.integers(0, 60)),
)
def test_it_keeps_what_a_set_of_numbers_would(gaps, order, ahead, restarts) -> None:
    """Events come in order, are done in any, some before they came, and a later process begins with what was stored."""
    numbers = [sum(gaps[: place + 1]) for place in range(len(gaps))]
    dumb, taken = Dumb(), Taken()
    for number in {numbers[place % len(numbers)] for place in ahead}:
        taken.finish(number)  # a worker holds it that an earlier process gave it
        dumb.done.add(number)
    waiting, step = list(numbers), 0
    while waiting or dumb.came != numbers or set(numbers) - dumb.done:
        may = sorted(set(dumb.came) - dumb.done)
        if waiting and (not may or order.random() < 0.5):
            number = waiting.pop(0)
            dumb.came.append(number)
            assert taken.take(number) == (number not in dumb.done)
        else:
            number = order.choice(may)
            dumb.done.add(number)
            taken.finish(number)
        assert taken.position == dumb.position
        assert {n for n in numbers if taken.is_done(n)} == dumb.done
        assert taken.done == sorted(taken.done) and all(first <= last for first, last in taken.done)
        step += 1
        if step in restarts:  # what is above the position comes again
            taken = Taken(taken.position, taken.done)
            waiting = [number for number in numbers if number > taken.position]
            dumb.came = [number for number in numbers if number <= taken.position]
    assert (taken.position, taken.done, len(taken)) == (numbers[-1], [], 0)


def test_what_is_stored_is_small_however_much_is_done_above_an_event_that_is_not() -> None:
    """Also where the subscription has every seventh event only."""
    taken = Taken()
    for number in range(7, 70_000, 7):
        assert taken.take(number)
    for number in range(14, 70_000, 7):
        if number != 35_000:
            taken.finish(number)
    assert taken.done == [(14, 34_993), (35_007, 69_993)] and taken.position == 0
    taken.finish(7)
    assert taken.position == 34_993 and taken.done == [(35_007, 69_993)]
    taken.finish(35_000)
    assert (taken.position, taken.done, len(taken)) == (69_993, [], 0)


def test_while_workers_may_say_what_they_hold_nothing_is_passed_over() -> None:
    taken = Taken(1, [(4, 4)], waits=True)
    assert taken.take(3) and not taken.take(4) and taken.take(6) and taken.take(8)
    taken.finish(3)
    taken.finish(8)
    assert (taken.position, taken.done) == (1, [(3, 4), (8, 8)])
    taken.finish(5)  # that has not come
    assert (taken.position, taken.done) == (1, [(3, 5), (8, 8)])
    taken.open()
    assert (taken.position, taken.done) == (4, [(5, 5), (8, 8)])
    taken.finish(6)
    assert (taken.position, taken.done) == (8, [])


def test_what_a_worker_holds_and_has_not_come_is_in_no_range_and_not_passed() -> None:
    for order in ((3, 5), (5, 3)):
        taken = Taken()
        for number in (1, 3, 5):
            assert taken.take(number)
        taken.hold(4)
        for number in order:
            taken.finish(number)
        assert taken.done == [(3, 3), (5, 5)] and taken.holds
        taken.finish(1)
        assert taken.position == 3
        taken.let_go(4)
        assert taken.position == 5 and taken.done == [] and not taken.holds
