"""Promises 1 to 4 on random scenarios, compared with a reference that knows nothing of routing."""

from collections import Counter

import pytest
from draws import seeds, slow, thorough
from rayvous.protocol.effects import Multicast, Send
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.scenarios.scenario import LinkModel, Scenario, Workload
from rayvous.simulator import run_scenario

SCHEMES = ["hybrid", "hierarchical"]
NETWORKS = [
    {"clusters": 1, "brokers_per_cluster": 1, "degree": 0},
    {"clusters": 1, "brokers_per_cluster": 5, "degree": 0},
    {"clusters": 7, "brokers_per_cluster": 1, "degree": 1},
    {"clusters": 9, "brokers_per_cluster": 3, "degree": 2},
    {"clusters": 12, "brokers_per_cluster": 4, "degree": 4, "shape": "transit-stub"},
]
JITTER = LinkModel(spread_seconds=0.01, jitter_seconds=0.05)


class Watch:
    """Checks every broker after every step that can change it, and counts what crosses the links."""

    def __init__(self):
        self.brokers = {}
        self.links = Counter()
        self.multicasts = Counter()

    def __call__(self, step):
        if not isinstance(step.received.message, Events):
            step.broker.check()
        place = step.broker.position
        self.brokers[place.broker] = step.broker
        for effect in step.effects:
            if isinstance(effect, Send | Multicast) and isinstance(effect.message, Events):
                batch = effect.message.batch
                for row in range(len(batch)):
                    if isinstance(effect, Multicast):
                        self.multicasts[batch.identity(row), place.cluster] += 1
                    else:
                        self.links[batch.identity(row), frozenset((place.broker, effect.to))] += 1

    def assert_frugal(self):
        assert set(self.links.values()) <= {1}, "an event crossed a link of the tree twice"
        assert set(self.multicasts.values()) <= {1}, "an event was multicast twice in a cluster"

    def assert_empty(self):
        for broker in self.brokers.values():
            measures = broker.describe()
            assert measures == {"filters": 0, "announced": 0, "subscriptions": 0, "strays": 0}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("topology", NETWORKS, ids=lambda topology: f"{topology['clusters']}-clusters")
@pytest.mark.parametrize("seed", [slow(0), thorough(1)])
def test_rounds_of_subscribing_and_publishing(scheme, topology, seed, assert_promises):
    watch = Watch()
    workload = Workload(14, 5, 20, 2, events_per_publication=3, rounds=3, churn=0.5, leave=True)
    outcome = run_scenario(
        Scenario("random", topology, scheme, seed, links=JITTER, workload=workload), record=watch
    )
    assert_promises(outcome)
    assert not outcome.unconfirmed and not outcome.lost
    assert sum(map(len, outcome.deliveries.values())) > 50
    watch.assert_frugal()
    watch.assert_empty()
    if scheme == "hierarchical":
        assert not watch.multicasts


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("seed", seeds(3))
def test_clients_that_come_and_go_while_events_are_under_way(scheme, seed, assert_promises, restless_steps):
    watch = Watch()
    scenario = Scenario(
        "restless",
        {"clusters": 8, "brokers_per_cluster": 3, "degree": 3},
        scheme,
        seed,
        links=JITTER,
        publish_interval_seconds=0.002,
        steps=restless_steps(seed, 24, 150),
    )
    outcome = run_scenario(scenario, record=watch)
    assert_promises(outcome)
    assert sum(map(len, outcome.deliveries.values())) > 20
    watch.assert_empty()
    # While subscriptions move, an event may cross a link that it would not cross later, but never twice.
    watch.assert_frugal()


def test_the_reference_notices_what_is_wrong(assert_promises):
    workload = Workload(10, 3, 20)
    outcome = run_scenario(Scenario("random", NETWORKS[3], workload=workload))
    client = max(outcome.deliveries, key=lambda name: len(outcome.deliveries[name]))
    whole = list(outcome.deliveries[client])
    wrongs = {"did not get": whole[1:], "twice": [*whole, whole[0]], r"got \[": [*whole, ("p1", 999)]}
    for message, wrong in wrongs.items():
        outcome.deliveries[client] = wrong
        with pytest.raises(AssertionError, match=message):
            assert_promises(outcome)
    outcome.deliveries[client] = whole[::-1]
    with pytest.raises(AssertionError, match="out of order"):
        assert_promises(outcome)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_lost_messages_are_counted_and_never_double_an_event(scheme, assert_promises):
    workload = Workload(20, 5, 150)
    scenario = Scenario("lossy", NETWORKS[3], scheme, links=LinkModel(loss=0.1), workload=workload)
    outcome = run_scenario(scenario)
    assert outcome.lost > 0
    for got in outcome.deliveries.values():
        assert len(set(got)) == len(got)
    with pytest.raises(AssertionError, match="did not get"):
        assert_promises(outcome)
    assert outcome.unconfirmed, "no subscription lost its answer"


def test_thousands_of_brokers_in_one_process(assert_promises):
    topology = {"clusters": 300, "brokers_per_cluster": 8}
    outcome = run_scenario(Scenario("large", topology, workload=Workload(150, 30, 30)))
    assert_promises(outcome)
    assert outcome.steps > 2400
