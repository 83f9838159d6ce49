"""Consumer groups in chaos: brokers, the group's process and its workers die, and the conditions of a group hold."""

from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from draws import seeds, slow, thorough
from lone_groups import LoneGroup
from rayvous.clients import group as group_machine
from rayvous.clients.group import GroupMachine, GroupProgress
from rayvous.clients.group_taken import Taken
from rayvous.clients.group_worker import WorkerMachine
from rayvous.faults.checker.groups import Acknowledged, Claimed, Gave, GaveUp, GroupRecord, LostIt
from rayvous.faults.plans.group_cases import KEY, groups_of
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.faults.simulated.judging import durable_problems
from rayvous.faults.simulated.on_simulator import OnSimulator
from rayvous.protocol.groups import PUBLISHER_KEY
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.durable_clients import DurableClients
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator import groups
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

HOLDS = WorkerMachine.holds.fget


def group(key=None, rng=None):
    """Return a network with a group, and its record; the publisher is at another broker."""
    net = Simulation(
        ClusterTree(2, 2).positions(), "hybrid", recovery=Recovery.for_simulator(), seed=1, store=in_memory
    )
    net.subscribe("workers", 2, "n >= 0", 1, durable=True)
    record = GroupRecord()
    net.clients.share(net.sessions["workers"], key, rng or Random(3), record)
    net.advance(2.0)
    return net, record


def publish(net, count):
    for number in range(count):
        net.publish("p", 0, [{"n": number}])
        net.advance(0.2)


def made(record):
    return Counter(type(each) for each in record.records)


def letters_of(net):
    """Return the events that brokers have as dead letters."""
    layers = [host.machine.layer(DurableClients) for host in net.hosts.values()]
    return {(each.publisher, each.sequence) for layer in layers for each in layer.letters}


def disturb(net):
    """Publish forty events more while the group and then its broker are dead, and wait until all is done."""
    net.stop("workers")
    publish(net, 10)
    net.start("workers")
    net.crash(2)
    publish(net, 30)
    net.restart(2)
    net.clients.groups["workers"].calm = True
    net.advance(60.0)


@pytest.mark.parametrize("key", [None, PUBLISHER_KEY])
def test_workers_that_die_stand_still_and_refuse_do_all_of_it_once(key):
    net, record = group(key)
    publish(net, 60)
    disturb(net)
    assert record.violations(4) == []
    assert made(record)[Acknowledged] + made(record)[GaveUp] == 100
    assert made(record)[Gave] > 100 and made(record)[LostIt] > 0, "some were given again"
    (held,) = [
        entry for host in net.hosts.values() for entry in host.machine.layer(DurableClients).entries.values()
    ]
    assert len(held) == held.outstanding == 0, "the broker has let everything go"
    assert letters_of(net) == {each.event for each in record.records if isinstance(each, GaveUp)}


@pytest.mark.parametrize("key", [None, PUBLISHER_KEY])
def test_a_group_that_begins_in_the_past_does_all_of_it_and_what_comes_later_once(key):
    recovery = Recovery.for_simulator(history_seconds=86_400.0)
    net = Simulation(ClusterTree(2, 2).positions(), "hybrid", recovery=recovery, seed=1, store=in_memory)
    publish(net, 40)
    net.advance(100.0)  # past retransmission
    record = GroupRecord()
    net.subscribe_at("workers", 2, ["n >= 0"], "oldest")
    net.clients.share(net.sessions["workers"], key, Random(3), record)
    net.advance(1.0)
    assert made(record)[Gave] > 0
    disturb(net)
    assert record.violations(4) == []
    done = {each.event for each in record.records if isinstance(each, Acknowledged | GaveUp)}
    assert done == {("p", number) for number in range(1, 81)}
    assert not net.clients.apart["workers"].losses and not net.sessions["workers"].subscriber.past["todo"]


class Refuses(Random):
    """The draws of workers that refuse everything, and do nothing else."""

    def random(self):
        return 0.04


def test_what_is_given_up_while_the_group_moves_is_a_dead_letter():
    net, record = group(rng=Refuses(3))
    for number in range(40):
        if number == 10:
            net.crash(2)
        publish(net, 1)
    net.restart(2)
    net.advance(30.0)
    given_up = {each.event for each in record.records if isinstance(each, GaveUp)}
    assert letters_of(net) == given_up == {("p", number) for number in range(1, 41)}


def test_those_behind_an_event_of_their_key_that_is_given_up_wait_until_it_is_a_dead_letter():
    net, record = group(PUBLISHER_KEY, Refuses(3))
    workers = net.clients.groups["workers"]
    answers, workers._reaches = workers._reaches, lambda: False
    publish(net, 3)
    net.advance(10.0)
    assert made(record)[GaveUp] == 0 and len(workers) == 3
    workers._reaches = answers
    net.advance(20.0)
    assert record.violations(4) == [] and made(record)[GaveUp] == len(letters_of(net)) == 3


