"""Parsing selector text: the resulting conditions, and the errors for invalid text."""

import math
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import SelectorError
from rayvous.protocol.values import Timestamp
from rayvous.routing.language import predicates as p
from rayvous.routing.language import selectors
from rayvous.routing.language.expressions import Literal, Ref, arithmetic
from rayvous.routing.language.selectors import CHARACTERS_MAX, parse_selector

X1 = p.Compare("x", "=", 1)
Y1 = p.Compare("y", "=", 1)
Z1 = p.Compare("z", "=", 1)
X, Y, ONE = Ref("x"), Ref("y"), Literal(1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", X1),
        ("x=1", X1),
        (" \n\tx\r\n= 1 ", X1),
        ("(((x = 1)))", X1),
        ("1 = x", X1),
        ("5 < x", p.Compare("x", ">", 5)),
        ("5 >= x", p.Compare("x", "<=", 5)),
        ("x = 1 or y = 1 And z = 1", p.Or((X1, p.And((Y1, Z1))))),
        ("(x = 1 OR y = 1) AND z = 1", p.And((p.Or((X1, Y1)), Z1))),
        ("not x = 1 and y = 1", p.And((p.Not(X1), Y1))),
        ("NOT (x = 1 AND y = 1)", p.Not(p.And((X1, Y1)))),
        ("NOT NOT x = 1", p.Not(p.Not(X1))),
        ("x between 1 and 2 and y = 1", p.And((p.Between("x", 1, 2), Y1))),
        ("x NOT BETWEEN 1 AND 2", p.Not(p.Between("x", 1, 2))),
        ("x IN ('a')", p.In("x", ("a",))),
        ("x NOT IN (1, 2)", p.Not(p.In("x", (1, 2)))),
        ("x LIKE 'a%'", p.Like("x", "a%")),
        ("x NOT LIKE 'a!%' ESCAPE '!'", p.Not(p.Like("x", "a!%", "!"))),
        ("x PREFIX 'a'", p.Prefix("x", "a")),
        ("x NOT SUFFIX 'a'", p.Not(p.Suffix("x", "a"))),
        ("x contains 'a'", p.Contains("x", "a")),
        ("x IS NULL", p.IsNull("x")),
        ("x IS NOT NULL", p.Not(p.IsNull("x"))),
        ("x", p.Compare("x", "=", True)),
        ("delayed AND NOT x", p.And((p.Compare("delayed", "=", True), p.Not(p.Compare("x", "=", True))))),
        ("x <> FALSE", p.Compare("x", "<>", False)),
        ("TRUE", p.TRUE),
        ("false OR x = 1", p.Or((p.FALSE, X1))),
        ("x = 'it''s'", p.Compare("x", "=", "it's")),
        ("x = ''", p.Compare("x", "=", "")),
        ("x = 'a\nb'", p.Compare("x", "=", "a\nb")),
        ("x = -5", p.Compare("x", "=", -5)),
        ("x = +5", p.Compare("x", "=", 5)),
        ("x = 7E3", p.Compare("x", "=", 7000.0)),
        ("x = -57.9e-2", p.Compare("x", "=", -0.579)),
        ("x = .5", p.Compare("x", "=", 0.5)),
        ("x = 5.", p.Compare("x", "=", 5.0)),
        ("x = 9223372036854775807", p.Compare("x", "=", 2**63 - 1)),
        ('"odd "" name" = 1', p.Compare('odd " name', "=", 1)),
        ('"and" = 1', p.Compare("and", "=", 1)),
        ("$a_1.b.c = 1", p.Compare("$a_1.b.c", "=", 1)),
        ("_x = 1", p.Compare("_x", "=", 1)),
        ("größe = 1", p.Compare("größe", "=", 1)),
        ("android = 1", p.Compare("android", "=", 1)),
        ("timestamp > TIMESTAMP '1970-01-01'", p.Compare("timestamp", ">", Timestamp(0))),
        (
            "prefix PREFIX 'a' AND escape LIKE 'b' ESCAPE 'c'",
            p.And((p.Prefix("prefix", "a"), p.Like("escape", "b", "c"))),
        ),
        ("contains", p.Compare("contains", "=", True)),
        ("", p.TRUE),
        (" \n ", p.TRUE),
        ("x != 5", p.Compare("x", "<>", 5)),
        ("x = 042", p.Compare("x", "=", 34)),
        ("x = -042", p.Compare("x", "=", -34)),
        ("x = 00", p.Compare("x", "=", 0)),
        ("x = 0x1F", p.Compare("x", "=", 31)),
        ("x = 0XffL", p.Compare("x", "=", 255)),
        ("x = 5L", p.Compare("x", "=", 5)),
        ("x = 1_000", p.Compare("x", "=", 1000)),
        ("x = 0b101L", p.Compare("x", "=", 5)),
        ("x = 0x8000_0000_0000_0001", p.Compare("x", "=", -(2**63) + 1)),
        ("x = 0xFFFFFFFFFFFFFFFF", p.Compare("x", "=", -1)),
        ("x = 0x1.8p3", p.Compare("x", "=", 12.0)),
        ("x = 0x800p-3f", p.Compare("x", "=", 256.0)),
        ("x = 1_020.5_0e0_1d", p.Compare("x", "=", 10205.0)),
        ("x = 5l", p.Compare("x", "=", 5)),
        ("x = 09.5", p.Compare("x", "=", 9.5)),
        ("x = 7.5d", p.Compare("x", "=", 7.5)),
        ("x = 7F", p.Compare("x", "=", 7.0)),
        ("x = 0x1F AND y = 1", p.And((p.Compare("x", "=", 31), Y1))),
        ("x = -9223372036854775808", p.Compare("x", "=", -(2**63))),
        ("x = 5 +1", p.Compare("x", "=", 6)),
        ("x=2-1", X1),
        ("x = - - 1", X1),
        ("x = -(2 - 3)", X1),
        ("1 < 2", p.TRUE),
        ("'a' = 'b'", p.FALSE),
        ("x = y", p.Relation(X, "=", Y)),
        ('x = "y"', p.Relation(X, "=", Y)),
        ("x + 1 * y > 2", p.Relation(arithmetic("+", X, arithmetic("*", ONE, Y)), ">", Literal(2))),
        ("2 < (x + 1) * y", p.Relation(arithmetic("*", arithmetic("+", X, ONE), Y), ">", Literal(2))),
        ("x - y - 1 = 0", p.Relation(arithmetic("-", arithmetic("-", X, Y), ONE), "=", Literal(0))),
        ("-x = y", p.Relation(arithmetic("-", Literal(0), X), "=", Y)),
        ("x BETWEEN y AND 1", p.And((p.Relation(X, ">=", Y), p.Compare("x", "<=", 1)))),
        ("x IN (1, y)", p.Or((p.In("x", (1,)), p.Relation(X, "=", Y)))),
        ("x + 1 IS NULL", p.Undefined(arithmetic("+", X, ONE))),
        ("(x = 1) IS NULL", p.IsTruth(X1, None)),
        ("(x = 1) IS NOT TRUE", p.Not(p.IsTruth(X1, True))),
        ("x IS UNKNOWN", p.IsTruth(p.Compare("x", "=", True), None)),
        ("unknown = 1", p.Compare("unknown", "=", 1)),
        ("13 IS NOT NULL", p.Not(p.FALSE)),
        ("'abc' LIKE 'a%'", p.TRUE),
        ("ın > 2", p.Compare("ın", ">", 2)),
        ("ıs = 1 AND lıke = 1", p.And((p.Compare("ıs", "=", 1), p.Compare("lıke", "=", 1)))),
    ],
)
def test_what_selectors_say(text: str, expected: p.Predicate) -> None:
    assert parse_selector(text) == expected


