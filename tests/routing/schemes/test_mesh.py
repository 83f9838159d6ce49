"""Routers of a mesh on their own: what point-to-point and LBDD send, and what they do when brokers crash."""

import random
from collections import defaultdict, deque

import pytest
from draws import seeds
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Confirm, Deliver, Received, Send
from rayvous.protocol.messages.pubsub import Announce, Cancel, Directed, Events, Gone, Register, Spread
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes.lbdd import KEPT_MAX, plan_of
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Mesh:
    """Routers with a queue for each directed link, any of which may deliver next; brokers can crash."""

    def __init__(self, name, brokers, seed=0):
        places = scheme(name).positions(ClusterTree(brokers, 1).positions())
        self.routers = {place.broker: scheme(name)(place) for place in places}
        self.links = defaultdict(deque)
        self.rng = random.Random(seed)
        self.dead = set()
        self.copies = 0
        self.inboxes = defaultdict(list)
        self.confirmed = set()
        self.sequences = defaultdict(int)

    def hand(self, broker, source, message):
        for effect in self.routers[broker].handle(Received(source, message)):
            if isinstance(effect, Send):
                self.copies += isinstance(effect.message, Events | Directed)
                self.links[broker, effect.to].append(effect.message)
            elif isinstance(effect, Deliver):
                for i, client in enumerate(effect.clients):
                    rows = effect.rows[effect.starts[i] : effect.starts[i + 1]]
                    self.inboxes[client] += [effect.batch.identity(row) for row in rows]
            elif isinstance(effect, Confirm):
                self.confirmed.add((effect.client, effect.subscription))

    def step(self):
        """Deliver the next message of a random link; return whether there was one."""
        ready = [link for link in sorted(self.links) if self.links[link] and not self.dead & {link[1]}]
        if ready:
            source, to = self.rng.choice(ready)
            self.hand(to, source, self.links[source, to].popleft())
        return bool(ready)

    def run(self):
        while self.step():
            pass
        for broker, router in self.routers.items():
            if broker not in self.dead:
                router.check()

    def subscribe(self, broker, selector, number=1):
        self.hand(broker, f"s{broker}", Register(number, to_filter(selector)))

    def publish(self, broker, *events):
        name = f"p{broker}"
        batch = batch_of(events, publisher=name, first_sequence=self.sequences[name] + 1)
        self.sequences[name] += len(events)
        self.hand(broker, name, Events(batch))

    def kill(self, broker):
        """Crash a broker; the last messages that it sent may be lost, as when a connection breaks."""
        self.dead.add(broker)
        for (source, to), queue in self.links.items():
            if to == broker:
                queue.clear()
            elif source == broker:
                for _ in range(self.rng.randrange(len(queue) + 1)):
                    queue.pop()

    def tell(self, gone):
        """Tell a random live broker that a broker has crashed."""
        living = sorted(self.routers.keys() - self.dead)
        self.hand(self.rng.choice(living), gone, Gone(gone))


@pytest.mark.parametrize("name", ["point-to-point", "lbdd"])
@pytest.mark.parametrize("seed", range(5))
def test_exactly_one_copy_goes_to_each_broker_that_wants_it(name, seed):
    mesh = Mesh(name, 12, seed)
    wanting = sorted(mesh.rng.sample(range(12), 7))
    for broker in wanting:
        mesh.subscribe(broker, f"n >= {broker}")
    mesh.run()
    assert mesh.confirmed == {(f"s{broker}", 1) for broker in wanting}
    for n in range(12):
        before = mesh.copies
        mesh.publish(5, {"n": n})
        mesh.run()
        assert mesh.copies - before == len([b for b in wanting if b <= n and b != 5])
    for broker in wanting:
        assert mesh.inboxes[f"s{broker}"] == [("p5", n + 1) for n in range(broker, 12)]


@pytest.mark.parametrize("seed", range(10))
def test_events_on_different_ways_arrive_in_the_order_of_publication(seed):
    """Targets differ from event to event, so a later event may be faster; links are drawn at random."""
    mesh = Mesh("lbdd", 14, seed)
    for broker in range(14):
        mesh.subscribe(broker, " OR ".join(f"n = {n}" for n in mesh.rng.sample(range(10), 6)))
    mesh.run()
    for _ in range(60):
        mesh.publish(mesh.rng.choice((2, 9)), *({"n": mesh.rng.randrange(10)} for _ in range(3)))
        for _ in range(mesh.rng.randrange(20)):
            mesh.step()
    mesh.run()
    assert sum(map(len, mesh.inboxes.values())) > 500
    for got in mesh.inboxes.values():
        assert len(set(got)) == len(got)
        for publisher in ("p2", "p9"):
            mine = [sequence for other, sequence in got if other == publisher]
            assert mine == sorted(mine)
    assert not any(router.describe()["held_back"] for router in mesh.routers.values())


