"""However a subscriber moves, it gets nothing that had settled before it subscribed, and everything since (promise 1).

Where a position lacks a publisher, only the age of the subscription tells what is older. Here all of them do.
"""

from dataclasses import replace
from random import Random

import pytest
from draws import of_each_kind, seeds
from rayvous.clients.subscriber import SubscriberMachine
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.durable_cursor import DurableCursor
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation

BROKERS = range(6)
SCHEMES = ("hybrid", "flooding", "match-first", "hypercube", "lbdd", "point-to-point")
DOUBT_SECONDS = 4.0
"""An event may seem younger by what the time of two brokers lags, by the rounding of ages, and by a reading's lag."""


def whole(net):
    net.flush("old", 1)
    net.advance(1.0)
    assert len(net.flushed) == 1
    net.account.settled(net.now)


def moves(net, rng, client):
    """Let a subscriber move to another broker, in any of the ways in which its messages take their time."""
    here = net.sessions[client].home.id
    others = [broker for broker in net.staying() if broker != here]
    there = rng.choice(others)
    how = rng.choice(("at once", "waits", "waits", "slow", "dies", "leaves"))
    if how == "dies":
        net.crash(here)
        net.advance(rng.uniform(0.1, 6.0))
        net.restart(here)
        return
    if how == "leaves" and len(others) > 2:
        away = rng.random() < 0.5 and net.stop(client)
        SimulatedOperations(net).remove_broker(here)
        net.advance(rng.uniform(0.0, 0.001))
        net.pause(there)  # it may be the trustee
        net.advance(rng.uniform(0.0, 9.0))
        net.resume(there)
        net.advance(rng.uniform(0.0, 9.0))
        if away:
            net.start(client)
        return
    if how == "slow":
        net.slow(there, 200.0)
    elif how == "waits":
        net.pause(there)
    net.move(client, there)
    if rng.random() < 0.3:
        net.subscribe(client, there, "x < 0")
    net.advance(rng.uniform(0.0, 9.0) if how != "at once" else rng.random())
    if how == "slow":
        net.slow(there, 1.0)
    elif how == "waits":
        net.resume(there)


def drawn(seed, scheme):
    """Play a drawn network, and return it."""
    rng = Random(f"moved/{seed}")
    store = in_memory if rng.random() < 0.5 else None
    net = Simulation(ClusterTree(3, 2, degree=2), scheme, recovery=Recovery(), seed=seed, store=store)
    net.advance(3.0)
    durable = rng.random() < 0.5
    first = rng.random() < 0.5
    if first:
        net.subscribe("new", rng.choice(BROKERS), "x < 0", durable=durable)
    for _ in range(rng.randint(1, 4)):
        net.publish("old", 0, [{"x": 1}])
        net.advance(rng.random())
    whole(net)
    net.advance(DOUBT_SECONDS + rng.uniform(0.0, 8.0))
    net.account.settled(net.now)
    broker = net.sessions["new"].home.id if first else rng.choice(BROKERS)
    assert net.run_until_installed("new", net.subscribe("new", broker, "x > 0", durable=durable))
    for _ in range(rng.randint(1, 3)):
        net.publish("old", net.sessions["old"].home.id, [{"x": 2}])
        net.advance(rng.choice((0.0, 0.5, 2.0)))
        moves(net, rng, "new")
    net.advance(40.0)
    net.publish("next", max(net.staying()), [{"x": 3}])
    net.advance(10.0)
    net.account.settled(net.now)
    return net


@pytest.mark.parametrize("seed", seeds(60, quick=15))
@pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
def test_a_subscriber_that_moves_gets_exactly_what_is_its_own(scheme, seed, only_ages):
    only_ages()
    net = drawn(seed, scheme)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    assert net.notifications("new")[-1] == ("next", 1) and verdict.findings["fresh"].checked


def does_not_ask(patch):
    """Let subscribers come to a broker at once."""
    patch.setattr(SubscriberMachine, "approach", lambda machine: [])


def is_handed_over_after_an_unknown_time(patch):
    """Let trustees not know when their clocks were read."""
    bequest = DurableCursor.bequest
    patch.setattr(DurableCursor, "bequest", lambda *asked: replace(bequest(*asked), clock=None))


def is_as_old_as_its_first_subscription(patch):
    """Let trustees not know when each subscription was made."""
    bequest = DurableCursor.bequest
    patch.setattr(DurableCursor, "bequest", lambda *asked: replace(bequest(*asked), ages_seconds={}))


@pytest.mark.parametrize(
    ("how", "seed"),
    [
        (does_not_ask, 9),
        (does_not_ask, 14),
        (is_handed_over_after_an_unknown_time, 58),
        (is_as_old_as_its_first_subscription, 59),
    ],
)
def test_the_draw_sees_one_that(how, seed, only_ages, monkeypatch):
    only_ages()
    how(monkeypatch)
    assert judge(drawn(seed, "hybrid").account).findings["fresh"].violated
