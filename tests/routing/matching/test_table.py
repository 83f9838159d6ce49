"""The routing table agrees with brute force for any links, clients, holders and churn, scanned or indexed."""

from collections.abc import Hashable
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rayvous.protocol.batch import EventBatch, batch_of
from rayvous.protocol.ids import GROUP, Link
from rayvous.routing.filters.filter import Filter, to_filter
from rayvous.routing.matching import table as table_module
from rayvous.routing.matching.table import RoutingTable

FILTERS = tuple(
    map(
        to_filter,
        (
            *(f"x > {i}" for i in range(5)),
            *(f"x = {i} AND s = 'a'" for i in range(3)),
            "x BETWEEN 1 AND 3 OR s = 'b'", "s PREFIX 'a'", "s CONTAINS 'b'", "x IS NULL", "TRUE", "FALSE",
        ),
    )
)  # fmt: skip
few_links = st.sampled_from((GROUP, 0, 1, 2, "ann", "bob"))
many_links = st.integers(GROUP, 140) | st.integers(0, 30).map("c{}".format)
events = st.fixed_dictionaries(
    {}, optional={"x": st.integers(0, 5), "s": st.sampled_from(("", "a", "ab", "b"))}
)


def routed(table: RoutingTable, batch: EventBatch) -> dict[Link, list[int]]:
    """Return the rows of each link, after checking what must hold for any result."""
    routes = table.route(batch)
    out: dict[Link, list[int]] = {}
    for link, rows in routes.links:
        out[link] = list(range(len(batch))) if rows is None else rows.tolist()
        assert rows is None or len(rows) < len(batch), "rows is None when all go"
    assert len(out) == len(routes.links), "a link is named twice"
    assert len(routes.starts) == len(routes.clients) + 1 and len(set(routes.clients)) == len(routes.clients)
    assert routes.starts[0] == 0 and routes.starts[-1] == len(routes.rows)
    for place, client in enumerate(routes.clients):
        out[client] = routes.rows[routes.starts[place] : routes.starts[place + 1]].tolist()
    assert all(rows and rows == sorted(set(rows)) for rows in out.values())
    return out


def brute(
    held: dict[tuple[Filter, Link], set[Hashable]], given: list[dict[str, Any]]
) -> dict[Link, list[int]]:
    out: dict[Link, set[int]] = {}
    for (item, link), holders in held.items():
        assert holders
        rows = {row for row, event in enumerate(given) if item.matches(event)}
        if rows:
            out.setdefault(link, set()).update(rows)
    return {link: sorted(rows) for link, rows in out.items()}


class Churn(RuleBasedStateMachine):
    @initialize(
        scan=st.sampled_from((0, 10, 10**6)),
        few=st.sampled_from((0, 3, 10**6)),
        holders=st.sampled_from((0, 1, 4)),
        many=st.booleans(),
    )
    def start(self, scan: int, few: int, holders: int, many: bool) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(table_module, "SCAN_MAX", scan)
        self.patch.setattr(table_module, "FEW_MAX", few)
        self.patch.setattr(table_module, "FEW_HOLDERS", holders)
        self.table = RoutingTable()
        self.held: dict[tuple[Filter, Link], set[Hashable]] = {}
        self.links = many_links if many else few_links
        if many:
            for link in range(130):  # three 64-bit words of links
                self.add(FILTERS[link % len(FILTERS)], link, 0)

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            for (item, link), holders in [(key, set(holders)) for key, holders in self.held.items()]:
                for holder in sorted(holders):  # type: ignore[type-var]
                    self.remove(item, link, holder)
            self.table.check()
            assert len(self.table) == 0 and list(self.table) == [] and len(self.table.index) == 0
            assert routed(self.table, batch_of([{"x": 1}] * 100)) == {}
            self.patch.undo()

    def add(self, item: Filter, link: Link, holder: int) -> None:
        new = all(other != item for other, _ in self.held)
        assert self.table.add(item, link, holder) == new
        self.held.setdefault((item, link), set()).add(holder)
        assert item in self.table

    def remove(self, item: Filter, link: Link, holder: Hashable) -> None:
        holders = self.held.get((item, link), set())
        last = holders == {holder} and [key for key in self.held if key[0] == item] == [(item, link)]
        assert self.table.remove(item, link, holder) == last
        holders.discard(holder)
        if not holders:
            self.held.pop((item, link), None)
        if last:
            self.table.drop(item)
            assert item not in self.table

    @rule(item=st.sampled_from(FILTERS), holder=st.integers(0, 2), data=st.data())
    def add_one(self, item: Filter, holder: int, data: Any) -> None:
        self.add(item, data.draw(self.links), holder)

    @precondition(lambda self: self.held)
    @rule(data=st.data())
    def remove_one(self, data: Any) -> None:
        item, link = data.draw(st.sampled_from(list(self.held)))
        self.remove(item, link, data.draw(st.sampled_from(sorted(self.held[item, link]))))

    @rule(item=st.sampled_from(FILTERS), holder=st.integers(0, 3), data=st.data())
    def remove_what_may_not_be_there(self, item: Filter, holder: int, data: Any) -> None:
        self.remove(item, data.draw(self.links), holder)

    @rule(given=st.lists(events, max_size=6), times=st.sampled_from((1, 20)))
    def route(self, given: list[dict[str, Any]], times: int) -> None:
        assert routed(self.table, batch_of(given * times)) == brute(self.held, given * times)

    @invariant()
    def agrees(self) -> None:
        self.table.check()
        for entry in self.table:
            assert self.table.slot(entry.filter) == entry.slot
            held = {link: holders for (item, link), holders in self.held.items() if item == entry.filter}
            assert {link: set(holders) for link, holders in entry.links.items()} == held
            assert all(len(set(holders)) == len(holders) for holders in entry.links.values())


