"""The search, over systems so small that their states are counted by hand."""

import math

import pytest
from rayvous.faults.model_checking.search import TRAP, Bounds, search
from rayvous.protocol.errors import InputError


class Grid:
    """Two counters that rise to `most`: (most + 1) squared states, 2 most (most + 1) steps, the end in a corner."""

    def __init__(self, most, bad=None, trap=None, decisive=True):
        self.most, self.bad, self.trap, self.decisive = most, bad, trap, decisive

    def first(self):
        return (0, 0)

    def actions(self, state):
        left, right = state
        if state == self.trap:
            return
        if left < self.most:
            yield "left", (left + 1, right)
        if right < self.most:
            yield "right", (left, right + 1)

    def key(self, state):
        return state

    def judge(self, state):
        return ("it is bad",) if state == self.bad else ()

    def ends(self, state):
        return state == (self.most, self.most)

    def decides(self, state):
        return self.decisive


def test_every_state_and_every_step_is_counted_once():
    found = search(Grid(3))
    assert (found.states, found.steps, found.depth, found.ended, found.complete) == (16, 24, 6, 1, True)
    assert found.violations == ()


def test_a_bound_of_the_depth_says_so_and_looks_at_all_states_within_it():
    found = search(Grid(3), Bounds(depth=2))
    assert (found.states, found.steps, found.depth, found.complete) == (6, 6, 2, False)


@pytest.mark.parametrize(
    ("grid", "bounds", "outcome"),
    [
        (Grid(3), Bounds(), "holds"),
        (Grid(3), Bounds(depth=2), "holds to depth 2"),
        (Grid(3), Bounds(depth=7), "holds"),
        (Grid(3, bad=(1, 1)), Bounds(), "violated"),
        (Grid(3, decisive=False), Bounds(), "undecided"),
        (Grid(100), Bounds(seconds=0.0), "undecided"),
        (Grid(100), Bounds(depth=50, states=1), "undecided"),
    ],
)
def test_the_outcome_tells_a_depth_that_was_asked_for_from_a_search_that_was_cut_off(grid, bounds, outcome):
    assert search(grid, bounds).outcome(bounds) == outcome


def test_ends_at_which_nothing_was_due_are_counted_apart():
    assert (search(Grid(3)).ended, search(Grid(3)).decided) == (1, 1)
    found = search(Grid(3, decisive=False))
    assert (found.ended, found.decided) == (1, 0)


def test_a_violation_has_a_shortest_schedule():
    found = search(Grid(3, bad=(2, 1)))
    assert found.violations == ("it is bad",) and not found.complete
    assert sorted(found.schedule) == ["left", "left", "right"]


def test_a_violation_beyond_the_depth_is_not_found():
    assert search(Grid(3, bad=(2, 1)), Bounds(depth=2)).violations == ()
    assert search(Grid(3, bad=(2, 1)), Bounds(depth=3)).violations


def test_a_violation_in_the_first_state_needs_no_action():
    found = search(Grid(3, bad=(0, 0)))
    assert found.violations and found.schedule == [] and found.states == 1


def test_a_state_from_which_no_end_can_be_reached_is_a_trap():
    found = search(Grid(1, trap=(1, 0)))
    assert found.violations == (TRAP,) and found.schedule == ["left"] and found.complete


@pytest.mark.parametrize("bounds", [Bounds(states=1), Bounds(seconds=0.0)])
def test_bounds_of_states_and_of_time_end_it_too(bounds):
    found = search(Grid(100), bounds)
    assert not found.complete and found.states < 101 * 101


@pytest.mark.parametrize("wrong", [{"depth": -1}, {"states": 1.5}, {"seconds": math.nan}, {"seconds": -1.0}])
def test_a_bound_that_is_none_is_refused(wrong):
    with pytest.raises(InputError):
        Bounds(**wrong)


def test_progress_is_told():
    seen = []
    search(Grid(100), progress=lambda found: seen.append(found.states))
    assert seen == sorted(seen) and len(seen) == 3
