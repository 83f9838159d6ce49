"""A designated broker's table is copied to its cluster, so a succession loses nothing (paper 1, 4.1.1)."""

import pytest
from rayvous.broker import routes_of
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.effects import Received, Send
from rayvous.protocol.messages.pubsub import Announce, Withdraw
from rayvous.protocol.messages.recovery import Recovery, TableCopy, TableEntry, TableOfChild, Wants
from rayvous.recovery.membership.copies import Copies
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation

ROOT = 0


class Watched(Simulation):
    """A root cluster of three with two child clusters.

    Attributes
    ----------
    successors
        The brokers that became designated in the root cluster, and what the table of each held for its
        children at that very step.
    of_members
        What it held for the other members then.
    withdrawn
        The filters that brokers withdrew from their parents.
    """

    def __init__(self, degree=2):
        self.successors, self.of_members, self.withdrawn = {}, {}, []
        tree = ClusterTree(3, 3, degree=degree)
        recovery = Recovery.for_simulator(degree=4)
        super().__init__(tree.positions(), recovery=recovery, seed=2, record=self._note)

    def _note(self, step):
        place, healing = step.broker.position, step.broker.layer(HealingBroker)
        if place.cluster == ROOT and healing.designated and place.broker not in self.successors:
            self.successors[place.broker] = of_children(step.broker)
            self.of_members[place.broker] = of_members(step.broker)
        self.withdrawn += [
            effect.message.filter
            for effect in step.effects
            if isinstance(effect, Send) and isinstance(effect.message, Withdraw)
        ]

    def speaker(self):
        """Return the designated broker of the root cluster."""
        living = (self.broker(each) for each in self.living() if self.hosts[each].cluster == ROOT)
        return next(each for each in living if each.layer(HealingBroker).designated)


def of_children(broker):
    """Return what a broker's table holds for each of its child clusters."""
    routes = routes_of(broker)
    return {
        cluster: routes.held_of(view.designated)
        for cluster, view in broker.layer(HealingBroker).place.children.items()
    }


def of_members(broker):
    """Return what a broker's table holds for the other members of its cluster."""
    routes = routes_of(broker)
    return {member: set(routes.held_of(member)) for member in broker.position.members}


@pytest.fixture
def net():
    """Return a network with subscribers in both child clusters, one cancelled and one late subscription."""
    net = Watched()
    for number, broker in enumerate((3, 4, 5, 6, 7, 8), 1):
        net.subscribe(f"s{broker}", broker, f"n = {number}", number)
    net.advance(4.0)
    net.unsubscribe("s3", 1)
    net.subscribe("s6", 6, "m = 7", 10)
    net.advance(2.0)
    return net


def succeeds(net, dies):
    """Crash the designated broker of the root cluster; return its successor, and what that held.

    What it held is taken at its step of succession, when no child has heard of it, let alone reconnected.
    """
    known = set(net.successors)
    net.crash(dies.position.broker)
    net.advance(10.0)
    (successor,) = net.successors.keys() - known
    return net.broker(successor), net.successors[successor]


def heals(net):
    net.advance(30.0)
    assert structure_problems(net) == [] == subscription_problems(net)


def test_a_successor_has_the_table_of_the_dead_one_before_any_child_has_reconnected(net):
    """Reference: paper 1, 4.1.1."""
    dies = net.speaker()
    before = of_children(dies)
    assert sorted(map(len, before.values())) == [2, 4]
    assert succeeds(net, dies)[1] == before
    heals(net)


def test_so_has_one_that_joined_late(net):
    """It has the highest id of its cluster, so it takes over; later changes have reached it too."""
    late = SimulatedOperations(net).add_broker(ROOT)
    net.advance(4.0)
    net.subscribe("s4", 4, "k = 1", 20)
    net.unsubscribe("s7", 5)
    net.advance(2.0)
    dies = net.speaker()
    before = of_children(dies)
    successor, held = succeeds(net, dies)
    assert successor.position.broker == late
    assert held == before
    heals(net)


def wanted_by_members(net):
    """Return what each normal member of the root cluster wants, after one has changed its mind."""
    net.subscribe("s0", 0, "n = 10", 1)
    net.subscribe("s1", 1, "n = 11", 1)
    net.subscribe("s1", 1, "n = 12", 2)
    net.advance(2.0)
    net.unsubscribe("s1", 1)
    net.advance(2.0)
    return {0: {to_filter("n = 10")}, 1: {to_filter("n = 12")}, 2: set()}


def test_a_successor_has_what_the_members_want_before_any_has_announced_it_anew(net):
    """Reference: paper 1, 4.1.1: the normal brokers build the same table as the designated one."""
    wanted = wanted_by_members(net)
    successor, _ = succeeds(net, net.speaker())
    here = successor.position.broker
    assert net.of_members[here] == {**wanted, here: set()}
    heals(net)


