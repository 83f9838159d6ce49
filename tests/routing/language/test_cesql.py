"""CloudEvents SQL: every rule of the specification, tested with our own cases, and expressions as filters.

Reference: CloudEvents SQL, version 1.0 (sections in the names of the tests' groups).
"""

import random
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.protocol.values import Timestamp, normalize
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.language import cesql
from rayvous.routing.language import predicates as p
from rayvous.routing.language.cesql import expression_of, parse_cesql
from rayvous.routing.language.cesql_values import node_text, result_of

EVENT: dict[str, Any] = {
    "id": "i-1",
    "source": "/line/7",
    "type": "org.example.stopped",
    "subject": "press",
    "hop": "5",
    "ttl": 10,
    "urgent": True,
    "ratio": 2.5,
    "whole": 3.0,
    "far": 2**40,
    "time": Timestamp(0),
    "mixedCase": "x",
    "ce_type": "y",
}

CASES = {
    # 2.2 and 2.3: literals, names, quotes
    "TRUE": True, "fAlSe": False, "'TRUE'": SelectorError, "7": SelectorError, "urgent": True, "subject": None,
    "'it\\'s' = \"it's\"": True, '"say \\"x\\"" = \'say "x"\'': True, "'a\\nb' = 'a\\nb'": True, "'''' = \"'\"": True,
    "2147483647 > 0": True, "-2147483648 < 0": True, "2147483648 > 0": SelectorError, "99999999999 > 0": SelectorError,
    "mixedCase = 'x'": True, "ce_type = 'y'": True, "5 = +5": True,
    # 3.2: attributes
    "missing = ''": None, "missing <> ''": None, "TRUE AND missing = ''": None, "NOT missing": None,
    "-missing = 0": None,
    "1 / missing = 0": None, "missing LIKE '%'": None, "missing IN ('a')": None, "'a' IN (missing)": None,
    "time = '1970-01-01T00:00:00Z'": True, "ratio = '2.5'": True, "whole = 3": True, "far = '1099511627776'": True,
    # 3.4.1: NOT and -
    "NOT TRUE": False, "NOT 'false'": True, "NOT 'x'": None, "NOT 0": True, "NOT 10": False, "NOT TRUE = FALSE": True,
    "--5 = 5": True, "-'5' = -5": True, "-TRUE = -1": True, "-'x' = 0": None, "- -2147483648 = 0": SelectorError,
    # 3.4.2: arithmetic
    "2 + 3 * 4 = 14": True, "(2 + 3) * 4 = 20": True, "7 / 2 = 3": True, "-7 / 2 = -3": True, "7 % 3 = 1": True,
    "-7 % 3 = -1": True, "7 % -3 = 1": True, "1 / 0 = 0": None, "1 % 0 = 0": None, "'7' + TRUE = 8": True,
    "2147483647 + 1 > 0": None, "ttl - hop = 5": True, "8 - 4 - 2 = 2": True, "65536 * 65536 = 0": None,
    "4 -1 = 3": True,
    # 3.4.2: comparisons, and the type of the right side
    "hop = 5": True, "5 = hop": True, "hop < ttl": True, "ttl >= '10'": True, "'9' < '10'": True, "'a' < 'b'": None,
    "TRUE = 'true'": True, "TRUE = 'TRUE'": False, "'TRUE' = TRUE": True, "'05' = 5": True, "5 = '05'": False,
    "'x' = 5": None, "'x' != 'X'": True, "'x' <> 'x'": False, "1 = TRUE": True, "2 = TRUE": True, "TRUE = 1": True,
    # 3.4.2 and 3.6: AND, OR, XOR, evaluated from the left, with short circuits
    "FALSE AND 1 / 0 = 0": False, "TRUE AND 1 / 0 = 0": None, "TRUE OR 1 / 0 = 0": True, "FALSE OR 1 / 0 = 0": None,
    "1 / 0 = 0 OR TRUE": None, "1 / 0 = 0 AND FALSE": None, "TRUE XOR TRUE": False, "TRUE XOR FALSE": True,
    "TRUE XOR 1 / 0 = 0": None, "TRUE OR FALSE AND FALSE": False, "TRUE OR (FALSE AND FALSE)": True,
    "TRUE XOR TRUE XOR TRUE": True, "'true' AND 1": True, "'x' AND TRUE": None,
    # 3.4.3: LIKE
    "subject LIKE 'pr%'": True, "subject LIKE 'PR%'": False, "subject LIKE 'pres_'": True, "'a%c' LIKE 'a\\%c'": True,
    "'abc' LIKE 'a\\%c'": False, "'a_c' LIKE 'a\\_c'": True, "'a\\c' LIKE 'a\\c'": True, "'a\nb' LIKE 'a_b'": True,
    "ttl LIKE '1_'": True, "urgent LIKE 'tr%'": True, "subject NOT LIKE 'x%'": True, "subject LIKE 5": SelectorError,
    "subject LIKE type": SelectorError,
    # 3.4.4: EXISTS
    "EXISTS subject": True, "EXISTS missing": False, "NOT EXISTS missing": True, "EXISTS specversion": True,
    "EXISTS SOURCE AND exists id": True, "EXISTS 'x'": SelectorError,
    # 3.4.5: IN
    "hop IN ('4', 5)": True, "hop NOT IN (4, 6)": True, "ttl IN ('10')": True, "ttl IN ('x', '10')": None,
    "ttl IN ('10', 'x')": True, "'true' IN (TRUE)": True, "'TRUE' IN (TRUE)": False, "source IN (id, '/line/7')": True,
    "subject IN (subject)": True, "1 + 1 IN (2)": SelectorError, "(1 + 1) IN (2)": True, "subject IN ()": SelectorError,
    # 3.5: functions
    "LENGTH('héé') = 3": True, "length(TRUE) = 4": True, "CONCAT() = ''": True, "CONCAT('a', 1, TRUE) = 'a1true'": True,
    "CONCAT_WS('-') = ''": True, "CONCAT_WS('-', 'a', 'b') = 'a-b'": True, "CONCAT_WS() = ''": SelectorError,
    "LOWER('ÄB') = 'äb'": True, "UPPER('ab') = 'AB'": True, "TRIM(' \u00a0a b\t') = 'a b'": True,
    "TRIM('\x1fa') = 'a'": False, "LEFT('abc', 2) = 'ab'": True, "LEFT('abc', 9) = 'abc'": True,
    "LEFT('abc', -1) = 'a'": None,
    "RIGHT('abc', 2) = 'bc'": True, "RIGHT('abc', 9) = 'abc'": True, "RIGHT('abc', 0) = ''": True,
    "RIGHT('abc', -1) = 'c'": None, "SUBSTRING('abcdef', 3) = 'cdef'": True, "SUBSTRING('abcdef', -2) = 'ef'": True,
    "SUBSTRING('abcdef', 0) = ''": True, "SUBSTRING('abcdef', 7) = ''": None, "SUBSTRING('abcdef', -7) = ''": None,
    "SUBSTRING('abcdef', 2, 3) = 'bcd'": True, "SUBSTRING('abcdef', -3, 2) = 'de'": True,
    "SUBSTRING('abcdef', 5, 9) = 'ef'": True, "SUBSTRING('abcdef', 1, -1) = ''": None, "ABS(-3) = 3": True,
    "ABS(-2147483648) = 2147483647": None, "NOSUCH(1) = 1": SelectorError, "ABS() = 1": SelectorError,
    "ABS(1, 2) = 1": SelectorError, "LENGTH(missing) = 0": None, "LENGTH(subject)": SelectorError,
    # 3.7: casts
    "INT(' 5') = 5": None, "INT('-5') = -5": True, "INT('5.0') = 5": None, "INT('2147483648') = 0": None,
    "INT(TRUE) = 1": True, "BOOL('True')": True, "BOOL('yes')": None, "BOOL(-1)": True, "BOOL(0)": False,
    "STRING(-5) = '-5'": True, "STRING(TRUE) = 'true'": True, "STRING('007') = '007'": True,
    # invalid expressions
    "": SelectorError, "a =": SelectorError, "(TRUE": SelectorError, "ABC(": SelectorError, "a = 'x": SelectorError,
    "a ~ b": SelectorError, "AND": SelectorError, "TRUE TRUE": SelectorError, "ſ = 'x'": SelectorError,
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), CASES.items(), ids=range(len(CASES)))
def test_the_meaning_by_example(text: str, expected: Any) -> None:
    if expected is SelectorError:
        with pytest.raises(SelectorError):
            to_filter(text, dialect="cesql")
        return
    node = expression_of(text)
    assert result_of(node, EVENT) is expected
    assert expression_of(node_text(node)) == node
    item = to_filter(text, dialect="cesql")
    assert item.matches(EVENT) is (expected is True)
    assert item.evaluate_batch(batch_of([EVENT, {}])).tolist() == [item.matches(EVENT), item.matches({})]
    assert to_filter(str(item)) == item


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("type = 'com.x' AND LENGTH(subject) > 3", "type = 'com.x' AND CESQL 'LENGTH(subject) > 3'"),
        ("source LIKE 'https://%' AND EXISTS subject", "source PREFIX 'https://' AND subject IS NOT NULL"),
        ("type IN ('com.x', 'com.y')", "type IN ('com.x', 'com.y')"),
        ("type = 'com.x' OR type LIKE '%.y'", "type SUFFIX '.y' OR type = 'com.x'"),
        ("NOT EXISTS subject", "subject IS NULL"),
        (
            "id = 'x' OR type = 'com.y'",
            "CESQL '(id = ''x'') OR (type = ''com.y'')'",
        ),  # the attribute may be missing
        ("hop = '5'", "CESQL 'hop = ''5'''"),  # also matches the number 5
        ("TRUE", "TRUE"),
        ("EXISTS id", "TRUE"),
    ],
)
def test_what_the_index_knows_is_indexed(text: str, printed: str) -> None:
    item = to_filter(text, dialect="cesql")
    assert str(item) == printed
    assert to_filter(printed) == item


