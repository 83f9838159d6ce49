"""JSON patterns give the same conditions as selectors, and their errors say where the mistake is."""

from typing import Any

import pytest
from rayvous.protocol.errors import SelectorError
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.language.patterns import parse_pattern


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ({"origin": ["JFK", "LGA"]}, "origin IN ('JFK', 'LGA')"),
        ({"d": [{"numeric": [">", 60, "<=", 120]}]}, "d > 60 AND d <= 120"),
        ({"d": [{"numeric": ["=", 5]}]}, "d = 5"),
        ({"t": [{"prefix": "N1"}]}, "t PREFIX 'N1'"),
        ({"t": [{"suffix": "X"}, "b"]}, "t SUFFIX 'X' OR t = 'b'"),
        ({"t": [{"wildcard": "a*b_%*"}]}, "t LIKE 'a%b!_!%%' ESCAPE '!'"),
        ({"t": [{"wildcard": "a\\*\\\\"}]}, "t = 'a*\\'"),
        ({"x": [{"exists": False}]}, "x IS NULL"),
        ({"x": [{"exists": True}]}, "x IS NOT NULL"),
        ({"x": [None, 5]}, "x IS NULL OR x = 5"),
        ({"x": [1, 2.5, "a", True]}, "x IN (1, 2.5) OR x = 'a' OR x = TRUE"),
        ({"y": [{"anything-but": ["a", "b"]}]}, "y NOT IN ('a', 'b')"),
        ({"y": [{"anything-but": "a"}]}, "y <> 'a'"),
        ({"y": [{"anything-but": [1, "a"]}]}, "y <> 1 OR y <> 'a'"),
        ({"y": [{"anything-but": {"prefix": "a"}}]}, "y NOT PREFIX 'a'"),
        ({"a": [1], "b": [2]}, "a = 1 AND b = 2"),
        ({"a": [1], "$or": [{"b": [2]}, {"c": [3], "d": [4]}]}, "a = 1 AND (b = 2 OR c = 3 AND d = 4)"),
        ({"$or": [{"$or": [{"a": [1]}, {"b": [1]}]}]}, "a = 1 OR b = 1"),
        ({"detail.state": ["on"]}, "detail.state = 'on'"),
        ({"a": {"b": {"c": [1]}, "d": [2]}, "e": [3]}, "a.b.c = 1 AND a.d = 2 AND e = 3"),
        ({"a": {"$or": [{"b": [1]}, {"c": {"d": [2]}}]}}, "a.b = 1 OR a.c.d = 2"),
        ({"x": [{"exactly": "a"}]}, "x = 'a'"),
        ({"x": [{"equals-ignore-case": "aB%"}]}, "x ILIKE 'Ab!%' ESCAPE '!'"),
        ({"x": [{"prefix": {"equals-ignore-case": "a_"}}]}, "x ILIKE 'a!_%' ESCAPE '!'"),
        ({"x": [{"suffix": {"equals-ignore-case": "a"}}]}, "x ILIKE '%A'"),
        ({"x": [{"cidr": "10.0.0.0/8"}]}, "x CIDR '10.0.0.0/8'"),
        ({"x": [{"anything-but": {"prefix": ["a", "b"]}}]}, "x NOT PREFIX 'a' AND x NOT PREFIX 'b'"),
        ({"x": [{"anything-but": {"suffix": ["a", "b"]}}]}, "x NOT SUFFIX 'a' AND x NOT SUFFIX 'b'"),
        ({"x": [{"anything-but": {"wildcard": ["a*a", "b*b"]}}]}, "x NOT LIKE 'a%a' AND x NOT LIKE 'b%b'"),
        (
            {"x": [{"anything-but": {"equals-ignore-case": ["a", "b"]}}]},
            "x NOT ILIKE 'a' AND x NOT ILIKE 'b'",
        ),
    ],
)
def test_patterns_mean_the_same_as_selectors(pattern: dict[str, Any], text: str) -> None:
    assert to_filter(pattern) == to_filter(text)


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ([], "pattern: expected an object, found a list"),
        ({}, "pattern: an empty pattern"),
        ({"x": "a"}, r'x: expected a list of alternatives, found "a": write \["a"\]'),
        ({"x": {"y": 1}}, r"x.y: expected a list of alternatives, found 1: write \[1\]"),
        ({"x": {}}, "x: an empty pattern"),
        ({"x": [{"prefix": {"wildcard": "a"}}]}, r"x\[0\].prefix: expected a string, or an object"),
        ({"x": [{"equals-ignore-case": 5}]}, r"x\[0\].equals-ignore-case: expected a string, found 5"),
        ({"x": [{"cidr": "10.0.0.0"}]}, r"x\[0\].cidr: '10.0.0.0' is not a network"),
        ({"x": [{"exactly": 5}]}, r"x\[0\].exactly: expected a string, found 5"),
        ({"x": [{"anything-but": {"prefix": []}}]}, r"x\[0\].anything-but.prefix: an empty list of strings"),
        (
            {"x": [{"anything-but": {"prefix": ["a", 1]}}]},
            r"x\[0\].anything-but.prefix\[1\]: expected a string",
        ),
        ({"x": []}, "x: an empty list of alternatives"),
        ({"x": [[1]]}, r"x\[0\]: a list cannot be a value"),
        ({"x": ["a", {"prefix": 5}]}, r"x\[1\].prefix: expected a string, found 5"),
        ({"x": [{"preffix": "a"}]}, r"x\[0\]: no matcher is called 'preffix'"),
        ({"x": [{"prefix": "a", "suffix": "b"}]}, r"x\[0\]: expected an object with one matcher, found 2"),
        ({"x": [{"numeric": [">"]}]}, r"x\[0\].numeric: expected a comparison and a number"),
        (
            {"x": [{"numeric": [">", 1, "<", 2, ">", 0]}]},
            r"x\[0\].numeric: expected a comparison and a number",
        ),
        ({"x": [{"numeric": ["!", 5]}]}, r'x\[0\].numeric\[0\]: expected one of = < <= > >=, found "!"'),
        ({"x": [{"numeric": [[], 5]}]}, r"x\[0\].numeric\[0\]: expected one of"),
        ({"x": [{"numeric": [">", "5"]}]}, r'x\[0\].numeric\[1\]: expected a number, found "5"'),
        ({"x": [{"numeric": [">", float("nan")]}]}, r"x\[0\].numeric\[1\]: None and NaN"),
        ({"x": [{"numeric": [">", 5, "<", 1]}]}, r"x\[0\].numeric: the range is empty"),
        ({"x": [{"exists": "yes"}]}, r'x\[0\].exists: expected true or false, found "yes"'),
        ({"x": [{"wildcard": "a\\b"}]}, r"x\[0\].wildcard: a backslash"),
        ({"x": [{"anything-but": []}]}, r"x\[0\].anything-but: an empty list"),
        ({"x": [{"anything-but": {"numeric": [">", 1]}}]}, r"x\[0\].anything-but: expected values, or"),
        ({"x": [{"anything-but": [None]}]}, r"x\[0\].anything-but\[0\]: None and NaN"),
        ({"x": [2**70]}, r"x\[0\]: integer .* 64 bits"),
        ({"$or": {"x": [1]}}, r"\$or: expected a list of patterns"),
        ({"$or": [{"x": 5}]}, r"\$or\[0\].x: expected a list of alternatives, found 5"),
        ({"": [1]}, "attribute name"),
        ({5: [1]}, "attribute name"),
    ],
)
def test_errors_say_where(pattern: Any, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        parse_pattern(pattern)


def test_deep_nesting_is_refused() -> None:
    pattern: dict[str, Any] = {"x": [1]}
    for _ in range(5000):
        pattern = {"$or": [pattern]}
    with pytest.raises(SelectorError, match="nested too deep"):
        parse_pattern(pattern)
