"""Each figure on a few literal rows, with the answer computed by hand.

The network: cluster 0 holds brokers 1 (root) and 2; cluster 1 holds 5 (its designated broker) and 6. One
publisher on 2 publishes 10 events in two batches; both go by multicast to 1, which sends 6 of them down to 5,
which multicasts 6.
"""

import itertools

import numpy as np
import pandas as pd
import pytest
from rayvous.pipelines.figures.aggregates import (
    broker_load,
    latency_percentiles,
    latency_quantiles,
    link_load,
    load_balance,
    loss_and_duplicates,
    rate_over_time,
    throughput,
)
from rayvous.pipelines.figures.costs import aed, multicast_cost, tct

TRANSFERS = [
    # time, broker, cluster, link_kind, peer, messages, events, nbytes
    (100.0, 2, 0, "publish", -1, 1, 7, 700),
    (101.0, 2, 0, "publish", -1, 1, 3, 300),
    (101.0, 2, 0, "multicast", -1, 1, 7, 700),
    (101.5, 2, 0, "multicast", -1, 1, 3, 300),
    (102.0, 1, 0, "down", 5, 2, 6, 600),
    (99.0, 5, 1, "up", 1, 1, 0, 50),  # a subscription: control
    (98.0, 5, 1, "multicast", -1, 1, 0, 40),  # a table entry: control
    (103.0, 5, 1, "multicast", -1, 1, 6, 600),
    (104.0, 6, 1, "deliver", -1, 1, 4, 400),
]
DELIVERIES = [(104.0, 6, 4, 12.0), (110.0, 1, 1, 10.0)]
NOTIFIED = [
    (104.0, 6, "a", "p", 1, 100.0),
    (104.0, 6, "a", "p", 2, 101.0),
    (104.0, 6, "b", "p", 1, 100.0),
    (105.0, 6, "b", "p", 1, 100.0),  # a duplicate
    (106.0, 6, "b", "p", 1, 100.0),  # another duplicate
    (110.0, 1, "c", "q", 9, 100.0),  # q never published 9
]
PUBLISHED = [(100.0, 2, "p", 1), (101.0, 2, "p", 2)]


def test_tct_counts_events_over_links_and_control_messages_apart(frame, rows):
    found = {row.pop("link_kind"): row for row in rows(tct(frame("transfers", TRANSFERS)))}
    assert list(found) == ["publish", "up", "down", "multicast", "deliver", "tree", "all"]
    assert {kind: row["tct"] for kind, row in found.items()} == {
        "publish": 10, "up": 0, "down": 6, "multicast": 16, "deliver": 4, "tree": 22, "all": 36
    }  # fmt: skip
    assert found["down"] == {"tct": 6, "batches": 2, "control_messages": 0, "nbytes": 600}
    assert found["tree"] == {"tct": 22, "batches": 5, "control_messages": 2, "nbytes": 2290}


def test_tct_of_nothing_is_zero(frame, rows):
    assert [row["tct"] for row in rows(tct(frame("transfers", [])))] == [0] * 7


def test_multicasts_are_summed_by_the_way_they_were_carried_out(frame, rows):
    done = [
        # time, broker, messages, events, nbytes, members, calls, nodes, by_reference, sent_bytes
        (100.0, 2, 1, 7, 700, 3, 2, 1, 0, 1400),
        (101.0, 2, 2, 3, 300, 3, 2, 1, 0, 600),
        (102.0, 5, 1, 900, 90_000, 4, 4, 2, 1, 270_000),
        (103.0, 5, 1, 0, 0, 4, 4, 2, 0, 0),  # a heartbeat
    ]
    found = {row.pop("how"): row for row in rows(multicast_cost(frame("multicasts", done)))}
    assert list(found) == ["inline", "reference", "all"]
    assert found["inline"] == {
        "loads": 2, "events": 10, "nbytes": 1000, "members": 6, "calls": 4, "nodes": 2, "sent_bytes": 2000,
    }  # fmt: skip
    assert found["all"] == {
        "loads": 3, "events": 910, "nbytes": 91_000, "members": 10, "calls": 8, "nodes": 4, "sent_bytes": 272_000,
    }  # fmt: skip
    nothing = rows(multicast_cost(frame("multicasts", [])))
    assert [row["calls"] for row in nothing] == [0] * 3


