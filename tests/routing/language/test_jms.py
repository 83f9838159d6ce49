"""Selectors with ``dialect="jms"``: the rules of JMS 1.1, section 3.8.1, and what else JMS brokers agree on.

The cases are our own. Those that JMS brokers read differently from us are listed in docs/selectors.md.
"""

from typing import Any

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.routing.filters.filter import to_filter

EVENT: dict[str, Any] = {
    "rank": 123, "version": 2, "weight": 42.0, "name": "James", "quoted": "'In doubt'", "under": "_foo", "tail": "XD7_",
    "marks": "!#$&()*+,-./:;<=>?@[\\]^`{|}~", "yes": True, "no": False, "digits": "170",
}  # fmt: skip

TRUE = [
    # 3.8.1.1: Java literals
    "rank = 0x7B", "rank = 0173", "rank = 123L", "rank = 123.", "rank = 1.23E2", "rank = 1.23e+2d", "weight = 42f",
    "-.5 < .1", "1.E1 < 1.1E1", "4E-10 < 5E-10", "-0x10 = -16", "quoted = '''In doubt'''", "TRUE", "not FALSE",
    # identifiers: absent ones are NULL
    "nothing IS NULL", "name IS NOT NULL", "$x IS NULL", "_x IS NULL", "x1 IS NULL OR name = 'x'", "13 IS NOT NULL",
    # operators, precedence, brackets
    "yes", "NOT no", "yes OR no AND no", "not (no and yes)", "name = 'James' and rank < 200", "rank <> 124",
    "rank != 124",
    "rank + 2 = 125", "125 = (rank + 2)", "rank - version = 121", "rank * version = 246", "rank / version = 61.5",
    "version / 2 = 1", "1 + 1 * 10 = 11", "(1 + 1) * 10 = 20", "rank - -1 = 124", "-rank = 0 - rank", "+rank = 123",
    "weight * rank + 19 < weight * (rank + 19)", "rank>weight", "rank=123AND version=2", "12 - 2 - 3 = 7",
    # BETWEEN, IN, LIKE, ESCAPE, IS NULL
    "rank BETWEEN 100 AND 150", "rank NOT BETWEEN 10 AND 120", "weight BETWEEN version AND rank",
    "3 BETWEEN -17 AND 98.5",
    "rank NOT BETWEEN 150 AND 100", "name IN ('James', 'Bob')", "name NOT IN ('Bob', 'Ann')", "rank IN (1, 123)",
    "'a' IN ('a', 1, TRUE, (1 - 17))", "-16 IN ('a', (1 - 17))", "name LIKE 'J_m%'", "name NOT LIKE 'j%'",
    "under LIKE '!_%' ESCAPE '!'", "quoted NOT LIKE '!_%' ESCAPE '!'", "marks LIKE '!#$&()*+,-./:;<=>?@[\\]^`{|}~'",
    "'_%%_hello.th_re%' LIKE 'z_%.%z_%z%' ESCAPE 'z'", "under LIKE '%_%' ESCAPE '%'", "tail LIKE '_D7__' ESCAPE '_'",
    "tail LIKE '%D7%_' ESCAPE '%'", "tail LIKE '%D7\\_' ESCAPE '\\'", "marks LIKE '%[\\\\]%' ESCAPE '\\'",
    # 3.8.1.2: NULL is unknown, and NOT of unknown is not true either
    "nothing > 19 OR nothing IS NULL", "nothing > 19 OR 17 <= 19", "(weight BETWEEN 40 AND nothing) IS NULL",
    "(nothing IN ('a', 1)) IS NULL", "(nothing + 1 > 2) IS NULL", "(NOT nothing = 1) IS NULL",
    # comparing values of two types is false, and so true under NOT
    "NOT name = 17", "NOT (name < 17 OR name >= 17 OR name = 17)", "NOT name <> 17", "NOT rank = 'x'", "NOT yes = 1",
    "NOT (rank LIKE '%')", "rank NOT LIKE '1%'", "rank NOT IN ('123')", "NOT name BETWEEN 1 AND 9", "NOT name = rank",
    "NOT 'hello' = 19.0", "NOT digits = 170", "NOT (rank AND FALSE)", "NOT (name = 17 AND nothing = 1)",
    "NOT name + 1 > 2",
    # the empty selector matches everything
    "", "  ",
]  # fmt: skip
FALSE = [
    "rank >= 124", "name = 'james'", "nothing = 'x'", "nothing <> 'x'", "nothing NOT IN ('x')", "nothing NOT LIKE 'x'",
    "NOT nothing = 1", "NOT (nothing LIKE '%')", "nothing = 1 OR NOT nothing = 1", "nothing BETWEEN 1 AND 2", "nothing",
    "NOT nothing", "nothing = other", "nothing NOT BETWEEN 1 AND 2", "weight BETWEEN nothing AND 40", "weight / 0 = 0",
    "NOT (nothing + 1 > 2)", "name = 17", "name <> 17", "'hello' > 42 OR 'hello' < 42 OR 'hello' <> 42", "digits = 170",
    "weight BETWEEN 13 AND 'true'", "rank BETWEEN 150 AND 100", "name IN (1, 2)", "tail LIKE '%D7%%' ESCAPE '%'", "no",
    "NOT (name = 17 OR nothing = 1)", "name + 1 > 2", "rank AND yes", "rank LIKE '123'", "(yes OR no) AND no",
]  # fmt: skip
INVALID = [
    "3+5", "TRUE AND 3+5", "=TEST 'test'", "a = 1 AMD b = 2", "NULL = ZERO", "TRUE > 0", "FALSE > 0", "NOT > 0",
    "AND > 0",
    "OR > 0", "BETWEEN > 0", "LIKE > 0", "IN > 0", "IS > 0", "ESCAPE > 0", "1uncorrect IS NULL", "%uncorrect IS NULL",
    "a IS NULL NOT", "a IS NULL OR AND", "a LIKE 234", "a NOT 2 ESCAPE", "a NOT LIKE 'x_' ESCAPE 'long'",
    "a NOT LIKE 'x_' ESCAPE x", "a BETWEEN AND 'true'", "a NOT BETWEEN 34 OR 3.9", "a = 09", "a = 1..2", "yes < TRUE",
    "a = 'x", "a == 1", "a AND", "(a", "a IN ()", "a LIKE b", "a + 'x' = 1",
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "expected"), [*((text, True) for text in TRUE), *((text, False) for text in FALSE)]
)
def test_what_brokers_of_jms_agree_on(text: str, expected: bool) -> None:
    item = to_filter(text, dialect="jms")
    assert item.matches(EVENT) is expected
    assert item.evaluate_batch(batch_of([EVENT])).tolist() == [expected]
    assert to_filter(str(item)) == item


