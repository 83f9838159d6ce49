"""Adversarial selectors: each becomes a filter or a named error within bounded time.

The bound is on processor time, so that it does not depend on other load. It allows for parsing, which is
proportional to the length, and for ten times what a case takes on an idle machine.

Reference: docs/spec.md, promises 9 and 10.
"""

import random
from collections.abc import Callable
from time import process_time
from typing import Final

import pytest
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.routing.filters.covering import covers, intersects
from rayvous.routing.filters.filter import Filter, to_filter

SECONDS: Final = 0.5
SECONDS_A_CHARACTER: Final = 2e-4


def _leaf(rng: random.Random) -> str:
    name, other, n = f"a{rng.randrange(4)}", f"a{rng.randrange(4)}", rng.randrange(1000)
    return rng.choice(
        (
            f"{name} < {n}",
            f"{name} > {n}",
            f"{name} <> {n}",
            f"{name} = 'x{n}'",
            f"{name} LIKE '%{n}%'",
            f"{name} LIKE '_{n}%a_b%'",
            f"{name} NOT LIKE '%{n}_'",
            f"{name} IN ({n}, {n + 2}, {n + 4})",
            f"{name} < {other}",
            f"{name} + {n} > {other}",
            f"{name} * {other} <= {n}",
            f"{name} IS NULL",
            f"{name} BETWEEN {n} AND {n + 9}",
            f"CESQL 'LENGTH({name}) > {n}'",
            f"({name} = {n}) IS NOT TRUE",
            f"{name} PREFIX '{n}'",
            f"({name} < {n}) IS UNKNOWN",
        )
    )


def _wide(rng: random.Random) -> str:
    inner, outer = rng.choice(((" OR ", " AND "), (" AND ", " OR ")))
    factors = rng.choice((4, 8, 20, 60))
    width = rng.choice((2, 3, 5))
    return outer.join("(" + inner.join(_leaf(rng) for _ in range(width)) + ")" for _ in range(factors))


def _alike(rng: random.Random) -> str:
    shape = (
        rng.choice(
            (
                "(a < {i} OR b > {i})",
                "(a LIKE '%{i}%' OR b LIKE '%{i}%')",
                "(a <> {i} OR b <> {i})",
                "(a + {i} > b OR c > {i})",
                "(a = {i} AND b = {i}) IS NOT TRUE",
                "NOT (a = {i} AND b LIKE '%{i}%')",
                "(a IN ({i}, 'x{i}') OR b < 'x{i}')",
            )
        )
        if rng.random() < 0.5
        else f"({_leaf(rng)} OR a < {{i}})".replace("'%", "'%{i}")
    )
    return rng.choice((" AND ", " OR ")).join(
        shape.replace("{i}", str(i)) for i in range(rng.choice((8, 30, 100)))
    )


def _nested(rng: random.Random) -> str:
    text = _leaf(rng)
    for _ in range(rng.choice((10, 40, 95, 120))):
        text = rng.choice(
            ("NOT ({})", "({}) AND x = 1", "({}) OR y = 1", "({}) IS UNKNOWN", "z = 2 OR ({})")
        ).format(text)
    return text


def _long(rng: random.Random) -> str:
    size = rng.choice((500, 3000))
    return rng.choice(
        (
            "a LIKE '" + "%a_" * size + "'",
            "a IN (" + ", ".join(map(str, range(size))) + ")",
            "a" + " + a" * 99 + " > 1",
            " AND ".join(f"a NOT LIKE '%{i}%'" for i in range(32)),
            " AND ".join(f"a <> {i}" for i in range(size // 5)),
            "(" * size + "a = 1" + ")" * size,
            "a = '" + "'' " * size + "'",
            "NOT " * size + "a",
            "-" * size + "a = 1",
            " OR ".join("a LIKE '" + f"%b{i}_" * 40 + "'" for i in range(30)),
            "a = 0x" + "f" * size,
            "a = 1" + "_0" * size,
            "CESQL '" + "(" * 90 + "TRUE" + ")" * 90 + "'",
            "CESQL '" + " OR ".join(["x = 1"] * (size // 10)) + "'",
        )
    )


HOSTILE: Final[tuple[Callable[[random.Random], str], ...]] = (_wide, _alike, _nested, _long)


def _try(seed: int, cases: int) -> int:
    rng, made, before = random.Random(seed), 0, to_filter("a < 5 AND b > 3")
    for number in range(cases):
        text = HOSTILE[number % len(HOSTILE)](rng)
        began = process_time()
        try:
            item: Filter | None = to_filter(text, dialect=rng.choice(("rayvous", "jms")))
        except (SelectorError, FilterTooComplex) as error:
            assert len(str(error)) < 400
            item = None
        if item is not None:
            made += 1
            covers(item, before), covers(before, item), intersects(item, before)
            before = item
        taken = process_time() - began
        assert taken < SECONDS + SECONDS_A_CHARACTER * len(text), (taken, text[:200])
        if item is not None:
            assert to_filter(str(item)) == item, text[:200]
    return made


def test_hard_selectors_are_answered_soon() -> None:
    (
        to_filter("a = 1"),
        to_filter("a = 1", dialect="jms"),
        to_filter("TRUE", dialect="cesql"),
    )  # builds the parsers
    assert 3 < _try(1, 12) < 12  # some become filters, some are refused


@pytest.mark.slow
def test_many_hard_selectors_are_answered_soon() -> None:
    assert 10 < _try(2, 48) < 48