def test_so_has_one_that_joined_after_the_members_had_announced_it(net):
    wanted = wanted_by_members(net)
    late = SimulatedOperations(net).add_broker(ROOT)
    net.advance(4.0)
    net.subscribe("s0", 0, "n = 13", 2)
    net.advance(2.0)
    successor, _ = succeeds(net, net.speaker())
    assert successor.position.broker == late
    assert net.of_members[late] == {**wanted, 0: {to_filter("n = 10"), to_filter("n = 13")}, late: set()}
    heals(net)


def test_no_cluster_above_is_told_meanwhile_that_the_members_want_nothing():
    """The clusters are in a row: what the last one wants, the middle one announces to the root."""
    net = Watched(degree=1)
    net.subscribe("s6", 6, "n = 6", 1)
    net.advance(4.0)
    net.crash(8)
    net.advance(20.0)
    assert net.broker(7).layer(HealingBroker).designated and not net.withdrawn
    heals(net)


def test_what_is_heard_of_a_member_before_the_rest_is_known_counts():
    """A broker joins while another member changes its mind: what it has heard is later than what it is told."""
    copies = Copies((1, 2), ())
    before, late, gone = (to_filter(f"n = {number}") for number in range(3))
    copies.hear(0, Announce(late, 1))
    copies.hear(0, Withdraw(gone))
    assert copies.of_member(0) is None
    copies.join(TableCopy((), (1, 2), (3,), ((0, (before, gone)),)), (0, 1))
    assert set(copies.of_member(0)) == {before, late} and set(copies.of_member(1)) == set()
    copies.hear_all(0, Wants(((late, 2),)))
    assert set(copies.of_member(0)) == {late}
    copies.keep(())
    assert copies.of_member(0) is None


def test_so_has_the_successor_of_a_successor(net):
    first, _ = succeeds(net, net.speaker())
    before = of_children(first)
    assert succeeds(net, first)[1] == before
    assert len(before) == 2
    heals(net)


def test_so_has_one_that_came_back_before_its_new_designated_broker_had_missed_it(net):
    """Nobody has noticed that it was away, so it introduces itself."""
    for broker in (0, 2):
        net.crash(broker)
    net.advance(4.5)
    second = net.speaker()
    assert second.layer(HealingBroker).place.view.members == (0, 1)
    net.restart(0)
    net.advance(6.0)
    before = of_children(second)
    successor, held = succeeds(net, second)
    assert successor.position.broker == 0 and held == before
    heals(net)


def test_a_designated_broker_that_begins_anew_keeps_what_its_children_and_members_want(net):
    wanted, speaker = wanted_by_members(net), net.speaker()
    before = of_children(speaker)
    net.advance(0.5)
    speaker.layer(HealingBroker).group.begin_anew()
    assert of_children(speaker) == before != {}
    assert of_members(speaker) == wanted


def test_what_a_child_wanted_that_is_gone_is_not_left_in_any_copy(net):
    for broker in (6, 7, 8):
        net.crash(broker)
    net.advance(20.0)
    members = [
        net.broker(each).layer(HealingBroker) for each in net.living() if net.hosts[each].cluster == ROOT
    ]
    assert [sorted(member.group.copies.tables) for member in members if not member.designated] == [[1], [1]]
    heals(net)


def test_a_copy_of_a_broker_that_speaks_no_more_does_not_count(net):
    """It was paused and does not know of its successor: what it still sends is of an older ballot."""
    dies = net.speaker()
    successor, _ = succeeds(net, dies)
    member = next(
        net.broker(each)
        for each in net.living()
        if net.hosts[each].cluster == ROOT and each != successor.position.broker
    )
    kept = {cluster: set(items) for cluster, items in member.layer(HealingBroker).group.copies.tables.items()}
    old, here = (0, dies.position.broker), dies.position.broker
    for late in (TableCopy((), old), TableOfChild(1, (), old), TableEntry(1, to_filter("z = 1"), True, old)):
        assert member.handle(Received(here, late)) == []
    now = member.layer(HealingBroker).group.copies.tables
    assert {cluster: set(items) for cluster, items in now.items()} == kept != {}


@pytest.mark.parametrize(
    ("handler", "kind"), [("on_entry", TableEntry), ("on_child", TableOfChild), ("take", TableCopy)]
)
def test_members_that_take_no_copy_are_found_out(handler, kind, net, monkeypatch):
    """The survey notices when any of the three messages that keep the copies up to date is ignored."""
    monkeypatch.setattr(Copies, handler, lambda self, *given: [])
    for broker in net.brokers():
        broker.layer(HealingBroker)._handlers[kind] = lambda source, message: []
    SimulatedOperations(net).add_broker(ROOT)
    net.advance(10.0)
    net.subscribe("s4", 4, "k = 1", 20)
    for broker in (6, 7, 8):
        net.crash(broker)
    net.advance(20.0)
    assert any("has a copy of what cluster" in problem for problem in subscription_problems(net))
