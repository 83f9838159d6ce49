import numpy as np
import pytest
from rayvous.protocol.errors import (
    ClientError,
    EventError,
    InputError,
    ScenarioError,
    SelectorError,
    SimulationStepLimit,
)
from rayvous.protocol.scenarios.scenario import LinkModel, Publish, Scenario, Subscribe, Workload
from rayvous.protocol.telemetry.recorder import merge_tables
from rayvous.protocol.telemetry.tables import SCHEMAS
from rayvous.routing.topologies.cluster_trees import GROUP_SECONDS, LINK_SECONDS, figure_1, fixed
from rayvous.simulator import ArrivedEvent, Simulation, run_scenario
from rayvous.simulator.telemetry import SimulatedTelemetry

CLIENT = LinkModel().client_seconds


@pytest.fixture
def tree():
    return figure_1()


@pytest.fixture
def simulation(tree):
    return Simulation(tree.positions())


def test_a_topology_says_itself_where_its_brokers_stand(tree):
    assert Simulation(tree).positions == Simulation(tree.positions()).positions
    with pytest.raises(InputError, match="positions is 3: it must be a topology, or what positions"):
        Simulation(3)


def test_the_life_of_a_subscription(simulation, tree):
    n1, d4 = tree.broker("N1"), tree.broker("D4")
    number = simulation.subscribe("alice", n1, "price > 10")
    assert not simulation.installed("alice", number)
    assert simulation.run_until_installed("alice", number)
    assert simulation.installed("alice", number)
    assert simulation.publish("bob", d4, [{"price": 11}, {"price": 9}, {"price": 12}]) == range(1, 4)
    assert simulation.publish("bob", d4, [{"price": 13}]) == range(4, 5)
    simulation.run()
    assert simulation.notifications("alice") == [("bob", 1), ("bob", 3), ("bob", 4)]
    simulation.unsubscribe("alice", number)
    assert not simulation.installed("alice", number)
    simulation.run()
    simulation.publish("bob", d4, [{"price": 14}])
    simulation.run()
    assert len(simulation.notifications("alice")) == 3
    assert simulation.subscribers() == ["alice"] and simulation.notifications("bob") == []


def test_a_client_has_several_subscriptions_and_gets_an_event_once(simulation):
    numbers = [simulation.subscribe("alice", 3, selector) for selector in ("a = 1", "b = 1", "a = 1")]
    assert numbers == [1, 2, 3]
    assert simulation.subscribe("alice", 3, "c = 1", number=9) == 9
    assert simulation.subscribe("alice", 3, "d = 1") == 10
    simulation.run()
    simulation.publish("bob", 0, [{"a": 1, "b": 1, "c": 1, "d": 1}, {"d": 1}])
    simulation.run()
    assert simulation.notifications("alice") == [("bob", 1), ("bob", 2)]
    simulation.detach("alice")
    simulation.run()
    assert all(broker.describe()["filters"] == 0 for broker in simulation.brokers())
    simulation.subscribe("alice", 5, "a = 1")  # it may go elsewhere now
    simulation.run()
    assert simulation.broker(5).describe()["subscriptions"] == 1


def test_time_is_the_sum_of_the_links(simulation, tree):
    simulation.subscribe("alice", tree.broker("N2"), "TRUE")
    simulation.run()
    began = simulation.now
    simulation.publish("bob", tree.broker("D4"), [{}])
    simulation.run()
    ((when, publisher, sequence),) = simulation.timed_notifications("alice")
    assert isinstance(simulation.timed_notifications("alice")[0], ArrivedEvent)
    assert (publisher, sequence) == ("bob", 1)
    assert when == pytest.approx(began + 2 * CLIENT + 4 * LINK_SECONDS + GROUP_SECONDS)


