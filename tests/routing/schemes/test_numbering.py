"""The sequence numbers of LBDD events from an origin to each broker, on which both must agree (paper 4)."""

import numpy as np
from rayvous.protocol.batch import batch_of
from rayvous.routing.schemes.dissemination import Numbering


def test_each_broker_is_counted_for_itself_and_anew_when_it_was_forgotten():
    numbering = Numbering()
    events = batch_of([{"x": 1}, {"x": 2}, {"x": 3}], publisher="p", first_sequence=1)
    loads = numbering.loads(events, [(7, None), (4, np.array([1]))])
    assert [(each.row, each.targets, each.numbers) for each in loads] == [
        (0, (7,), (1,)),
        (1, (4, 7), (1, 2)),
        (2, (7,), (3,)),
    ]
    assert [numbering.last(broker) for broker in (7, 4, 5)] == [3, 1, 0]
    twin = Numbering()
    twin.restore(numbering.snapshot())
    assert twin.next_of([4, 7]) == (2, 4) == numbering.next_of([4, 7])
    numbering.forget(7)
    numbering.forget(5)
    assert numbering.last(7) == 0 and numbering.next_of([7]) == (1,)
