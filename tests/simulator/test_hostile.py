"""The simulated network and its faults, with small machines that only record and send what a test orders."""

from dataclasses import dataclass

import pytest
from rayvous.faults.injector import Injector
from rayvous.faults.plans import plans
from rayvous.faults.plans.plans import FaultPlan
from rayvous.faults.simulated.judging import BreakableSimulation
from rayvous.protocol.effects import Multicast, Received, Send, Ticked
from rayvous.protocol.errors import ClientError, InputError, ScenarioError
from rayvous.protocol.messages.pubsub import Cancel, Detach, Events, Register, Resume
from rayvous.protocol.messages.recovery import RENDEZVOUS, Recovery
from rayvous.protocol.scenarios.scenario import LinkModel
from rayvous.routing.topologies.cluster_trees import fixed
from rayvous.simulator.link_faults import RETRY_SECONDS
from rayvous.simulator.network import SERVICE_SECONDS, TICKS_PER_HEARTBEAT

TREE = fixed({"A": None, "B": "A"}, {"A": ["a"], "B": ["b1", "b2"]})  # a 0, A 1, b1 2, b2 3, B 4
RECOVERY = Recovery()


@dataclass(frozen=True)
class Note:
    number: int


class Recorder:
    """A machine that records what it is given, and does what the test puts into `orders`."""

    def __init__(self, position, scheme, recovery, incarnation, seed):
        self.position = position
        self.incarnation = incarnation
        self.got = []
        self.orders = []

    def handle(self, event):
        self.got.append(event)
        orders, self.orders = self.orders, []
        return orders

    def notes(self):
        return [event.message.number for event in self.got if isinstance(event, Received)]

    def ticks(self):
        return [event.now for event in self.got if isinstance(event, Ticked)]


class Point:
    """A rendezvous point that counts the messages it receives, and keeps the count over restarts."""

    def __init__(self, recovery, root):
        self.heard = 0
        self.restored = None

    def handle(self, event):
        if isinstance(event, Received):
            self.heard += 1
            return [Send(event.source, Note(self.heard))]
        return []

    def state(self):
        return {"heard": self.heard}

    def restore(self, state):
        self.heard = self.restored = state["heard"]


def network(recovery=None, **options):
    options.setdefault("links", LinkModel(delay_seconds=0.1, group_seconds=0.01))
    return BreakableSimulation(
        TREE.positions(), recovery=recovery, broker=Recorder, rendezvous=Point, seed=3, **options
    )


def send(net, source, to, *numbers):
    host = net.hosts[source]
    host.machine.orders += [Send(to, Note(number)) for number in numbers]
    net.step(host, Ticked(net.now))


def test_messages_arrive_in_order_and_a_multicast_reaches_all():
    net = network(links=LinkModel(delay_seconds=0.1, spread_seconds=0.1, jitter_seconds=1.0))
    for number in range(20):
        send(net, 0, 4, number)
        net.advance(0.01)
    net.hosts[2].machine.orders = [Multicast(Note(99))]
    net.step(net.hosts[2], Ticked(net.now))
    net.run()
    assert net.broker(4).notes() == [*range(20), 99]
    assert net.broker(3).notes() == [99] and net.broker(2).notes() == []
    assert net.sent[Note] == 21


def test_a_cut_link_holds_and_gives_all_back_in_order():
    net = network()
    send(net, 0, 4, 1)
    net.advance(0.05)
    net.cut([(4, 0)], "a reason")
    net.cut([(0, 4)], "another")
    send(net, 0, 4, 2)
    send(net, 4, 0, 7)
    send(net, 0, 3, 5)
    net.advance(1.0)
    assert net.broker(4).notes() == [] and net.broker(0).notes() == []
    assert net.broker(3).notes() == [5]
    assert not net.mend("another")
    net.advance(1.0)
    assert net.broker(4).notes() == []
    assert net.mend("a reason")
    send(net, 0, 4, 3)
    net.advance(0.05)
    assert net.broker(4).notes() == []
    net.run()
    assert net.broker(4).notes() == [1, 2, 3] and net.broker(0).notes() == [7]
    assert not net.mend()


