"""Networks with views under faults: brokers crash, leave and join; nothing is lost or out of order.

With `lbdd` and in a hypercube a broker that passes events on may crash; with `point-to-point` each event
comes from its origin. What only a hypercube does is in `test_hypercube_healing.py`.

Reference: paper 5, section 3.4; promises 1 to 3 and 6.
"""

import pytest
from draws import of_each_kind, slow, thorough
from rayvous.broker import healing
from rayvous.faults.simulated.chaos import run_chaos
from rayvous.protocol.layers import RoundBegan
from rayvous.protocol.messages.pubsub import Directed, Events
from rayvous.protocol.messages.recovery import RENDEZVOUS, Recovery
from rayvous.recovery.membership.views import HealingViews
from rayvous.routing.schemes import lbdd
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.routing.topologies.lbdd_plan import plan
from rayvous.simulator.simulation import Simulation

BROKERS = 12
PUBLISHER = 7
INNER = [
    each for each, below in plan(PUBLISHER, range(BROKERS)).children.items() if below and each != PUBLISHER
]
"""The brokers that forward events under `lbdd` when all brokers want them."""

SEEDS_THAT_TELL = (0, 2, 6, 9)

every_scheme = pytest.mark.parametrize("scheme", of_each_kind(["lbdd", "point-to-point", "hypercube"]))


def network(scheme="lbdd", wanted=lambda broker: f"n >= {broker % 3}", **recovery):
    tree = ClusterTree(BROKERS, 1)
    net = Simulation(tree.positions(), scheme, recovery=Recovery(**recovery), seed=4)
    for broker in range(BROKERS):
        net.subscribe(f"s{broker}", broker, wanted(broker), 1)
    net.advance(2.0)
    assert not net.unconfirmed()
    return net


def publish_for(net, seconds, per_second=10, publisher="p", broker=PUBLISHER):
    for turn in range(round(seconds * per_second)):
        net.at(
            net.now + turn / per_second, net.publish, publisher, broker, [{"n": turn, "odd": turn % 2 == 1}]
        )


@every_scheme
@pytest.mark.parametrize("dead", [INNER, [PUBLISHER], slow(INNER[:1]), slow([0, 1, 2, 3, 4, 5])])
def test_brokers_die_while_others_publish(dead, scheme, assert_healed):
    net = network(scheme)
    publish_for(net, 20)
    for broker in dead:
        net.at(net.now + 5.0, net.crash, broker)
    net.advance(30.0)
    assert assert_healed(net).events_published == 200
    living = set(range(BROKERS)) - set(dead)
    assert set(net.broker(min(living)).layer(HealingViews).router.view.born) == living


def test_what_was_on_its_way_through_a_dead_broker_is_sent_again(assert_healed):
    """It crashes between receiving an event and passing it on; those behind get it under the next view."""
    net = network()
    victim = INNER[0]
    net.crash_after(victim, 0)
    net.publish("p", PUBLISHER, [{"n": 5}])
    net.advance(1.0)
    assert not net.hosts[victim].alive
    heard = {note.client for note in net.account.notifications()}
    assert len(heard) < BROKERS - 1
    net.advance(15.0)
    assert_healed(net)
    assert {f"s{broker}" for broker in range(BROKERS)} == {
        note.client for note in net.account.notifications()
    }


def test_each_event_takes_one_message_for_each_broker_that_wants_it_all_from_its_origin():
    """Also under the views of a network that heals. Reference: promise 4; paper 5, section 1."""
    net = network("point-to-point", lambda broker: "n >= 0" if broker % 2 else "n < 0")
    sent = []
    net.watchers[Events] = lambda now, source, to, message: sent.append((source, to))
    net.publish("p", PUBLISHER, [{"n": 5}])
    net.advance(1.0)
    assert sorted(sent) == [(PUBLISHER, broker) for broker in (1, 3, 5, 9, 11)]


def test_each_event_takes_one_copy_for_each_broker_that_wants_it():
    """Also under the views of a network that heals. Reference: promise 4; paper 5, section 4.3."""
    net = network()
    copies = []
    net.watchers[Directed] = lambda now, source, to, message: copies.extend([to] * len(message.batch))
    net.publish("p", PUBLISHER, [{"n": 5}])
    net.advance(1.0)
    assert sorted(copies) == [broker for broker in range(BROKERS) if broker != PUBLISHER]