@pytest.mark.parametrize("text", INVALID)
def test_what_is_no_selector(text: str) -> None:
    with pytest.raises(SelectorError):
        to_filter(text, dialect="jms")


@pytest.mark.parametrize(
    ("text", "event", "ours", "jms"),
    [
        ("NOT (a = 1)", {"a": "x"}, False, True),
        ("NOT (a = 1)", {"a": 2}, True, True),
        ("NOT (a = 1)", {}, False, False),
        ("NOT (a = b)", {"a": "x", "b": 1}, False, True),
        ("NOT (a = b)", {"a": "x"}, False, False),
        ("NOT NOT (a = 1)", {"a": "x"}, False, False),
        ("NOT (a = 1 AND b = 2)", {"a": "x", "b": 2}, False, True),
        ("a NOT IN ('x')", {"a": 1}, False, True),
        ("(NOT (a <= 'a')) IS TRUE", {"a": 1}, False, True),
        ("(a = 1 OR b = 1) IS UNKNOWN", {"a": "x", "b": "x"}, True, False),
    ],
)
def test_where_ours_differs(text: str, event: dict[str, Any], ours: bool, jms: bool) -> None:
    assert to_filter(text).matches(event) is ours
    assert to_filter(text, dialect="jms").matches(event) is jms


@pytest.mark.parametrize(
    "text", ["a BETWEEN 5 AND 2", "a IN (1, 'x')", "1 = 'a'", "a LIKE 'x!y' ESCAPE '!'", "escape = 1"]
)
def test_ours_refuses_what_jms_takes_or_takes_what_it_refuses(text: str) -> None:
    def taken(dialect: Any) -> bool:
        try:
            to_filter(text, dialect=dialect)
        except SelectorError:
            return False
        return True

    assert taken("rayvous") is not taken("jms")


@pytest.mark.parametrize("text", ["UPPER(a) = 'x'", "a + 1 = 'x'", "a + 1 <> 'x'"])
def test_what_nothing_can_be_equal_to_is_false_of_every_value_and_unknown_of_none(text: str) -> None:
    for value in (1, 2.5, True, "x", "X"):
        assert not to_filter(text, dialect="jms").matches({"a": value})
        assert to_filter(f"NOT ({text})", dialect="jms").matches({"a": value})
    assert not to_filter(text, dialect="jms").matches({})
    assert not to_filter(f"NOT ({text})", dialect="jms").matches({})


def test_a_dialect_that_there_is_not() -> None:
    with pytest.raises(ValueError, match="dialect is 'sql'"):
        to_filter("a = 1", dialect="sql")  # type: ignore[arg-type]
    assert to_filter({"a": [1]}, dialect="jms") == to_filter("a = 1")  # only text has a dialect
    with pytest.raises((SelectorError, FilterTooComplex)):
        to_filter("NOT " * 101 + "a = 1", dialect="jms")