def test_aed_is_each_subscribers_time_over_its_events_and_the_mean_of_subscribers(frame, rows):
    """Reference: paper 1, 5.1."""
    (found,) = rows(aed(frame("notified", NOTIFIED)))
    assert found["notifications"] == 6 and found["subscribers"] == 3
    assert found["elapsed_seconds"] == pytest.approx(10.0)  # from 100 to 110
    assert found["aed_seconds"] == pytest.approx((4 / 2 + 6 / 3 + 10 / 1) / 3)
    assert found["seconds_per_notification"] == pytest.approx(10 / 6)
    assert found["mean_delay_seconds"] == pytest.approx((4 + 3 + 4 + 5 + 6 + 10) / 6)


def test_twice_the_subscribers_with_the_same_delays_have_the_same_aed(frame, rows):
    """The quotient over all subscribers together is halved."""
    twice = NOTIFIED + [(time, at, f"{name} too", *rest) for time, at, name, *rest in NOTIFIED]
    (once,), (both,) = rows(aed(frame("notified", NOTIFIED))), rows(aed(frame("notified", twice)))
    assert both["aed_seconds"] == pytest.approx(once["aed_seconds"])
    assert both["seconds_per_notification"] == pytest.approx(once["seconds_per_notification"] / 2)


def test_deliveries_do_not_say_whose_they_are_and_start_at_the_earliest_mean_publication(frame, rows):
    (found,) = rows(aed(frame("deliveries", [*DELIVERIES, (200.0, 1, 0, 0.0)])))
    # 104 - 12/4 = 101 and 110 - 10/1 = 100: from 100 to 110; an empty delivery does not extend it
    assert found == {
        "notifications": 5, "subscribers": None, "elapsed_seconds": 10.0, "aed_seconds": None,
        "seconds_per_notification": 2.0, "mean_delay_seconds": pytest.approx(22 / 5),
    }  # fmt: skip


def test_aed_from_a_given_start(frame, rows):
    (found,) = rows(aed(frame("deliveries", DELIVERIES), started_at=90.0))
    assert found["seconds_per_notification"] == pytest.approx(4.0)
    (found,) = rows(aed(frame("notified", NOTIFIED), started_at=90.0))
    assert found["aed_seconds"] == pytest.approx((14 / 2 + 16 / 3 + 20 / 1) / 3)


@pytest.mark.parametrize(("table", "subscribers"), [("notified", 0), ("deliveries", None)])
def test_aed_of_nothing_is_null(frame, rows, table, subscribers):
    (found,) = rows(aed(frame(table, [])))
    assert found == {
        "notifications": 0, "subscribers": subscribers, "elapsed_seconds": None, "aed_seconds": None,
        "seconds_per_notification": None, "mean_delay_seconds": None,
    }  # fmt: skip


def test_latency_percentiles_are_exact(frame, rows):
    hundred_and_one = [(float(i), 0, "s", "p", i, 0.0) for i in range(101)]  # latencies 0..100 s
    (found,) = rows(latency_percentiles(frame("notified", hundred_and_one)))
    assert found == {
        "notifications": 101, "p50_seconds": 50.0, "p90_seconds": 90.0, "p99_seconds": 99.0, "max_seconds":
        100.0
    }  # fmt: skip


def test_latency_percentiles_lie_between_the_nearest_two(frame, rows):
    (found,) = rows(
        latency_percentiles(frame("notified", [(1.0, 0, "s", "p", 1, 0.0), (3.0, 0, "s", "p", 2, 0.0)]))
    )
    assert found["p50_seconds"] == pytest.approx(2.0)
    assert found["p90_seconds"] == pytest.approx(2.8)


def test_latency_percentiles_of_nothing_are_null(frame, rows):
    (found,) = rows(latency_percentiles(frame("notified", [])))
    assert found["notifications"] == 0
    assert found["p50_seconds"] is None
    assert rows(latency_quantiles(frame("notified", []), 1)) == []


def test_latency_quantiles_are_points_of_the_distribution(frame, rows):
    found = rows(latency_quantiles(frame("notified", NOTIFIED), 2))
    # latencies 3 4 4 5 6 10
    assert [(row["probability"], row["latency_seconds"]) for row in found] == [
        (0.0, 3.0),
        (0.5, 4.5),
        (1.0, 10.0),
    ]