def test_expressions_combine_with_selectors() -> None:
    item = to_filter("NOT CESQL 'LENGTH(subject) > 3' AND x = 1")
    assert item.matches({"subject": "abc", "x": 1})
    assert not item.matches({"subject": "abcd", "x": 1})
    assert not item.matches({"x": 1})  # an error counts as unknown
    assert to_filter("(CESQL 'LENGTH(subject) > 3') IS UNKNOWN").matches({"x": 1})
    with pytest.raises(SelectorError, match=r"line 1, column 7: .*there is no function NO of 0"):
        to_filter("CESQL 'NO()'")
    assert to_filter("cesql = 1") == to_filter('"cesql" = 1')


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("a LIKE '%" + "a_" * 30_000 + "b'", id="like"),
        pytest.param(
            "LENGTH(CONCAT(" + ", ".join("a" * 40_000) + ")) > 0", id="concat", marks=pytest.mark.slow
        ),
        pytest.param("LENGTH(CONCAT_WS(a, " + ", ".join(["''"] * 20_000) + ")) > 0", id="between"),
        pytest.param(" OR ".join(["LOWER(a) = 'x'"] * 5_000), id="lower", marks=pytest.mark.slow),
        pytest.param(" OR ".join("a" * 20_000), id="truths", marks=pytest.mark.slow),
    ],
)
def test_no_expression_and_no_event_take_long(text: str) -> None:
    """The value has a million characters; without limits these cases took minutes, or gigabytes."""
    event = {"a": "a" * 1_000_000}
    node = expression_of(text)
    began = time.process_time()
    assert result_of(node, event) is not True
    assert time.process_time() - began < 1.5
    if "a LIKE" not in text:
        assert result_of(node, {"a": "true"}) is not None