def test_a_run_ends_when_its_groups_have_done_everything_however_slow_they_are(monkeypatch):
    system = OnSimulator(draw_sim_case(4, stable=True, brokers_max=4))
    net, record = group(PUBLISHER_KEY)
    system.network = net
    net.publish("p", 0, [{"n": 1}] * 150)
    net.advance(1.0)
    assert durable_problems(net)
    assert system.unforgotten() == record.violations(4) == []
    monkeypatch.setattr(GroupMachine, "give", lambda machine, name, now, most=None: [])
    net.publish("p", 0, [{"n": 1}])
    net.advance(1.0)
    assert len(system.unforgotten()) == 1, "it does not wait for a group that does nothing"


def forgets_what_is_above(machine, progress=GroupMachine.progress):
    kept = progress(machine)
    return GroupProgress(kept.position, {}, kept.tries)


def keeps_order_of_nothing(machine, publisher, sequence, key=None, until=None, take=GroupMachine.take):
    return take(machine, publisher, sequence, None, until)


def takes_nothing_back(machine, now):
    pass


def forgets_what_came_again(machine, events, had=None, drop=WorkerMachine.drop):
    return drop(machine, events)


class Slow(Random):
    """The draws of workers that work for so long, and to which nothing else happens."""

    def __init__(self, seconds):
        super().__init__(3)
        self.seconds = seconds

    def choice(self, seq):
        return self.seconds if seq == (0.0, 0.05, 0.5) else 0.0

    def random(self):
        return 0.99


def holds_of(changed):
    """Return what a worker says of each event that it holds, but for this."""
    return property(
        lambda machine: {event: replace(hold, **changed) for event, hold in HOLDS(machine).items()}
    )


def begin_again(net):
    net.stop("workers")
    net.start("workers")
    net.advance(0.1)


@pytest.mark.parametrize(("changed", "found"), [({}, False), ({"key": None}, True)])
def test_those_behind_what_a_worker_holds_wait_although_it_has_expired_when_the_group_begins_again(
    monkeypatch, changed, found
):
    monkeypatch.setattr(WorkerMachine, "holds", holds_of(changed))
    net, record = group(PUBLISHER_KEY, Slow(2.8))
    net.publish("p", 0, [{"n": 1}] * 5, ttl=0.5)  # all that a worker may hold
    net.advance(0.6)
    begin_again(net)
    publish(net, 3)
    net.advance(60.0)
    expired = net.account.expires
    assert any("in order" in each for each in record.violations(4, expired)) == found
    assert made(record)[Acknowledged] >= 3


def believes_who_says_so_first(machine, name, line, token):
    return line.owner in (None, name)


@pytest.mark.parametrize("change", [GroupMachine._yielded, believes_who_says_so_first])
def test_who_was_taken_for_dead_is_not_believed_when_the_group_begins_again(monkeypatch, change):
    monkeypatch.setattr(GroupMachine, "_yielded", change)
    net, record = group(PUBLISHER_KEY, Slow(4.5))
    net.publish("p", 0, [{"n": 1}])
    net.advance(1.0)
    workers = net.clients.groups["workers"]._workers
    (first,) = (each for each in workers if each.machine.held)
    first.stalls_until = net.now + 2.5
    net.advance(2.4)
    (second,) = (each for each in workers if each.machine.held and each is not first)
    second.stalls_until = net.now + 1.0  # so the first one says first that it holds the event
    begin_again(net)
    net.advance(60.0)
    wrong = [f"in vain: {second.name} said in time that it holds ('p', 1)"]
    assert record.violations(4) == (wrong if change is believes_who_says_so_first else [])
    assert made(record)[Claimed] == 2


@pytest.mark.parametrize("delays", [(0.0,), groups.DELAYS_SECONDS])
def test_answers_to_polls_and_refusals_cross_where_their_delays_are_drawn_apart(monkeypatch, delays):
    """Only then it is seen that a worker forgets the copy that has come again before its refusal has returned."""
    monkeypatch.setattr(groups, "DELAYS_SECONDS", delays)
    monkeypatch.setattr(WorkerMachine, "drop", forgets_what_came_again)
    net, record = group(rng=Random(5))
    publish(net, 300)
    net.clients.groups["workers"].calm = True
    net.advance(60.0)
    assert any("forgotten" in each for each in record.violations(4)) == (len(delays) > 1)


