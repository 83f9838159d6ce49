"""All processes of a network end, clients too, as in a power failure, and it goes on from its stores.

Reference: promises 1, 3, 6 and 7; docs/durability.md.
"""

import random

import pytest
from draws import of_each_kind, seeds, slow, thorough
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.judging import books_problems, durable_problems, structure_problems
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity
from rayvous.protocol.messages.recovery import RENDEZVOUS, Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

SCHEMES = (
    "hybrid", "hierarchical", "flooding", "flooding+graph", "match-first", "hypercube", "lbdd", "point-to-point",
    "hybrid+quench+merge",
)  # fmt: skip
every_scheme = pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
BROKERS, SUBSCRIBERS, PUBLISHERS, OUTAGES = 12, 4, 3, 3
HEAL_SECONDS = 30.0
ADMITS = AdmissionConfig(0.0, capacity=Capacity(10_000.0, 10_000.0))


def end_all(net: Simulation, rng: random.Random) -> None:
    for client in list(net.sessions):
        net.stop(client)
    order = [*range(BROKERS), RENDEZVOUS]
    rng.shuffle(order)
    for broker in order:
        net.faults.end(net.host(broker))


def begin_all(net: Simulation, rng: random.Random, delays: list[float]) -> None:
    """Restart everything, brokers one by one; a publisher's numbers that no broker has count as unused."""
    assert net.faults.restart(RENDEZVOUS)
    order = list(range(BROKERS))
    rng.shuffle(order)
    for broker in order:
        assert net.faults.restart(broker)
        net.advance(rng.choice(delays))
    net.advance(HEAL_SECONDS)
    for client, session in net.sessions.items():
        assert session.alive or net.start(client), "every broker is there, so nobody waits for one"
        if session.publisher is not None:
            net.account.never_accepted(client, session.publisher.published)


def play(
    scheme: str, seed: int, dead_seconds: float = 0.0, admission: AdmissionConfig | None = None
) -> Simulation:
    """Return a network that has lost all its processes several times, at any moment, amid events."""
    rng = random.Random(f"whole network/{scheme}/{seed}")
    net = Simulation(
        ClusterTree(4, 3, degree=2).positions(),
        scheme,
        recovery=Recovery.for_simulator(),
        seed=seed,
        store=in_memory,
        admission=admission,
    )
    homes = {f"p{number}": rng.randrange(BROKERS) for number in range(PUBLISHERS)}
    if admission is not None:
        for publisher, home in homes.items():
            net.advertise(publisher, home, "n >= 0", 100.0)
        net.advance(1.0)
    for number in range(SUBSCRIBERS):
        net.subscribe(f"s{number}", rng.randrange(BROKERS), f"n >= {number}", 1, durable=True)
    net.advance(3.0)

    def publish(publisher: str) -> None:
        net.publish(publisher, homes[publisher], [{"n": rng.randrange(6)}])

    for _ in range(OUTAGES):
        for _ in range(rng.randrange(1, 15)):
            publish(rng.choice(list(homes)))
            net.advance(rng.choice([0.0, 0.0, 0.01, 0.05, 0.3]))
            if rng.random() < 0.1:
                net.stop(f"s{rng.randrange(SUBSCRIBERS)}")
        end_all(net, rng)
        net.advance(dead_seconds)
        begin_all(net, rng, [0.0, 0.0, 0.2, 1.0] if seed % 2 else [0.0])
        assert structure_problems(net, net.recovery.degree) == []
    for publisher in homes:
        publish(publisher)
    net.advance(HEAL_SECONDS)
    net.account.settled(net.now)
    return net


def check(scheme: str, seed: int, admission: AdmissionConfig | None = None) -> None:
    net = play(scheme, seed, admission=admission)
    verdict = judge(net.account)
    assert verdict.holds and verdict.notifications_expected, f"{scheme}, seed {seed}: {verdict}"
    assert durable_problems(net) == [] == books_problems(net) and not any(net.account.losses.values()), (
        f"{scheme}, seed {seed}"
    )


@every_scheme
@pytest.mark.parametrize("seed", seeds(3, quick=1))
def test_all_end_and_what_was_accepted_comes_once_and_in_order(scheme: str, seed: int) -> None:
    check(scheme, seed)


@every_scheme
def test_so_it_is_with_admission_control(scheme: str) -> None:
    check(scheme, 3, ADMITS)


@every_scheme
@pytest.mark.parametrize(("first", "end"), [slow(4, 5), thorough(5, 30)])
def test_so_it_is_with_many_seeds(scheme: str, first: int, end: int) -> None:
    for seed in range(first, end):
        check(scheme, seed, ADMITS if seed % 3 == 0 else None)


def test_if_the_clock_ran_on_meanwhile_what_was_under_way_would_be_too_old() -> None:
    """In virtual time the network's clock stands still during an outage; here it runs on, past retention."""
    retention = Recovery.for_simulator().retention_seconds
    assert any(any(play("hybrid", seed, 2 * retention).account.losses.values()) for seed in range(4))
