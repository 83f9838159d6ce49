"""Events as other systems publish them, in whole networks; and filters that are asked about them before.

Promises 3 and 4: a subscriber receives what `Filter.matches` says of the event as it was published.
Reference: docs/decisions/0116-named-parts-of-events.md.
"""

import datetime
import enum
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from payloads import LONG, PAYLOADS, pull_request, push, without_none
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import SelectorError
from rayvous.protocol.values import NULL
from rayvous.routing.filters.filter import Filter, to_filter
from rayvous.routing.language.patterns import eventbridge
from rayvous.routing.matching import table
from rayvous.routing.matching.table import RoutingTable
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation
from three_languages import SAID, SCALARS, Said, orders


@pytest.mark.parametrize("name", ["hybrid", "hybrid+quench", "hypercube", "lbdd"])
def test_payloads_reach_who_asked_for_something_in_them(name: str) -> None:
    positions = scheme(name).positions(ClusterTree(2, 2).positions())
    brokers = [position.broker for position in positions]
    net = Simulation(positions, name)
    wanted = [text for _, texts in PAYLOADS.values() for text in texts]
    for number, text in enumerate(wanted):
        assert net.run_until_installed(f"c{number}", net.subscribe(f"c{number}", brokers[number % 4], text))
    events = [{"x": 1}, *(event for event, _ in PAYLOADS.values())]
    net.publish("p", brokers[1], events)
    for event in events:
        net.publish("p", brokers[1], [event])
    net.run()
    for number, text in enumerate(wanted):
        item = to_filter(text)
        expected = [place for place, event in enumerate(events * 2, 1) if item.matches(event)]
        assert [each for _, each in net.notifications(f"c{number}")] == expected, text


@pytest.mark.parametrize(("event", "texts"), PAYLOADS.values(), ids=PAYLOADS)
def test_payloads_come_back_and_are_matched(event: dict[str, Any], texts: dict[str, bool]) -> None:
    batch = batch_of([event])
    assert without_none(batch.documents()[0]) == without_none(event)
    for text, expected in texts.items():
        item = to_filter(text)
        assert (item.matches(event), bool(item.evaluate_batch(batch)[0])) == (expected, expected), text


def names_of(event: dict[str, Any]) -> set[str]:
    """Return the attributes of an event: the paths of its values, through arrays."""
    found: set[str] = set()
    waiting: list[tuple[str, Any]] = list(event.items())
    while waiting:
        name, value = waiting.pop()
        for each in value if isinstance(value, list) else [value]:
            if isinstance(each, dict):
                waiting += [(f"{name}.{key}", inner) for key, inner in each.items()]
            else:
                found.add(name)
    return found


def test_payloads_are_as_large_as_those_of_others() -> None:
    assert len(names_of(pull_request())) > 520
    arrays = ("added", "modified", "removed")
    assert [[len(commit[each]) for each in arrays] for commit in push()["commits"]] == [[20, 20, 20]] * 3
    assert len(LONG) > 300 and LONG in names_of(PAYLOADS["odd"][0])


class Colour(enum.StrEnum):
    RED = "red"


RAW = st.sampled_from(
    [
        0, 1, 2.5, True, "red", "a", "", None, NULL, float("nan"), float("inf"), 2**70, -(2**63), 2**63, Colour.RED,
        np.int64(1), np.float32(2.5), np.float64("nan"), np.bool_(True), np.str_("a"), pd.NA, pd.NaT,
        datetime.datetime(2024, 1, 2, tzinfo=datetime.UTC), datetime.date(2024, 1, 2),
        np.datetime64("2024-01-02"), np.datetime64("NaT"), pd.Timestamp("2024-01-02"), np.uint64(2**64 - 1),
    ]
)  # fmt: skip
NESTED = st.recursive(
    RAW,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=2).map(tuple)
        | st.dictionaries(st.sampled_from(["b", "c", ""]), inner, max_size=2)
    ),
    max_leaves=5,
)
EVENTS = st.dictionaries(st.sampled_from(["a", "b", "", "t"]), NESTED, max_size=4)
SELECTORS = [
    "a = 1", "a > 1e18", "a.b IS NOT NULL", "NOT a = 'red'", "a.c IS MISSING AND b >= 1", "a = b OR t = TRUE",
    "a = TIMESTAMP '2024-01-02'", "a + b > 2", "a IS NULL", "a.b IN ('a', 'red') AND a.c = 1", "SIZE(a) > 1",
    "a.b.c = 1", "b LIKE 'r_d'", "a CONTAINS ALL (1, 'a')", "a = ARRAY[1]", '"a." = 1',
]  # fmt: skip
OTHERS = [
    *(to_filter(text, dialect="jms") for text in ("a <> 1", "NOT (a = 'red')", "b BETWEEN 0 AND 2")),
    *(
        to_filter(text, dialect="cesql")
        for text in ("a = 1", "EXISTS b AND a != b", "LENGTH(a) > 0", "b + 1 > 1")
    ),
    *(
        to_filter(pattern)
        for pattern in (
            {"a": [1, "red", None]},
            {"a": {"b": [{"exists": True}], "c": [{"anything-but": ["a"]}]}},
            {"b": [{"numeric": [">", 0, "<=", 1e30]}], "t": [{"prefix": "r"}, True]},
        )
    ),
    *(to_filter(eventbridge({"a": [{"exists": False}]})), to_filter(eventbridge({"b": {"c": ["a", 1]}}))),
]
FILTERS: list[Filter] = [*map(to_filter, SELECTORS), *OTHERS]


