"""Covering is exact for filters without patterns, checked on a grid of all bounds and values between them."""

import itertools
import random
from typing import Any

import pytest
from draws import seeds
from rayvous.protocol.batch import batch_of
from rayvous.protocol.values import NULL, Timestamp
from rayvous.routing.filters.clauses import Clause, clause_of
from rayvous.routing.filters.covering import STEPS_MAX, covers, intersects, merge
from rayvous.routing.filters.domains import BOTH, NO_STRINGS, NOTHING, Domain, Interval, Strings
from rayvous.routing.filters.filter import Filter, to_filter, union_of
from rayvous.routing.filters.intervals import settle_strings, unite

# Bounds are even numbers and the strings b, d, f. The grid holds them and values between and outside them.
NUMBER_GRID = [-1, 0, 1, 2, 3, 4, 5]
TEXT_GRID = ["", "a", "b", "c", "d", "e", "f", "g"]
MOMENT_GRID = [Timestamp(n) for n in NUMBER_GRID]
GRID: list[Any] = [None, NULL, False, True, *NUMBER_GRID, *TEXT_GRID, *MOMENT_GRID]
EVENTS = [
    {name: value for name, value in zip("xy", pair, strict=True) if value is not None}
    for pair in itertools.product(GRID, GRID)
]


def _intervals(rng: random.Random, bounds: list[Any]) -> tuple[Interval, ...]:
    found = []
    for _ in range(rng.choice([0, 0, 1, 1, 2])):
        low, high = rng.choice([None, *bounds]), rng.choice([None, *bounds])
        if low is not None and high is not None and low > high:
            low, high = high, low
        low_open, high_open = (
            (low is not None and rng.random() < 0.5),
            (high is not None and rng.random() < 0.5),
        )
        if low is None or low != high or not (low_open or high_open):
            found.append(Interval(low, high, low_open, high_open))
    return unite(found)


def _domain(rng: random.Random) -> Domain:
    if rng.random() < 0.5:
        return rng.choice([Domain(numbers=unite(_intervals(rng, [0, 2, 4]))), Domain.PRESENT, Domain.ABSENT])
    return Domain(
        rng.random() < 0.3,
        rng.choice([frozenset(), frozenset([True]), BOTH]),
        _intervals(rng, [0, 2, 4]),
        Strings(settle_strings(_intervals(rng, ["b", "d", "f"]))),
        _intervals(rng, [0, 4]),
        rng.random() < 0.3,
    )


def _clause(rng: random.Random) -> Clause | None:
    domains = {name: _domain(rng) for name in rng.choice(["x", "y", "xy", "xy"])}
    return None if any(domain.is_empty for domain in domains.values()) else clause_of(domains)


def _filter(rng: random.Random, clauses_max: int) -> Filter:
    found = [_clause(rng) for _ in range(rng.randint(1, clauses_max))]
    return union_of([clause for clause in found if clause is not None])


@pytest.mark.parametrize("seed", seeds(8, quick=3, usual=8))
def test_covers_and_intersects_are_exact_without_patterns(seed: int) -> None:
    rng = random.Random(seed)
    said_yes = 0
    for _ in range(40):
        f, g = _filter(rng, 6), _filter(rng, 2)
        if rng.random() < 0.4:  # makes "covers" and "just fails to cover" common
            cut = merge(f, g)
            assert cut is not None
            f = rng.choice([cut, union_of(piece for c in cut.clauses for piece in c.subtract(_point(rng)))])
        in_f = [f.matches(event) for event in EVENTS]
        in_g = [g.matches(event) for event in EVENTS]
        pairs = list(zip(in_f, in_g, strict=True))
        expected = all(mine for mine, its in pairs if its)
        said_yes += expected
        assert covers(f, g) == expected, f"{f}   ---   {g}"
        assert intersects(f, g) == any(mine and its for mine, its in pairs), f"{f}   ---   {g}"
        both = merge(f, g)
        assert both is not None
        assert [both.matches(event) for event in EVENTS] == [mine or its for mine, its in pairs]
    assert 5 < said_yes < 35


def _point(rng: random.Random) -> Clause:
    value = rng.choice([value for value in GRID if value is not None and value is not NULL])
    return clause_of({"x": Domain.values([value])})