@pytest.mark.parametrize("n", [1, 2, 3, 7, 401, 1000])
@pytest.mark.parametrize("points", [1, 3, 100, 400])
def test_latency_quantiles_are_those_of_numpy(spark, rows, n, points):
    latencies = np.random.default_rng(n).exponential(size=n)
    table = pd.DataFrame({"time_seconds": latencies, "published_at": np.zeros(n)})
    found = rows(latency_quantiles(spark.createDataFrame(table), points))
    shares = np.arange(points + 1) / points
    assert [row["probability"] for row in found] == pytest.approx(shares)
    assert [row["latency_seconds"] for row in found] == pytest.approx(np.quantile(latencies, shares))


def test_throughput_runs_from_first_publication_to_last_delivery(frame, rows):
    (found,) = rows(throughput(frame("transfers", TRANSFERS), frame("deliveries", DELIVERIES)))
    assert found == {
        "events": 10, "notifications": 5, "elapsed_seconds": 10.0,
        "events_per_second": 1.0, "notifications_per_second": 0.5,
    }  # fmt: skip


def test_throughput_without_deliveries_and_of_nothing(frame, rows):
    (found,) = rows(throughput(frame("transfers", TRANSFERS), frame("deliveries", [])))
    assert (found["elapsed_seconds"], found["events_per_second"]) == (1.0, 10.0)
    (found,) = rows(throughput(frame("transfers", []), frame("deliveries", [])))
    assert found == {
        "events": 0, "notifications": 0, "elapsed_seconds": None,
        "events_per_second": None, "notifications_per_second": None,
    }  # fmt: skip


def test_broker_load_of_the_brokers_that_were_seen(frame, rows):
    found = {
        row["broker"]: row
        for row in rows(broker_load(frame("transfers", TRANSFERS), frame("deliveries", DELIVERIES)))
    }
    assert list(found) == [1, 2, 5, 6]
    # 1 receives 10 by multicast, sends 6 down, notifies 1
    assert found[1] == {
        "broker": 1, "cluster": 0, "events_in": 10, "events_out": 6, "notifications": 1,
        "control_messages": 0, "nbytes": 600, "load": 17,
    }  # fmt: skip
    # 2 receives 10 from its publisher, multicasts 10, and does not receive its own multicasts
    assert (found[2]["events_in"], found[2]["events_out"], found[2]["load"]) == (10, 10, 20)
    assert (found[5]["events_in"], found[5]["events_out"], found[5]["control_messages"]) == (6, 6, 2)
    assert (found[6]["events_in"], found[6]["events_out"], found[6]["notifications"]) == (6, 0, 4)


def test_broker_load_with_all_brokers_named_has_the_idle_ones(spark, frame, rows):
    brokers = spark.createDataFrame(
        [(1, 0), (2, 0), (3, 0), (5, 1), (6, 1), (9, 2)], "broker int, cluster int"
    )
    found = {
        row["broker"]: row["load"]
        for row in rows(broker_load(frame("transfers", TRANSFERS), frame("deliveries", DELIVERIES), brokers))
    }
    assert found == {1: 17, 2: 20, 3: 10, 5: 12, 6: 10, 9: 0}  # 3 only receives, 9 is idle


def test_broker_load_leaves_an_unknown_cluster_unknown(frame, rows):
    (found,) = rows(broker_load(frame("transfers", []), frame("deliveries", [(1.0, 7, 2, 0.1)])))
    assert (found["broker"], found["cluster"], found["load"]) == (7, None, 2)


def test_load_balance(spark, rows):
    (found,) = rows(load_balance(spark.createDataFrame([(4,), (1,), (3,), (0,)], "load bigint")))
    # sorted 0 1 3 4: gini = (-3*0 - 1*1 + 1*3 + 3*4) / (4 * 8); variance = (4 + 1 + 1 + 4) / 4
    assert found == {
        "brokers": 4, "mean_load": 2.0, "max_load": 4, "max_over_mean": 2.0,
        "gini": pytest.approx(14 / 32), "coefficient_of_variation": pytest.approx(2.5**0.5 / 2),
    }  # fmt: skip


@pytest.mark.parametrize(("loads", "gini"), [([5, 5, 5], 0.0), ([0, 0, 9], 2 / 3)])
def test_gini_is_nothing_when_even_and_one_minus_one_over_n_when_one_does_all(spark, rows, loads, gini):
    (found,) = rows(load_balance(spark.createDataFrame([(x,) for x in loads], "load bigint")))
    assert found["gini"] == pytest.approx(gini)


