"""A message from a broker to all others of a view reaches each once, in order with the events it sends."""

import random
from collections import defaultdict, deque
from dataclasses import replace

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Deliver, Received, Send
from rayvous.protocol.ids import FIRST_ROUND
from rayvous.protocol.messages.pubsub import Events, Register
from rayvous.protocol.messages.rounds import Marker
from rayvous.protocol.messages.views import ToAll
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes.hypercube import Hypercube
from rayvous.routing.schemes.lbdd import Lbdd
from rayvous.routing.schemes.point_to_point import PointToPoint
from rayvous.routing.topologies.cluster_trees import ClusterTree

ROUTERS = (Hypercube, Lbdd, PointToPoint)


class Net:
    """Routers of one view; each link keeps its order, and the next link to deliver is drawn at random."""

    def __init__(self, kind, brokers, rng):
        positions = kind.positions(ClusterTree(brokers, 1).positions())
        self.routers = {place.broker: kind(place) for place in positions}
        self.rng = rng
        self.links = defaultdict(deque)
        self.heard = defaultdict(list)
        self.crossed = []

    def carry_out(self, broker, effects):
        for effect in effects:
            if isinstance(effect, Send):
                self.links[broker, effect.to].append(effect.message)
            elif isinstance(effect, ToAll):
                self.heard[broker].append(effect.message.number)
            elif isinstance(effect, Deliver):
                values = effect.batch.events()
                self.heard[broker] += [values[row]["n"] for row in effect.rows.tolist()]

    def run(self):
        while any(self.links.values()):
            source, to = self.rng.choice([link for link, waiting in self.links.items() if waiting])
            message = self.links[source, to].popleft()
            if isinstance(message, ToAll):
                self.crossed.append((source, to))
            self.carry_out(to, self.routers[to].handle(Received(source, message)))


@pytest.mark.parametrize("kind", ROUTERS)
@pytest.mark.parametrize("seed", range(12))
def test_it_comes_to_each_once_behind_what_was_sent_before_and_ahead_of_what_is_sent_after(seed, kind):
    rng = random.Random(f"to all/{seed}")
    brokers = rng.randint(2, 13)  # including numbers that do not fill a cube
    net = Net(kind, brokers, rng)
    wants = {}
    for broker, router in net.routers.items():
        wants[broker] = rng.choice(("n >= 0", "n >= 0", "odd = TRUE", "n < 0"))
        net.carry_out(broker, router.handle(Received(f"s{broker}", Register(1, to_filter(wants[broker])))))
    net.run()
    net.heard.clear()
    origin = rng.randrange(brokers)
    router = net.routers[origin]
    said = []
    for number in range(25):
        if rng.random() < 0.4:
            said.append((number, False))
            net.carry_out(origin, router.to_all(Marker(origin, number, FIRST_ROUND, 0.0)))
        else:
            odd = rng.random() < 0.5
            said.append((number, odd or None))
            batch = batch_of([{"n": number, "odd": odd}], publisher="p", first_sequence=number + 1)
            events = replace(Events(batch), entry=origin)
            net.carry_out(origin, router.handle(Received("p", events)))
    markers = [number for number, odd in said if odd is False]
    before = len(net.crossed)
    net.run()
    assert len(net.crossed) - before == len(markers) * (brokers - 1), "one message for each"
    for broker in net.routers:
        if broker != origin:
            expected = [number for number, odd in said if odd is False or wanted(wants[broker], odd)]
            assert net.heard[broker] == expected


def wanted(selector, odd):
    return selector == "n >= 0" or (selector == "odd = TRUE" and odd is True)
