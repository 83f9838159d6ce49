"""Publishers at a subscriber's own broker are asked first, then the others (paper 2, 2.3); bare routers."""

import random
from collections import deque

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Confirm, Deliver, Inform, Received, Send
from rayvous.protocol.messages.admission import Advertise, Unadvertise
from rayvous.protocol.messages.pubsub import (
    Answer,
    Answers,
    Cancel,
    Detach,
    Events,
    Register,
    Spread,
    Unanswered,
)
from rayvous.routing.interest.local_first import ANSWERS_MAX
from rayvous.routing.language.questions import to_filter
from rayvous.routing.matching.covering_dag import SCAN_MAX
from rayvous.routing.schemes.hypercube import Hypercube
from rayvous.routing.schemes.point_to_point import PointToPoint
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Net:
    """Bare routers whose messages are handled one at a time, in order on each link."""

    def __init__(self, brokers=8, scheme=Hypercube, seed=0):
        places = scheme.positions(ClusterTree(brokers, 1).positions())
        self.brokers = {place.broker: scheme(place) for place in places}
        self.links, self.rng = {}, random.Random(seed)
        self.spread, self.heard, self.told = [], [], []

    def tell(self, broker, source, *messages):
        for message in messages:
            self._do(broker, self.brokers[broker].handle(Received(source, message)))
        self.settle()

    def _do(self, here, effects):
        for effect in effects:
            match effect:
                case Send(to, message):
                    self.spread += (
                        [message.change] if isinstance(message, Spread) and here == message.origin else []
                    )
                    self.links.setdefault((here, to), deque()).append(message)
                case Deliver(batch, clients, starts, rows):
                    for place, client in enumerate(clients):
                        for row in rows[starts[place] : starts[place + 1]]:
                            self.heard.append((client, *batch.identity(int(row))))
                case Confirm(client, number):
                    self.told.append((client, number))
                case Inform(client, news):
                    self.told.append((client, news))

    def settle(self):
        while waiting := [link for link, messages in self.links.items() if messages]:
            here, to = self.rng.choice(waiting)
            self._do(to, self.brokers[to].handle(Received(here, self.links[here, to].popleft())))
        for broker in self.brokers.values():
            broker.check()

    def recorded(self):
        """Return for each broker how many filters of other brokers it has recorded."""
        return [len(broker.others) for broker in self.brokers.values()]

    def news(self, client):
        """Return what a subscriber was last told."""
        return [each for who, each in self.told if who == client][-1]


def first(number, selector):
    return Register(number, to_filter(selector), local_first=True)


def advert(selector, number=1):
    return Advertise(number, to_filter(selector), 0)


def event(publisher, sequence=1, **values):
    return Events(batch_of([values], publisher=publisher, first_sequence=sequence))


@pytest.mark.parametrize("scheme", [Hypercube, PointToPoint])
def test_a_subscription_that_local_publishers_satisfy_is_told_to_nobody(scheme):
    """Reference: paper 2, 2.3(1)."""
    net = Net(scheme=scheme)
    net.tell(3, "bob", advert("n > 5"))
    net.tell(3, "alice", first(1, "n > 1"))
    bob = Answer("bob", 3, to_filter("n > 5"))
    assert net.told[1:] == [("alice", Answers(1, (bob,), here=True))]
    assert net.brokers[3].answers_of("alice") == {1: Answers(1, (bob,), here=True)}, "also whenever it asks"
    assert not net.spread and sum(net.recorded()) == 0
    net.tell(3, "bob", event("bob", n=7))
    net.tell(4, "carol", event("carol", n=8))
    assert net.heard == [("alice", "bob", 1)]


@pytest.mark.parametrize(
    "messages", [(), (advert("n < 0"),), (advert("n > 5"), Unadvertise(1)), (advert("n > 5"), Detach())]
)
def test_one_that_they_do_not_satisfy_is_broadcast(messages):
    """Reference: paper 2, 2.3(1)."""
    net = Net()
    net.tell(3, "bob", *messages)
    net.tell(3, "alice", first(1, "n > 1"))
    assert net.recorded() == [1, 1, 1, 0, 1, 1, 1, 1] and net.told[-1] == ("alice", 1)
    net.tell(4, "carol", event("carol", n=8))
    assert net.heard == [("alice", "carol", 1)]


@pytest.mark.parametrize("end", [Unadvertise(1), Detach(), advert("n < 0")])
def test_it_is_told_to_all_others_as_soon_as_no_local_publisher_satisfies_it(end):
    """The subscriber is told `Unanswered`, then that it is installed. Reference: paper 2, 2.3(1)."""
    net = Net()
    net.tell(3, "bob", advert("n > 5"))
    net.tell(3, "alice", first(1, "n > 1"))
    net.told.clear()
    net.tell(3, "bob", end)
    mine = [each for who, each in net.told if who == "alice"]
    assert mine == [Unanswered(1), 1] and net.recorded()[4] == 1
    net.tell(4, "carol", event("carol", n=8))
    assert net.heard == [("alice", "carol", 1)]


def test_what_is_withdrawn_late_was_said_before_and_not_again_since():
    """A late withdrawal of an older version has no effect, as when a publisher leaves and is back at once."""
    net = Net()
    net.tell(3, "bob", Advertise(1, to_filter("n > 5"), 0, version=3))
    net.tell(3, "alice", first(1, "n > 1"))
    net.tell(3, "bob", Unadvertise(1, version=2))
    assert net.news("alice").here
    net.tell(3, "bob", Unadvertise(1, version=3))
    assert net.news("alice") == 1