def test_what_is_under_way_dies_with_either_end():
    net = network()
    send(net, 0, 4, 1)
    send(net, 4, 0, 2)
    send(net, 0, 3, 3)
    net.advance(0.05)
    assert net.crash(4) and not net.crash(4)
    assert net.restart(4) and not net.restart(4)
    send(net, 0, 4, 4)
    net.run()
    assert net.broker(4).incarnation == 1
    assert net.broker(4).notes() == [4] and net.broker(0).notes() == [] and net.broker(3).notes() == [3]
    assert net.lost == 2
    net.cut([(0, 4)], "x")
    send(net, 0, 4, 5)
    net.advance(1.0)
    net.crash(0)
    net.mend()
    net.run()
    assert net.broker(4).notes() == [4]


def test_last_words_arrive_where_they_wait_at_the_receiver():
    net = network(last_words=True)
    send(net, 0, 4, 1)
    net.crash(0)
    net.restart(0)
    send(net, 0, 4, 2)
    send(net, 4, 0, 3)
    net.run()
    assert net.broker(4).notes() == [1, 2] and net.broker(0).notes() == [3]


def test_the_last_living_broker_is_spared():
    net = network()
    assert [net.crash(broker) for broker in (4, 2, 0, 1, 3)] == [True, True, True, True, False]
    assert net.living() == [3]


def test_who_is_paused_keeps_its_state_and_gets_everything_later():
    net = network(RECOVERY)
    net.advance(3.0)
    before = net.broker(4).ticks()
    assert len(before) == pytest.approx(3 * TICKS_PER_HEARTBEAT + 1, abs=1)
    assert net.pause(4) and not net.pause(4)
    send(net, 0, 4, 1, 2)
    net.advance(2.0)
    assert net.broker(4).ticks() == before and net.broker(4).notes() == []
    assert net.resume(4) and not net.resume(4)
    assert net.broker(4).notes() == [1, 2] and net.broker(4).incarnation == 0
    assert net.broker(4).ticks()[-1] == 5.0
    net.advance(1.0)
    assert len(net.broker(4).ticks()) == len(before) + 1 + TICKS_PER_HEARTBEAT
    net.pause(4)
    send(net, 0, 4, 3)
    net.advance(1.0)
    net.crash(4)
    net.restart(4)
    net.advance(1.0)
    assert net.broker(4).notes() == []


def test_a_slow_broker_takes_its_input_one_by_one():
    net = network()
    net.slow(4, 100.0)
    send(net, 0, 4, *range(5))
    net.advance(0.1 + 2.5 * 100 * SERVICE_SECONDS)
    assert net.broker(4).notes() == [0, 1]
    net.slow(4, 1.0)
    net.run()
    assert net.broker(4).notes() == [0, 1, 2, 3, 4]


def test_bad_periods_delay_and_nothing_is_lost_or_doubled():
    net = network()
    net.link_faults.shakes.append((1.0, plans.Shake(0.0, 1.0, 0.0, drop=0.5, duplicate=0.5, brokers=(4,))))
    arrived = {}
    for number in range(40):
        send(net, 0, 4, number)
    send(net, 0, 3, 1)
    while len(arrived) < 40 and net.now < 60:
        net.advance(0.05)
        for number in net.broker(4).notes():
            arrived.setdefault(number, net.now)
    assert net.broker(4).notes() == list(range(40))
    assert net.link_faults.dropped > 10 and net.link_faults.duplicated > 10
    assert max(arrived.values()) >= 0.1 + RETRY_SECONDS
    net.advance(1.0)
    send(net, 0, 4, 40)
    net.advance(0.11)
    assert net.broker(4).notes()[-1] == 40


