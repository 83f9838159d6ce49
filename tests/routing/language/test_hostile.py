"""Adversarial selectors, patterns and events: each gives a result or a Rayvous error within bounded time.

The time is the processor time of this process, so that other load does not count. The bound is about ten
times what the slowest case takes. The random cases are the same in every run.

Reference: docs/spec.md, promises 9 and 10.
"""

import random
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import rayvous as rv
from draws import slow, thorough
from rayvous.protocol.batch import batch_of
from rayvous.protocol.values import NULL, Timestamp
from rayvous.routing.matching.index import MatchIndex

SECONDS_MAX = 2.0
LETTERS = "ab%_*\\'\"é\0\U0010ffffſKß\n"
WORDS = [
    "AND",
    "OR",
    "NOT",
    "IN",
    "(",
    ")",
    "LIKE",
    "ILIKE",
    "CIDR",
    "IS",
    "MISSING",
    "NULL",
    "=",
    "<>",
    ">",
    "a",
    "b.c",
    "1",
    "'x'",
]


def text(rng: random.Random, longest: int = 3_000) -> str:
    letters = rng.sample(LETTERS, rng.randint(1, 3))
    return "".join(rng.choices(letters, k=rng.choice((0, 1, 2, 7, longest))))


def quoted(rng: random.Random) -> str:
    return "'" + text(rng).replace("'", "''") + "'"


def selector(rng: random.Random) -> str:
    leaves = [
        lambda: f"a {rng.choice(('LIKE', 'ILIKE', 'NOT LIKE', 'NOT ILIKE'))} {quoted(rng)}",
        lambda: f"a {rng.choice(('PREFIX', 'SUFFIX', 'CONTAINS', 'CIDR'))} {quoted(rng)}",
        lambda: f"a IN ({', '.join(quoted(rng) for _ in range(rng.choice((1, 3))))})",
        lambda: f"b.c NOT IN ({', '.join(str(rng.randint(-9, 9**12)) for _ in range(rng.choice((1, 900))))})",
        lambda: (
            f"b.c {rng.choice(('<', '=', '>='))} {rng.choice(('1e308', '-0.0', '9' * 30, '1' * 5_000, '.5'))}"
        ),
        lambda: rng.choice(("a IS MISSING", "a IS NOT NULL", "a = b.c", "a + 1 > b.c", "TRUE")),
    ]
    kind = rng.randrange(6)
    if kind == 0:
        return " ".join(rng.choices(WORDS, k=rng.choice((3, 12, 400))))
    if kind == 1:
        return "(" * rng.choice((5, 90, 9_000)) + rng.choice(leaves)() + ")" * rng.choice((5, 90, 9_000))
    joined = f" {rng.choice(('AND', 'OR', 'AND NOT', 'OR NOT'))} ".join(
        rng.choice(leaves)() for _ in range(rng.choice((1, 2, 40)))
    )
    return f"NOT ({joined}) AND ({rng.choice(leaves)()} OR {rng.choice(leaves)()})" if kind == 2 else joined


def pattern(rng: random.Random) -> Any:
    matchers = [
        lambda: text(rng),
        lambda: rng.choice((None, True, 1, 10**400, -1e308, float("nan"), [], {})),
        lambda: {
            rng.choice(("prefix", "suffix", "wildcard", "equals-ignore-case", "cidr", "exactly")): text(rng)
        },
        lambda: {
            "anything-but": {
                rng.choice(("prefix", "wildcard", "equals-ignore-case")): [text(rng) for _ in range(9)]
            }
        },
        lambda: {
            "anything-but": [rng.choice((text(rng), rng.randint(0, 9))) for _ in range(rng.choice((1, 300)))]
        },
        lambda: {"numeric": [rng.choice((">", "=", "<")), rng.choice((5, -1e308, 10**30)), "<=", 7]},
        lambda: {"exists": rng.choice((True, False, 1))},
    ]
    found: Any = {
        rng.choice(("a", "b", "$or", "")): [rng.choice(matchers)() for _ in range(rng.choice((1, 2, 30)))]
        for _ in range(rng.choice((1, 3)))
    }
    for level in range(rng.choice((0, 1, 12, 3_000))):
        found = {"$or": [found, found]} if level < 6 and rng.random() < 0.3 else {"b": found}
    return found


def event(rng: random.Random, depth: int = 0) -> Any:
    def value() -> Any:
        if depth < 4 and rng.random() < 0.4:
            return [
                event(rng, depth + 1) if rng.random() < 0.5 else value() for _ in range(rng.choice((0, 1, 3)))
            ]
        scalars = (
            text(rng),
            rng.randint(-9, 9),
            10**30,
            2.0**80,
            float("inf"),
            NULL,
            Timestamp(1),
            None,
            "10.0.0.1",
            "::1",
        )
        return rng.choice(scalars)

    found: Any = {
        rng.choice(("a", "b", "c", "b.c", "", "x" * 99)): value() for _ in range(rng.choice((1, 3, 6)))
    }
    for _ in range(rng.choice((0, 0, 0, 20, 4_000)) if depth == 0 else 0):
        found = {"b": rng.choice((found, [found]))}
    return found


def within(what: Callable[..., Any], *given: Any) -> Any:
    """Return the result, or None if a Rayvous error is raised, and check the time taken."""
    start = time.process_time()
    try:
        return what(*given)
    except rv.RayvousError as error:
        assert len(str(error)) < 1_000
    finally:
        assert time.process_time() - start < SECONDS_MAX


def play(seed: int) -> int:
    """Draw selectors, patterns and events, use them in every way, and return the number of filters."""
    rng = random.Random(seed)
    asked = [selector(rng), pattern(rng), within(rv.eventbridge, pattern(rng))]
    filters = [within(rv.to_filter, each) for each in asked if each is not None]
    found = [each for each in filters if each is not None]
    batch = within(batch_of, [{"a": "x"}, event(rng)])
    index = MatchIndex()
    slots = [index.insert(each) for each in found]
    pairs = (
        [] if batch is None else list(zip(*map(np.ndarray.tolist, within(index.match, batch)), strict=True))
    )
    for each, slot in zip(found, slots, strict=True):
        assert within(rv.to_filter, within(str, each)) == each, seed
        for other in found:
            within(rv.covers, each, other)
            within(rv.intersects, each, other)
        for row, flat in enumerate(batch.events() if batch is not None else ()):
            assert within(each.matches, flat) is ((row, slot) in pairs), seed
    return len(found)


def test_what_is_made_to_hurt_is_answered_in_time() -> None:
    assert sum(play(seed) for seed in range(3)) > 1


@pytest.mark.parametrize(("first", "end", "filters_min"), [slow(3, 30, 5), thorough(3, 150, 76)])
def test_much_of_what_is_made_to_hurt_is_answered_in_time(first: int, end: int, filters_min: int) -> None:
    assert sum(play(seed) for seed in range(first, end)) >= filters_min
