"""Brokers with stores and admission control: after a crash between any two effects the books are right.

Reference: promises 1, 2, 3, 7 and 8; paper 3, section 4; paper 4, section 3.
"""

import random
from typing import Any

import pytest
from draws import KINDS, of_each_kind, seeds, slow, thorough
from rayvous.broker import Pipeline
from rayvous.broker.admission import Admitting
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.faults.simulated.judging import books_problems, clients_of
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Capacity
from rayvous.protocol.stability import Stability
from rayvous.routing.schemes.registry import NAMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.datagrams import Datagrams
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

TREE = ClusterTree(3, 2, degree=2).positions()
SMALL = Stability(retransmit_seconds=0.1, inputs_max=3, window_messages=3)
TIGHT = AdmissionConfig(0.0, capacity=Capacity(100, 60))

UNCROWDED = ("lbdd", "hypercube", "point-to-point")
"""Schemes whose brokers share no link, so that subscriptions do not compete, and none is refused."""

ROOMY = AdmissionConfig(0.0, capacity=Capacity(200, 60))
"""For a graph on which each copy that may come is charged: there are several times as many."""

REFUSED = dict.fromkeys(NAMES, 2) | dict.fromkeys(UNCROWDED, 0) | {"flooding": 3}
"""The number of refusals. Under flooding every subscription loads all brokers, so one more is refused."""

every_scheme = pytest.mark.parametrize("scheme", of_each_kind(NAMES))


def play(net: Any) -> None:
    """Advertise, subscribe, be refused, publish, cancel; the network settles before each change."""
    net.advertise("steel", 5, "k = 'steel'", 50.0)
    net.rest()
    net.advertise("wool", 2, "k = 'wool'", 30.0)
    net.rest()
    for client, broker, number, selector in (
        ("alice", 0, 1, "k = 'steel' AND n > 1"),
        ("bob", 3, 1, "k = 'steel'"),
        ("carol", 5, 1, "k = 'wool' AND n > 2"),
    ):
        net.subscribe(client, broker, selector, number)
        net.rest()
    net.publish("steel", 5, [{"k": "steel", "n": n} for n in range(4)])
    net.publish("wool", 2, [{"k": "wool", "n": n} for n in range(4)])
    net.rest()
    net.subscribe("alice", 0, "k = 'wool'", 2)
    net.rest()
    net.unsubscribe("bob", 1)
    net.rest()
    net.publish("wool", 2, [{"k": "wool", "n": 9}, {"k": "wool", "n": 0}])
    net.rest()


def mended(net: Simulation) -> None:
    """Assert that nothing is lost, duplicated or out of order, and that the books are right."""
    verdict = judge(net.account)
    assert not verdict.violated and not verdict.lost, verdict.examples  # all may be refused, and nothing due
    assert books_problems(net) == []


def state(net: Simulation) -> dict[int, Any]:
    """Return what each broker reserves and holds, link by link."""
    return {
        broker: (books.reserved(), {link: set(items) for link, items in books.held.items()})
        for broker, books in (
            (broker, host.machine.layer(Admitting).admission.books) for broker, host in net.hosts.items()
        )
    }


def crash_everywhere(scripted: type[Any], scheme: str, every: int) -> int:
    """Crash each broker after every `every`-th of its effects, one run each; return the number of runs."""
    config = ROOMY if scheme == "flooding+graph" else TIGHT
    never = scripted(TREE, scheme, admission=config)
    play(never)
    mended(never)
    wanted, refused = state(never), never.clients.refused
    heard = sorted((note.client, note.publisher, note.sequence) for note in never.account.notifications())
    assert len(heard) >= 2 and refused == REFUSED[scheme], (len(heard), refused)
    runs = 0
    for broker, effects in never.effects.items():
        for boundary in range(0, effects, every):
            net = scripted(TREE, scheme, admission=config)
            net.crash_after(broker, boundary)
            play(net)
            assert net.hosts[broker].incarnation == 1, (broker, boundary)
            mended(net)
            assert state(net) == wanted, (broker, boundary)
            assert net.clients.refused == refused
            notes = sorted(
                (note.client, note.publisher, note.sequence) for note in net.account.notifications()
            )
            assert notes == heard, (broker, boundary)
            runs += 1
    return runs


# Every scheme is also in `test_so_it_does_under_every_scheme`, which crashes brokers at moments that are drawn.
@pytest.mark.parametrize(
    ("scheme", "every"),
    [
        *(slow(scheme, 11) for scheme in (*KINDS, "hierarchical")),
        *(thorough(scheme, 2 if scheme == "hybrid" else 5) for scheme in NAMES),
    ],
)
def test_a_crash_between_effects_leaves_no_trace_in_the_books(
    scheme: str, every: int, scripted: type[Any]
) -> None:
    assert crash_everywhere(scripted, scheme, every) > 100 / every