def test_the_topology_or_the_model_says_how_long_a_link_is(tree):
    for links, delay_of, expected in (
        (LinkModel(delay_seconds=1.0, group_seconds=0.5), None, 4.5),
        (LinkModel(), lambda one, other: 2.0, 10.0),
        (LinkModel(delay_seconds=1.0), lambda one, other: 2.0, 6.0),
    ):
        simulation = Simulation(tree.positions(), links=links, delay_of=delay_of)
        simulation.subscribe("alice", tree.broker("N2"), "TRUE")
        simulation.run()
        began = simulation.now
        simulation.publish("bob", tree.broker("D4"), [{}])
        simulation.run()
        assert simulation.timed_notifications("alice")[0].time_seconds == pytest.approx(
            began + expected + 2 * CLIENT
        )


def test_time_passes_only_as_far_as_asked(simulation):
    simulation.subscribe("alice", 0, "TRUE")
    simulation.run()
    began = simulation.now
    simulation.publish("bob", 7, [{}])
    assert simulation.advance(CLIENT + LINK_SECONDS / 2) == 1
    assert simulation.now == pytest.approx(began + CLIENT + LINK_SECONDS / 2)
    assert simulation.notifications("alice") == []
    assert simulation.run() == 2  # D3, REB
    assert simulation.run() == 0
    assert simulation.notifications("alice") == [("bob", 1)]


def test_a_broker_that_sends_is_busy_and_a_multicast_is_one_message():
    tree = fixed({"D": None}, {"D": [f"N{number}" for number in range(9)]})
    arrived = {}
    for scheme in ("hybrid", "hierarchical"):
        links = LinkModel(send_seconds=1.0, client_seconds=0.0)
        simulation = Simulation(tree.positions(), scheme, links=links)
        for number in range(9):
            simulation.subscribe(f"s{number}", number, "TRUE")
        simulation.run()
        began = simulation.now
        simulation.publish("p", 9, [{}])
        simulation.run()
        arrived[scheme] = [
            round(simulation.timed_notifications(f"s{number}")[0].time_seconds - began) for number in range(9)
        ]
    assert arrived["hybrid"] == [2] * 9
    assert arrived["hierarchical"] == list(range(2, 11))


def test_a_run_that_does_not_end_is_stopped(simulation):
    simulation.subscribe("alice", 4, "TRUE")
    with pytest.raises(SimulationStepLimit, match=r"3 steps, and \d+ messages are still under way"):
        simulation.run(steps_max=3)
    assert simulation.steps == 3
    simulation.run()  # it can be resumed
    assert simulation.installed("alice", 1)


def test_what_clients_do_wrong(simulation):
    with pytest.raises(ClientError, match="no broker 99: there are 8"):
        simulation.subscribe("alice", 99, "TRUE")
    with pytest.raises(SelectorError):
        simulation.subscribe("alice", 0, "price >")
    with pytest.raises(EventError, match="event 1"):
        simulation.publish("alice", 0, [{}, {"x": b""}])
    with pytest.raises(ClientError, match="'alice' is not attached"):
        simulation.unsubscribe("alice", 1)
    simulation.publish("alice", 0, [{}])
    with pytest.raises(ClientError, match="attached to broker 0, not 1"):
        simulation.subscribe("alice", 1, "TRUE")
    assert simulation.publish("alice", 0, [{}]) == range(2, 3)
    assert simulation.publish("alice", 0, []) == range(3, 3)


def test_a_step_that_cannot_be_done_is_named():
    steps = (Publish("p", "D1", ({},)), Subscribe("s", "D1", 1, "price >"))
    scenario = Scenario("x", {"parents": {"D1": None}}, steps=steps)
    with pytest.raises(ScenarioError, match=r"steps\[1\]: "):
        run_scenario(scenario)


def test_a_subscription_whose_answer_is_lost_is_never_installed(tree):
    simulation = Simulation(tree.positions(), links=LinkModel(loss=0.999999))
    simulation.subscribe("alice", 4, "TRUE")
    assert not simulation.run_until_installed("alice", 1)
    assert simulation.lost > 0


