"""Figures 6 and 7 of paper 2, small: what is counted is what was sent, even loads, linear growth."""

import numpy as np
import pytest
from rayvous.experiments.balance import balance_of
from rayvous.experiments.hypercube import evenness, growth, measure_ways, picture, run
from rayvous.protocol.errors import InputError
from rayvous.routing.topologies.cube import mean_hops


@pytest.fixture(scope="module")
def result():
    return run((100, 1_000, 10_000, 100_000), seed=1)


def test_a_reply_takes_the_hops_of_formula_1(result):
    """12/7 = 1.714; the paper measured 1.709. Reference: paper 2, 2.5."""
    assert result["hops_mean_all_pairs"] == round(mean_hops(3), 4) == result["hops_formula_1"]
    assert result["hops_mean"] == pytest.approx(result["hops_paper"], rel=0.01)
    assert result["messages_per_broadcast"] == 7


@pytest.mark.parametrize("figure", ["figure_6", "figure_7"])
def test_loads_are_more_even_than_sources_and_grow_linearly(result, figure):
    """Reference: paper 2, figures 6 and 7."""
    for point in result[figure]:
        assert point["balance"]["gini"] < 0.6 * point["sources"]["gini"]
    assert growth(result[figure]) == pytest.approx(1.0, abs=0.05)


def test_loads_add_up():
    """What all carry of a broadcast: 7 messages received, and those not sent by who started it forwarded."""
    ways = measure_ways(8)
    result = run((50,), seed=3)
    (point,) = result["figure_6"]
    own = int(np.einsum("s,ssb->", np.array(point["started"]), ways.broadcast))
    assert sum(point["load"]) == 2 * 7 * sum(point["started"]) - own


@pytest.mark.parametrize("brokers", [2, 5, 11])
def test_any_number_of_brokers_may_be_measured(brokers):
    ways = measure_ways(brokers)
    assert (ways.broadcast.sum(axis=(1, 2)) == brokers - 1).all()
    received = ways.broadcast.sum(axis=1)
    assert (received + np.eye(brokers, dtype=int) == 1).all(), "each broker receives once"


def test_equal_sources_load_a_complete_cube_evenly_and_what_is_vacant_costs_somebody(result):
    """Paper 2, 2.5, says "very even" of complete cubes; of others nothing."""
    assert set(result["equal_sources"].values()) == {1.0}
    nine = result["incomplete"][9]
    assert nine["broadcast_sends"] == 1.5 and nine["reply_load"] < 1.2
    assert list(result["incomplete"]) == list(range(9, 16))


def test_evenness_is_that_of_what_is_sent_and_received():
    """In a cube of three each starts 2 messages, in all 6: 3 by one broker, which stands between the others' halves."""
    ways = measure_ways(3)
    sends = sorted(ways.broadcast.sum(axis=(0, 2)).tolist())
    assert evenness(ways)["broadcast_sends"] == round(max(sends) / 2, 3)


def test_the_picture_has_a_line_for_each_broker(result):
    left, right = picture(result).axes
    assert len(left.get_lines()) == len(right.get_lines()) == 2 * 8 + 2


def test_balance():
    even, one = balance_of([3, 3, 3]), balance_of([0, 0, 9])
    assert (even.max_over_mean, even.gini, even.variation) == (1.0, pytest.approx(0.0), 0.0)
    assert (one.max_over_mean, one.gini) == (3.0, pytest.approx(2 / 3))
    assert balance_of([0, 0]).gini == 0.0


def test_what_cannot_be_run_is_refused():
    with pytest.raises(InputError, match="needs two"):
        run((10,), brokers=1)
    with pytest.raises(InputError, match="at least 1"):
        run((0,))
    with pytest.raises(InputError, match="growth needs two"):
        growth([])
    with pytest.raises(InputError, match="below 0"):
        balance_of([-1.0])