def test_ticks_have_their_own_offsets_and_come_first():
    net = network(RECOVERY)
    assert all(net.broker(broker).ticks() == [0.0] for broker in net.hosts)
    net.advance(10.0)
    second = {net.broker(broker).ticks()[1] for broker in net.hosts}
    assert len(second) == 5 and max(second) <= RECOVERY.heartbeat_seconds / TICKS_PER_HEARTBEAT
    with pytest.raises(InputError, match="never becomes quiescent"):
        net.run()


def test_the_rendezvous_point_keeps_what_it_wrote_down():
    net = network(RECOVERY)
    send(net, 0, RENDEZVOUS, 0, 0)
    net.advance(1.0)
    assert net.broker(0).notes() == [1, 2]
    assert net.crash(RENDEZVOUS)
    send(net, 0, RENDEZVOUS, 0)
    net.advance(1.0)
    assert net.restart(RENDEZVOUS)
    assert net.rendezvous.machine.restored == 2
    send(net, 0, RENDEZVOUS, 0)
    net.advance(1.0)
    assert net.broker(0).notes() == [1, 2, 3]
    with pytest.raises(InputError, match="no rendezvous point"):
        network().crash(RENDEZVOUS)
    with pytest.raises(InputError, match="broker 0 sends to 17, which is not there"):
        send(net, 0, 17, 1)


# Plans.


def play(net, faults, heal=10.0, stay_dead=()):
    said = []
    plan = FaultPlan("x", tuple(faults), heal, stay_dead)
    Injector(net, plan, lambda fault, what: said.append(what), lambda: 4).begin()
    return said


def test_a_plan_is_carried_out_at_its_times():
    net = network(RECOVERY)
    said = play(
        net,
        [
            plans.Crash(1.0, 0),
            plans.CrashCluster(2.0, 1),
            plans.CrashRendezvous(2.0),
            plans.Restart(3.0, 0),
            plans.Restart(3.0, 1),
            plans.Pause(4.0, 0),
            plans.Resume(4.5, 0),
            plans.Resume(4.6, 0),
            plans.Slow(5.0, 1, 9.0),
        ],
        stay_dead=(3,),
    )
    net.advance(1.5)
    assert net.living() == [1, 2, 3, 4]
    net.advance(1.0)
    assert net.living() == [1] and not net.rendezvous.alive
    net.advance(1.0)
    assert net.living() == [0, 1]
    net.advance(3.0)
    assert net.hosts[1].factor == 9.0
    assert "restart broker 1: alive already 1" in said and "resume broker 0: was not paused" in said
    net.advance(4.0)
    assert net.living() == [0, 1, 2, 4] and net.rendezvous.alive and net.hosts[1].factor == 1.0
    assert said[-1] == "everything healed, started 2 4, left dead 3"


def test_partitions_and_cuts_between_clusters():
    net = network(RECOVERY)
    play(
        net,
        [
            plans.CutClusters(1.0, 1, 0),
            plans.Partition(2.0, (1,), rendezvous=True),
            plans.MendClusters(3.0, 0, 1),
            plans.Heal(4.0),
            plans.Partition(5.0, (1,)),
            plans.Cut(5.0, 2, 3),
        ],
    )

    def reach():
        """Return whether each of three links lets a message through."""
        before = {broker: len(net.broker(broker).notes()) for broker in net.hosts}
        send(net, 0, 4, 0)
        send(net, 2, 3, 0)
        send(net, 1, RENDEZVOUS, 0)
        net.advance(0.5)
        return tuple(len(net.broker(broker).notes()) > before[broker] for broker in (4, 3, 1))

    net.advance(1.1)
    assert reach() == (False, True, True)
    net.advance(1.0)  # 2.6: cut and partitioned, the rendezvous point is with cluster 1
    assert reach() == (False, True, False)
    net.advance(0.2)  # 3.3: only the partition remains
    assert reach() == (False, True, False)
    net.advance(0.6)  # 4.4
    assert reach() == (True, True, True)
    net.advance(0.5)  # 5.4
    assert reach() == (False, False, True)
    net.advance(5.0)
    assert reach() == (True, True, True)


