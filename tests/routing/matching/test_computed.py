"""Filters on computed values work in the index, tables, covering, merging, access rights and stores."""

import pickle
import random
from typing import Any

import numpy as np
import pytest
from rayvous.admission.columns import FilterColumns
from rayvous.gateway.access import Rights
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import AccessDenied
from rayvous.protocol.gateways import Principal
from rayvous.recovery.durability.codec import Encoder, decode
from rayvous.routing.filters.covering import covers, intersects
from rayvous.routing.filters.filter import Filter, to_filter
from rayvous.routing.interest.merging import MergingAnnouncer
from rayvous.routing.matching.covering_dag import CoveringDag
from rayvous.routing.matching.index import MatchIndex
from rayvous.routing.matching.table import RoutingTable

PARTS = (
    "price * quantity > {n}", "bid >= ask", "bid - ask < {n}", "NOT (price + {n} > bid)", "price = bid",
    "price > {n}", "sym = 'A'", "sym <> name", "quantity IS NOT NULL", "price / quantity IS NULL",
    "ONLY (price, quantity, sym, name)", "NOT ONLY (sym, name, bid, ask)",
)  # fmt: skip


def some_filters(seed: int, size: int) -> list[Filter]:
    rng = random.Random(seed)
    out: dict[Filter, None] = {}
    while len(out) < size:
        parts = [part.format(n=rng.randrange(40)) for part in rng.sample(PARTS, rng.randint(1, 3))]
        out[to_filter(rng.choice((" AND ", " OR ")).join(parts))] = None
    return list(out)


def some_events(seed: int, size: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    values = (*range(-3, 20), 2.5, float("inf"), "A", True)
    names = ("price", "quantity", "bid", "ask")
    events = [{name: rng.choice(values) for name in names if rng.random() < 0.8} for _ in range(size)]
    return [event | {name: rng.choice("AB") for name in ("sym", "name")} for event in events]


@pytest.mark.parametrize("seed", range(4))
def test_the_index_finds_what_matches_whatever_came_and_went(seed: int) -> None:
    rng, index, held = random.Random(seed), MatchIndex(), dict[int, Filter]()
    batch = batch_of(events := some_events(seed, 60))
    for item in some_filters(seed, 60):
        held[index.insert(item)] = item
        if rng.random() < 0.3:
            gone = rng.choice(list(held))
            index.remove(gone)
            del held[gone]
        index.check()
    expected = {(row, slot) for row, event in enumerate(events) for slot in held if held[slot].matches(event)}
    rows, slots = index.match(batch)
    found = list(zip(rows.tolist(), slots.tolist(), strict=True))
    assert len(found) == len(set(found))
    assert set(found) == expected
    assert expected  # otherwise the test would prove nothing
    for seen in (index, restored(index)):
        groups = np.left_shift(np.uint64(1), np.arange(seen.slots_end, dtype=np.uint64) % 64)
        wanted = np.zeros(len(events), np.uint64)
        for row, slot in expected:
            wanted[row] |= groups[slot]
        assert np.array_equal(seen.match_groups(batch, groups), wanted)


def restored(index: MatchIndex) -> MatchIndex:
    other = MatchIndex()
    other.restore(index.snapshot())
    other.check()
    return other


def test_tables_send_an_event_only_where_the_calculated_value_is_wanted() -> None:
    batch = batch_of(
        [{"price": 2, "quantity": 1}, {"price": 5, "quantity": 10, "bid": 2, "ask": 1}, {"bid": 1}]
    )
    for size in (10, 100):  # scanned, and then matched by the index
        table = RoutingTable()
        for number in range(size):
            table.add(to_filter(f"price * quantity > {number}"), number % 3, 0)
        table.add(to_filter("bid >= ask"), "alice", 1)
        routes = table.route(batch)
        assert {link: rows.tolist() for link, rows in routes.links if rows is not None} == {
            0: [0, 1],
            1: [0, 1],
            2: [1],
        }
        assert (routes.clients, routes.rows.tolist()) == (("alice",), [1])


@pytest.mark.parametrize("seed", range(3))
def test_the_dag_and_columns_say_what_covering_says(seed: int) -> None:
    filters = some_filters(seed, 20)
    index, columns = MatchIndex(), FilterColumns()
    dag = CoveringDag(index)
    for item in filters:
        dag.insert(item, index.insert(item))
        columns.insert(item)
    dag.check()
    for item in filters:
        above = [other for other in filters if other != item and covers(other, item)]
        assert dag.is_root(item) or above
        meets, over, under, _ = columns.relations(item)
        for other in filters:
            slot = columns.slot(other)
            assert not intersects(item, other) or meets[slot]
            if other != item:
                assert bool(over[slot]) == covers(other, item)
                assert bool(under[slot]) == covers(item, other)


def test_filters_merge_in_what_is_calculated_too() -> None:
    index = MatchIndex()
    dag = CoveringDag(index)
    announcer = MergingAnnouncer(dag, top=False)
    for text in ("a * b < 1 AND x = 1", "a * b >= 1 AND x = 1", "a * b < 1 AND x = 2"):
        announcer.hold(to_filter(text), index.insert(to_filter(text)))
    announcer.check()
    assert {str(item) for item in announcer.announced()} == {
        "x = 1 AND (a * b < 0 OR a * b >= 0)",
        "x = 2 AND a * b < 1",
    }


def test_rights_narrow_to_what_is_calculated() -> None:
    may = to_filter("price * quantity < 1000")
    rights = Rights("alice", may, may, Principal())
    assert rights.admit(to_filter("price * quantity < 500 AND sym = 'A'")) == to_filter(
        "price * quantity < 500 AND sym = 'A'"
    )
    with pytest.raises(AccessDenied):
        rights.admit(to_filter("price < 10"))
    left = rights.admit(to_filter("price < 10 OR sym = 'A'"), narrow=True)
    assert left == to_filter("(price < 10 OR sym = 'A') AND price * quantity < 1000")
    assert not left.matches({"price": 9, "quantity": 200})
    with pytest.raises(AccessDenied, match="leaves nothing"):
        rights.admit(to_filter("price * quantity > 2000"), narrow=True)


def test_filters_travel_and_are_stored() -> None:
    for item in some_filters(5, 30):
        assert pickle.loads(pickle.dumps(item)) == item
        assert decode(Encoder().encode(item)) == item
        assert to_filter(str(item)) == item
