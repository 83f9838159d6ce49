"""What is written in the language of another system is refused with a hint, and never means something else."""

import time
from typing import Any

import pytest
import rayvous as rv
from rayvous.protocol.errors import SelectorError
from rayvous.routing.language.values import CHARACTERS_MAX


@pytest.mark.parametrize("dialect", ["rayvous", "jms"])
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("price > 10 -- 5", "line 1, column 12: -- begins a comment in SQL.*leave it out.*- -5"),
        ("a = '''--' AND\n  b > 2--c", "line 2, column 8: -- begins a comment"),
        (
            "a > 5 /* five */",
            r"line 1, column 7: /\* begins a comment in SQL, and selectors have none: leave it out$",
        ),
        ("x-type IS NULL", 'column 1: x-type is a subtraction: for an attribute of that name write "x-type"'),
        ("x-my-type IS NOT NULL", 'write "x-my-type"'),
        ("NOT x-2 IS MISSING", 'write "x-2"'),
        ("my-flag AND a = 1", 'compare it with something .my-flag is a subtraction; .* write "my-flag"'),
        ("x-type LIKE 'a%'", 'write "x-type"'),
        ("x-type SUFFIX 'a'", 'write "x-type"'),
        ("x-type CONTAINS ALL ('a')", 'write "x-type"'),
        ("EXISTS(a)", "write a IS NOT NULL"),
        ("a > NOW()", "there is no clock: write TIMESTAMP"),
        ("[My-Prop] = 1", 'double quotes: "My-Prop"'),
        ("a IN (1, NULL)", "a list has no NULL: write OR a IS NULL"),
        ("a IN (NULL)", "a list has no NULL"),
        ("a = NULL", "write IS NULL or IS NOT NULL"),
        ("'a' = ANY(tags)", "for arrays: tags CONTAINS ALL"),
        ("'a' IN tags", "for an array: tags CONTAINS ALL"),
        ("ARRAY_CONTAINS(tags, 'a')", "for arrays: tags CONTAINS ALL"),
        ("tags CONTAINS ('a')", "for arrays: tags CONTAINS ALL"),
        ("tags = ['a']", r"a list is ARRAY\['a', 'b'\]"),
        ("tags @> 'a'", "CONTAINS ALL"),
        ("LENGTH(a) > 5", "the functions are UPPER, LOWER and SIZE"),
        ("a ~ 'x'", "patterns are LIKE and ILIKE"),
        ("a = :name", "there are no parameters"),
        ('{"a": [1]}', "as a mapping, or to rv.eventbridge"),
    ],
)
def test_the_hint(text: str, message: str, dialect: Any) -> None:
    with pytest.raises(SelectorError, match=message):
        rv.to_filter(text, dialect=dialect)


def test_what_only_looks_alike() -> None:
    for text in (
        "a = '--' AND \"b--c\" = '/*'",
        "a - -5 > 1",
        "a - b IS NULL",
        '"x-type" IS NULL',
        "a-b > 5",
    ):
        assert rv.to_filter(str(rv.to_filter(text))) == rv.to_filter(text)
    assert rv.to_filter("a-b > 5") == rv.to_filter("a - b > 5")
    assert rv.to_filter('"x-type" IS NULL').attributes == ("x-type",)
    assert rv.to_filter("--5 = a", dialect="cesql").matches({"a": 5}), "the standard has a case of this"
    with pytest.raises(SelectorError, match="no closing single quote"):
        rv.to_filter("a = '--")


def test_a_plus_is_arithmetic() -> None:
    assert rv.to_filter("+a > 1") == rv.to_filter("0 + a > 1")
    assert rv.to_filter(+rv.attr("a") > 1) == rv.to_filter("+a > 1")
    assert rv.to_filter("+a IS NULL").matches({"a": "x"})
    assert not rv.to_filter("+a IS NULL").matches({"a": 2.5})
    assert rv.to_filter("+a IN (1, b)").matches({"a": 1})
    assert rv.to_filter("a = +5") == rv.to_filter("a = 5") == rv.to_filter("+5 = a")
    for text in (
        "+a = 'x'",
        "+a IN ('x')",
        "NOT +a",
        "+a LIKE 'x'",
        "+'x' = a",
        "+TRUE",
        "+TIMESTAMP '2013-01-01' = a",
    ):
        with pytest.raises(SelectorError):
            rv.to_filter(text)
    assert not rv.to_filter("+a = 'x'", dialect="jms").matches({"a": "x"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": [1], "b": [2], "a": [3]}', "^the pattern has the name 'a' twice in one object: put all"),
        ('{"a": [{"prefix": "x", "prefix": "y"}]}', "'prefix' twice"),
        ('{"a": {"b": [1]}, "a.b": [2]}', r"^a.b: the attribute 'a.b' is there twice"),
        ('{"a.b": {"c": [1]}, "a": {"b.c": [1]}}', "a.b.c' is there twice"),
        (
            '{"a": [{"anything-but": [{"prefix": "x"}, {"prefix": "y"}]}]}',
            r"anything-but\[0\]: .*\"prefix\": \[",
        ),
        ("[" * (CHARACTERS_MAX + 1), "pattern of 131073 characters"),
    ],
)
def test_a_pattern_says_a_thing_once(text: str, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        rv.eventbridge(text)


def test_a_field_beside_and_inside_or_holds_in_both_places() -> None:
    pattern = rv.to_filter({"a": [1, 2], "$or": [{"a": [2, 3]}, {"b": [1]}]})
    assert pattern == rv.to_filter("a IN (1, 2) AND (a IN (2, 3) OR b = 1)")
    with pytest.raises(SelectorError, match="twice"):
        rv.to_filter({"a": {"b": [1]}, "a.b": [1]})


@pytest.mark.parametrize("pattern", [{"a": ["x" * 9] * 20_000}, {"a": [{"anything-but": [1] * 200_000}]}])
def test_json_has_the_size_of_text(pattern: Any) -> None:
    began = time.process_time()
    with pytest.raises(SelectorError, match=r"as JSON it has at least \d+ characters"):
        rv.to_filter(pattern)
    assert time.process_time() - began < 0.5
