"""One suite for all routing schemes: common claims, and each scheme's own (`claims` of its class)."""

import random
from collections import Counter
from pathlib import Path

import pytest
from draws import KINDS, of_each_kind, seeds, slow
from rayvous.protocol.effects import Deliver, Multicast, Received, Send
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.pubsub import Directed, Events, Gone
from rayvous.protocol.scenarios.scenario import LinkModel, Scenario, Workload
from rayvous.routing.schemes.registry import SCHEMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import Simulation, run_scenario

WITH_OPTIONS = [
    "hybrid+fanout",
    "hybrid+quench",
    "hybrid+merge",
    "hybrid+quench+merge",
    "hierarchical+quench+merge",
    "hierarchical+nodes",
    "hybrid+all",
    "flooding+graph",
]
NAMES = [*SCHEMES, *WITH_OPTIONS]
NETWORKS = {
    "alone": {"clusters": 1, "brokers_per_cluster": 1, "degree": 0},
    "one cluster": {"clusters": 1, "brokers_per_cluster": 5, "degree": 0},
    "a chain": {"clusters": 6, "brokers_per_cluster": 1, "degree": 1},
    "a tree of clusters": {"clusters": 7, "brokers_per_cluster": 3, "degree": 2},
    "transit-stub": {"clusters": 9, "brokers_per_cluster": 2, "degree": 4, "shape": "transit-stub"},
}
JITTER = LinkModel(spread_seconds=0.01, jitter_seconds=0.05)

every_scheme = pytest.mark.parametrize("name", NAMES)


class Watch:
    """Checks every broker after every step that can change it, and counts what crosses each link."""

    def __init__(self):
        self.brokers = {}
        self.crossings = Counter()
        self.received = set()
        self.used = set()

    def __call__(self, step):
        message, here = step.received.message, step.broker.position.broker
        self.brokers[here] = step.broker
        if not isinstance(message, Events | Directed):
            step.broker.check()
        elif not isinstance(step.received.source, str) and not self._multicast(step):
            self.received |= {(here, message.batch.identity(row)) for row in range(len(message.batch))}
        for effect in step.effects:
            if isinstance(effect, Deliver):
                self.used |= {(here, effect.batch.identity(row)) for row in effect.rows.tolist()}
            elif isinstance(effect, Send | Multicast) and isinstance(effect.message, Events | Directed):
                batch = effect.message.batch
                link = ("group", step.broker.position.cluster)
                if isinstance(effect, Send):
                    link = frozenset((here, effect.to))
                events = [batch.identity(row) for row in range(len(batch))]
                self.crossings.update((link, event) for event in events)
                self.used |= {(here, event) for event in events}

    @staticmethod
    def _multicast(step):
        """Return whether the message arrived by multicast, which also reaches members that do not need it."""
        return step.received.source in step.broker.position.members

    def assert_frugal(self, most=1):
        assert set(self.crossings.values()) <= {*range(1, most + 1)}, "an event crossed a link too often"

    def assert_wanted(self):
        assert self.received <= self.used, "an event went where nobody has a use for it"

    def assert_empty(self):
        for broker in self.brokers.values():
            assert not any(broker.describe().values()), broker.describe()


@pytest.mark.parametrize(
    ("network", "name"),
    [
        # `make check` has every scheme and option on the tree of clusters, and schemes of three kinds everywhere.
        (network, name) if network == "a tree of clusters" or name in KINDS else slow(network, name)
        for network in NETWORKS
        for name in NAMES
    ],
)
def test_rounds_of_subscribing_and_publishing(name, network, assert_promises):
    watch = Watch()
    workload = Workload(10, 4, 15, 2, events_per_publication=3, rounds=2, churn=0.5, leave=True)
    outcome = run_scenario(
        Scenario("rounds", NETWORKS[network], name, 1, links=JITTER, workload=workload), record=watch
    )
    assert_promises(outcome)
    assert not outcome.unconfirmed and not outcome.lost
    assert sum(map(len, outcome.deliveries.values())) > 20
    watch.assert_frugal(1 + scheme(name).claims.copies)
    watch.assert_empty()
    if scheme(name).claims.wanted_only:
        watch.assert_wanted()
    if not scheme(name).claims.multicast:
        assert not outcome.traffic["multicast"].events


@pytest.mark.parametrize("name", of_each_kind(NAMES))
@pytest.mark.parametrize("seed", seeds(2))
def test_clients_that_come_and_go_while_events_are_under_way(name, seed, assert_promises, restless_steps):
    watch = Watch()
    topology = {"clusters": 6, "brokers_per_cluster": 3, "degree": 3}
    steps = restless_steps(seed, 18, 120)
    outcome = run_scenario(
        Scenario("restless", topology, name, seed, links=JITTER, publish_interval_seconds=0.002, steps=steps),
        record=watch,
    )
    assert_promises(outcome)
    assert sum(map(len, outcome.deliveries.values())) > 20
    watch.assert_empty()
    watch.assert_frugal(1 + scheme(name).claims.copies)