TestChurn = Churn.TestCase
TestChurn.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)


def test_scan_and_index_say_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(3)
    table = RoutingTable()
    for number, item in enumerate(FILTERS):
        for link in random.integers(0, 200, 12).tolist():
            table.add(item, link if link < 150 else f"c{link}", number)
    batch = batch_of([{"x": int(x), "s": "ab"[: int(x) % 3]} for x in random.integers(0, 6, 100)])
    monkeypatch.setattr(table_module, "SCAN_MAX", 10**9)
    scanned = routed(table, batch)
    monkeypatch.setattr(table_module, "SCAN_MAX", 0)
    assert routed(table, batch) == scanned
    assert len([link for link in scanned if isinstance(link, int)]) > 64


def test_a_single_event_goes_the_same_ways_by_scan_by_look_up_and_by_arrays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    random = np.random.default_rng(4)
    table = RoutingTable()
    for number, item in enumerate(FILTERS):
        for link in random.integers(0, 90, 3).tolist():
            table.add(item, link if link < 50 else f"c{link}", number)
    given = [{"x": 3}, {"x": 1, "s": "ab"}, {"s": "b"}, {}, {"x": -1, "y": 1}]
    found = {}
    for way, limits in {"scan": (10**9, 0), "look up": (0, 10**9), "arrays": (0, 0)}.items():
        monkeypatch.setattr(table_module, "SCAN_MAX", limits[0])
        monkeypatch.setattr(table_module, "FEW_MAX", limits[1])
        found[way] = [routed(table, batch_of([event])) for event in given]
    assert found["scan"] == found["look up"] == found["arrays"]
    kinds = [{type(link) for link in links} for links in found["scan"]]
    assert {int, str} in kinds, "none goes to brokers and to clients"


def test_a_client_that_went_and_came_back_is_routed_to() -> None:
    table = RoutingTable()
    item, other = to_filter("x > 0"), to_filter("x > 1")
    batch = batch_of([{"x": i} for i in range(100)])
    for name in ("ann", "bob", "cid"):
        table.add(item, name, 1)
    assert routed(table, batch).keys() == {"ann", "bob", "cid"}
    assert not table.remove(item, "ann", 1)
    assert routed(table, batch).keys() == {"bob", "cid"}
    table.add(other, "ann", 2)
    assert routed(table, batch)["ann"] == list(range(2, 100))
    assert routed(table, batch)["cid"] == list(range(1, 100))
    table.check()


def test_many_clients_leave_in_time_that_grows_with_their_number_only() -> None:
    table = RoutingTable()
    item = to_filter("x > 0")
    names = [f"c{i}" for i in range(20_000)]
    for name in names:
        table.add(item, name, 1)
    for name in names[1:]:
        assert not table.remove(item, name, 1)
    assert routed(table, batch_of([{"x": 1}] * 100)) == {"c0": list(range(100))}
    assert table.remove(item, "c0", 1)
    table.drop(item)
    table.check()