@pytest.mark.parametrize(
    ("text", "nanoseconds"),
    [
        ("1970-01-01", 0),
        ("1970-01-01 00:00", 0),
        ("1970-01-01T00:00:01Z", 10**9),
        ("1970-01-01 00:00:00.5", 5 * 10**8),
        ("1970-01-01 00:00:00.000000001", 1),
        ("1970-01-01 01:00:00+01:00", 0),
        ("1969-12-31 23:30:00-0030", 0),
        ("1677-09-21T00:12:43.145224193Z", -(2**63) + 1),
        ("2262-04-11T23:47:16.854775807Z", 2**63 - 1),
    ],
)
def test_timestamps(text: str, nanoseconds: int) -> None:
    condition = parse_selector(f"t = TIMESTAMP '{text}'")
    assert condition == p.Compare("t", "=", Timestamp(nanoseconds))
    assert isinstance(condition, p.Compare)
    assert type(condition.literal) is Timestamp


def test_numbers_have_the_type_that_they_are_written_in() -> None:
    for text, kind in (("1", int), ("1.0", float), ("1e0", float)):
        condition = parse_selector(f"x = {text}")
        assert isinstance(condition, p.Compare)
        assert type(condition.literal) is kind


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("()", "line 1, column 2: expected a condition after '(', found ')'"),
        ("dep_delay >", "line 1, column 12: expected a value after '>', found end of selector"),
        ("x = 1 AND", "line 1, column 10: expected a condition after 'AND', found end of selector"),
        ("x = 1\nAND y >\n  AND", "line 3, column 3: expected a value after '>', found 'AND'"),
        ("5 >", "line 1, column 4: expected a value after '>', found end of selector"),
        ("x == 5", "line 1, column 4: expected a value after '=', found '=' ('equal' is =)"),
        ("x ! 5", "line 1, column 3: '!' has no meaning in a selector ('not equal' is <> or !=)"),
        ("x && y", "line 1, column 3: '&' has no meaning in a selector (write AND)"),
        ("x % 2 = 1", "line 1, column 3: '%' has no meaning in a selector (arithmetic is + - * /)"),
        ("x = = 'y'", "line 1, column 5: expected a value after '=', found '=' ('equal' is =)"),
        ("1 = 'a'", "line 1, column 3: = needs values that compare with each other, found number and string"),
        ("TRUE < FALSE", "line 1, column 6: booleans have no order: use = or <> instead of <"),
        ("3 + 5", "line 1, column 1: a value is no condition: compare it with something"),
        ("x AND 'a'", "line 1, column 7: a value is no condition"),
        ("x + 'a' = 1", "line 1, column 3: + needs numbers, found a string"),
        (
            "x + y = 'a'",
            "line 1, column 7: an arithmetic expression is a number, and cannot be compared with a string",
        ),
        ("x = 1 / 0", "line 1, column 7: 1 / 0 has no value"),
        ("x = 1e308 * 10", "line 1, column 11: an infinite number cannot be compared with"),
        ("(x = 1) + 2 = 3", "line 1, column 2: a condition is no value"),
        ("-(x OR y) = 1", "line 1, column 3: a condition is no value"),
        (
            "x + 1 LIKE 'a'",
            "line 1, column 12: LIKE, ILIKE, PREFIX, SUFFIX, CONTAINS and CIDR need a string or an attribute",
        ),
        ("+".join("x" * 103) + " = 1", "line 1, column 202: arithmetic is nested more than 100 deep"),
        ("x = 09", "line 1, column 5: 09 is no octal number, which a leading 0 makes it"),
        ("x = 0x", "line 1, column 6: expected AND, OR or the end of the selector after '0', found 'x'"),
        ("x = 5.0L", "line 1, column 5: 5.0L is no number: L stands after integers only"),
        ("x = 0x1FFFFFFFFFFFFFFFF", "does not fit in 64 bits"),
        ("x = -0x8000000000000000", "does not fit in 64 bits"),
        ("x = 1_", "line 1, column 5: 1_ is no number: _ stands between digits"),
        ("x = 1e_5", "line 1, column 5: 1e_5 is no number: _ stands between digits"),
        ("x = 1_e5", "line 1, column 5: 1_e5 is no number: _ stands between digits"),
        ("x = 1_f", "line 1, column 5: 1_f is no number: _ stands between digits"),
        ("x = 0x1p5_f", "line 1, column 5: 0x1p5_f is no number: _ stands between digits"),
        ("x = 0b1f", "line 1, column 5: 0b1f is no number"),
        ("x = 0x.p1", "line 1, column 5: 0x.p1 is no number"),
        ("x = 1_.5", "_ stands between digits"),
        ("x = 0x1.8", "a hexadecimal float has a p"),
        ("x = 0x1p9999", "too large for a float"),
        ("x = 0b2", "found 'b2'"),
        ("x = 9223372036854775808", "does not fit in 64 bits"),
        ("x ıs null", "line 1, column 3: expected an operator"),
        ("x lıke 'a'", "line 1, column 3: expected an operator"),
        ("x = 'abc", "line 1, column 5: the string that begins here has no closing single quote"),
        ('"abc = 1', "line 1, column 1: the name that begins here has no closing double quote"),
        ("x = NULL", "(write IS NULL or IS NOT NULL)"),
        ("x = ‘a’", "'‘' has no meaning in a selector (strings stand in plain single quotes)"),
        ("x = \0", "the character U+0000 has no meaning"),
        ("(x = 5", "line 1, column 7: expected AND, OR or ')' after '5', found end of selector"),
        ("x = 5)", "line 1, column 6: expected AND, OR or the end of the selector after '5', found ')'"),
        ("x > 2 y", "line 1, column 7: expected AND, OR or the end of the selector after '2', found 'y'"),
        (
            "x 5",
            "column 3: expected an operator (= <> < <= > >= BETWEEN IN LIKE ILIKE PREFIX SUFFIX CONTAINS CIDR IS)",
        ),
        (
            "x NOT 5",
            "expected BETWEEN, IN, LIKE, ILIKE, PREFIX, SUFFIX, CONTAINS or CIDR after 'NOT', found '5'",
        ),
        ("x IN ()", "line 1, column 7: expected a value after '(', found ')'"),
        ("x IN 5", "line 1, column 6: expected '(' after 'IN', found '5'"),
        ("x IN (1 2)", "line 1, column 9: expected ',' or ')' after '1', found '2'"),
        (
            "x IN (1, 'a')",
            "line 1, column 3: IN needs values that compare with each other, found number and string",
        ),
        ("x LIKE 5", "line 1, column 8: expected a string in single quotes after 'LIKE', found '5'"),
        ("x LIKE 'a' ESCAPE 'bb'", "line 1, column 19: ESCAPE needs exactly one character"),
        (
            "x IS 5",
            "line 1, column 6: expected NOT, NULL, MISSING, TRUE, FALSE or UNKNOWN after 'IS', found '5'",
        ),
        (
            "x BETWEEN 5 AND 1",
            "line 1, column 3: BETWEEN 5 AND 1 is empty: its lower bound is above its upper bound",
        ),
        ("x BETWEEN 1", "line 1, column 12: expected AND after '1', found end of selector"),
        ("x < TRUE", "line 1, column 3: booleans have no order"),
        (
            "x = 99999999999999999999",
            "line 1, column 5: the integer 99999999999999999999 does not fit in 64 bits",
        ),
        ("x = " + "9" * 60_000, "does not fit in 64 bits"),
        ("x = 1e999", "line 1, column 5: the number 1e999 is too large for a float"),
        (
            "x = TIMESTAMP 'soon'",
            "line 1, column 15: 'soon' is no timestamp: write TIMESTAMP '2013-01-01 05:00:00'",
        ),
        (
            "x = TIMESTAMP '2013-13-01'",
            "line 1, column 15: '2013-13-01' is no timestamp: month must be in 1..12",
        ),
        ("x = TIMESTAMP '2013-01-01 05:00+24:00'", "offset from UTC is out of range"),
        ("x = TIMESTAMP '1600-01-01'", "outside the years 1678 to 2262"),
        ('"" = 1', "attribute name ''"),
        ("NOT " * 101 + "x", "line 1, column 1: AND, OR and NOT are nested more than 100 deep"),
        ("x" * 1_025 + " = 1", "a name is 1 to 1,024 printable characters"),
    ],
)
def test_errors_are_for_people(text: str, message: str) -> None:
    with pytest.raises(SelectorError) as caught:
        parse_selector(text)
    assert message in str(caught.value)
    assert caught.value.line >= 1
    assert caught.value.column >= 1
    assert len(str(caught.value)) < 250


