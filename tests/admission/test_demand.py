"""Theorem 1: the rate at which events of a filter arrive lies in the interval, whatever publishers publish."""

import random

from hypothesis import example, given, settings
from hypothesis import strategies as st
from rayvous.admission.advertisements import LOCAL, AdvertisementDag
from rayvous.admission.demand import demand
from rayvous.routing.filters.filter import Filter, to_filter

SPACE = [{"x": x, "y": y} for x in range(6) for y in range(3)]
TEXTS = [f"x BETWEEN {low} AND {low + wide}" for low in range(6) for wide in range(4)]
TEXTS += [f"{text} AND y = {y}" for text in TEXTS[::3] for y in range(3)] + ["TRUE", "x = 1 OR y = 2"]
FILTERS = [item for item in map(to_filter, TEXTS) if any(item.matches(event) for event in SPACE)]
ADVERTS = st.lists(st.tuples(st.sampled_from(FILTERS), st.integers(1, 9)), max_size=10)


def publish(adverts: list[tuple[Filter, int]], dice: random.Random) -> list[list[dict[str, int]]]:
    """What each publisher publishes in a second, as fast as it said, of what it advertised."""
    return [dice.choices([event for event in SPACE if item.matches(event)], k=rate) for item, rate in adverts]


@settings(max_examples=150, deadline=None)
@given(ADVERTS, st.sampled_from(FILTERS), st.integers(0, 2**32))
@example([(to_filter("TRUE"), 9), (to_filter("x BETWEEN 2 AND 4"), 1)], to_filter("x BETWEEN 2 AND 3"), 0)
def test_the_true_rate_lies_between_the_bounds(
    adverts: list[tuple[Filter, int]], item: Filter, seed: int
) -> None:
    dag = AdvertisementDag()
    for link, (advert, rate) in enumerate(adverts):
        dag.add(advert, link, rate)
    published = publish(adverts, random.Random(seed))
    true_rate = sum(item.matches(event) for events in published for event in events)
    true_count = sum(any(item.matches(event) for event in events) for events in published)
    paper, tight = demand(dag, item, "paper"), demand(dag, item, "tight")
    for bounds in (paper, tight):
        assert bounds.rate_min <= true_rate <= bounds.rate_max
        assert bounds.count_min <= true_count <= bounds.count_max
    assert paper.rate_min <= tight.rate_min and tight.rate_max <= paper.rate_max


def test_as_printed_the_theorem_is_false() -> None:
    """A publisher of everything stands above the node that should bound the filter, and publishes into it."""
    dag = AdvertisementDag()
    dag.add(to_filter("TRUE"), LOCAL, 9)
    dag.add(to_filter("x BETWEEN 2 AND 4"), LOCAL, 1)
    smallest_predecessor = dag.node(to_filter("x BETWEEN 2 AND 4"))
    assert smallest_predecessor == (1, 1)
    assert (
        demand(dag, to_filter("x = 3")).rate_max == 10
    )  # not 1: the publisher of everything may send x = 3 only


def test_the_example_of_figure_5() -> None:
    """At least 18 and at most 31 events a second, from 3 to 6 publishers; the figure is lost, so its DAG is ours."""
    dag = AdvertisementDag()
    for text, rate in (
        ("price > 4 AND name = 'DEU'", 9), ("price > 4 AND name = 'DEU'", 4), ("price > 6 AND name = 'DEU'", 5),
        ("price > 3 AND name = 'DEU' AND size = 1", 6), ("price > 0 AND name = 'DEU'", 3),
        ("price > 0 AND name = 'DEU'", 4),
    ):  # fmt: skip
        dag.add(to_filter(text), LOCAL, rate)
    bounds = demand(dag, to_filter("price > 2 AND name = 'DEU'"))
    assert (bounds.rate_min, bounds.rate_max, bounds.count_min, bounds.count_max) == (18, 31, 3, 6)


def test_a_node_that_equals_the_filter_says_it_exactly() -> None:
    dag = AdvertisementDag()
    dag.add(to_filter("x > 3"), LOCAL, 5)
    dag.add(to_filter("x > 4"), LOCAL, 2)
    assert demand(dag, to_filter("x > 3")).exact and demand(dag, to_filter("x > 3")).rate_max == 7


def test_what_comes_from_the_subscribers_side_does_not_count() -> None:
    dag = AdvertisementDag()
    dag.add(to_filter("x > 3"), 7, 5)
    dag.add(to_filter("x > 3"), 8, 2)
    assert demand(dag, to_filter("x > 3"), "paper", without=[7]).rate_max == 2
    assert demand(dag, to_filter("x > 5"), "tight", without=[8, 99]).rate_max == 5
