"""Which events of a delivery are new, compared with a simple reference (promises 1 and 3)."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of, concat
from rayvous.recovery.replay.rising import FEW, rising

PIECES = st.lists(
    st.tuples(st.sampled_from("pq"), st.integers(1, 30), st.integers(1, FEW)), min_size=1, max_size=4
)


@given(PIECES, st.dictionaries(st.sampled_from("pqr"), st.integers(1, 60)), st.data())
def test_an_event_is_new_when_it_is_above_all_that_came_before_it(pieces, marks, data):
    batch = concat(
        [
            batch_of([{}] * count, publisher=name, first_sequence=first, published_at=0.0)
            for name, first, count in pieces
        ]
    )
    rows = np.flatnonzero(data.draw(st.lists(st.booleans(), min_size=len(batch), max_size=len(batch))))
    had, new = dict(marks), []
    for row in rows.tolist():
        publisher, sequence = batch.identity(row)
        if sequence > had.get(publisher, 0):
            had[publisher] = sequence
            new.append(row)
    assert rising(batch, rows, marks).tolist() == new
    assert marks == had, "and nobody has a mark whose events did not come"


@pytest.mark.parametrize("count", [FEW, FEW + 1])
def test_what_is_new_as_a_whole_is_not_copied(count):
    batch = batch_of([{}] * count, publisher="p", first_sequence=1, published_at=0.0)
    rows = np.arange(count)
    assert rising(batch, rows, {}) is rows
