"""Conditions on whole arrays: contains all, any, none, exactly this list, and the number of elements.

Reference: docs/decisions/0119-conditions-on-whole-arrays.md.
"""

import pickle
from functools import reduce
from itertools import combinations, pairwise
from operator import and_, or_
from typing import Any

import numpy as np
import pytest
import rayvous as rv
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of, flat_batch
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.protocol.values import NULL
from rayvous.protocol.ways import Array, Names, NestedEvent, array_at
from rayvous.routing.filters.numbers import Chosen
from rayvous.routing.language.predicates import compile_predicate, evaluate
from rayvous.routing.language.questions import to_predicate
from rayvous.routing.matching.index import MatchIndex

PROPERTY = settings(max_examples=150)


def matches(condition: Any, *events: dict[str, Any]) -> list[bool]:
    return rv.to_filter(condition).evaluate_batch(batch_of(events)).tolist()


@pytest.mark.parametrize(
    ("selector", "array", "expected"),
    [
        ("t CONTAINS ALL ('a', 'b')", ["b", "x", "a"], True),
        ("t CONTAINS ALL ('a', 'b')", ["a", "a"], False),
        ("t CONTAINS ALL ('a')", "a", True),
        ("t CONTAINS ALL ('a')", "ab", False),
        ("t CONTAINS ALL (1, 'a', TRUE)", ["a", True, 1.0], True),
        ("t CONTAINS ALL (1)", [True], False),
        ("t CONTAINS ALL (TRUE)", [1], False),
        ("t CONTAINS ALL (0, FALSE)", [0], False),
        ("t CONTAINS ANY (0, FALSE)", [False], True),
        ("t CONTAINS NONE (1, TRUE)", [True], False),
        ("t contains any ('a', 'b')", ["x", "b"], True),
        ("t CONTAINS ANY ('a', 'b')", [], False),
        ("t CONTAINS NONE ('a', 'b')", ["x", "b"], False),
        ("t CONTAINS NONE ('a', 'b')", ["x", None], True),
        ("t CONTAINS NONE ('a')", [], True),
        ("t CONTAINS NONE ('a')", None, False),
        ("t CONTAINS NONE ('a')", NULL, False),
        ("t NOT CONTAINS ANY ('a')", ["x"], True),
        ("NOT t CONTAINS ALL ('a', 'b')", ["a", "b"], False),
        ("NOT t CONTAINS ALL ('a', 'b')", ["a"], True),
        ("NOT t CONTAINS ALL ('a', 'b')", None, False),
        ("t = ARRAY['a', 'b']", ["a", "b"], True),
        ("t = ARRAY['a', 'b']", ["b", "a"], False),
        ("t = ARRAY['a', 'b']", ["a", "b", "b"], False),
        ("t = ARRAY[1, 2.5]", [1.0, 2.5], True),
        ("t = ARRAY[]", [], True),
        ("t = ARRAY[]", None, False),
        ("t <> ARRAY['a']", ["a"], False),
        ("t != ARRAY['a']", ["a", "b"], True),
        ("t != ARRAY['NULL']", [None], True),
        ("t = ARRAY['a''b', 'a, b']", ["a'b", "a, b"], True),
        ("t = ARRAY['a', 'b']", ["a', 'b"], False),
        ("(t = ARRAY['a']) IS UNKNOWN", None, True),
        ("SIZE(t) = 2", ["a", {"b": 1}], True),
        ("SIZE(t) = 0", [], True),
        ("SIZE(t) >= 1", "one", True),
        ("SIZE(t) BETWEEN 2 AND 3", [[1, 2], 3], True),
        ("SIZE(t) IS NULL", None, True),
        ("SIZE(t) + n > 3", [1, 2], True),
    ],
)
def test_the_meaning_by_example(selector: str, array: Any, expected: bool) -> None:
    assert matches(selector, {"t": array, "n": 2}) == [expected]
    assert matches(str(rv.to_filter(selector)), {"t": array, "n": 2}) == [expected]