@pytest.mark.parametrize(
    ("method", "change", "found"),
    [
        ("progress", forgets_what_is_above, "once acknowledged, never again"),
        ("take", keeps_order_of_nothing, "in order"),
        ("tick", takes_nothing_back, "complete"),
    ],
)
def test_sabotage_is_caught(monkeypatch, method, change, found):
    monkeypatch.setattr(GroupMachine, method, change)
    net, record = group(PUBLISHER_KEY if method == "take" else None)
    for _ in range(4):
        net.publish("p", 0, [{"n": 1}] * (10 if method == "progress" else 0))
        net.advance(0.5 if method == "progress" else 0.0)  # some are done, and not those before
        net.stop("workers")
        net.start("workers")
        publish(net, 30)
    for _ in range(30 if method == "tick" else 0):
        net.publish("p", 0, [{"n": 1}] * 10)  # workers always hold something, also when they die
        net.advance(0.3)
    net.clients.groups["workers"].calm = True
    net.advance(60.0)
    assert any(found in each for each in record.violations(4))


def test_a_case_has_groups_where_subscribers_are_durable_and_nothing_is_damaged():
    drawn = [draw_sim_case(seed, stable=True) for seed in range(8)]
    assert {key for case in drawn for key in groups_of(case).values()} == {None, PUBLISHER_KEY, KEY}
    assert all(groups_of(case).keys() <= set(case.durable) for case in drawn)
    assert not any(groups_of(draw_sim_case(seed)) for seed in range(8))
    assert not any(groups_of(draw_sim_case(seed, stable=True, damage=True)) for seed in range(8))


@pytest.mark.slow
def test_a_run_of_chaos_is_not_sound_if_a_group_is_not(monkeypatch):
    monkeypatch.setattr(GroupRecord, "violations", lambda record, most, *given: [f"given {most} times"])
    case = draw_sim_case(4, stable=True, brokers_max=4)
    report = run_case(case)
    assert not report.holds
    assert report.problems == [f"group {name}: given 4 times" for name in groups_of(case)] != []


@pytest.mark.parametrize(
    ("seed", "brokers_max"),
    [(4, 4), *(slow(seed, 12) for seed in range(4)), *(thorough(seed, 12) for seed in range(4, 500))],
)
def test_chaos_with_everything_and_groups(seed, brokers_max):
    case = draw_sim_case(seed, stable=True, admission=True, operations=True, brokers_max=brokers_max)
    assert groups_of(case) or seed != 4
    report = run_case(case)
    assert report.holds, (report.replay, report.problems, report.verdict.examples)


@pytest.mark.parametrize("seed", seeds(200))
def test_a_group_whose_process_dies_again_and_again_keeps_its_conditions(seed):
    """Without brokers: what comes, what has expired, what was given up and when processes die are drawn densely."""
    assert LoneGroup(seed).run() == []


def claims_as_if_without_key(machine):
    return {event: replace(hold, key=None) for event, hold in HOLDS(machine).items()}


def believes_only_what_is_first(line, event, behind=group_machine._is_behind):
    return behind(line, event) or bool(line.waiting and event in line.waiting and line.waiting[0] != event)


def passes_what_may_be_held(taken, position=0, done=(), *, waits=False, made=Taken.__init__):
    made(taken, position, done)


def expires_at_once(machine, now, expire=GroupMachine.expire):
    machine.opened, opened = True, machine.opened
    gone = expire(machine, now)
    machine.opened = opened
    return gone


@pytest.mark.parametrize(
    ("seed", "of", "name", "change"),
    [
        (39, WorkerMachine, "holds", property(claims_as_if_without_key)),
        (6, group_machine, "_is_behind", believes_only_what_is_first),
        (37, Taken, "__init__", passes_what_may_be_held),
        (6, GroupMachine, "expire", expires_at_once),
    ],
)
def test_sabotage_of_what_a_later_process_is_told_is_caught_by_such_a_seed(
    monkeypatch, seed, of, name, change
):
    assert LoneGroup(seed).run() == []
    monkeypatch.setattr(of, name, change)
    assert LoneGroup(seed).run()


SCHEMES = ("hybrid", "flooding", "hierarchical", "match-first", "hypercube", "lbdd", "point-to-point")


@pytest.mark.parametrize(
    "seed",
    [
        4250,
        slow(4554),
        slow(4098),
        slow(9319),
        *(thorough(seed) for seed in (4049, 4341, 4495, 21390)),
    ],
)
def test_seeds_that_failed_hold(seed):
    """Order after a restart of the group, with events that do not come again; and three errors of the judge."""
    case = draw_sim_case(
        seed,
        stable=True,
        operations=True,
        admission=seed % 2 == 1,
        scheme=SCHEMES[seed % 7],
        brokers_max=16,
        seconds=12.0,
    )
    report = run_case(case)
    assert report.holds, (report.problems, report.verdict.examples)
