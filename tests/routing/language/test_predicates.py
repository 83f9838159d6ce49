"""The meaning of conditions by example, and compiled conditions compared with direct evaluation."""

import datetime
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.protocol.values import NULL, Timestamp
from rayvous.routing.language import predicates as p
from rayvous.routing.language.cesql_values import Constant
from rayvous.routing.language.expressions import Literal
from rayvous.routing.language.selectors import parse_selector

MOMENT = Timestamp(1_357_016_400_000_000_000)  # 2013-01-01 05:00 UTC


@pytest.mark.parametrize(
    ("text", "event", "expected"),
    [
        ("x > 1", {"x": 2}, True),
        ("x > 1", {"x": 1}, False),
        ("x > 1", {}, None),
        ("x > 1", {"x": None}, None),
        ("x > 1", {"x": float("nan")}, None),
        ("x > 1", {"x": np.float64(2)}, True),
        ("x > 1", {"x": "2"}, None),
        ("x > 1", {"x": True}, None),
        ("x > 1", {"x": MOMENT}, None),
        ("x > 1", {"x": float("inf")}, True),
        ("NOT x > 1", {"x": "2"}, None),
        ("NOT x > 1", {}, None),
        ("NOT x > 1", {"x": 1}, True),
        ("x <> 1", {"x": "a"}, None),
        ("x <> 1", {"x": 2}, True),
        ("x = 1", {"x": 1.0}, True),
        ("x = 9007199254740993", {"x": float(2**53)}, False),
        ("x < 9007199254740993", {"x": float(2**53)}, True),
        ("x = TRUE", {"x": 1}, None),
        ("x", {"x": True}, True),
        ("NOT x", {"x": False}, True),
        ("x", {"x": "yes"}, None),
        ("x <> TRUE", {"x": False}, True),
        ("x = '1'", {"x": 1}, None),
        ("x = 'a'", {"x": "A"}, False),
        ("x < 'b'", {"x": "a"}, True),
        ("x < 'a'", {"x": "Z"}, True),
        ("x BETWEEN 'a' AND 'b'", {"x": "abc"}, True),
        ("x BETWEEN 1 AND 2", {"x": 2}, True),
        ("x NOT BETWEEN 1 AND 2", {"x": 2}, False),
        ("x NOT BETWEEN 1 AND 2", {}, None),
        ("x IN (1, 2)", {"x": 2.0}, True),
        ("x NOT IN ('a', 'b')", {"x": "c"}, True),
        ("x NOT IN ('a', 'b')", {}, None),
        ("x NOT IN ('a', 'b')", {"x": 1}, None),
        ("x IS NULL", {}, True),
        ("x IS NULL", {"x": float("nan")}, True),
        ("x IS NULL", {"x": 0}, False),
        ("x IS NOT NULL", {}, False),
        ("NOT x IS NULL", {"x": 1}, True),
        ("x = 1 OR y = 1", {"y": 1}, True),
        ("x = 1 OR y = 1", {"y": 2}, None),
        ("x = 1 AND y = 1", {"y": 2}, False),
        ("x = 1 AND y = 1", {"y": 1}, None),
        ("NOT (x = 1 AND y = 1)", {"y": 2}, True),
        ("a = 1 OR b = 1 AND c = 1", {"a": 1, "b": 0, "c": 0}, True),
        ("x > TIMESTAMP '2013-01-01 04:59:59'", {"x": MOMENT}, True),
        ("x > TIMESTAMP '2013-01-01 04:59:59'", {"x": int(MOMENT)}, None),
        ("x > TIMESTAMP '2013-01-01 04:59:59'", {"x": datetime.datetime(2013, 1, 1, 5)}, True),
        ("x LIKE 'a%c'", {"x": "abbc"}, True),
        ("x LIKE 'a_c'", {"x": "abbc"}, False),
        ("x LIKE 'a!%' ESCAPE '!'", {"x": "a%"}, True),
        ("x LIKE 'a!%' ESCAPE '!'", {"x": "ab"}, False),
        ("x LIKE '%'", {"x": ""}, True),
        ("x LIKE '%'", {"x": 5}, None),
        ("x LIKE '_'", {"x": "\n"}, True),
        ("x LIKE 'a%'", {"x": "a\nb"}, True),
        ("x NOT LIKE 'a%'", {}, None),
        ("x PREFIX 'ab'", {"x": "abc"}, True),
        ("x SUFFIX 'bc'", {"x": "abc"}, True),
        ("x NOT SUFFIX 'bc'", {"x": "abc"}, False),
        ("x CONTAINS 'b'", {"x": "abc"}, True),
        ("x CONTAINS 'b'", {"x": ["b"]}, SelectorError),
        ("x ILIKE 'jF%'", {"x": "Jfk"}, True),
        ("x ILIKE 'é'", {"x": "É"}, True),
        ("x ILIKE 'ss'", {"x": "ß"}, False),
        ("x ILIKE 's'", {"x": "ſ"}, False),
        ("x NOT ILIKE 'jf%'", {"x": 1}, None),
        ("UPPER(x) = 'JFK'", {"x": "jFk"}, True),
        ("'JFK' = UPPER(x)", {"x": "jFk"}, True),
        ("UPPER(x) = 'JFk'", {"x": "jFk"}, False),
        ("UPPER(x) = 'JFk'", {"x": 1}, None),
        ("UPPER(x) <> 'JFK'", {"x": "jFk"}, False),
        ("UPPER(x) <> 'JFK'", {}, None),
        ("LOWER(x) IN ('a%', 'b')", {"x": "A%"}, True),
        ("LOWER(x) NOT IN ('a%', 'b')", {"x": "Ab"}, True),
        ("LOWER(x) LIKE 'a!%_' ESCAPE '!'", {"x": "A%É"}, True),
        ("UPPER(x) PREFIX 'A_'", {"x": "a_b"}, True),
        ("UPPER(x) PREFIX 'A_'", {"x": "abb"}, False),
        ("LOWER(x) SUFFIX 'é'", {"x": "xÉ"}, True),
        ("LOWER(x) NOT CONTAINS 'b'", {"x": "aBc"}, False),
        ("upper(x) = 'A' AND upper = 1", {"x": "a", "upper": 1}, True),
        ("x CIDR '10.0.0.0/8'", {"x": "10.200.0.1"}, True),
        ("x CIDR '10.0.0.0/8'", {"x": "::ffff:10.200.0.1"}, True),
        ("x CIDR '10.0.0.0/8'", {"x": "11.0.0.1"}, False),
        ("x CIDR '10.0.0.0/8'", {"x": "10.0.0"}, False),
        ("x CIDR '10.0.0.0/8'", {"x": "10.0.0.1%eth0"}, False),
        ("x CIDR '2001:db8::/32'", {"x": "2001:0DB8:0:0::1"}, True),
        ("x NOT CIDR '10.0.0.0/8'", {"x": "home"}, True),
        ("x NOT CIDR '10.0.0.0/8'", {}, None),
        ("x IS NULL", {"x": NULL}, True),
        ("x IS MISSING", {"x": NULL}, False),
        ("x IS MISSING", {"x": None}, True),
        ("x IS NOT MISSING", {"x": 1}, True),
        ("x <> 1", {"x": NULL}, None),
        ("x = y", {"x": NULL, "y": NULL}, None),
        ("x + 1 > 0", {"x": NULL}, None),
        ("x + 1 IS NULL", {"x": NULL}, True),
        ("TRUE", {}, True),
        ("FALSE", {"x": 1}, False),
    ],
)
def test_the_meaning_by_example(text: str, event: dict[str, Any], expected: Any) -> None:
    condition = parse_selector(text)
    if expected is SelectorError:
        with pytest.raises(ValueError, match="is not supported"):
            p.evaluate(condition, event)
        return
    assert p.evaluate(condition, event) is expected


