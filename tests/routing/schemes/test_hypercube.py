"""The router of a hypercube on its own: broadcast, echo, reverse paths, views (paper 2, section 2.3)."""

import random
from collections import Counter, deque
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Confirm, Deliver, Received, Send
from rayvous.protocol.messages.pubsub import (
    Announce,
    Cancel,
    Detach,
    Echo,
    Events,
    Register,
    Spread,
    Withdraw,
)
from rayvous.protocol.messages.views import LABEL_BITS, MembershipView, ViewMember, ViewWants
from rayvous.protocol.scenarios.workload import random_event, random_selector
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes import hypercube
from rayvous.routing.schemes.hypercube import Hypercube
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Net:
    """Bare routers with a queue of messages for each link; the next link to deliver is drawn at random."""

    def __init__(self, clusters, members=1, seed=0):
        places = Hypercube.positions(ClusterTree(clusters, members).positions())
        self.brokers = {place.broker: Hypercube(place) for place in places}
        self.links = {}
        self.rng = random.Random(seed)
        self.sent, self.heard, self.confirmed = [], [], []

    def tell(self, broker, source, message):
        self._do(broker, self.brokers[broker].handle(Received(source, message)))

    def _do(self, here, effects):
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.sent.append((here, to, message))
                    self.links.setdefault((here, to), deque()).append(message)
                case Deliver(batch, clients, starts, rows):
                    for place, client in enumerate(clients):
                        for row in rows[starts[place] : starts[place + 1]]:
                            self.heard.append((client, *batch.identity(int(row))))
                case Confirm(client, number):
                    self.confirmed.append((client, number))

    def settle(self):
        while waiting := [link for link, messages in self.links.items() if messages]:
            here, to = self.rng.choice(waiting)
            self.tell(to, here, self.links[here, to].popleft())
        for broker in self.brokers.values():
            broker.check()
            assert not broker._awaited and broker.settled()

    def of(self, kind):
        return [(here, to) for here, to, message in self.sent if isinstance(message, kind)]


def events(publisher, *given, first=1):
    return Events(batch_of(given, publisher=publisher, first_sequence=first))


@pytest.mark.parametrize(("clusters", "members"), [(8, 1), (5, 1), (3, 3), (1, 7), (13, 2)])
def test_a_subscription_is_one_broadcast_and_its_echo(clusters, members):
    """N - 1 messages, one to each broker, and as many replies. Reference: paper 2, 2.2 and 2.3; promise 4."""
    net = Net(clusters, members)
    net.tell(1 % len(net.brokers), "s", Register(1, to_filter("n > 1")))
    net.settle()
    assert sorted(to for _, to in net.of(Spread)) == sorted(net.brokers.keys() - {1})
    assert Counter((to, here) for here, to in net.of(Spread)) == Counter(net.of(Echo))
    assert net.confirmed == [("s", 1)]


def test_a_subscription_is_not_confirmed_before_everybody_has_it():
    net = Net(8)
    net.tell(0, "s", Register(1, to_filter("n > 1")))
    while not net.confirmed:
        here, to = next(link for link, messages in net.links.items() if messages)
        net.tell(to, here, net.links[here, to].popleft())
    assert all(len(broker.others) == 1 for number, broker in net.brokers.items() if number != 0)


def test_next_hops_are_kept_within_a_bound(monkeypatch):
    """Promise 9; each subscriber is still notified exactly once, whoever publishes."""
    monkeypatch.setattr(hypercube, "NEXT_HOPS_MAX", 20)
    net = Net(13)
    for broker in net.brokers:
        net.tell(broker, f"s{broker}", Register(1, to_filter("n > 1")))
    net.settle()
    for broker in [*net.brokers, *net.brokers]:
        net.heard.clear()
        net.tell(broker, f"p{broker}", events(f"p{broker}", {"n": 2}))
        net.settle()
        assert sorted(client for client, *_ in net.heard) == sorted(f"s{each}" for each in net.brokers)
        for each in net.brokers.values():
            assert len(each._next_hops) + sum(map(len, each._next_hops.values())) <= 20


def test_what_is_published_locally_is_delivered_before_the_broadcast_has_begun_to_travel():
    """Local subscribers are served first. Reference: paper 2, 2.3, step 1."""
    net = Net(8)
    net.tell(0, "s", Register(1, to_filter("n > 1")))
    net.tell(0, "p", events("p", {"n": 2}))
    assert net.heard == [("s", "p", 1)] and not net.confirmed


