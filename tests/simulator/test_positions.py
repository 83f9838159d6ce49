"""No failure gives a subscriber what had been delivered to everybody before it subscribed (promise 1, definition 9)."""

import pytest
from draws import KINDS, of_each_kind, slow, thorough
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

SCHEMES = (
    "hybrid", "hybrid+quench", "flooding", "match-first", "hypercube", "lbdd", "point-to-point", "flooding+graph",
)  # fmt: skip


@pytest.fixture(params=[True, False], ids=["positions", "ages"])
def with_positions(request, only_ages):
    """Return whether subscriptions begin at positions."""
    if not request.param:
        only_ages()
    return request.param


def network(scheme="hybrid", **options):
    net = Simulation(ClusterTree(3, 2, degree=2), scheme, recovery=Recovery(), **options)
    net.advance(3.0)
    return net


def subscribed(net, client, broker, selector, **how):
    number = net.subscribe(client, broker, selector, **how)
    assert net.run_until_installed(client, number)


def published_long_ago(net, client, broker, count=100, *, seconds=2.0, flush=1):
    """Let a publisher publish, and let everything settle."""
    for number in range(count):
        net.publish(client, broker, [{"x": number}])
        net.advance(seconds / count)
    net.flush(client, flush)
    net.advance(0.5)
    assert len(net.flushed) == flush
    net.account.settled(net.now)


@pytest.mark.parametrize("scheme", of_each_kind(SCHEMES))
def test_a_broker_is_killed_after_somebody_subscribed_to_what_others_had(scheme, with_positions):
    net = network(scheme)
    subscribed(net, "d1", 1, "x < 1000")
    published_long_ago(net, "old", 4)
    net.detach("old")
    net.advance(0.5)
    net.account.settled(net.now)
    subscribed(net, "new", 3, "x >= 0")
    net.advance(0.5)
    net.account.settled(net.now)
    net.crash(1)
    net.advance(40.0)
    net.publish("next", 5, [{"x": 7}])
    net.advance(10.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds == with_positions
    assert (
        bool(verdict.findings["fresh"].violated)
        == bool(verdict.findings["noticed"].violated)
        != with_positions
    )
    assert net.notifications("new")[-1] == ("next", 1) and net.notifications("d1")[-1] == ("next", 1)


@pytest.mark.parametrize(
    ("scheme", "what"),
    [
        (scheme, what)
        if scheme in KINDS and (at + number) % 2 == 0
        else (slow if scheme in KINDS or (at + number) % 2 == 0 else thorough)(scheme, what)
        for at, scheme in enumerate(SCHEMES)
        for number, what in enumerate(("returns", "moves"))
    ],
)
def test_a_durable_subscriber_begins_where_it_began_through_kills_and_restarts(scheme, what, with_positions):
    """Its broker is restarted before or after it has moved, three times; up to 20 s of age would be in doubt."""
    moves = what == "moves"
    net = network(scheme, store=in_memory, client_detect_seconds=1.0 if moves else 6.0)
    subscribed(net, "d1", 1, "x < 1000", durable=True)
    for turn in (1, 2, 3):
        published_long_ago(net, "old", 4, 30, flush=turn)
        subscribed(net, f"new{turn}", 3, "x >= 0", durable=True)
        net.account.settled(net.now)
        net.crash(3)
        net.advance(3.0)
        net.restart(3)
        net.advance(25.0)
        net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds == with_positions
    assert len(net.notifications("d1")) == 90
    assert (len(net.notifications("new2")) == 30) == with_positions, "the last thirty, and nothing before"


def test_what_is_published_after_the_confirmation_is_delivered_through_a_failure_however_soon():
    """The position must not be too high: the first event after it comes over a link that breaks at once."""
    for scheme in SCHEMES:
        net = network(scheme)
        net.publish("p", 4, [{"x": 1}])
        net.advance(0.3)
        subscribed(net, "new", 3, "x >= 0")
        net.publish("p", 4, [{"x": 2}, {"x": 3}])
        net.advance(0.001)
        net.crash(2 if scheme == "hybrid" else 1)
        net.crash(3)
        net.advance(40.0)
        assert net.notifications("new") == [("p", 2), ("p", 3)], scheme


def test_a_broker_that_floods_confirms_only_when_it_knows_what_its_neighbours_know():
    """It was restarted a moment ago, and the next fault comes when the subscription has moved."""
    net = network("flooding")
    published_long_ago(net, "old", 4)
    net.crash(3)
    net.advance(1.0)
    net.restart(3)
    net.subscribe("new", 3, "x >= 0")
    net.advance(0.1)
    assert net.unconfirmed() == [("new", 1)]
    assert net.run_until_installed("new", 1)
    assert net.sessions["new"].subscriber.record()["begins"] == {1: {"old": 100}}
    net.crash(3)
    net.advance(30.0)
    assert net.notifications("new") == []


def test_who_has_left_does_not_move_when_its_former_broker_dies():
    net = network()
    net.publish("p", 3, [{"x": 1}])
    net.subscribe("s", 3, "x > 0")
    net.advance(2.0)
    net.detach("p")
    net.detach("s")
    net.advance(1.0)
    net.crash(3)
    net.advance(20.0)
    assert net.clients.moves == 0 and not net.move("p", 4)


@pytest.mark.parametrize(
    "scheme", ["hybrid", "hybrid+quench", "hierarchical", "hierarchical+nodes", "flooding", "match-first"]
)
def test_a_subscription_begins_after_events_that_nobody_had_asked_for(scheme):
    """With admission control they stay at their publisher's broker; so its answer states their numbers."""
    admission = AdmissionConfig(0.0, capacity=Capacity(1000, 1000))
    net = Simulation(ClusterTree(3, 1, degree=2), scheme, recovery=Recovery(), admission=admission)
    net.advance(3.0)
    net.advertise("old", 2, "x >= 0", 100.0)
    net.advance(1.0)
    published_long_ago(net, "old", 2, 2)
    subscribed(net, "new", 1, "x >= 0")
    net.advance(0.5)
    net.move("new", 0)
    net.move("old", 1)
    net.advance(20.0)
    net.publish("old", 1, [{"x": 7}])
    net.advance(5.0)
    net.account.settled(net.now)
    assert net.notifications("new") == [("old", 3)]
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
