"""The extended advertisement DAG, compared with brute force over the advertisements that a filter covers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.admission.advertisements import LOCAL, AdvertisementDag
from rayvous.routing.filters.covering import covers
from rayvous.routing.filters.filter import Filter, to_filter

FILTERS = [to_filter(f"x BETWEEN {low} AND {low + wide}") for low in range(6) for wide in range(5)]
FILTERS += [to_filter(text) for text in ("TRUE", "x > 2 AND y = 1", "y = 1", "x = 1 OR x = 4", "x > 3")]

STEPS = st.lists(
    st.tuples(st.sampled_from(FILTERS), st.integers(0, 2), st.integers(1, 9), st.booleans()), max_size=25
)


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_count_and_rate_are_over_the_distinct_advertisements_covered(
    steps: list[tuple[Filter, int, int, bool]],
) -> None:
    dag = AdvertisementDag()
    there: list[tuple[Filter, int, int]] = []
    for item, link, rate, leave in steps:
        if leave and there:
            dag.remove(*there.pop(rate % len(there)))
        else:
            dag.add(item, link, rate)
            there.append((item, link, rate))
        for node in {item for item, _, _ in there}:
            covered = [rate for other, _, rate in there if covers(node, other)]
            assert dag.node(node) == (sum(covered), len(covered))
        assert len(dag) == len({item for item, _, _ in there})


def d_rate(dag: AdvertisementDag, new: Filter) -> int:
    """Return the correction for double counting of section 3.2, over the successors of the successors."""
    successors = [dag.successors(t) for t in dag.successors(new)]
    rates = {item: dag.node(item)[0] for each in successors for item in each}
    return sum(rates[item] for each in successors for item in each) - sum(rates.values())


def start_as_printed(dag: AdvertisementDag, new: Filter, rate: int) -> int:
    """Return case (b) of section 3.2: v_pmax, plus the successors' rates, less d_rate."""
    return rate + sum(dag.node(t)[0] for t in dag.successors(new)) - d_rate(dag, new)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 9)), max_size=8), st.integers(1, 9))
def test_it_is_the_papers_correction_where_overlaps_lie_one_step_below(
    points: list[tuple[int, int]], rate: int
) -> None:
    dag = AdvertisementDag()
    for place, own in points:
        dag.add(to_filter(f"x = {place}"), LOCAL, own)
    for low, high in ((0, 5), (3, 9)):  # neither covers the other; both cover only points
        dag.add(to_filter(f"x BETWEEN {low} AND {high}"), LOCAL, 1)
    new = to_filter("x BETWEEN 0 AND 20")
    printed = start_as_printed(dag, new, rate)
    dag.add(new, LOCAL, rate)
    assert dag.node(new)[0] == printed == rate + 2 + sum(own for _, own in points)


def test_below_that_the_printed_correction_misses_what_is_counted_twice() -> None:
    dag = AdvertisementDag()
    for text in ("x = 3", "x BETWEEN 2 AND 4", "x BETWEEN 1 AND 5", "x BETWEEN 3 AND 9"):
        dag.add(to_filter(text), LOCAL, 10)
    new = to_filter("x BETWEEN 0 AND 20")
    # x = 3 lies one step below 3..9, but two below 1..5: d_rate is 0, and it is counted twice.
    assert start_as_printed(dag, new, 10) == 60
    dag.add(new, LOCAL, 10)
    assert dag.node(new) == (50, 5)


def test_case_a_adds_once_to_the_node_and_to_all_above_it() -> None:
    dag = AdvertisementDag()
    wide, left, right, point = (
        to_filter(t) for t in ("x > 0", "x > 0 AND y = 1", "x > 0 AND z = 1", "x > 1 AND y = 1 AND z = 1")
    )
    for item in (wide, left, right, point):
        dag.add(item, LOCAL, 10)
    dag.add(point, 7, 5)
    assert [dag.node(item) for item in (wide, left, right, point)] == [(45, 5), (25, 3), (25, 3), (15, 2)]
    assert dag.predecessors(point) == [left, right] and dag.successors(wide) == [left, right]
    dag.remove(point, 7, 5)
    assert dag.node(point) == (10, 1) and dag.node(wide) == (40, 4)


def test_what_was_not_advertised_cannot_be_taken_away() -> None:
    dag = AdvertisementDag()
    dag.add(to_filter("x > 0"), LOCAL, 10)
    with pytest.raises(AssertionError):
        dag.remove(to_filter("x > 0"), 3, 10)