def test_a_list_is_that_of_the_whole_event() -> None:
    order = {"lines": [{"item": "nut", "sizes": [1, 2]}, {"item": "bolt", "sizes": [3]}, {"note": "x"}]}
    assert matches("o.lines.item CONTAINS ALL ('nut', 'bolt')", {"o": order}) == [True]
    assert matches("o.lines.item = 'nut' AND o.lines.item = 'bolt'", {"o": order}) == [False]
    assert matches("o.lines.sizes = ARRAY[1, 2, 3]", {"o": order}) == [True]
    assert matches("SIZE(o.lines) = 3 AND SIZE(o.lines.item) = 2", {"o": order}) == [True]
    assert matches("o.lines.item = 'bolt' AND o.lines.item CONTAINS NONE ('screw')", {"o": order}) == [True]
    assert matches("o.lines.other CONTAINS NONE ('x')", {"o": order}) == [False]
    assert matches("SIZE(o) = 1", {"o": {"a": 1}}) == [False]
    assert matches("SIZE(a) = SIZE(b)", {"a": [1, 2], "b": ["x", "y"]}, {"a": [1], "b": []}) == [True, False]


def test_every_language_has_them() -> None:
    tags = rv.attr("tags")
    for text, pattern, built in (
        (
            "tags CONTAINS ALL ('a', 'b')",
            {"tags": [{"contains-all": ["a", "b"]}]},
            tags.contains_all(["a", "b"]),
        ),
        (
            "tags CONTAINS ANY ('a', 'b')",
            {"tags": [{"contains-any": ["a", "b"]}]},
            tags.contains_any({"a": 1}.keys() | {"b"}),
        ),
        (
            "tags CONTAINS NONE ('a', 1)",
            {"tags": [{"contains-none": ["a", 1.0]}]},
            tags.contains_none(("a", np.int64(1))),
        ),
        ("tags = ARRAY['a', 1]", {"tags": [{"exactly": ["a", 1]}]}, tags == ["a", 1]),
        (
            "tags <> ARRAY[]",
            {"$or": [{"tags": [{"size": [">", 5]}]}, {"tags": [{"exactly": "x"}]}]},
            tags != [],
        ),
        ("SIZE(tags) = 2", {"tags": [{"size": 2}]}, tags.size() == 2),
        (
            "SIZE(tags) > 2 AND SIZE(tags) < 9",
            {"tags": [{"size": [">", 2, "<", 9]}]},
            (tags.size() > 2) & (tags.size() < 9),
        ),
    ):
        made = rv.to_filter(text)
        assert made == rv.to_filter(built)
        assert made == rv.to_filter(str(made)) == pickle.loads(pickle.dumps(made))
        if "$or" not in pattern:
            assert made == rv.to_filter(pattern)
    assert str(rv.to_filter("tags CONTAINS ALL ('b', 'a') AND tags CONTAINS NONE ('c')")) == (
        "tags CONTAINS ALL ('a', 'b') AND tags CONTAINS NONE ('c')"
    )
    assert str(rv.to_filter("all = 1 AND any = 2 AND array = 3 AND none = 4 AND size = 5")) == (
        "all = 1 AND any = 2 AND array = 3 AND none = 4 AND size = 5"
    )


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("t CONTAINS ALL ()", "expected a value"),
        ("t CONTAINS ALL 'a'", r"expected '\(' after 'ALL'"),
        (
            "t CONTAINS ALL (a)",
            "line 1, column 17: CONTAINS needs strings, numbers, truth values or timestamps",
        ),
        ("t + 1 CONTAINS ALL (1)", "need an attribute"),
        ("t > ARRAY[1]", "line 1, column 3: lists have no order"),
        ("SIZE(t) = 'x'", "SIZE is a number"),
        ("SIZE(1) = 1", "need an attribute"),
        ({"t": [{"contains-all": []}]}, r"t\[0\].contains-all: an empty list"),
        ({"t": [{"contains-all": "a"}]}, r"contains-all: expected a list of values, found \"a\": write"),
        ({"t": [{"contains-none": [None]}]}, r"contains-none\[0\]: None and NaN"),
        ({"t": [{"size": "x"}]}, r"size\[1\]: expected a number"),
    ],
)
def test_mistakes_are_explained(given: Any, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        rv.to_filter(given)


def test_the_words_are_not_words_of_eventbridge() -> None:
    with pytest.raises(SelectorError, match="no matcher is called 'size'"):
        rv.eventbridge({"t": [{"size": 2}]})
    with pytest.raises(SelectorError, match="expected a list of values"):
        rv.attr("t").contains_all("ab")
    with pytest.raises(FilterTooComplex, match="300 clauses"):
        rv.to_filter(rv.attr("t").contains_any(range(300)))


ELEMENTS = ("a", "b", "c")
UNIVERSE = [list(some) for size in range(4) for some in combinations(ELEMENTS, size)]
WANTED = st.lists(st.sampled_from(ELEMENTS), min_size=1, max_size=3)
CONJUNCTIONS = st.lists(
    st.one_of(WANTED.map(rv.attr("t").contains_all), WANTED.map(rv.attr("t").contains_none)),
    min_size=1,
    max_size=3,
).map(lambda terms: reduce(and_, terms))
POSITIVE = st.lists(
    WANTED.map(rv.attr("t").contains_all) | WANTED.map(rv.attr("t").contains_any), min_size=1, max_size=3
)


@PROPERTY
@given(POSITIVE.map(lambda terms: reduce(or_, terms)) | CONJUNCTIONS, CONJUNCTIONS)
def test_covering_is_that_of_all_arrays(wide: Any, narrow: Any) -> None:
    """Every array of three elements is tried: the answers are exact both ways."""
    one, other = rv.to_filter(wide), rv.to_filter(narrow)
    events = [{"t": some} for some in UNIVERSE] + [{"t": None}]
    wanted, asked = matches(one, *events), matches(other, *events)
    assert rv.covers(one, other) is all(w for w, a in zip(wanted, asked, strict=True) if a)
    assert rv.intersects(one, other) is any(w and a for w, a in zip(wanted, asked, strict=True))
    merged = rv.merge(one, other)
    assert merged is not None
    assert matches(merged, *events) == [w or a for w, a in zip(wanted, asked, strict=True)]


def test_covering_knows_the_elements() -> None:
    def covers(one: str, other: str) -> bool:
        return rv.covers(rv.to_filter(one), rv.to_filter(other))

    assert covers("t CONTAINS ALL ('a')", "t CONTAINS ALL ('a', 'b') AND x = 1")
    assert covers("t CONTAINS ANY ('a', 'b')", "t CONTAINS ALL ('b', 'c')")
    assert covers("t CONTAINS NONE ('a')", "t CONTAINS NONE ('a', 'b')")
    assert covers("SIZE(t) > 2", "SIZE(t) > 3")
    assert covers("t <> ARRAY['a']", "t = ARRAY['b']")
    assert not covers("t CONTAINS ALL ('a', 'b')", "t CONTAINS ANY ('a', 'b')")
    assert not rv.intersects(rv.to_filter("t CONTAINS ALL ('a')"), rv.to_filter("t CONTAINS NONE ('a', 'b')"))
    assert not rv.intersects(rv.to_filter("t = ARRAY['a']"), rv.to_filter("t = ARRAY['a', 'b']"))
    assert rv.to_filter("t = ARRAY['a'] OR t <> ARRAY['a'] OR (t = ARRAY[]) IS UNKNOWN") == rv.to_filter(
        "TRUE"
    )
    assert len(rv.to_filter(" OR ".join(f"t = ARRAY[{n}]" for n in range(300))).clauses) == 1


# ------------------------------------------------------------------------------------------------------------
# against a brute force over the documents


def reference(document: Any, name: str) -> Array | None:
    """Return the array at a name of a document with one letter per name."""
    found: list[Any] = []

    def walk(value: Any, rest: list[str], inside: bool) -> bool:
        if isinstance(value, list):
            return sum(walk(each, rest, True) for each in value) > 0 or not rest
        if not rest:
            if inside or not isinstance(value, dict | type(NULL)):
                found.append(None if isinstance(value, dict) else NULL if value is None else value)
                return True
            return False
        return isinstance(value, dict) and rest[0] in value and walk(value[rest[0]], rest[1:], inside)

    return tuple(found) if walk(document, name.split("."), False) else None


SINGLE = st.sampled_from([0, 1, 1.0, 2.5, "x", "y", "1", True, False])
VALUES = st.recursive(
    SINGLE | st.just(NULL),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
    max_leaves=6,
)
DOCUMENTS = st.dictionaries(st.sampled_from("ab"), VALUES, max_size=2)
NAMES = st.sampled_from(["a", "b", "a.a", "a.b", "b.a"])


def literal(value: Any) -> str:
    return repr(value).upper() if isinstance(value, bool) else repr(value)


LITERALS = st.lists(SINGLE.map(literal), min_size=1, max_size=3).map(", ".join)
LEAVES = st.one_of(
    st.builds("{} CONTAINS {} ({})".format, NAMES, st.sampled_from(["ALL", "ANY", "NONE"]), LITERALS),
    st.builds("{} {} ARRAY[{}]".format, NAMES, st.sampled_from(["=", "<>"]), LITERALS | st.just("")),
    st.builds("SIZE({}) {} {}".format, NAMES, st.sampled_from(["=", "<", ">="]), st.integers(0, 3)),
    st.builds("{} = {}".format, NAMES, SINGLE.map(literal)),
    st.builds("(SIZE({}) = 1) IS UNKNOWN".format, NAMES),
)
SELECTORS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} AND {})".format, inner, inner),
        st.builds("({} OR {})".format, inner, inner),
        st.builds("NOT {}".format, inner),
    ),
    max_leaves=3,
)