def test_a_chain_is_made_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Made one operand after the other, 26,000 operands took nine seconds to read."""
    made = []
    call = cesql._call
    monkeypatch.setattr(cesql, "_call", lambda *given: (made.append(given), call(*given))[1])
    began = time.process_time()
    expression_of(" OR ".join("a" * 20_000) + " AND b AND c")
    assert len(made) == 2
    assert time.process_time() - began < 2.0
    assert expression_of("a OR b OR c XOR d XOR e AND f") == expression_of(
        "(((a OR b OR c) XOR d) XOR e) AND f"
    )
    assert expression_of("(a OR b) OR c") == expression_of("a OR b OR c") != expression_of("a OR (b OR c)")


def test_what_is_too_large_is_refused() -> None:
    with pytest.raises(SelectorError, match="nested more than 100 deep"):
        parse_cesql("NOT " * 101 + "TRUE")
    with pytest.raises((SelectorError, FilterTooComplex), match="limit is 131072"):
        parse_cesql("a" * 200_000)
    assert isinstance(parse_cesql(" OR ".join(["a = 1"] * 2000)), p.CloudSql)


WORDS = [
    "id", "subject", "hop", "'a'", "'5'", "5", "0", "TRUE", "=", "!=", "<", "+", "/", "%", "-", "(", ")", ",", "AND",
    "OR", "XOR", "NOT", "LIKE", "'a%'", "IN", "EXISTS", "LENGTH", "LEFT", "'", '"', "\\", "é",
]  # fmt: skip


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.one_of(st.text(max_size=30), st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join)))
def test_garbage_is_a_condition_or_a_named_error(text: str) -> None:
    try:
        assert isinstance(parse_cesql(text), p.Predicate)
    except SelectorError as error:
        assert len(str(error)) < 300


def _drawn(rng: random.Random, depth: int = 0) -> str:
    if depth > 2 or rng.random() < 0.5:
        name = rng.choice(["type", "subject", "hop"])
        text = rng.choice(["'com.x'", "'5'", "'true'", "'x%'", "'1970-01-01T00:00:00Z'"])
        forms = [
            "{n} = {t}",
            "{n} != {t}",
            "{n} LIKE {t}",
            "{n} IN ({t}, 'com.y')",
            "EXISTS {n}",
            "NOT EXISTS {n}",
            "{n} = 5",
        ]
        return rng.choice(forms).format(n=name, t=text)
    word = rng.choice([" AND ", " AND ", " OR ", " XOR "])
    return "(" + word.join(_drawn(rng, depth + 1) for _ in range(rng.randint(2, 3))) + ")"


@pytest.mark.parametrize("seed", range(5))
def test_filters_match_where_the_expression_is_true(seed: int) -> None:
    rng = random.Random(seed)
    values = ["com.x", "com.y", "xx", "5", "true", 5, 5.0, 0, True, 2.5, 2**40, Timestamp(0), None]
    events = [{name: rng.choice(values) for name in ("type", "subject", "hop")} for _ in range(40)]
    matched = 0
    for _ in range(40):
        text = _drawn(rng)
        node, item = expression_of(text), to_filter(text, dialect="cesql")
        expected = [result_of(node, event) is True for event in events]
        plain = [{k: v for k, v in event.items() if normalize(v) is not None} for event in events]
        assert [item.matches(event) for event in plain] == expected, text
        assert item.evaluate_batch(batch_of(events)).tolist() == expected, text
        assert to_filter(str(item)) == item
        matched += sum(expected)
    assert matched