def received(filters: list[Filter], batch: Any) -> list[set[int]]:
    """Return the rows of a batch that a broker sends to a subscriber of each filter."""
    table = RoutingTable()
    for number, item in enumerate(filters):
        table.add(item, f"c{number}", "")
    routes = table.route(batch)
    out: list[set[int]] = [set() for _ in filters]
    for place, client in enumerate(routes.clients):
        out[int(client[1:])] = set(routes.rows[routes.starts[place] : routes.starts[place + 1]].tolist())
    return out


@settings(max_examples=150)
@given(st.lists(EVENTS, min_size=1, max_size=3), st.booleans())
def test_a_filter_says_before_what_a_subscriber_receives(events: list[dict[str, Any]], few: bool) -> None:
    batch = batch_of(events)
    filters = FILTERS[::7] if few else FILTERS
    for item, rows in zip(filters, received(filters, batch), strict=True):
        assert {row for row, event in enumerate(events) if item.matches(event)} == rows, str(item)
        assert rows == {row for row, event in enumerate(batch.documents()) if item.matches(event)}


VALUES = SCALARS | RAW
ORDERS = orders(VALUES | st.lists(VALUES, max_size=3) | NESTED)


@settings(max_examples=50)
@given(
    SAID, st.lists(ORDERS, min_size=1, max_size=4), st.sampled_from(["hybrid", "hypercube"]), st.booleans()
)
def test_in_every_language_a_filter_says_before_what_its_subscriber_receives(
    said: Said, events: list[dict[str, Any]], name: str, few: bool
) -> None:
    """The publisher is at one broker, the subscribers at another; where filters are few, they are asked one by one."""
    languages = {"text": said.text, "json": said.json, "python": said.python}
    net = Simulation(scheme(name).positions(ClusterTree(1, 2).positions()), name)
    for language, wanted in languages.items():
        assert net.run_until_installed(language, net.subscribe(language, 1, wanted))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "SCAN_MAX", table.SCAN_MAX if few else 0)
        net.publish("p", 0, events)
        net.run()
    for language, wanted in languages.items():
        item = to_filter(wanted)
        expected = [number for number, event in enumerate(events, 1) if item.matches(event)]
        assert [number for _, number in net.notifications(language)] == expected, str(item)


def test_a_network_says_the_same() -> None:
    net = Simulation(ClusterTree(2, 2).positions(), "hybrid")
    for number, item in enumerate(FILTERS):
        assert net.run_until_installed(f"c{number}", net.subscribe(f"c{number}", number % 3, str(item)))
    values = [
        1,
        np.int64(1),
        "red",
        Colour.RED,
        None,
        [1, "a"],
        {"b": [1, {"c": 1}]},
        2**70,
        float("nan"),
        True,
    ]
    events = [{"a": one, "b": other} for one in values for other in values]
    net.publish("p", 3, events)
    net.run()
    for number, item in enumerate(FILTERS):
        expected = [row for row, event in enumerate(events, 1) if item.matches(event)]
        assert [each for _, each in net.notifications(f"c{number}")] == expected, str(item)


@pytest.mark.parametrize("text", ["a = 9223372036854775808", "x" * 1_025 + " = 1"])
def test_what_no_filter_can_name(text: str) -> None:
    with pytest.raises(SelectorError):
        to_filter(text)