def test_a_plan_for_another_network_is_refused():
    with pytest.raises(ScenarioError, match="no broker 5"):
        play(network(RECOVERY), [plans.Crash(1.0, 5)])


# Clients.


def told(net, broker):
    """Return the messages of clients that a broker received, without its ticks."""
    return [event.message for event in net.broker(broker).got if isinstance(event, Received)]


def test_clients_move_when_their_broker_dies_and_say_everything_again():
    net = network(RECOVERY, client_detect_seconds=1.0)
    net.subscribe("s", 3, "a = 1", 1)
    net.subscribe("s", 3, "b = 1", 2)
    net.unsubscribe("s", 1)
    net.publish("p", 3, [{"a": 1}, {}])
    net.advance(0.5)
    assert [type(message) for message in told(net, 3)] == [Register, Register, Cancel, Events]
    net.sessions["s"].machine.marks["q"] = 7
    net.crash(2)
    net.crash(3)
    net.publish("p", 0, [{"a": 2}])
    net.advance(0.9)
    assert told(net, 4) == []
    net.advance(0.2)
    subscriber = [message for message in told(net, 4) if not isinstance(message, Events)]
    assert isinstance(subscriber[0], Resume) and subscriber[0].marks == {"q": 7}
    assert [message.subscription for message in subscriber[1:]] == [2]
    again = [message.batch for message in told(net, 4) if isinstance(message, Events)]
    assert [(batch.identity(0), len(batch)) for batch in again] == [(("p", 1), 2), (("p", 3), 1)]
    assert net.unconfirmed() == [("s", 2)] and net.clients.moves == 2
    net.crash(4)
    net.advance(1.1)
    homes = {name: session.home.id for name, session in net.sessions.items()}
    assert homes == {"s": 0, "p": 1}, (
        "the whole cluster is dead: one by one to the living broker with the fewest"
    )


def test_clients_go_to_the_highest_member_as_they_do_on_ray():
    net = network(RECOVERY)
    net.subscribe("s", 2, "a = 1", 1)
    net.crash(2)
    net.advance(1.1)
    assert net.sessions["s"].home.id == 4, "of 3 and 4"
    net.restart(2)
    net.crash(4)
    net.advance(1.1)
    assert net.sessions["s"].home.id == 3, "of 2 and 3"


def test_a_client_that_leaves_says_goodbye():
    net = network(RECOVERY)
    net.subscribe("s", 3, "a = 1", 1)
    assert not net.move("s", 3)
    assert net.move("s", 0)
    net.crash(3)
    net.advance(3.0)
    assert net.sessions["s"].home.id == 0, "its old broker's death is nothing to it any more"
    assert [type(message) for message in told(net, 0)] == [Resume, Register]
    assert not net.move("s", 3), "it is dead"
    assert net.move("s", 1)
    net.advance(1.0)
    assert isinstance(told(net, 0)[-1], Detach)


def test_publishers_forget_what_is_too_old():
    net = network(Recovery(retention_seconds=2.0, retention_events_max=3))
    for _ in range(5):
        net.publish("p", 3, [{}])
        net.advance(0.1)
    assert [first for first, *_ in net.sessions["p"].machine.held] == [3, 4, 5]
    net.advance(2.0)
    net.crash(3)
    net.advance(1.1)
    assert all(not told(net, broker) for broker in net.living())


def test_what_clients_do_wrong():
    net = network(RECOVERY)
    net.subscribe("s", 3, "a = 1", 1)
    with pytest.raises(ClientError, match="'s' is a subscriber"):
        net.publish("s", 3, [{}])
    net.crash(4)
    with pytest.raises(ClientError, match="broker 4 is dead"):
        net.publish("p", 4, [{}])