@every_scheme
def test_who_joins_is_sent_to_and_who_leaves_is_not(scheme, assert_healed):
    net = network(scheme)
    publish_for(net, 30)
    net.at(net.now + 3.0, net.crash, 2)
    net.at(net.now + 3.2, net.restart, 2)  # before anybody notices
    net.at(net.now + 8.0, net.crash, INNER[0])
    net.at(net.now + 14.0, net.restart, INNER[0])
    net.at(net.now + 10.0, net.leave, INNER[1])
    net.advance(45.0)
    assert_healed(net)
    view = net.broker(PUBLISHER).layer(HealingViews).router.view
    assert set(view.born) == set(range(BROKERS)) - {INNER[1]}
    assert view.born[2] > 1 < view.born[INNER[0]]


def test_a_link_that_is_cut_holds_up_only_until_it_is_mended(assert_healed):
    """Both its ends are in the view: messages over it wait, and so do those numbered after them."""
    net = network()
    publish_for(net, 10)
    net.at(net.now + 2.0, net.cut, [(PUBLISHER, INNER[0])], "bad")
    net.at(net.now + 8.0, net.mend)
    net.advance(15.0)
    assert net.broker(PUBLISHER).layer(HealingViews).version == 1
    assert_healed(net)


@every_scheme
def test_a_part_without_the_rendezvous_point_is_out_until_it_can_be_reached_again(scheme, assert_healed):
    net = network(scheme)
    publish_for(net, 20)
    inside, outside = range(5), [*range(5, BROKERS), RENDEZVOUS]
    net.at(net.now + 3.0, net.cut, [(one, other) for one in inside for other in outside], "apart")
    net.at(net.now + 14.0, net.mend)
    net.advance(12.0)
    assert set(net.broker(PUBLISHER).layer(HealingViews).router.view.born) == set(range(5, BROKERS))
    net.advance(25.0)
    assert_healed(net)


def test_too_much_to_hold_back_is_asked_for_again(monkeypatch, assert_healed):
    """A receiver asks once, when the gap has closed, for what it could not hold. Reference: promise 9."""
    monkeypatch.setattr(lbdd, "HELD_MAX", 10)
    net = network(wanted=lambda broker: "n >= 0" if broker % 2 else "odd = TRUE", retention_events_max=60)
    publish_for(net, 20, per_second=20)
    net.at(net.now + 2.0, net.cut, [(PUBLISHER, INNER[0])], "bad")  # one of the two ways of two sets
    net.at(net.now + 10.0, net.mend)
    net.advance(9.9)
    assert 70 in [net.broker(broker).describe()["held_back"] for broker in range(BROKERS)]
    assert net.broker(PUBLISHER).layer(HealingViews).version == 1
    net.advance(30.0)
    assert 1 < net.broker(PUBLISHER).layer(HealingViews).version < 5
    assert_healed(net)


def in_order_of_arrival(router, message):
    """Return events in the order of arrival, so that clients are notified of them in that order."""
    return [lbdd._part(message, list(range(len(message.batch))))]


class Selfish(HealingViews):
    """Retransmits nothing when a view begins."""

    def _advance(self):
        return [out for out in super()._advance() if not isinstance(out, RoundBegan)]


class Hasty(HealingViews):
    """Sends events before it knows what everybody wants."""

    takes_part = property(lambda self: self.router.view is not None)


@pytest.mark.parametrize(
    ("scheme", "wrong"),
    [
        ("lbdd", (lbdd.Lbdd, "in_order", in_order_of_arrival)),
        ("lbdd", (healing, "HealingViews", Selfish)),
        ("point-to-point", (healing, "HealingViews", Selfish)),
        ("point-to-point", (healing, "HealingViews", Hasty)),
    ],
)
def test_a_network_that_does_not_keep_the_rules_is_found_out(scheme, wrong, monkeypatch):
    """Shows that the tests with these seeds can fail."""
    monkeypatch.setattr(*wrong)
    assert any(
        not run_chaos(seed, brokers_max=16, scheme=scheme, late=False).holds for seed in SEEDS_THAT_TELL
    )


@pytest.mark.parametrize("scheme", ["lbdd", "point-to-point"])
@pytest.mark.parametrize(
    ("seed", "brokers_max"),
    [
        (2, 8),
        slow(0, 8),
        slow(0, 12),
        *(thorough(seed, 8) for seed in (1, 3)),
        *(thorough(seed, 12) for seed in range(1, 6)),
    ],
)
def test_networks_that_are_broken_heal_and_lose_nothing(seed, brokers_max, scheme):
    """More seeds: ``rayvous chaos --scheme lbdd --seeds 500``."""
    report = run_chaos(seed, brokers_max=brokers_max, scheme=scheme)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