def test_a_covered_subscription_is_confirmed_at_once_and_spread_to_nobody():
    net = Net(4)
    net.tell(0, "s", Register(1, to_filter("n > 1")))
    net.settle()
    before = len(net.sent)
    net.tell(0, "t", Register(1, to_filter("n > 5")))
    assert net.confirmed[-1] == ("t", 1) and len(net.sent) == before


def test_what_a_withdrawn_subscription_covered_is_spread_before_the_withdrawal():
    net = Net(2)
    net.tell(0, "s", Register(1, to_filter("n > 1")))
    net.tell(0, "t", Register(1, to_filter("n > 5")))
    net.settle()
    net.sent.clear()
    net.tell(0, "s", Cancel(1))
    changes = [message.change for *_, message in net.sent]
    assert [type(change) for change in changes] == [Announce, Withdraw]


def test_unsubscribing_is_a_broadcast_that_leaves_nothing_behind():
    net = Net(6, 2)
    for broker in net.brokers:
        net.tell(broker, f"s{broker}", Register(1, to_filter(f"n > {broker}")))
    net.settle()
    net.sent.clear()
    for broker in net.brokers:
        net.tell(broker, f"s{broker}", Detach())
    net.settle()
    assert all(not len(broker.others) and not len(broker.table) for broker in net.brokers.values())
    assert len(net.of(Spread)) == 12 * 11


def test_an_event_goes_back_along_the_way_of_the_subscription():
    net = Net(8)
    net.tell(3, "s", Register(1, to_filter("n > 1")))
    net.settle()
    asked = net.of(Spread)
    net.tell(6, "p", events("p", {"n": 2}))
    net.settle()
    way = net.of(Events)
    assert way and all((to, here) in asked for here, to in way)
    assert net.heard == [("s", "p", 1)]


def test_an_event_that_nobody_wants_stays_where_it_is():
    net = Net(8)
    net.tell(3, "s", Register(1, to_filter("n > 1")))
    net.settle()
    net.tell(6, "p", events("p", {"n": 1}))
    assert not net.of(Events)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 3), st.integers(0, 10_000))
def test_every_subscriber_gets_what_it_wants_once_and_in_order_in_a_cube_of_any_size(clusters, members, seed):
    """No broker receives an event twice. Reference: promises 1 to 4; paper 2, 2.3."""
    net, rng = Net(clusters, members, seed), random.Random(seed)
    wanted = {}
    for number in range(6):
        text, home = random_selector(rng), rng.choice(list(net.brokers))
        wanted[f"s{number}"] = to_filter(text)
        net.tell(home, f"s{number}", Register(1, wanted[f"s{number}"]))
    net.settle()
    published = {}
    for publisher in ("p", "q"):
        home, first = rng.choice(list(net.brokers)), 1
        for _ in range(4):
            given_events = [random_event(rng) for _ in range(rng.randint(1, 9))]
            net.tell(home, publisher, events(publisher, *given_events, first=first))
            published |= {(publisher, first + place): event for place, event in enumerate(given_events)}
            first += len(given_events)
    net.settle()
    for client, test in wanted.items():
        got = [identity for name, *identity in net.heard if name == client]
        assert sorted(map(tuple, got)) == sorted(
            each for each, event in published.items() if test.matches(event)
        )
        for publisher in ("p", "q"):
            mine = [sequence for name, sequence in got if name == publisher]
            assert mine == sorted(mine)
    copies = Counter(
        (to, identity)
        for _, to, message in net.sent
        if isinstance(message, Events)
        for identity in (message.batch.identity(row) for row in range(len(message.batch)))
    )
    assert not copies or max(copies.values()) == 1


def test_messages_that_make_no_sense_are_strays():
    broker = Net(4).brokers[0]
    token = Announce(to_filter("n > 1"), 1)
    for source, message in (
        (1, token),
        (1, Spread(7, 1, 1, token)),
        (1, Echo(1, 0, 5)),
        (1, Events(batch_of([{"n": 1}], publisher="p"), entry=99)),
        (1, Events(batch_of([{"n": 1}], publisher="p"))),
        ("s", Cancel(3)),
    ):
        assert broker.handle(Received(source, message)) == []
    assert broker.strays == 6


