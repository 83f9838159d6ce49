"""Publishers at a subscriber's own broker satisfy it (paper 2, 2.3(1) and 2.4): promises 1 to 3."""

import pytest
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.judging import books_problems
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import AdmissionConfig, Judgement
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation


def network(scheme="hypercube", brokers=8, recovery=None, **options):
    """Return a network; it heals if `recovery` is given."""
    return Simulation(ClusterTree(brokers, 1).positions(), scheme, recovery=recovery, seed=3, **options)


def recorded(net):
    return [host.machine.describe()["recorded"] for host in net.hosts.values()]


def got(net, client):
    return net.notifications(client)


def publish_for(net, seconds, publisher, broker, per_second=10):
    for turn in range(round(seconds * per_second)):
        net.at(net.now + turn / per_second, net.publish, publisher, broker, [{"n": turn + 1}])


def served(net):
    """Let bob advertise at broker 3 and alice subscribe there; return the network once she is confirmed."""
    net.advertise("bob", 3, "n > 0")
    number = net.subscribe("alice", 3, "n > 0", local_first=True)
    assert net.run_until_installed("alice", number)
    return net


HEALS = (None, Recovery())


@pytest.mark.parametrize("recovery", HEALS)
def test_a_subscription_that_local_publishers_satisfy_takes_no_entries_and_no_messages_elsewhere(recovery):
    """Reference: paper 2, 2.3(1)."""
    net = served(network(recovery=recovery))
    assert recorded(net) == [0] * 8
    (answer,) = net.answers("alice", 1).known
    assert net.answers("alice", 1).here and (answer.publisher, answer.broker) == ("bob", 3)
    net.publish("bob", 3, [{"n": 1}])
    net.publish("carol", 5, [{"n": 1}])
    net.advance(2.0)
    assert got(net, "alice") == [("bob", 1)]
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds and verdict.notifications_expected == 1


@pytest.mark.parametrize("recovery", HEALS)
@pytest.mark.parametrize("how", ["unadvertise", "detach"])
def test_it_is_told_to_all_when_local_publishers_satisfy_it_no_longer(recovery, how):
    net = served(network(recovery=recovery))
    getattr(net, how)("bob")
    net.advance(5.0)
    assert recorded(net) == [1, 1, 1, 0, 1, 1, 1, 1]
    assert net.installed("alice", 1) and not net.answers("alice", 1).here
    net.publish("carol", 5, [{"n": 1}])
    net.advance(2.0)
    assert got(net, "alice") == [("carol", 1)]


