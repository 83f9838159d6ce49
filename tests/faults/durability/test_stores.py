"""A store gives back what was committed, in the order in which rows were first written."""

from rayvous.faults.durability.stores import MemoryStore
from rayvous.protocol.effects import Write


def test_rows_come_back_in_the_order_in_which_they_were_first_written():
    store = MemoryStore()
    store.commit([Write("kept", (2,), "b"), Write("kept", (1,), "a"), Write("marks", ("alice",), 7)])
    store.commit([Write("kept", (2,), "B"), Write("kept", (3,), "c")])
    assert list(store.rows("kept")) == [((2,), "B"), ((1,), "a"), ((3,), "c")]
    assert list(store.rows("marks")) == [(("alice",), 7)]
    assert list(store.rows("never written")) == []


def test_a_row_written_as_none_is_gone():
    store = MemoryStore()
    store.commit([Write("kept", (1,), "a"), Write("kept", (1,), None), Write("kept", (2,), None)])
    assert list(store.rows("kept")) == []
