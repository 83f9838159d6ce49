"""Events with a time to live: each keeps its own whatever happens to its batch, and only what is past it is dropped."""

import io
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of, concat
from rayvous.protocol.effects import Deliver
from rayvous.protocol.errors import InputError
from rayvous.protocol.expiry import (
    checked_ttl,
    deadline,
    deadlines,
    living,
    passable,
    timely,
    with_deadlines,
    with_ttl,
)
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.wire import REDUCERS
from rayvous.recovery.durability.packed import pack, unpack
from rayvous.routing.language.questions import to_filter

TTLS = st.sampled_from([None, 0.5, 1.0, 3.0])
PARTS = st.lists(
    st.tuples(st.floats(0, 4), st.lists(st.integers(0, 3), min_size=1, max_size=4), TTLS), max_size=5
)


def made(parts):
    """Return the events of some calls as one batch, and when each expires; the reference is that list."""
    batches, until, number = [], [], 1
    for at, values, ttl in parts:
        batch = batch_of([{"n": n} for n in values], publisher="p", first_sequence=number, published_at=at)
        batches.append(with_ttl(batch, ttl))
        until += [None if ttl is None else at + ttl] * len(values)
        number += len(values)
    return concat(batches) if batches else batch_of([]), until


def sent(batch):
    file = io.BytesIO()
    pickler = pickle.Pickler(file, 5)
    pickler.dispatch_table = REDUCERS
    pickler.dump(batch)
    return pickle.loads(file.getvalue())


def stored(batch):
    description, arrays = pack(batch)
    return unpack(description, memoryview(b"".join(each.tobytes() for each in arrays)))


def is_late(until, now):
    return until is not None and until < now


@given(PARTS, st.floats(0, 8), st.data())
def test_a_batch_that_is_cut_joined_sent_or_stored_keeps_when_its_events_expire(parts, now, data):
    batch, until = made(parts)
    size = len(batch)
    rows = np.array(sorted(data.draw(st.sets(st.integers(0, size - 1))) if size else []), np.intp)
    for one in (batch, sent(batch), stored(batch), concat([batch, batch_of([])])):
        assert [deadline(one, row) for row in range(size)] == until
    part = batch.take(rows)
    assert [deadline(part, row) for row in range(len(part))] == [until[row] for row in rows]
    kept = living(batch, rows, now)
    assert kept.tolist() == [row for row in rows.tolist() if not is_late(until[row], now)]
    assert all(set(event) == {"n"} for event in batch.events()), "it is no attribute"


@given(PARTS.filter(bool), st.floats(0, 8), st.data())
def test_a_delivery_without_what_is_late_is_that_of_a_list(parts, now, data):
    batch, until = made(parts)
    rows = [sorted(data.draw(st.sets(st.integers(0, len(batch) - 1), min_size=1))) for _ in range(3)]
    deliver = Deliver(
        batch, ("a", "b", "c"), np.cumsum([0, *map(len, rows)]), np.concatenate([*map(np.array, rows)])
    )
    left, gone = timely(deliver, now)
    want = {
        name: kept
        for name, mine in zip("abc", rows, strict=True)
        if (kept := [row for row in mine if not is_late(until[row], now)])
    }
    found = {}
    if left is not None:
        for place, client in enumerate(left.clients):
            found[client] = left.rows[left.starts[place] : left.starts[place + 1]].tolist()
    assert found == want and gone == sum(map(len, rows)) - sum(map(len, want.values()))
    numbered = replace(deliver, number=3)
    assert timely(numbered, now) == (numbered, 0), "one that is repeated until it has arrived stays whole"


@given(PARTS.filter(bool), st.floats(0, 8))
def test_a_message_between_brokers_loses_what_is_late_unless_it_is_counted(parts, now):
    batch, until = made(parts)
    left, gone = passable(Events(batch), now)
    want = [row + 1 for row, at in enumerate(until) if not is_late(at, now)]
    assert ([] if left is None else left.batch.sequence.tolist()) == want and gone == len(batch) - len(want)
    counted = Events(batch, entry=1, number=2)
    assert passable(counted, now) == (counted, 0)


def test_a_filter_does_not_see_it_and_absolute_times_become_times_to_live():
    batch = with_deadlines(batch_of([{"n": 1}, {"n": 2}, {"n": [1, 2]}]), {0: 107.0, 2: 99.0}, 100.0)
    stamped = replace(batch, published_at=np.full(3, 100.0))
    assert deadlines(stamped).tolist() == [107.0, np.inf, 100.0]
    assert to_filter("n = 2").evaluate_batch(stamped).tolist() == [False, True, True]
    assert batch_of([{"n": 1}]).columns.keys() == {("n", 1)}, "an event without one has nothing more"
    assert with_deadlines(batch, {}, 1.0) is batch and with_ttl(batch, None) is batch


@pytest.mark.parametrize("ttl", [0, -1, float("nan"), float("inf"), 1e300, "5", b"5", True, [5]])
def test_what_is_no_time_to_live_is_refused(ttl):
    with pytest.raises(InputError, match="ttl"):
        checked_ttl(ttl)
    assert checked_ttl(None) is None and checked_ttl(5) == 5.0
