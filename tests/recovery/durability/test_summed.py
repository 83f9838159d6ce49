"""A store with checksums: any damage to its rows is detected when they are read."""

import random

import pytest
from rayvous.faults.damage import damage_store
from rayvous.protocol.effects import Write
from rayvous.protocol.errors import StateDamaged
from rayvous.recovery.durability.sqlite_store import SqliteStore
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.recovery.durability.summed import SUMS, SummedStore

ROWS = [(("a", 1), {"x": 1}), (("a", 2), (1.5, "two")), (("b", 1), [3])]


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request, tmp_path):
    """Return a store with rows in two tables, some of which were changed and removed."""
    made = SummedStore(request.param(*[tmp_path / "rows"] * (request.param is SqliteStore)))
    made.commit([Write("t", key, "at first") for key, _ in ROWS] + [Write("u", (0,), 7)])
    made.commit([Write("t", ("c", 9), 1), Write("t", ("c", 9), None), Write("t", ("never",), None)])
    made.commit([Write("t", key, value) for key, value in ROWS])
    return made


def read(store):
    return {table: list(store.rows(table)) for table in ("t", "u", "never written")}


def test_it_is_a_store(store):
    assert read(store) == {"t": ROWS, "u": [((0,), 7)], "never written": []}


def test_it_goes_on_over_what_an_earlier_one_has_written(store):
    again = SummedStore(store.inner)
    again.commit([Write("t", ("a", 1), None), Write("t", ("d", 1), 4)])
    assert dict(read(again)["t"]) == dict(ROWS[1:]) | {("d", 1): 4}
    assert read(SummedStore(store.inner)) == read(again)


@pytest.mark.parametrize(
    "harm",
    [
        Write("t", ("a", 1), None),
        Write("t", ("a", 1), b"Vnonsense"),
        Write("t", ("a", 1), {"x": 1}),
        Write("t", ("z", 1), b"V"),
        Write(SUMS, ("t",), None),
        Write(SUMS, ("t",), (3, 0)),
    ],
    ids=["a row is gone", "changed", "of another kind", "added", "no sum", "another sum"],
)
def test_a_row_that_is_not_what_was_written_is_found(store, harm):
    """Paper 4, section 2: a fault changes the state; recovery from a store must notice (definition 10)."""
    store.inner.commit([harm])
    with pytest.raises(StateDamaged, match="the table 't' of a store is not what was written to it"):
        store.rows("t")
    assert list(store.rows("u")) == [((0,), 7)], "another table is as it was"
    with pytest.raises(StateDamaged):
        SummedStore(store.inner).rows("t")


def test_a_row_in_the_place_of_another_one_is_found(store):
    rows = dict(store.inner.rows("t"))
    store.inner.commit([Write("t", ("a", 1), rows["a", 2]), Write("t", ("a", 2), rows["a", 1])])
    with pytest.raises(StateDamaged):
        store.rows("t")


@pytest.mark.parametrize("seed", range(30))
def test_damage_is_found_and_what_is_cleared_is_empty_and_works(store, seed):
    assert damage_store(store, random.Random(seed)) > 0
    with pytest.raises(StateDamaged):
        read(store)
    store.clear()
    assert read(store) == {"t": [], "u": [], "never written": []}
    store.commit([Write("t", (1,), "new")])
    assert list(SummedStore(store.inner).rows("t")) == [((1,), "new")]


def test_a_table_whose_sum_is_gone_is_cleared_too_also_by_one_that_has_never_seen_it(store):
    """It knows only the tables that it reads; otherwise its broker would find the damage at every start."""
    store.inner.commit([Write(SUMS, ("t",), None)])
    again = SummedStore(store.inner)
    with pytest.raises(StateDamaged):
        again.rows("t")
    assert again.clear() and read(again) == {"t": [], "u": [], "never written": []}
    assert not again.clear(), "there is nothing left"
