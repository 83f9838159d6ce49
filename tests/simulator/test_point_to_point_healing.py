"""A network that sends from point to point, to which things happen: nothing lost, doubled or out of order.

Reference: paper 5, section 3.4; promises 1 to 3 and 6.
"""

import pytest
from rayvous.actors.broker import HEALING
from rayvous.actors.broker.membership.views import HealingViews
from rayvous.protocol.layers import RoundBegan
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import RENDEZVOUS, Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.chaos import run_chaos
from rayvous.simulator.simulation import Simulation

BROKERS = 8
PUBLISHER = 5
SEEDS_THAT_TELL = (0, 2, 6, 9)


def network(wanted=lambda broker: f"n >= {broker % 3}"):
    net = Simulation(ClusterTree(BROKERS, 1).positions(), "point-to-point", recovery=Recovery(), seed=4)
    for broker in range(BROKERS):
        net.subscribe(f"s{broker}", broker, wanted(broker), 1)
    net.advance(2.0)
    assert not net.unconfirmed()
    return net


def publish_for(net, seconds, per_second=10, publisher="p", broker=PUBLISHER):
    for turn in range(round(seconds * per_second)):
        net.at(net.now + turn / per_second, net.publish, publisher, broker, [{"n": turn}])


@pytest.mark.parametrize("dead", [[1], [PUBLISHER], [0, 1, 2, 3]])
def test_brokers_die_while_others_publish(dead, assert_healed):
    net = network()
    publish_for(net, 20)
    for broker in dead:
        net.at(net.now + 5.0, net.crash, broker)
    net.advance(30.0)
    assert assert_healed(net).events_published == 200
    living = set(range(BROKERS)) - set(dead)
    assert set(net.broker(min(living)).healing.router.view.born) == living


def test_who_joins_is_sent_to_and_who_leaves_is_not(assert_healed):
    net = network()
    publish_for(net, 30)
    net.at(net.now + 3.0, net.crash, 2)
    net.at(net.now + 3.2, net.restart, 2)  # quicker than anybody notices
    net.at(net.now + 8.0, net.crash, 3)
    net.at(net.now + 14.0, net.restart, 3)
    net.at(net.now + 10.0, net.leave, 6)
    net.advance(45.0)
    assert_healed(net)
    view = net.broker(PUBLISHER).healing.router.view
    assert set(view.born) == set(range(BROKERS)) - {6}
    assert view.born[2] > 1 < view.born[3]


def test_a_part_without_the_rendezvous_point_is_out_until_it_can_be_reached_again(assert_healed):
    net = network()
    publish_for(net, 20)
    inside, outside = range(3), [*range(3, BROKERS), RENDEZVOUS]
    net.at(net.now + 3.0, net.cut, [(one, other) for one in inside for other in outside], "apart")
    net.at(net.now + 14.0, net.mend)
    net.advance(12.0)
    assert set(net.broker(PUBLISHER).healing.router.view.born) == set(range(3, BROKERS))
    net.advance(25.0)
    assert_healed(net)


def test_each_event_takes_one_message_for_each_broker_that_wants_it_all_from_its_origin():
    """Also under the views of a network that heals. Reference: promise 4; paper 5, section 1."""
    net = network(lambda broker: "n >= 0" if broker % 2 else "n < 0")
    sent = []
    net.watchers[Events] = lambda now, source, to, message: sent.append((source, to))
    net.publish("p", PUBLISHER, [{"n": 5}])
    net.advance(1.0)
    assert sorted(sent) == [(PUBLISHER, 1), (PUBLISHER, 3), (PUBLISHER, 7)]


class Selfish(HealingViews):
    """Sends nothing again when a view begins."""

    def _advance(self):
        return [out for out in super()._advance() if not isinstance(out, RoundBegan)]


class Hasty(HealingViews):
    """Sends events before it knows what everybody wants."""

    takes_part = property(lambda self: self.router.view is not None)


@pytest.mark.parametrize("kind", [Selfish, Hasty])
def test_a_network_that_does_not_keep_the_rules_is_found_out(kind, monkeypatch):
    """So the seeds that hold say something."""
    monkeypatch.setitem(HEALING, "point-to-point", HEALING["point-to-point"]._replace(membership=kind))
    reports = (run_chaos(seed, brokers_max=16, scheme="point-to-point") for seed in SEEDS_THAT_TELL)
    assert any(not report.holds for report in reports)


@pytest.mark.parametrize(
    ("seed", "brokers_max"),
    [
        *((seed, 8) for seed in range(4)),
        *(pytest.param(seed, 12, marks=pytest.mark.slow) for seed in range(6)),
    ],
)
def test_networks_that_are_broken_heal_and_lose_nothing(seed, brokers_max):
    """More of them: ``rayvous chaos --scheme point-to-point --seeds 500``."""
    report = run_chaos(seed, brokers_max=brokers_max, scheme="point-to-point")
    assert report.holds, (report.replay, report.problems, report.verdict.examples)