def test_load_balance_of_no_load_is_null(spark, rows):
    (found,) = rows(load_balance(spark.createDataFrame([(0,), (0,)], "load bigint")))
    assert (found["brokers"], found["gini"], found["max_over_mean"]) == (2, None, None)


def test_link_load_adds_both_directions(frame, rows):
    back = (105.0, 5, 1, "up", 1, 1, 2, 200)
    to_rendezvous = (106.0, 5, 1, "up", -2, 1, 0, 20)
    tree, *groups = rows(link_load(frame("transfers", [*TRANSFERS, back, to_rendezvous])))
    assert tree == {
        "kind": "tree", "low": 1, "high": 5, "cluster": None, "events_low_to_high": 6, "events_high_to_low":
        2, "events": 8, "messages": 4, "nbytes": 850,
    }  # fmt: skip
    assert [(row["kind"], row["cluster"], row["events"], row["messages"]) for row in groups] == [
        ("group", 0, 10, 2),
        ("group", 1, 6, 2),
    ]


def test_loss_and_duplicates(spark, frame, rows):
    expected = spark.createDataFrame(
        [("a", "p", 1), ("a", "p", 2), ("a", "p", 2), ("b", "p", 1), ("d", "p", 1)],
        "subscriber string, publisher string, sequence bigint",
    )
    (found,) = rows(loss_and_duplicates(frame("notified", NOTIFIED), frame("published", PUBLISHED), expected))
    assert found == {
        "notifications": 6, "pairs": 4, "duplicated_pairs": 1, "duplicates": 2,
        "never_published": 1, "unexpected": 1, "missing": 1,
    }  # fmt: skip


def test_what_was_not_given_is_not_judged(frame, rows):
    (found,) = rows(loss_and_duplicates(frame("notified", NOTIFIED)))
    assert (found["duplicates"], found["never_published"], found["missing"]) == (2, None, None)


def test_loss_of_everything(frame, rows):
    (found,) = rows(
        loss_and_duplicates(frame("notified", []), frame("published", PUBLISHED), frame("notified", NOTIFIED))
    )
    assert (found["notifications"], found["duplicates"], found["missing"]) == (0, 0, 4)


def test_rate_over_time_has_every_bin_from_the_first_to_the_last(frame, rows):
    found = rows(rate_over_time(frame("transfers", TRANSFERS), frame("deliveries", DELIVERIES), bins=6))
    # From 100 to 110 are eleven whole seconds: bins of 1 s would be too many, bins of 2 s fit.
    assert [row["time_seconds"] for row in found] == [100.0, 102.0, 104.0, 106.0, 108.0, 110.0]
    assert {row["bin_seconds"] for row in found} == {2.0}
    assert [row["events"] for row in found] == [10, 0, 0, 0, 0, 0]  # only what publishers sent
    assert [row["notifications"] for row in found] == [0, 0, 4, 0, 0, 1]
    assert [row["events_per_second"] for row in found] == [5.0, 0, 0, 0, 0, 0]
    assert [row["notifications_per_second"] for row in found] == [0, 0, 2.0, 0, 0, 0.5]


@pytest.mark.parametrize(("seconds", "width"), [(0.5, 0.01), (1.5, 0.02), (30.0, 0.5), (86_400.0, 1000.0)])
def test_rate_over_time_never_has_more_bins_than_it_may(frame, rows, seconds, width):
    start = 1_700_000_000.003  # a realistic time that is not a multiple of a bin
    deliveries = [(start + seconds * step / 200, 1, 3, 0.1) for step in range(201)]
    found = rows(rate_over_time(frame("transfers", []), frame("deliveries", deliveries), bins=100))
    assert {row["bin_seconds"] for row in found} == {width}
    assert len(found) <= 100
    assert sum(row["notifications"] for row in found) == 3 * 201
    gaps = [b["time_seconds"] - a["time_seconds"] for a, b in itertools.pairwise(found)]
    assert gaps == pytest.approx([width] * len(gaps), abs=1e-5)


def test_rate_over_time_of_one_moment_and_of_nothing(frame, rows):
    one = [(1_700_000_000.0, 1, 3, 0.1), (1_700_000_001.0, 1, 0, 0.0)]  # the second one is empty
    (found,) = rows(rate_over_time(frame("transfers", []), frame("deliveries", one)))
    assert (found["bin_seconds"], found["notifications"], found["events"]) == (0.01, 3, 0)
    assert rows(rate_over_time(frame("transfers", []), frame("deliveries", []))) == []