def test_it_is_taken_back_when_a_local_publisher_satisfies_it_later():
    """Whether a subscription is served here depends on the publishers here, not on who came first."""
    net = Net()
    net.tell(3, "alice", first(1, "n > 1"), Register(2, to_filter("m = 1")))
    assert net.recorded()[0] == 2 and net.brokers[3].kept() == []
    net.tell(3, "bob", advert("n > 5"))
    assert net.recorded()[0] == 1 and net.news("alice").here
    assert net.brokers[3].kept() == [to_filter("n > 1")], "as the judge of routes is told"
    net.tell(4, "carol", event("carol", n=8, m=1), event("carol", 2, n=8))
    assert net.heard == [("alice", "carol", 1)]


def test_who_asks_for_all_publishers_is_told_to_all_whoever_is_here():
    net = Net()
    net.tell(3, "bob", advert("n > 5"))
    net.tell(3, "alice", Register(1, to_filter("n > 1")))
    assert net.recorded()[0] == 1
    net.tell(3, "alice", first(1, "n > 1"))
    assert net.recorded()[0] == 0 and net.news("alice").here
    net.tell(3, "alice", Register(1, to_filter("n > 1")))
    assert net.recorded()[0] == 1 and net.news("alice") == 1


def test_one_filter_of_two_subscribers_is_told_as_long_as_one_of_them_needs_it():
    net = Net()
    net.tell(3, "bob", advert("n > 5"))
    net.tell(3, "alice", first(1, "n > 1"))
    net.tell(3, "dave", Register(1, to_filter("n > 1")))
    assert net.recorded()[0] == 1
    net.tell(3, "dave", Cancel(1))
    assert net.recorded()[0] == 0
    net.tell(3, "bob", event("bob", n=7))
    assert net.heard == [("alice", "bob", 1)]


def test_every_broker_puts_its_publishers_into_its_echo():
    """The answers name each publisher and its broker. Reference: paper 2, 2.3(2) and (4)."""
    net = Net()
    for broker, selector in ((6, "n > 5"), (0, "n = 3"), (3, "n < 9"), (5, "n < 0")):
        net.tell(broker, f"p{broker}", advert(selector))
    net.tell(3, "alice", Register(1, to_filter("n > 1")))
    *_, answers, confirmed = net.told
    known = [(answer.publisher, answer.broker) for answer in answers[1].known]
    assert known == [("p0", 0), ("p3", 3), ("p6", 6)] and not answers[1].here
    assert confirmed == ("alice", 1)


def test_one_that_another_covers_gets_those_of_the_answers_that_are_for_it():
    net = Net()
    net.tell(6, "six", advert("n > 5"))
    net.tell(7, "seven", advert("n = 2"))
    net.tell(3, "alice", Register(1, to_filter("n > 1")), Register(2, to_filter("n > 4")))
    assert [answer.publisher for answer in net.told[-2][1].known] == ["six"]


def test_answers_name_so_many_and_count_the_rest():
    net = Net(4)
    for broker in net.brokers:
        for name in range(ANSWERS_MAX // 2):
            net.tell(broker, f"p{broker}{name}", advert("n > 5"))
    net.tell(3, "alice", Register(1, to_filter("n > 1")))
    answers = net.told[-2][1]
    assert len(answers.known) == ANSWERS_MAX and answers.more == ANSWERS_MAX
    assert {answer.broker for answer in answers.known} == {0, 1}


def test_what_is_served_here_is_no_cover_of_what_is_told():
    """This also holds when covers are searched for in the index, which has both filters."""
    net = Net(2)
    net.tell(0, "bob", advert("n > 5"))
    net.tell(0, "alice", first(1, "n > 1"))
    for number in range(1, SCAN_MAX + 3):
        net.tell(0, "dave", Register(number, to_filter(f"n = {number}")))
    assert net.recorded()[1] == SCAN_MAX + 2
    net.tell(0, "bob", Unadvertise(1))
    assert net.recorded()[1] == 2, "n > 1 covers all but n = 1"


SELECTORS = ("n > 0", "n > 4", "n = 3", "n < 2", "m = 1")


@pytest.mark.parametrize("seed", range(3))
def test_whatever_comes_and_goes_others_know_of_exactly_what_is_not_served_here(seed):
    """The invariants of `check` hold after each step, and after all clients detach no state is left."""
    rng, net = random.Random(seed), Net(4, seed=seed)
    for _ in range(80):
        broker, number = rng.randrange(4), rng.randrange(1, 3)
        item = rng.choice(SELECTORS)
        client, publisher = f"s{broker}{rng.randrange(2)}", f"p{broker}{rng.randrange(2)}"
        asks = Register(number, to_filter(item), local_first=rng.random() < 0.7)
        net.tell(broker, client, rng.choice((asks, asks, asks, Cancel(number), Detach())))
        net.tell(broker, publisher, rng.choice((advert(item, number), Unadvertise(number), Detach())))
        net.settle()
        for here, router in net.brokers.items():
            told = set(router.announcer.announced())
            assert all(
                set(other.others.held_by(here, here)) == told
                for other in net.brokers.values()
                if other is not router
            )
    for broker in net.brokers:
        for client in (0, 1):
            net.tell(broker, f"s{broker}{client}", Detach())
            net.tell(broker, f"p{broker}{client}", Detach())
    assert sum(net.recorded()) == 0
    assert all(not router.local.served and not len(router.table) for router in net.brokers.values())
