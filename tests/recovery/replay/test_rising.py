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


@pytest.mark.parametrize("mark", [0, 9, 10, 11, 10 + 2 * FEW - 1, 10 + 2 * FEW, 999])
def test_of_many_events_those_above_the_mark_are_new(mark):
    batch = batch_of([{}] * (2 * FEW), publisher="p", first_sequence=10, published_at=0.0)
    marks, rows = {"p": mark}, np.arange(1, 2 * FEW)
    new = rising(batch, rows, marks)
    assert new.tolist() == [row for row in rows.tolist() if row + 10 > mark]
    assert marks == {"p": max(mark, 9 + 2 * FEW)}


def test_many_events_that_come_twice_are_new_once():
    batch = batch_of([{}] * FEW, publisher="p", first_sequence=1, published_at=0.0)
    rows = np.arange(2 * FEW)
    assert rising(concat([batch, batch]), rows, {}).tolist() == list(range(FEW))


def test_whether_a_batch_rises_is_found_once_for_all_receivers():
    once = batch_of([{}] * (2 * FEW), publisher="p", first_sequence=1, published_at=0.0)
    rows = np.arange(2 * FEW)
    assert rising(once, rows, {}) is rows and once._rises
    object.__setattr__(once, "_rises", False)
    assert rising(once, rows, {}) is rows and not once._rises
