"""Requirements of every persistent store: files and a real database behave like the store in memory.

Reference: promise 7; paper 4, section 3 ("the recovery database is stable").
"""

from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Write
from rayvous.protocol.messages.pubsub import Events
from rayvous.recovery.durability.postgresql_database import database_of
from rayvous.recovery.durability.postgresql_store import PostgresqlStores
from rayvous.recovery.durability.sqlite_store import SqliteStore
from rayvous.recovery.durability.stores import MemoryStore, Store

TABLES = ("heard", "out")

keys = st.tuples(st.sampled_from(["link", "alice", 'ö"\\\0']), st.integers(0, 3)) | st.tuples(
    st.integers(-1, 3)
)
values = st.none() | st.integers() | st.binary(max_size=8) | st.tuples(st.text(max_size=3))
commits = st.lists(st.lists(st.builds(Write, st.sampled_from(TABLES), keys, values), max_size=6), max_size=8)

Opens = Callable[[int], Store]
"""What opens the store of a number, a new one or again."""


@pytest.fixture(
    scope="module", params=["file", pytest.param("postgresql", marks=pytest.mark.slow)], name="opens"
)
def _opens(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    if request.param == "file":
        folder = tmp_path_factory.mktemp("stores")
        yield lambda number: SqliteStore(folder / f"{number}.sqlite", "off")
        return
    stores = PostgresqlStores(database_of(request.getfixturevalue("postgresql").address()), "off")
    yield stores.store_of
    stores.close()


NUMBERS = count()


def content(store: Store) -> dict[str, list[object]]:
    return {table: list(store.rows(table)) for table in TABLES}


@settings(max_examples=40)
@given(steps=commits)
def test_it_keeps_what_memory_keeps(steps: list[list[Write]], opens: Opens) -> None:
    number = next(NUMBERS)
    memory, store = MemoryStore(), opens(number)
    for writes in steps:
        memory.commit(writes)
        store.commit(writes)
    assert content(store) == content(memory)
    store.close()
    again = opens(number)
    assert content(again) == content(memory)
    again.close()


def test_a_batch_over_several_links_has_a_row_for_each(opens: Opens) -> None:
    store = opens(next(NUMBERS))
    events = Events(batch_of([{"x": 1}]))
    store.commit([Write("out", (link, 1), events) for link in (0, 1, 2)])
    store.commit([Write("out", (1, 1), None)])
    assert [key for key, _ in store.rows("out")] == [(0, 1), (2, 1)]
    store.close()


def test_brokers_do_not_see_each_other(opens: Opens) -> None:
    one, other = opens(next(NUMBERS)), opens(next(NUMBERS))
    one.commit([Write("out", (1,), "one")])
    other.commit([Write("out", (1,), "other"), Write("heard", (1,), 2)])
    other.commit([Write("heard", (1,), None)])
    assert (content(one)["out"], content(other)["out"]) == ([((1,), "one")], [((1,), "other")])
    one.close()
    other.close()