literals = st.sampled_from([0, 1, 2.5, "", "a", "ab%", True, False, Timestamp(1)])
ordered = st.sampled_from([0, 1, 2.5, "", "a", "ab%", Timestamp(1)])
names = st.sampled_from("xyz")
leaves = st.one_of(
    st.builds(p.Compare, names, st.sampled_from(["=", "<>"]), literals),
    st.builds(p.Compare, names, st.sampled_from(["<", "<=", ">", ">="]), ordered),
    st.builds(lambda name, value: p.Between(name, value, value), names, ordered),
    st.builds(lambda name, value: p.In(name, (value,)), names, literals),
    st.builds(p.Like, names, st.sampled_from(["a%", "_", "%b%", "a!%", ""])),
    st.builds(p.Prefix, names, st.sampled_from(["", "a"])),
    st.builds(p.Suffix, names, st.sampled_from(["", "%"])),
    st.builds(p.Contains, names, st.sampled_from(["b", "a"])),
    st.builds(p.IsNull, names),
    st.builds(p.IsMissing, names),
    st.builds(p.ILike, names, st.sampled_from(["A%", "_", "%b%", "aB!%", ""])),
    st.builds(p.Cidr, names, st.sampled_from(["10.0.0.0/8", "::/0"])),
    st.builds(p.HasElement, names, literals),
    st.builds(p.IsList, names, st.lists(literals, max_size=1).map(tuple)),
    st.sampled_from([p.TRUE, p.FALSE]),
)
conditions = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda terms: p.And(tuple(terms))),
        st.lists(inner, max_size=3).map(lambda terms: p.Or(tuple(terms))),
        inner.map(p.Not),
    ),
    max_leaves=6,
)
events = st.dictionaries(
    names, st.one_of(literals, st.sampled_from([None, NULL, float("nan"), 1.0, "abb", "AB", "10.1.1.1"]))
)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(conditions, st.lists(events, min_size=1, max_size=5))
def test_the_compiled_form_says_the_same(condition: p.Predicate, some: list[dict[str, Any]]) -> None:
    test = p.compile_predicate(condition)
    for event in some:
        assert test(event) is p.evaluate(condition, event)
        assert p.evaluate(p.Not(p.Not(condition)), event) is p.evaluate(condition, event)


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.text("ab%_\n", max_size=6), st.text("ab\n", max_size=6))
def test_like_against_trying_everything(pattern: str, text: str) -> None:
    def tries(wanted: str, rest: str) -> bool:
        if not wanted:
            return not rest
        if wanted[0] == "%":
            return any(tries(wanted[1:], rest[skip:]) for skip in range(len(rest) + 1))
        return bool(rest) and wanted[0] in ("_", rest[0]) and tries(wanted[1:], rest[1:])

    condition = p.Like("x", pattern)
    assert p.evaluate(condition, {"x": text}) is tries(pattern, text)
    assert p.compile_predicate(condition)({"x": text}) is tries(pattern, text)