def test_telemetry_says_what_happened():
    chunks = []
    workload = Workload(30, 5, 60, events_per_publication=2, rounds=2)
    scenario = Scenario("x", {"clusters": 9, "brokers_per_cluster": 3, "degree": 3}, workload=workload)
    outcome = run_scenario(scenario, telemetry=SimulatedTelemetry(chunks.append, trace_events=True))
    tables = merge_tables(chunks)
    assert list(tables) == [name for name in SCHEMAS if name != "multicasts"], "there they are what they are"
    for name, table in tables.items():
        assert {column: array.dtype for column, array in table.items()} == {
            column: np.dtype(object if kind is str else kind) for column, kind in SCHEMAS[name].items()
        }
    transfers = tables["transfers"]
    for kind, count in outcome.traffic.items():
        mine = transfers["link_kind"] == kind
        assert transfers["messages"][mine].sum() == count.events + count.control
        assert transfers["messages"][mine & (transfers["events"] > 0)].sum() == count.events
    got = sum(map(len, outcome.deliveries.values()))
    assert tables["deliveries"]["notifications"].sum() == len(tables["notified"]["subscriber"]) == got > 100
    late = tables["notified"]["time_seconds"] - tables["notified"]["published_at"]
    assert late.min() >= CLIENT * 0.99
    assert tables["deliveries"]["latency_sum_seconds"].sum() == pytest.approx(late.sum())
    seen = {client: set() for client in outcome.deliveries}
    for client, publisher, sequence in zip(
        *(tables["notified"][column] for column in ("subscriber", "publisher", "sequence")), strict=True
    ):
        seen[client].add((publisher, sequence))
    assert seen == {client: set(got) for client, got in outcome.deliveries.items()}
    published = set(zip(tables["published"]["publisher"], tables["published"]["sequence"], strict=True))
    assert len(published) == 2 * 60 * 2
    assert set.union(*seen.values()) <= published


def test_notifications_need_not_be_kept(tree):
    simulation = Simulation(tree.positions(), keep_notifications=False)
    simulation.subscribe("alice", 0, "TRUE")
    simulation.publish("bob", 0, [{}, {}])
    simulation.run()
    assert simulation.notified == 2 and simulation.notifications("alice") == []


def test_a_subscription_that_is_gone_before_it_was_installed_waits_for_nothing():
    tree = fixed({"REB": None, "D1": "REB", "D2": "D1", "D3": "D1"})
    slow = {frozenset((0, 1)): 100.0}
    simulation = Simulation(
        tree.positions(),
        delay_of=lambda one, other: slow.get(frozenset((one, other)), 1.0),
        record=lambda step: step.broker.check(),
    )
    simulation.subscribe("wide", tree.broker("D2"), "price > 10")
    simulation.advance(2.0)
    simulation.subscribe("narrow", tree.broker("D3"), "price > 20")
    simulation.advance(2.0)
    simulation.unsubscribe("narrow", 1)
    simulation.run()
    assert simulation.installed("wide", 1) and not simulation.installed("narrow", 1)
    assert simulation.broker(tree.broker("D3")).describe() == {
        "filters": 0,
        "announced": 0,
        "subscriptions": 0,
        "strays": 0,
    }


@pytest.mark.parametrize("scheme", ["hybrid", "hypercube"])
def test_where_nothing_heals_a_client_stays_at_its_broker_even_if_that_dies(tree, scheme):
    simulation = Simulation(tree, scheme)
    for client, broker in (("alice", 4), ("bob", 1)):
        simulation.run_until_installed(client, simulation.subscribe(client, broker, "price > 10"))
    simulation.publish("exchange", 1, [{"price": 11}])
    simulation.run()
    simulation.crash(4)
    simulation.at(simulation.now + 10.0, simulation.publish, "exchange", 1, [{"price": 20}])
    simulation.run()
    alice = simulation.sessions["alice"]
    assert alice.home.id == 4 and not alice.connected and simulation.clients.moves == 0
    assert simulation.notifications("alice") == [("exchange", 1)]
    assert simulation.notifications("bob") == [("exchange", 1), ("exchange", 2)]
    with pytest.raises(InputError, match="clients move only in a network that heals"):
        simulation.move("bob", 2)
