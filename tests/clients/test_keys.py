"""Keys of events: for the order of a group, and for the last event per key."""

from rayvous.clients.keys import keys_of
from rayvous.protocol.batch import batch_of
from rayvous.protocol.groups import PUBLISHER_KEY
from rayvous.protocol.values import Timestamp


def test_a_key_is_a_value_of_an_attribute_or_the_publisher() -> None:
    values = 1, True, 1.0, "1", Timestamp(1), False, 0
    batch = batch_of([*({"k": value} for value in values), {}], publisher="p")
    one, true, real, text, moment, false, zero, none = keys_of(batch, "k")
    assert one == real and len({one, true, text, moment, false, zero}) == 6 and none is None
    assert keys_of(batch, PUBLISHER_KEY) == ["p"] * 8 and keys_of(batch, None) == [None] * 8
