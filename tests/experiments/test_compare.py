"""One workload under all schemes: the figures agree with what is known of each, and none beats the bound."""

import numpy as np
import pytest
from draws import slow, thorough
from rayvous.cli.verbs import compare as verb
from rayvous.experiments import compare, recovery
from rayvous.experiments.compare import aed_seconds
from rayvous.protocol.errors import InputError, ScenarioError
from rayvous.protocol.scenarios.scenario import Workload
from rayvous.protocol.traces.trace import Trace
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree

SMALL = Workload(12, 6, 60, matching=0.1)
FEW_BROKERS = compare.TOPOLOGY | {"clusters": 4, "brokers_per_cluster": 2}


@pytest.fixture(scope="module")
def result():
    return compare.run(list(SCHEMES), workload=SMALL, deaths=False)


def test_every_scheme_delivers_and_none_is_below_the_bound(result):
    assert result["verdict"] == "holds"
    rows = {row["scheme"]: row for row in result["results"]}
    for row in rows.values():
        assert row["recovery_seconds"] is None, "nobody died"
        assert row["over_bound"] >= 1 - 1e-9, row["scheme"]
        assert row["hops_mean"] <= row["hops_max"] and row["latency_mean_seconds"] > 0
    assert rows["flooding"]["messages"] == result["brokers"] - 1
    assert rows["match-first"]["over_bound"] == pytest.approx(1)
    assert rows["match-first"]["table_entries_max"] == SMALL.subscribers
    for name in ("lbdd", "point-to-point"):
        assert rows[name]["messages"] == pytest.approx(result["brokers_wanting"]), "a copy for each"
    assert rows["point-to-point"]["hops_max"] == 1
    assert rows["hybrid"]["control_messages"] < rows["match-first"]["control_messages"] / 5
    assert result["bound_multicast"] <= result["bound_links"]


@pytest.mark.parametrize("schemes", [slow(["hybrid", "lbdd"]), thorough(list(SCHEMES))], ids=["few", "all"])
def test_only_schemes_that_heal_have_a_time_for_it_and_it_is_more_than_a_death_takes_to_be_noticed(schemes):
    """A suspicion takes some heartbeats, and recovery is bounded. Reference: promise 6."""
    for row in compare.run(schemes, topology=FEW_BROKERS, workload=SMALL)["results"]:
        if row["survives"] == "heals":
            assert 1.0 < row["recovery_seconds"] < 20.0, row["scheme"]
        else:
            assert row["recovery_seconds"] is None


def test_a_death_in_each_role():
    assert recovery.victims(ClusterTree(2, 2).positions()) == [1, 3, 0]
    assert recovery.victims(ClusterTree(1, 1).positions()) == [0]
    assert (
        recovery.recovery_seconds("lbdd", {"clusters": 1, "brokers_per_cluster": 1, "degree": 0}, 0) is None
    )


def test_lbdd_spreads_the_load_that_point_to_point_leaves_with_the_publisher():
    everyone = Workload(60, 1, 40, matching=1.0, missing=0.0)
    rows = compare.run(["point-to-point", "lbdd"], workload=everyone, deaths=False)["results"]
    assert rows[1]["messages"] == rows[0]["messages"]
    assert rows[1]["load_max_over_mean"] < rows[0]["load_max_over_mean"] / 3
    assert rows[1]["load_gini"] < rows[0]["load_gini"]


def test_gini():
    assert compare.gini(np.array([3.0, 3.0, 3.0])) == pytest.approx(0)
    assert compare.gini(np.array([0.0, 0.0, 0.0, 8.0])) == pytest.approx(0.75)
    assert compare.gini(np.zeros(4)) == 0


def test_the_picture(result, tmp_path):
    path = verb._draw(dict(result), tmp_path)
    assert path.stat().st_size > 10_000


def test_what_is_wrong_is_said():
    for schemes, message in (
        (["hybrid", "gossip"], "no routing scheme 'gossip': there are hybrid"),
        (["hybrid", "hybrid"], "none twice"),
        ([], "name at least one"),
    ):
        with pytest.raises(InputError, match=message):
            compare.run(schemes)
    with pytest.raises(InputError, match="--on moon: it must be one of sim, ray"):
        compare.run(["hybrid"], on="moon")
    with pytest.raises(InputError, match="take fewer clusters, or --on sim"):
        compare.run(["hybrid"], on="ray", topology=compare.TOPOLOGY | {"clusters": 100})
    with pytest.raises(InputError, match="nothing is published"):
        compare.run(["hybrid"], workload=Workload(1, 1, 0))
    with pytest.raises(ScenarioError, match="matching is 2"):
        Workload(1, 1, 1, matching=2)


def test_aed_is_each_subscribers_time_over_its_events_and_the_mean_of_subscribers():
    """Reference: paper 1, 5.1."""
    trace = Trace()
    for sequence, at in enumerate((0.0, 1.0, 2.0), 1):
        trace.published(at, "p", sequence, [{}])
    for client, heard in (("a", {1: 0.5, 2: 1.5, 3: 3.0}), ("b", {3: 6.0})):
        for sequence, at in heard.items():
            trace.notified(at, client, "p", sequence)
    assert aed_seconds(trace) == pytest.approx((3.0 / 3 + 4.0 / 1) / 2)
    assert aed_seconds(Trace()) is None