def test_without_numbers_events_would_overtake_each_other(monkeypatch):
    """The paper has one topic and so one path; with filters, events must be held back to keep their order."""
    monkeypatch.setattr("rayvous.routing.schemes.hold_back.HoldBack.take", lambda self, number, item: [item])
    with pytest.raises(AssertionError):
        for seed in range(10):
            test_events_on_different_ways_arrive_in_the_order_of_publication(seed)


@pytest.mark.parametrize("name", ["point-to-point", "lbdd"])
@pytest.mark.parametrize("seed", seeds(30))
def test_what_living_brokers_publish_reaches_living_subscribers_when_others_die(name, seed):
    """Promises 1 to 3 hold between live brokers after three crashes, whichever broker notices them first."""
    mesh = Mesh(name, 12, seed)
    events = {}
    for broker in range(12):
        mesh.subscribe(broker, f"n > {mesh.rng.randrange(10)} OR n = {mesh.rng.randrange(10)}")
    mesh.run()
    doomed = mesh.rng.sample(range(2, 12), 3)
    for turn in range(40):
        n = mesh.rng.randrange(12)
        broker = mesh.rng.choice((0, 1))
        mesh.publish(broker, {"n": n})
        events[f"p{broker}", mesh.sequences[f"p{broker}"]] = {"n": n}
        for _ in range(mesh.rng.randrange(12)):
            mesh.step()
        if turn in (15, 16, 30):
            mesh.kill(doomed[-1])
            mesh.tell(doomed.pop())
    mesh.run()
    for broker, router in mesh.routers.items():
        if broker not in mesh.dead:
            item = next(iter(router._subscriptions[f"s{broker}"].values()))
            got = mesh.inboxes[f"s{broker}"]
            assert sorted(got) == sorted(each for each, event in events.items() if item.matches(event))
            assert all(
                [e for e in got if e[0] == p] == sorted(e for e in got if e[0] == p) for p in ("p0", "p1")
            )
            assert not mesh.dead & {link for entry in router.others for link in entry.links}


def test_a_subscription_does_not_wait_for_the_answer_of_a_broker_that_is_gone():
    mesh = Mesh("lbdd", 4)
    mesh.kill(3)
    mesh.subscribe(0, "n = 1")
    mesh.run()
    assert not mesh.confirmed
    mesh.tell(3)
    mesh.run()
    assert mesh.confirmed == {("s0", 1)}


def test_what_came_of_a_broker_that_is_gone_waits_for_nothing_any_more_and_what_it_wanted_is_not_heard_of():
    """Reference: paper 5, section 3.4: a node that failed has cancelled what it subscribed to."""
    mesh = Mesh("lbdd", 4)
    mesh.subscribe(1, "n > 0")
    second = batch_of([{"n": 2}], publisher="p3", first_sequence=2)
    mesh.hand(1, 3, Directed(Events(second), 3, ((1,),), ((2,),)))
    assert not mesh.inboxes["s1"], "the first one is still to come"
    mesh.hand(1, 3, Gone(3))
    assert mesh.inboxes["s1"] == [("p3", 2)] and mesh.routers[1].describe()["lost_events"] == 1
    mesh.hand(1, 3, Spread(1, 3, 1, Announce(to_filter("n = 1"), 1)))
    assert mesh.routers[1].describe()["recorded"] == 0 and mesh.routers[1].strays == 1


def test_a_broker_that_leaves_the_set_is_on_no_way_any_more():
    mesh = Mesh("lbdd", 8)
    for broker in range(8):
        mesh.subscribe(broker, "n = 1")
    mesh.run()
    inner = next(b for b in range(1, 8) if plan_of(0, tuple(range(1, 8))).children[b])
    mesh.hand(inner, f"s{inner}", Cancel(1))
    mesh.run()
    mesh.copies = 0
    mesh.publish(0, {"n": 1})
    mesh.run()
    assert mesh.copies == 6
    assert {client for client, got in mesh.inboxes.items() if got} == {
        f"s{b}" for b in range(8) if b != inner
    }


def test_what_an_origin_keeps_is_bounded():
    mesh = Mesh("lbdd", 3)
    mesh.subscribe(1, "n = 1")
    mesh.run()
    mesh.publish(0, *({"n": 1} for _ in range(KEPT_MAX + 10)))
    assert len(mesh.routers[0]._kept) == KEPT_MAX


@pytest.mark.parametrize("name", ["point-to-point", "lbdd"])
def test_a_subscription_at_the_last_that_lives_waits_for_nobody(name):
    mesh = Mesh(name, 2)
    mesh.kill(1)
    mesh.tell(1)
    mesh.subscribe(0, "n = 1")
    mesh.run()
    assert mesh.confirmed == {("s0", 1)}