@pytest.mark.parametrize(
    ("f", "g", "expected"),
    [
        ("x > 1", "x > 2", True),
        ("x > 1", "x >= 1", False),
        ("x > 1", "x > 1 AND y = 2", True),
        ("x > 1 AND y = 2", "x > 1", False),
        ("x < 5 OR x >= 5", "x = 7", True),
        ("x < 5 AND y = 1 OR x > 3 AND y = 2", "x = 4 AND y IN (1, 2)", True),
        ("x < 5 AND y = 1 OR x > 4 AND y = 2", "x = 4 AND y IN (1, 2)", False),
        ("x < 5 OR y > 2", "x < 9 AND y > 2 OR x < 3", True),
        ("x IS NOT NULL", "x LIKE '%a%'", True),
        ("x LIKE '%a%'", "x IS NOT NULL", False),
        ("x LIKE 'a%'", "x LIKE 'ab%'", True),
        ("x LIKE 'a%'", "x LIKE 'ab%c'", True),
        ("x LIKE '%b%'", "x LIKE 'ab%c'", True),
        ("x LIKE '%c'", "x LIKE 'ab%bc'", True),
        ("x LIKE '%c'", "x = 'abc'", True),
        ("x LIKE '%c'", "x PREFIX 'abc'", False),
        ("x LIKE '%b%'", "x PREFIX 'abc'", True),
        ("x NOT LIKE '%c'", "x LIKE '%d'", True),
        ("x NOT LIKE '%bc'", "x NOT LIKE '%c'", True),
        ("x NOT LIKE '%c'", "x NOT LIKE '%bc'", False),
        ("x LIKE '%c' OR x NOT LIKE '%c'", "x >= 'a'", True),
        ("x LIKE '_a'", "x IN ('ba', 'ca')", True),
        ("x LIKE '%_a'", "x LIKE '%ba'", True),
        ("x < 5", "x = 'a'", False),
        ("TRUE", "x = 'a'", True),
        ("x = 'a'", "FALSE", True),
        ("FALSE", "x = 1", False),
        ("FALSE", "FALSE", True),
        ("x IS NULL", "y = 1", False),
        ("x IS NULL OR x IS NOT NULL AND y = 1", "y = 1", True),
    ],
)
def test_covers_by_example(f: str, g: str, expected: bool) -> None:
    assert covers(to_filter(f), to_filter(g)) is expected


@pytest.mark.parametrize(
    ("f", "g", "expected"),
    [
        ("x > 1", "x < 2", True),
        ("x > 2", "x < 2", False),
        ("x > 2", "y < 2", True),
        ("x = 1", "x = 'a'", False),
        ("x LIKE 'a%c'", "x LIKE 'b%'", False),
        ("x LIKE '%c'", "x LIKE '%d'", False),
        ("x LIKE '%c'", "x LIKE 'd%'", True),
        ("x LIKE '___'", "x LIKE '%abcd%'", False),
        ("FALSE", "TRUE", False),
    ],
)
def test_intersects_by_example(f: str, g: str, expected: bool) -> None:
    assert intersects(to_filter(f), to_filter(g)) is expected
    assert intersects(to_filter(g), to_filter(f)) is expected


def test_merge_is_none_past_the_limit() -> None:
    f, g = to_filter("x = 1 AND y = 1"), to_filter("x = 2 AND y = 2")
    assert merge(f, g, clauses_max=1) is None
    both = merge(f, g)
    assert both is not None
    assert len(both.clauses) == 2


def _unrelated(count: int) -> str:
    return " OR ".join(f"a{i} > 1 AND b{i} > 1 AND c{i} > 1" for i in range(count))


def test_clauses_about_other_attributes_do_not_hide_a_cover() -> None:
    f = to_filter(f"{_unrelated(12)} OR z < 5 AND w = 1 OR z > 3 AND w = 2")
    assert STEPS_MAX < 3**12
    assert covers(f, to_filter("z = 4 AND w IN (1, 2)"))


def test_past_the_limit_of_steps_covers_says_no(monkeypatch: pytest.MonkeyPatch) -> None:
    f, g = to_filter("z < 5 AND w = 1 OR z > 3 AND w = 2"), to_filter("z = 4 AND w IN (1, 2)")
    assert covers(f, g)
    monkeypatch.setattr("rayvous.routing.filters.covering.STEPS_MAX", 0)
    assert not covers(f, g)
    # This must end soon under any limit: f matches the witness of g but does not cover g.
    assert not covers(to_filter(f"{_unrelated(12)} OR q = 1 AND a1 IS NULL"), to_filter("q = 1"))


def test_nothing_is_unsure_about_the_empty_domain() -> None:
    assert Domain.EMPTY.is_empty
    assert Domain(strings=NO_STRINGS, numbers=NOTHING).is_empty