Compare: Any = p.Compare  # untyped, so that tests can pass any argument
Prefix: Any = p.Prefix


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: p.Between("x", 5, 1), "BETWEEN 5 AND 1 is empty"),
        (lambda: p.Between("x", "b", "a"), "is empty"),
        (lambda: p.Between("x", 1, "a"), "number and string"),
        (lambda: p.Between("x", False, True), "no order"),
        (lambda: Compare("x", "<", float("nan")), "NaN"),
        (lambda: Compare("x", "<", None), "IS NULL"),
        (lambda: Compare("x", "<", float("inf")), "infinite"),
        (lambda: Compare("x", "<", True), "no order"),
        (lambda: Compare("x", "==", 1), "no comparison is called '=='"),
        (lambda: Compare("x", "<", 2**64), "64 bits"),
        (lambda: Compare("x", "=", Timestamp(2**70)), "1678 to 2262"),
        (lambda: Compare("x", "=", [1]), "list is not supported"),
        (lambda: Compare("", "=", 1), "attribute name"),
        (lambda: Compare("a\nb", "=", 1), "attribute name"),
        (lambda: p.In("x", ()), "at least one"),
        (lambda: p.In("x", (1, "a")), "number and string"),
        (lambda: p.In("x", (1, True)), "number and boolean"),
        (lambda: p.In("x", (1, Timestamp(1))), "number and timestamp"),
        (lambda: p.Like("x", "a", "!!"), "exactly one character"),
        (lambda: p.Like("x", "a!b", "!"), "must stand before"),
        (lambda: p.Like("x", "a!", "!"), "must stand before"),
        (lambda: Prefix("x", 5), "PREFIX needs a string, found a int"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Any, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        make()


def test_literals_are_normalised() -> None:
    assert Compare("x", ">", np.int64(2)) == Compare("x", ">", 2)
    assert Compare("x", "=", datetime.datetime(2013, 1, 1, 5)) == Compare("x", "=", MOMENT)


def test_nesting_has_a_limit() -> None:
    condition: p.Predicate = p.IsNull("x")
    for _ in range(p.DEPTH_MAX):
        condition = p.Not(condition)
    assert p.evaluate(condition, {}) is True
    with pytest.raises(FilterTooComplex, match="more than 100 deep"):
        p.Not(condition)


def test_combining_stays_flat() -> None:
    one, two, three = (p.IsNull(name) for name in "xyz")
    assert one & two & three == p.And((one, two, three))
    assert one | (two | three) == p.Or((one, two, three))
    assert ~~one == one
    with pytest.raises(TypeError, match=r"& \| ~"):
        bool(one)
    with pytest.raises(TypeError):
        one & 5  # type: ignore[operator]
    with pytest.raises(TypeError):
        one | "x"  # type: ignore[operator]


@pytest.mark.parametrize(
    "made",
    [
        lambda value: p.Compare("a", "=", value),
        lambda value: p.In("a", (value,)),
        lambda value: p.IsList("a", (value,)),
        lambda value: p.HasElement("a", value),
        lambda value: p.Not(p.Or((p.Compare("a", "=", value), p.Compare("b", "=", value)))),
        Literal,
        Constant,
    ],
    ids=["compare", "in", "list", "element", "nested", "expression", "cloudevents"],
)
@pytest.mark.parametrize(("number", "truth"), [(0, False), (1, True)])
def test_conditions_with_a_number_and_with_a_truth_value_are_not_equal(made, number, truth) -> None:
    """Python finds the values equal; a set or a dictionary of conditions would lose one."""
    assert made(number) != made(truth) and len({made(number), made(truth)}) == 2
    assert made(number) == made(number) == pickle.loads(pickle.dumps(made(number)))
    assert made(truth) == made(truth) == pickle.loads(pickle.dumps(made(truth)))