def test_text_that_is_too_long_or_no_text() -> None:
    with pytest.raises(SelectorError, match="131073 characters, the limit is 131072"):
        parse_selector(" " * (CHARACTERS_MAX + 1))
    with pytest.raises(SelectorError, match="a selector is a string, not a int"):
        parse_selector(5)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "text", ["(" * 30_000, "NOT " * 16_000 + "x", "(" * 20_000 + "x" + ")" * 20_000, "x AND " * 9_000]
)
def test_hostile_nesting_is_an_answer(text: str) -> None:
    try:
        assert parse_selector(text) == p.Compare("x", "=", True)
    except SelectorError as error:
        assert error.line == 1


WORDS = st.sampled_from(
    [
        "x",
        "y",
        "'a'",
        "'a",
        "5",
        "-5.",
        "1e",
        "1e9",
        "=",
        "<>",
        "!=",
        "<",
        ">=",
        "+",
        "*",
        "/",
        "042",
        "0x1FL",
        "(",
        ")",
        ",",
        "AND",
        "OR",
        "NOT",
        "BETWEEN",
        "IN",
        "LIKE",
        "ESCAPE",
        "IS",
        "NULL",
        "TRUE",
        "UNKNOWN",
        "PREFIX",
        "TIMESTAMP",
        "'2013-01-01'",
        '"n"',
        '"',
        "!",
        ";",
        "\0",
        "é",
        "٣",
        "²",
        "\\",
    ]
)