@pytest.mark.parametrize(
    ("f", "g", "expected"),
    [
        ("x ILIKE 'jf%'", "x LIKE 'Jf_x%'", True),
        ("x ILIKE 'jf%'", "x ILIKE 'JFk'", True),
        ("x ILIKE '%jf%'", "x PREFIX 'aJF'", True),
        ("x ILIKE 'jfk'", "x IN ('JFK', 'jfK')", True),
        ("x NOT ILIKE 'jfk'", "x ILIKE 'lga'", True),
        ("x NOT ILIKE 'jf%'", "x PREFIX 'a'", True),
        ("x LIKE 'jf%'", "x ILIKE 'jfk'", False),
        ("x ILIKE 'jfk'", "x ILIKE 'jf%'", False),
    ],
)
def test_patterns_in_either_case_cover_those_in_one(f: str, g: str, expected: bool) -> None:
    assert covers(to_filter(f), to_filter(g)) is expected
    assert intersects(to_filter(f), to_filter(g))
    assert not intersects(to_filter("x ILIKE 'jf%'"), to_filter("x ILIKE 'LG%'"))


LIMITS = ("", "x", "y", "xy", "xyz")
WIDER = [event | extra for event in EVENTS[::7] for extra in ({}, {"z": 1}, {"v": NULL})]


@pytest.mark.parametrize("seed", seeds(6, quick=2, usual=4))
def test_exact_filters_cover_meet_and_merge_as_their_events_do(seed: int) -> None:
    """Reference: paper 3, definition 4: an event with an attribute that the filter does not name does not match."""
    rng = random.Random(seed)
    covered = apart = 0
    for _ in range(30):
        pair = [_filter(rng, 2) for _ in "fg"]
        kept = [rng.choice([None, *LIMITS]) for _ in pair]
        f, g = (
            each if names is None else Filter(tuple(filter(None, (_within(c, names) for c in each.clauses))))
            for each, names in zip(pair, kept, strict=True)
        )
        for item, plain, names in zip((f, g), pair, kept, strict=True):
            matched = [item.matches(event) for event in WIDER]
            assert matched == [
                plain.matches(event) and (names is None or set(event) <= set(names)) for event in WIDER
            ]
            assert item.evaluate_batch(batch_of(WIDER)).tolist() == matched
            assert to_filter(str(item)) == union_of(item.clauses)
            assert covers(plain, item)
        if rng.random() < 0.4:  # makes "covers" common
            f = merge(f, g) or f
        in_f, in_g = ([item.matches(event) for event in WIDER] for item in (f, g))
        pairs = list(zip(in_f, in_g, strict=True))
        if covers(f, g):
            covered += any(in_g)
            assert all(mine for mine, its in pairs if its), f"{f}   ---   {g}"
        if not intersects(f, g):
            apart += any(in_f) and any(in_g)
            assert not any(mine and its for mine, its in pairs), f"{f}   ---   {g}"
        both = merge(f, g)
        assert both is not None
        assert [both.matches(event) for event in WIDER] == [mine or its for mine, its in pairs]
    assert covered and apart


def _within(clause: Clause, names: str) -> Clause | None:
    return clause.intersect(to_filter(f"ONLY ({', '.join(names)})").clauses[0])


@pytest.mark.parametrize(
    ("f", "g", "expected"),
    [
        ("x > 1", "x > 2 AND ONLY (x)", True),
        ("x > 1 AND ONLY (x)", "x > 2", False),
        ("x > 1 AND ONLY (x, y)", "x > 2 AND ONLY (x)", True),
        ("x > 1 AND ONLY (x)", "x > 2 AND ONLY (x, y)", False),
        ("y IS MISSING", "x > 2 AND ONLY (x)", True),
        ("y IS NULL AND ONLY (x, y)", "ONLY (x)", True),
        ("NOT ONLY (x)", "NOT ONLY (x, y)", True),
        ("NOT ONLY (x, y)", "NOT ONLY (x)", False),
    ],
)
def test_exact_filters_by_example(f: str, g: str, expected: bool) -> None:
    assert covers(to_filter(f), to_filter(g)) is expected


def test_what_is_exact_merges_only_with_what_is_exact_alike() -> None:
    merged = merge(to_filter("x < 1", exact=True), to_filter("x >= 1", exact=True))
    assert str(merged) == "(x < 0 OR x >= 0) AND ONLY (x)"
    for other in ("x >= 1", "x >= 1 AND ONLY (x, y)"):
        both = merge(to_filter("x < 1", exact=True), to_filter(other))
        assert both is not None and len(both.clauses) == 2
    assert not intersects(to_filter("x = 1", exact=True), to_filter("y = 1"))
    assert to_filter("x = 1", exact=True) == to_filter(to_filter("x = 1"), exact=True)
    assert to_filter("x = 1 AND y = 2 AND ONLY (x)") == to_filter("FALSE")
