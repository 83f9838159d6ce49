"""Quenching in a tree that heals, on bare routers: events sent up, confirmation, and snapshots.

Reference: decision 0018; promises 2 and 4. Whole brokers: tests/simulator/test_quench_healing.py.
"""

from collections import deque

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Confirm, Deliver, Received, Send
from rayvous.protocol.messages.pubsub import Cancel, Events, Register
from rayvous.recovery.durability.codec import decode, encode
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.schemes.quench_above import MatchFirstAbove, QuenchedAbove, QuenchedMergedAbove
from rayvous.routing.topologies.cluster_trees import ClusterTree

PLACES = ClusterTree(3, 1, degree=1).positions()
ROOT, MIDDLE, LEAF = (place.broker for place in PLACES)


class Chain:
    """Three routers in a chain, the root first; tests control when messages are delivered."""

    def __init__(self, kind):
        self.routers = {place.broker: kind(place) for place in PLACES}
        self.under_way = deque()
        self.confirmed, self.delivered, self.sent = [], [], []
        self.rest()
        self.sent.clear()

    def give(self, broker, source, message):
        router = self.routers[broker]
        for effect in [*router.handle(Received(source, message)), *router.tell_below()]:
            if isinstance(effect, Send):
                self.under_way.append((effect.to, broker, effect.message))
                self.sent += [(broker, effect.to)] if isinstance(effect.message, Events) else []
            elif isinstance(effect, Confirm):
                self.confirmed.append(effect.client)
            elif isinstance(effect, Deliver):
                self.delivered += [(client, effect.batch.events()[0]["x"]) for client in effect.clients]

    def rest(self):
        for broker, router in self.routers.items():
            self.under_way += [(effect.to, broker, effect.message) for effect in router.tell_below()]
        while self.under_way:
            self.give(*self.under_way.popleft())

    def publish(self, x):
        """Publish at the leaf; return the links that the event crossed, and the notifications."""
        self.sent.clear()
        self.delivered.clear()
        self.give(LEAF, "p", Events(batch_of([{"x": x}], publisher="p")))
        self.rest()
        return self.sent, self.delivered


@pytest.mark.parametrize("kind", [QuenchedAbove, QuenchedMergedAbove, MatchFirstAbove])
def test_events_are_sent_up_only_as_far_as_somebody_above_wants_them(kind):
    chain = Chain(kind)
    assert chain.publish(1) == ([], [])
    for broker, client, wanted in ((ROOT, "top", "x > 5"), (MIDDLE, "mid", "x > 0")):
        chain.give(broker, client, Register(1, to_filter(wanted)))
        chain.rest()
    assert chain.confirmed == ["top", "mid"]
    assert chain.publish(1) == ([(LEAF, MIDDLE)], [("mid", 1)])
    assert chain.publish(6) == ([(LEAF, MIDDLE), (MIDDLE, ROOT)], [("mid", 6), ("top", 6)])
    assert chain.publish(0) == ([], [])
    chain.give(MIDDLE, "mid", Cancel(1))
    chain.rest()
    assert chain.publish(1) == ([], []) and chain.publish(7)[1] == [("top", 7)]


def test_a_subscription_counts_when_all_below_have_heard_of_it_and_not_before():
    """Otherwise a broker that does not know it yet could quench an event published after its confirmation."""
    chain = Chain(QuenchedAbove)
    chain.give(ROOT, "top", Register(1, to_filter("x > 0")))
    steps = 0
    while not chain.confirmed:
        chain.give(*chain.under_way.popleft())
        steps += 1
    assert steps == 4 and not chain.under_way, "to the middle, to the leaf, and both answers"
    assert chain.routers[LEAF].above is not None and len(chain.routers[LEAF].above) == 1


@pytest.mark.parametrize("steps", range(5))
def test_a_router_made_of_a_snapshot_waits_for_the_same_answers_and_says_the_same(steps):
    """This holds for a snapshot at any step. Reference: promise 7."""
    chain = Chain(QuenchedAbove)
    chain.give(MIDDLE, "mid", Register(1, to_filter("x > 3")))
    for _ in range(min(steps, len(chain.under_way))):
        chain.give(*chain.under_way.popleft())
    for place in PLACES:
        twin = QuenchedAbove(place)
        twin.restore(decode(encode(chain.routers[place.broker].snapshot())))
        chain.routers[place.broker] = twin
    chain.rest()
    assert chain.confirmed == ["mid"]
    chain.give(ROOT, "top", Register(1, to_filter("x > 0")))
    chain.rest()
    assert chain.confirmed == ["mid", "top"]
    assert chain.publish(1) == ([(LEAF, MIDDLE), (MIDDLE, ROOT)], [("top", 1)])
    assert chain.publish(0) == ([], [])