# Views.


def view(version, *members):
    return MembershipView(
        version, 2, 1, tuple(ViewMember(b, label << (LABEL_BITS - 2), born) for b, label, born in members)
    )


def alone(broker=0):
    place = next(
        place for place in Hypercube.positions(ClusterTree(4, 1).positions()) if place.broker == broker
    )
    return Hypercube(place)


def test_under_a_new_view_what_has_no_echo_is_spread_again_with_its_number():
    router = alone()
    first = router.handle(Received("s", Register(1, to_filter("n > 1"))))
    again = router.install(view(2, (0, 0, 1), (1, 2, 1), (2, 1, 1)))
    assert {effect.message.number for effect in first} == {effect.message.number for effect in again} == {1}
    assert {effect.message.version for effect in again} == {2}
    assert sorted(effect.to for effect in again) == [1, 2]
    assert router.handle(Received(1, Echo(1, 0, 1))) == [], "an echo under the old view counts no more"


def test_what_a_dead_broker_wanted_is_forgotten_and_a_new_one_is_told_everything():
    router = alone()
    router.handle(Received(1, Spread(1, 1, 1, Announce(to_filter("n > 1"), 1))))
    router.handle(Received("s", Register(1, to_filter("n > 7"))))
    assert len(router.others) == 1
    effects = router.install(view(2, (0, 0, 1), (2, 1, 1), (9, 3, 2)))
    assert len(router.others) == 0 and router.missing == {9}
    told = [effect.message for effect in effects if effect.to == 9 and isinstance(effect.message, ViewWants)]
    assert told == [ViewWants(1, 2, 1, (to_filter("n > 7"),), lacks=True)]


def test_who_was_lost_from_the_view_of_one_broker_only_tells_that_one_again():
    """The other had not joined anew, so nobody else would tell: the one would lack its filters for ever."""
    router = alone()
    router.install(view(2, (0, 0, 1), (9, 2, 2)))
    router.adopt(9, ViewWants(2, 1, 4, ()))
    router.handle(Received("s", Register(1, to_filter("n > 7"))))
    said = ViewWants(2, 1, 4, (to_filter("n > 4"),))
    assert router.adopt(9, said) == [], "it was sent again, and is known"
    (answer,) = router.adopt(9, replace(said, lacks=True))
    assert answer == Send(9, ViewWants(1, 2, 1, (to_filter("n > 7"),))), "which asks for no answer"
    assert router.adopt(9, replace(said, mine=1, lacks=True)) == [], "it is of an earlier incarnation"


def test_a_change_that_overtakes_the_whole_is_taken_in_after_it_and_echoed_only_then():
    router = alone()
    router.install(view(2, (0, 0, 1), (9, 2, 2)))
    spread = Spread(2, 9, 5, Announce(to_filter("n > 5"), 5))
    assert router.handle(Received(9, spread)) == [] and len(router.others) == 0
    assert router.adopt(9, ViewWants(1, 1, 4, ())) == [], (
        "it was told to somebody who was born at another time"
    )
    assert router.adopt(9, ViewWants(2, 1, 4, (to_filter("n > 4"),))) == [Send(9, Echo(2, 9, 5))]
    assert len(router.others) == 2 and not router.missing
    router.check()


def test_a_broker_that_was_out_is_told_everything_by_everybody_and_tells_everybody():
    router = alone()
    router.handle(Received("s", Register(1, to_filter("n > 7"))))
    router.handle(Received(1, Spread(1, 1, 1, Announce(to_filter("n > 1"), 1))))
    effects = router.install(view(5, (0, 0, 5), (1, 2, 1), (2, 1, 1)))
    wants = {effect.to: effect.message for effect in effects if isinstance(effect.message, ViewWants)}
    assert router.missing == {1, 2} == wants.keys() and len(router.others) == 0
    assert all(each.mine == 5 and each.filters == (to_filter("n > 7"),) for each in wants.values())
    assert not router.settled(), "it counts as not installed until the echo of a change that changes nothing"
    (marker,) = {effect.message for effect in effects if isinstance(effect.message, Spread)}
    assert marker.change is None
    for other in (1, 2):
        router.handle(Received(other, Echo(5, 0, marker.number)))
    assert router.settled()
    router.check()