@pytest.mark.parametrize("recovery", HEALS)
def test_a_subscription_that_is_served_here_can_be_turned_into_a_broadcast_one_and_back(recovery):
    """It keeps its number; nothing is lost, doubled or out of order meanwhile. Reference: paper 2, 2.3(1)."""
    net = served(network(recovery=recovery))
    publish_for(net, 12.0, "bob", 3)
    publish_for(net, 12.0, "carol", 5)
    net.advance(2.0)
    assert recorded(net) == [0] * 8 and {name for name, _ in got(net, "alice")} == {"bob"}
    net.set_local_first("alice", 1, False)
    net.advance(5.0)
    assert recorded(net) == [1, 1, 1, 0, 1, 1, 1, 1] and net.installed("alice", 1)
    assert not net.answers("alice", 1).here and {name for name, _ in got(net, "alice")} == {"bob", "carol"}
    net.set_local_first("alice", 1, True)
    net.advance(3.0)
    assert recorded(net) == [0] * 8 and net.installed("alice", 1) and net.answers("alice", 1).here
    net.advance(5.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds and verdict.notifications_expected > 80
    assert [n for name, n in got(net, "alice") if name == "bob"] == [*range(1, 121)]


@pytest.mark.parametrize("scheme", ["hypercube", "flooding", "hybrid", "lbdd"])
@pytest.mark.parametrize("local_first", [False, True])
def test_one_that_is_turned_again_because_the_answer_was_lost_is_answered_again(scheme, local_first):
    net = served(network(scheme))
    for _ in range(2):
        net.set_local_first("alice", 1, local_first)
        net.run()
        machine = net.sessions["alice"].machine
        assert net.installed("alice", 1)
        machine.unconfirmed.add(1)


def test_one_that_is_turned_is_not_judged_again():
    net = served(network(admission=AdmissionConfig()))
    judged = [each for each in net.news("alice") if isinstance(each, Judgement)]
    net.set_local_first("alice", 1, False)
    net.run()
    assert recorded(net)[0] == 1 and net.installed("alice", 1) and not books_problems(net)
    again = [each for each in net.news("alice") if isinstance(each, Judgement)]
    assert len(judged) == 1 and all(each.admitted for each in again)


def test_all_brokers_answer_a_subscription_that_is_broadcast():
    """The answers say who publishes what is asked for, and where. Reference: paper 2, 2.3(2) and (4)."""
    net = network()
    for broker, selector in ((0, "n < 0"), (5, "n > 3"), (6, "n = 1")):
        net.advertise(f"p{broker}", broker, selector)
    net.run()
    net.subscribe("alice", 3, "n > 0")
    net.run()
    found = net.answers("alice", 1)
    assert [(answer.publisher, answer.broker) for answer in found.known] == [("p5", 5), ("p6", 6)]
    assert not found.here and net.answers("alice", 2).known == ()


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_takes_advertisements_and_loses_nothing_by_the_permission(scheme):
    """A scheme may deliver more than a subscription with `local_first` has to get, but never less."""
    net = network(scheme)
    net.advertise("bob", 3, "n > 0")
    net.subscribe("alice", 3, "n > 0", local_first=True)
    net.run()
    for publisher, broker in (("bob", 3), ("carol", 5)):
        net.publish(publisher, broker, [{"n": 1}])
    net.run()
    assert ("bob", 1) in got(net, "alice")
    net.account.settled(net.now)
    assert judge(net.account).holds and not net.unconfirmed()


def test_with_admission_control_it_is_the_same():
    net = served(network(admission=AdmissionConfig()))
    assert recorded(net) == [0] * 8 and net.answers("alice", 1).here
    net.unadvertise("bob")
    net.run()
    assert recorded(net)[0] == 1 and not books_problems(net)


def test_a_broker_with_a_store_comes_back_with_its_publishers_and_what_they_satisfy():
    """Reference: promise 7."""
    net = served(network(store=in_memory))
    net.crash(3)
    net.restart(3)
    assert net.settle()
    assert recorded(net) == [0] * 8
    net.unadvertise("bob")
    assert net.settle()
    assert recorded(net) == [1, 1, 1, 0, 1, 1, 1, 1] and net.installed("alice", 1)
    net.broker(3).check()


def test_without_admission_control_there_is_no_rate():
    net = network()
    with pytest.raises(InputError, match="no admission control"):
        net.advertise("bob", 3, "n > 0", 10.0)
    with pytest.raises(InputError, match="local_first"):
        net.subscribe("alice", 3, "n > 0", local_first=1)


# Networks that heal, under faults.


def test_a_publisher_that_goes_elsewhere_is_not_missed(assert_healed):
    """What it publishes before its new broker knows who wants it comes with a round. Reference: promise 2."""
    net = served(network(recovery=Recovery()))
    publish_for(net, 2, "bob", 3, per_second=100)
    net.at(net.now + 1.0, net.move, "bob", 6)
    net.advance(20.0)
    assert got(net, "alice") == [("bob", number) for number in range(1, 201)]
    assert_healed(net)
    assert recorded(net) == [1, 1, 1, 0, 1, 1, 1, 1]


def test_a_subscriber_that_moves_to_its_publishers_takes_nothing_elsewhere_any_more(assert_healed):
    """Reference: paper 2, 2.4."""
    net = network(recovery=Recovery())
    net.advertise("bob", 3, "n > 0")
    net.subscribe("alice", 6, "n > 0", local_first=True)
    net.advance(2.0)
    assert recorded(net)[0] == 1
    publish_for(net, 40, "bob", 3)
    net.advance(60.0)
    assert net.sessions["alice"].home.id == 3, "its broker has proposed it"
    assert recorded(net) == [0] * 8 and net.answers("alice", 1).here
    assert got(net, "alice") == [("bob", number) for number in range(1, 401)]
    assert_healed(net)


@pytest.mark.parametrize("dead", [[3], [3, 5], [6]])
def test_brokers_die_and_nothing_that_is_owed_is_lost(dead, assert_healed):
    """Also when publisher or subscriber loses its broker and moves. Reference: promises 1 to 3, 6."""
    net = served(network(recovery=Recovery()))
    net.advertise("carol", 5, "n > 50")
    net.subscribe("dave", 6, "n > 0", local_first=True)
    net.subscribe("eve", 5, "n > 10", local_first=True)
    net.advance(2.0)
    publish_for(net, 12, "bob", 3)
    publish_for(net, 12, "carol", 5)
    for broker in dead:
        net.at(net.now + 5.0, net.crash, broker)
    net.advance(40.0)
    assert_healed(net)
    for broker in net.living():
        net.broker(broker).check()


def test_who_is_satisfied_here_is_not_told_of_losses_elsewhere():
    """Events that it does not have to get are no loss of its own."""
    small = Recovery(retention_events_max=20)
    net = served(network(recovery=small))
    publish_for(net, 3, "carol", 5, per_second=40)
    net.at(net.now + 1.0, net.crash, 6)
    net.advance(20.0)
    assert net.account.losses.get("alice", []) == []
