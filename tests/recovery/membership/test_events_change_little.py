"""Events that begin no round end the step of the membership layer; those that begin one change what it keeps."""

import pytest
from rayvous.broker import Broker
from rayvous.protocol.batch import batch_of
from rayvous.protocol.configs import Placed
from rayvous.protocol.effects import Persist, Received, Send, Ticked
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.identity import IDENTITY
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.topologies.cluster_trees import ClusterTree

MIDDLE = 1
BELOW = 2


@pytest.fixture
def broker() -> Broker:
    """Return the middle one of three brokers, with a store, which knows the time."""
    places = ClusterTree(3, 1, degree=1).positions()
    assert places[MIDDLE].children == (BELOW,)
    made = Broker(places[MIDDLE], recovery=Recovery(), store=MemoryStore())
    made.handle(Ticked(100.0))
    return made


def events(number: int, round: RoundNumber) -> Received:
    batch = batch_of([{"x": number}], publisher="p", first_sequence=number)
    return Received(BELOW, Events(batch, round))


def kept(broker: Broker, event: Received) -> list[object]:
    """Return the names of the tables that change with an event, which goes up to the root."""
    effects = broker.handle(event)
    assert Send(0, event.message) in effects
    return [write.table for each in effects if isinstance(each, Persist) for write in each.writes]


def test_events_that_begin_a_round_have_it_kept_and_others_keep_nothing(broker: Broker) -> None:
    now = broker.layer(HealingBroker).rounds.current
    assert kept(broker, events(1, now)) == []
    later = RoundNumber(now.term, now.number + 1)
    assert kept(broker, events(2, later)) == [IDENTITY]
    assert broker.layer(HealingBroker).rounds.current == later
    assert kept(broker, events(3, later)) == []


def test_the_place_is_told_with_the_first_event_whatever_that_is() -> None:
    layer = Broker(ClusterTree(3, 1, degree=1).positions()[MIDDLE], recovery=Recovery()).layer(HealingBroker)
    told = [type(each) for each in layer.handle(events(1, layer.rounds.current))]
    assert told == [Send, Placed]
    assert [type(each) for each in layer.handle(events(2, layer.rounds.current))] == [Send]