@PROPERTY
@given(DOCUMENTS, NAMES)
def test_the_array_of_a_document(document: dict[str, Any], name: str) -> None:
    batch = batch_of([{"b": 7}, document])
    expected = reference(document, name)
    (event,) = batch.events()[1:]
    assert array_at(event, name) == expected
    assert Chosen(batch, np.array([1, 0])).arrays(name)[0] == expected
    for way in getattr(event, "ways", ()):
        assert array_at(pickle.loads(pickle.dumps(way)), name) == expected
    if isinstance(event, NestedEvent):
        ways = flat_batch(event.part(Names(["a"], [name])).ways())
        assert Chosen(ways, np.arange(len(ways))).arrays(name) == [expected] * len(ways)
    (whole,) = batch_of([document | {"": 2**70}]).events()  # all in its form
    assert array_at(whole, name) == expected


@PROPERTY
@given(st.lists(SELECTORS, min_size=2, max_size=4), st.lists(DOCUMENTS, min_size=1, max_size=5))
def test_all_evaluations_agree(selectors: list[str], documents: list[dict[str, Any]]) -> None:
    filters = [rv.to_filter(selector) for selector in selectors]
    batch = batch_of(documents)
    index = MatchIndex()
    slots = [index.insert(each) for each in filters]
    pairs = set(zip(*(found.tolist() for found in index.match(batch)), strict=True))
    groups = np.left_shift(np.uint64(1), np.arange(index.slots_end, dtype=np.uint64))
    wanted = index.match_groups(batch, groups)
    for selector, made, slot in zip(selectors, filters, slots, strict=True):
        condition = to_predicate(selector)
        assert rv.to_filter(str(made)) == made
        every = made.evaluate_batch(batch, every=True).tolist()
        for row, event in enumerate(batch.events()):
            ways = getattr(event, "ways", (event,))
            truths = [evaluate(condition, way) is True for way in ways]
            assert (evaluate(condition, event) is True) is any(truths)
            assert (compile_predicate(condition)(event) is True) is any(truths)
            assert made.matches(event) is any(truths)
            assert bool(made.evaluate_batch(batch)[row]) is any(truths)
            assert every[row] is all(truths)
            assert ((row, slot) in pairs) is any(truths)
            assert bool(wanted[row] >> np.uint64(slot) & np.uint64(1)) is any(truths)
    for one, other in pairwise(filters):
        both = [one.matches(event) and other.matches(event) for event in batch.events()]
        if rv.covers(one, other):
            assert all(one.matches(event) for event in batch.events() if other.matches(event))
        if not rv.intersects(one, other):
            for event in batch.events():
                assert not any(
                    one.matches(way) and other.matches(way) for way in getattr(event, "ways", (event,))
                )
        assert rv.merge(one, other) is not None or any(both) is not None


@PROPERTY
@given(DOCUMENTS, NAMES, st.lists(SINGLE, max_size=3))
def test_the_words_against_python(document: dict[str, Any], name: str, values: list[Any]) -> None:
    array = reference(document, name)

    def key(value: Any) -> tuple[str, Any]:
        return ("number" if type(value) in (int, float) else type(value).__name__), value

    have = [key(value) for value in array or ()]
    asked = [key(value) for value in values]
    there = array is not None
    attribute = rv.attr(name)
    expected = {
        attribute == values: there and have == asked,
        attribute != values: there and have != asked,
        attribute.size() == len(values): there and len(have) == len(values),
    }
    if values:
        expected |= {
            attribute.contains_all(values): there and set(asked) <= set(have),
            attribute.contains_any(values): there and bool(set(asked) & set(have)),
            attribute.contains_none(values): there and not set(asked) & set(have),
        }
    for condition, holds in expected.items():
        assert matches(condition, document) == [holds]
