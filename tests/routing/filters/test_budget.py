"""Whatever a filter costs to normalise is charged against one budget of steps, and refused beyond it.

Reference: docs/decisions/0077-refused-by-steps.md.
"""

import time
from typing import Any

import pytest
import rayvous as rv
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.routing.filters import likes, normal
from rayvous.routing.language import like_tests
from rayvous.routing.language.like_patterns import WILD_MAX

LIKES = [f"a LIKE '%{i}%x%'" for i in range(6_000)]
HOSTILE: dict[str, Any] = {
    "none of many patterns": f"NOT ({' OR '.join(LIKES)})",
    "all of many patterns": " AND ".join(LIKES),
    "one of many patterns": " OR ".join(LIKES),
    "a pattern that excludes wildcards": {"a": [{"anything-but": {"wildcard": [f"*{i}*x*" for i in range(8_000)]}}]},
    "a pattern that lists wildcards": {"a": [{"wildcard": f"*{i}*x*"} for i in range(4_000)]},
    "no network of many": " AND ".join(f"a NOT CIDR '10.{i // 250}.{i % 250}.0/24'" for i in range(3_500)),
    "long patterns": " AND ".join(f"a LIKE '%{'a' * (900 - i)}b{'a' * (900 + i)}%c%'" for i in range(30)),
    "calculations": " AND ".join(f"a + {i} > 1" for i in range(6_000)),
    "elements": f"a CONTAINS ALL ({', '.join(map(str, range(20_000)))})",
    "any element": f"a CONTAINS ANY ({', '.join(map(str, range(20_000)))})",
    "long lists": " OR ".join(f"(a NOT IN ({', '.join(map(str, range(i, 3_000, 7)))}) AND b = {i})" for i in range(40)),
}  # fmt: skip


QUICK = ("a pattern that lists wildcards", "no network of many", "long patterns", "long lists")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in HOSTILE]
)
def test_what_is_refused_was_hardly_begun(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared, compiled = [0], [0]
    decide, compile_regex = likes.pattern_implies, like_tests._pattern_regex

    def counting(*patterns: Any) -> bool:
        compared[0] += 1
        return decide(*patterns)

    def counting_regex(pattern: Any) -> Any:
        compiled[0] += 1
        return compile_regex(pattern)

    monkeypatch.setattr(likes, "pattern_implies", counting)
    monkeypatch.setattr(like_tests, "_pattern_regex", counting_regex)
    began = time.process_time()
    with pytest.raises(FilterTooComplex):
        rv.to_filter(HOSTILE[name])
    assert compared[0] <= normal.STEPS_MAX
    assert compiled[0] == 0, "a regular expression is made for filters that are kept"
    assert time.process_time() - began < 3.0  # parsing included; coarse, since the machine may be busy


def test_intersections_are_charged_where_they_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(normal, "STEPS_MAX", 200)
    assert len(rv.to_filter(" AND ".join(f"a LIKE '%{i}%x%'" for i in range(8))).clauses) == 1
    with pytest.raises(FilterTooComplex, match="more than 200 steps"):
        rv.to_filter(" AND ".join(f"a LIKE '%{i}%x%'" for i in range(16)))
    same = rv.to_filter(" AND ".join(["a LIKE '%1%x%'"] * 500))
    assert same == rv.to_filter("a LIKE '%1%x%'"), "what is there twice is not compared with itself"


@pytest.mark.slow
def test_ordinary_filters_stay_within_it() -> None:
    assert (
        len(
            rv.to_filter(
                " AND ".join(f"a NOT LIKE '%{i}% and some forty letters %'" for i in range(32))
            ).clauses
        )
        == 1
    )
    assert len(rv.to_filter(" AND ".join(f"a <> {i}" for i in range(9_000))).clauses) == 1
    assert len(rv.to_filter(" OR ".join(f"a = 'x{i}'" for i in range(7_000))).clauses) == 1
    wide = " AND ".join(f"a{i} LIKE '%x%y%'" for i in range(256))
    assert len(rv.to_filter(wide).clauses) == 1
    with pytest.raises(FilterTooComplex, match="257 attributes in one clause"):
        rv.to_filter(wide + " AND b = 1")


@pytest.mark.parametrize("word", ["IS UNKNOWN", "IS NOT UNKNOWN", "IS NULL", "IS TRUE", "IS NOT FALSE"])
def test_nested_tests_of_truth_take_a_step_each(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """IS UNKNOWN asks its term twice: nested forty deep, it asked for hours."""
    leaves, leaf = [0], normal._leaf

    def counting(*given: Any, **options: Any) -> Any:
        leaves[0] += 1
        return leaf(*given, **options)

    monkeypatch.setattr(normal, "_leaf", counting)
    text = "a = 1"
    for _ in range(45):
        text = f"({text}) {word}"
    assert rv.to_filter(text).attributes in ((), ("a",))
    assert leaves[0] <= 8
    mixed = "a = 1"
    for depth in range(30):
        mixed = f"(({mixed}) {word} OR b = {depth})"
    assert len(rv.to_filter(mixed).clauses) <= 8


def test_case_is_ignored_in_one_pass() -> None:
    letters = rv.to_filter(f"a ILIKE '%{'aB' * 20_000}%'")
    wild = rv.to_filter(f"a ILIKE '%{'ab' * 20_000}__%x%'")
    last = rv.to_filter(
        f"a ILIKE '%{'a' * 39_999}b%'"
    )  # of which all but the last letter is found everywhere
    began = time.process_time()
    assert not last.matches({"a": "Aa" * 450_000})
    assert letters.matches({"a": "Ab" * 450_000})
    assert not letters.matches({"a": "Ab" * 19_999 + "aé" * 430_000})
    assert not wild.matches({"a": "Ab" * 450_000})
    assert time.process_time() - began < 1.0
    assert rv.to_filter(f"a ILIKE '%{'É' * 300}%'").matches({"a": "é" * 1_000})
    assert not rv.to_filter(f"a ILIKE '%{'s' * 300}%'").matches({"a": "ſ" * 1_000})


def test_a_character_that_may_be_any_has_a_limit() -> None:
    half = WILD_MAX // 2
    for given in (
        f"a LIKE '%{'a' * half}_{'b' * (half - 1)}%'",
        f"a LIKE '%{'a' * 5_000}__%_{'b' * 5_000}%'",
        f"a LIKE '{'a' * 5_000}_b%c_{'d' * 5_000}'",
    ):
        assert rv.to_filter(str(rv.to_filter(given))) == rv.to_filter(given)
    for dialect in ("rayvous", "jms", "cesql"):
        text: Any = f"a LIKE '%{'a' * half}_{'b' * half}%'"
        with pytest.raises(SelectorError, match="1025 characters between two %, with a _ among them"):
            rv.to_filter(text, dialect=dialect)