@every_scheme
def test_messages_that_are_lost_are_counted_and_never_double_an_event(name):
    workload = Workload(20, 5, 100)
    topology = NETWORKS["a tree of clusters"]
    outcome = run_scenario(Scenario("lossy", topology, name, links=LinkModel(loss=0.1), workload=workload))
    assert outcome.lost > 0
    for got in outcome.deliveries.values():
        assert len(set(got)) == len(got)
        for publisher in {publisher for publisher, _ in got}:
            mine = [sequence for other, sequence in got if other == publisher]
            assert mine == sorted(mine)
    assert bool(outcome.unconfirmed) == scheme(name).claims.announces_first


@pytest.mark.parametrize("name", of_each_kind(NAMES))
def test_a_network_runs_the_same_way_twice(name):
    scenario = Scenario(
        "twice", NETWORKS["a tree of clusters"], name, 3, links=JITTER, workload=Workload(8, 3, 15, rounds=2)
    )
    first, second = run_scenario(scenario), run_scenario(scenario)
    assert (first.deliveries, first.traffic, first.virtual_seconds) == (
        second.deliveries,
        second.traffic,
        second.virtual_seconds,
    )


@every_scheme
def test_a_subscription_that_is_registered_again_or_changed_or_not_there(name):
    simulation = Simulation(ClusterTree(3, 2).positions(), name)
    for selector in ("x = 1", "x = 1", "x = 2"):
        simulation.subscribe("a", 0, selector, 1)
        assert simulation.run_until_installed("a", 1)
    simulation.unsubscribe("a", 7)
    simulation.subscribe("b", 4, "x > 0")
    simulation.run()
    simulation.publish("p", 3, [{"x": 1}, {"x": 2}])
    simulation.run()
    assert simulation.notifications("a") == [("p", 2)]
    assert simulation.notifications("b") == [("p", 1), ("p", 2)]
    simulation.detach("a")
    simulation.detach("b")
    simulation.run()
    strays = [broker.describe().pop("strays") for broker in simulation.brokers()]
    assert sum(strays) == 1
    assert not any(broker.describe()["filters"] for broker in simulation.brokers())
    for broker in simulation.brokers():
        broker.check()


@pytest.mark.parametrize("name", [name for name in NAMES if scheme(name).claims.survives_deaths])
@pytest.mark.parametrize("seed", range(5))
def test_the_living_go_on_when_brokers_die(name, seed):
    """One living broker finds out that another is gone, as if it could not reach it, and tells the others."""
    rng = random.Random(f"deaths/{seed}")
    simulation = Simulation(ClusterTree(4, 3).positions(), name, links=JITTER, seed=seed)
    lowest = [rng.randrange(4) for _ in range(12)]
    for broker, low in enumerate(lowest):
        simulation.subscribe(f"s{broker}", broker, f"n >= {low}")
    simulation.run()
    living, published = list(range(12)), []
    for turn in range(30):
        published.append(rng.randrange(6))
        simulation.publish("p", 0, [{"n": published[-1]}])
        simulation.advance(0.01)
        if turn in (10, 11, 20):
            dead = living.pop(rng.randrange(1, len(living)))
            simulation.hosts[dead].handle = lambda received: []
            finder = simulation.hosts[rng.choice(living)]
            for effect in finder.handle(Received(dead, Gone(dead))):
                simulation.carry_out[type(effect)](finder, effect)
    simulation.run()
    for broker in living:
        wanted = [("p", place) for place, n in enumerate(published, 1) if n >= lowest[broker]]
        assert simulation.notifications(f"s{broker}") == wanted


def test_every_scheme_says_what_it_claims():
    page = (Path(__file__).parents[2] / "docs" / "schemes.md").read_text(encoding="utf-8")
    for name, made in SCHEMES.items():
        claims = made.claims
        costs, survives = [line for line in page.splitlines() if line.startswith(f"| `{name}` |")]
        assert ("multicast a cluster" in costs) == claims.multicast
        _, _, wanted, off, on, lost, _ = (cell.strip() for cell in survives.split("|"))
        assert wanted.startswith("yes") == claims.wanted_only
        assert off.startswith("the living go on") == claims.survives_deaths
        assert on.startswith("heals") == made.membership.heals
        assert lost


def test_a_scheme_that_is_not_there_is_answered_with_those_that_are():
    with pytest.raises(InputError, match="no routing scheme 'gossip': there are hybrid, hierarchical"):
        scheme("gossip")
    for wrong in ("hybrid+turbo", "hybrid+quench+quench", "hybrid+"):
        with pytest.raises(
            InputError, match=r"there is hybrid\+fanout, hybrid\+quench, hybrid\+merge, hybrid\+quench\+merge"
        ):
            scheme(wrong)
    with pytest.raises(InputError, match="there is lbdd only"):
        scheme("lbdd+merge")