@settings(max_examples=250, deadline=None, derandomize=True)
@given(st.one_of(st.text(max_size=40), st.lists(WORDS, max_size=12).map(" ".join)))
@example("x = ٣")
@example("x\x1f=1")
def test_garbage_is_a_condition_or_an_error_with_a_place(text: str) -> None:
    try:
        assert isinstance(parse_selector(text), p.Predicate)
    except SelectorError as error:
        assert error.line >= 1
        assert error.column >= 1
        assert str(error).startswith(f"line {error.line}, column {error.column}: ")


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_floats_survive_being_written(number: float) -> None:
    condition = parse_selector(f"x = {number!r}")
    assert isinstance(condition, p.Compare)
    assert condition.literal == number
    assert math.copysign(1, condition.literal) == math.copysign(1, number)


def test_lark_is_imported_only_when_its_parser_is_needed() -> None:
    code = (
        "import sys; from rayvous.routing.language.questions import attr, to_filter; "
        "to_filter(attr('x') > 1); assert 'lark' not in sys.modules; "
        "to_filter('x > 1'); assert 'lark' not in sys.modules; "
        "to_filter('x > 1 OR y > 1'); assert 'lark' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_short_selector_is_parsed_once_and_a_long_one_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gateway asks after each subscription what is doubtful about its selector, and many clients write the same."""
    parsed: list[str] = []

    def parse(parser: Any, text: str, *_: Any) -> Any:
        parsed.append(text)
        return real(parser, text, *_)

    real = selectors.parse
    monkeypatch.setattr(selectors, "parse", parse)
    short, long = "NOT never_seen = 'before'", f"NOT text = '{'x' * selectors.KEPT_CHARACTERS_MAX}'"
    for text in (short, long):
        assert parse_selector(text) == parse_selector(text)
    assert parsed == [short, long, long]
    assert parse_selector(short, "jms") is not None and parsed == [short, long, long, short]