def chaos(seed: int, scheme: str) -> Simulation:
    """Run random steps with bad links, crashes, restarts and churn; then repair everything and settle."""
    rng = random.Random(f"crash/admission/{seed}")
    positions = ClusterTree(rng.randint(1, 4), rng.randint(1, 3), degree=rng.randint(1, 3)).positions()
    brokers = [place.broker for place in positions]
    net = Simulation(
        positions,
        scheme,
        stability=Stability(
            retransmit_seconds=0.1,
            window_messages=rng.choice([2, 8, 64]),
            inputs_max=rng.choice([2, 6, 1000]),
        ),
        datagrams=Datagrams(rng.random() * 0.3, rng.random() * 0.3, rng.random() * 0.2),
        store=in_memory,
        seed=seed,
        last_words=rng.random() < 0.5,
        admission=AdmissionConfig(
            rng.choice([0.0, 0.0, 0.4]),
            rng.choice(["paper", "tight", "measured"]),
            Capacity(rng.uniform(30, 90), 60),
        ),
    )
    homes = {name: rng.choice(brokers) for name in ("p", "q", "r", "a", "b", "c", "d")}
    for name in ("p", "q", "r"):
        net.advertise(name, homes[name], rng.choice(["x >= 0", "x > 7", "x < 9"]), rng.uniform(10, 40))
    subscribed: list[tuple[str, int]] = []
    for turn in range(60):
        act = rng.random()
        client = rng.choice(["a", "b", "c", "d"])
        known = net.hosts[homes[client]].alive or client in net.sessions
        if act < 0.25 and known:
            low = rng.randint(0, 9)
            wanted = f"x BETWEEN {low} AND {low + rng.randint(0, 5)}"
            net.subscribe(client, homes[client], wanted, turn, rng.randrange(3))
            subscribed.append((client, turn))
        elif act < 0.35 and subscribed:
            net.unsubscribe(*subscribed.pop(rng.randrange(len(subscribed))))
        elif act < 0.7:
            name = rng.choice(["p", "q", "r"])
            if net.hosts[homes[name]].alive or name in net.sessions:
                net.publish(name, homes[name], _within(net, name, [rng.randint(0, 15) for _ in range(3)]))
        elif act < 0.8:
            net.crash_after(rng.choice(brokers), rng.randint(0, 12))
        elif act < 0.9:
            net.restart(rng.choice(brokers))
        net.advance(rng.random() * 0.1)
    for broker in brokers:
        net.hosts[broker].fuse = None
        net.restart(broker)
    assert net.settle(400), seed
    for name in ("p", "q", "r"):  # once all is repaired, every subscription is served
        net.publish(name, homes[name], _within(net, name, list(range(16))))
    assert net.settle(400), seed
    return net


def _within(net: Simulation, name: str, values: list[int]) -> list[dict[str, int]]:
    """Return the events of these values that a publisher has advertised, or one that every publisher has."""
    return [{"x": x} for x in values if clients_of(net).adverts[name].matches({"x": x})] or [{"x": 8}]


@pytest.mark.parametrize("seed", seeds(12))
@pytest.mark.parametrize("scheme", ["hybrid", "hierarchical"])
def test_chaos_with_crashes_and_bad_links_leaves_right_books(seed: int, scheme: str) -> None:
    mended(chaos(seed, scheme))


@every_scheme
def test_so_it_does_under_every_scheme(scheme: str) -> None:
    mended(chaos(3, scheme))


def test_brokers_that_are_restarted_charge_by_the_samples_that_they_had() -> None:
    """And go on sampling where they were: the next sample is told after as many events as without a crash."""
    config = AdmissionConfig(0.0, "measured", Capacity(100, 60))
    nets = [Simulation(TREE, store=in_memory, stability=SMALL, admission=config) for _ in range(2)]
    for crashes, net in enumerate(nets):
        net.advertise("steel", 5, "k = 'steel'", 50.0)
        assert net.settle()
        net.subscribe("bob", 1, "n > 8", 1)
        net.publish("steel", 5, [{"k": "steel", "n": n} for n in range(12)])
        assert net.settle()
        for broker in (1, 5) if crashes else ():
            net.crash(broker)
            net.restart(broker)
        assert net.settle()
        net.publish("steel", 5, [{"k": "steel", "n": n} for n in range(4)])
        assert net.settle() and books_problems(net) == []
    assert state(nets[0]) == state(nets[1])
    assert 0 < state(nets[0])[1][0]["cpu", None] < 50 * MICRO


def test_books_that_are_not_recorded_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Pipeline, "changed_by", lambda self, event: False)
    net = Simulation(TREE, store=in_memory, stability=SMALL, admission=TIGHT)
    net.advertise("steel", 5, "k = 'steel'", 50.0)
    assert net.settle()
    net.subscribe("bob", 1, "k = 'steel'", 1)
    assert net.settle() and books_problems(net) == []
    net.crash(1)
    net.restart(1)
    net.settle(5.0)
    assert any("broker 1 has adverts" in problem for problem in books_problems(net))


def test_who_is_back_with_what_durable_subscribers_want_greets_its_neighbours():
    """It learns its position from its store, before it can send anything."""
    report = run_chaos(8, brokers_max=6, seconds=4.0, stable=True, admission=True)
    assert report.holds, (report.replay, report.problems)


@pytest.mark.slow
def test_what_waits_for_its_quota_is_judged_once_it_is_let_in():
    """A publisher exceeds its advertised rate: the run ends when its last event is let in, and holds."""
    report = run_chaos(2026, stable=True, admission=True)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
    assert report.virtual_seconds > 80, "its events take that long to be let in"
