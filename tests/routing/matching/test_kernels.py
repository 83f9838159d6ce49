"""The compiled kernel and numpy give the same results on every instruction set; the choice between them."""

import random
from collections.abc import Sequence
from dataclasses import fields
from datetime import UTC, datetime
from functools import cache
from typing import Any

import numpy as np
import pytest
import rayvous as rv
from draws import slow, thorough
from rayvous.benchmarks.loads import Shape, make
from rayvous.protocol.batch import Column, EventBatch, batch_from_columns, batch_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.values import Kind
from rayvous.routing.filters.clauses import Clause
from rayvous.routing.filters.domains import Domain, Interval, Strings
from rayvous.routing.filters.filter import Filter, to_filter
from rayvous.routing.matching import kernels
from rayvous.routing.matching.index import MatchIndex
from rayvous.routing.matching.native_rows import NO_STRINGS, NativeRows

NATIVE = kernels.compiled()
needs_native = pytest.mark.skipif(NATIVE is None, reason="the kernel is not built")
LEVELS = NATIVE.levels() if NATIVE else ()

TERMS = (
    "x BETWEEN {a} AND {b}", "y > {a}", "y <= {b}.5", "x IN ({a}, {b}, 7)", "z >= {a} AND z < {c}.25", "NOT (z = {a})",
    "w = 'w{a}'", "w IN ('w{a}', 'w{b}')", "w LIKE '%{a}'", "w <> 'w{b}'", "v IS NULL", "v = TRUE", "y < {c}",
)  # fmt: skip


def filters_of(seed: int, size: int) -> list[Filter]:
    rng = random.Random(seed)
    out = []
    for _ in range(size):
        a = rng.randrange(900)
        numbers = {"a": a, "b": a + rng.randrange(1, 100), "c": a + rng.randrange(1, 5000)}
        terms = [rng.choice(TERMS).format(**numbers) for _ in range(rng.randint(1, 3))]
        out.append(to_filter((" OR " if rng.random() < 0.1 else " AND ").join(terms)))
    return out


def events_of(seed: int, size: int) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    out = []
    for _ in range(size):
        x, y, z = (rng.randrange(-5, 1100) for _ in range(3))
        event = {
            "x": x,
            "y": rng.choice((y, y / 2)),
            "z": float(z),
            "w": f"w{rng.randrange(300)}",
            "v": True,
        }
        out.append({name: value for name, value in event.items() if rng.random() < 0.9})
    return out


@needs_native
@pytest.mark.parametrize("level", [level if level == LEVELS[-1] else slow(level) for level in LEVELS])
@pytest.mark.parametrize("seed", range(1))
def test_both_kernels_give_the_same_while_filters_come_and_go(level: str, seed: int) -> None:
    rng, both = random.Random(seed), [MatchIndex("native"), MatchIndex("numpy")]
    assert NATIVE is not None
    before = NATIVE.level()
    NATIVE.set_level(level)
    NATIVE.set_limits(20)
    try:
        some = filters_of(seed, 400) * 12  # more than one tile
        assert both[0].insert_many(some) == both[1].insert_many(some)
        for step in range(3):
            batch = batch_of(events_of(10 * seed + step, 50))
            compare(both, batch)
            for item in filters_of(100 + step, 20):
                assert len({index.insert(item) for index in both}) == 1
            for slot in rng.sample(range(4800), 40):
                held = [index for index in both if index._held[slot]]
                for index in held:
                    index.remove(slot)
                assert len(held) in (0, 2)
        compare(both, batch_of(events_of(seed, 1)))
        both[0].check()
        assert both[0].snapshot() == both[1].snapshot()
    finally:
        NATIVE.set_level(before)
        NATIVE.set_limits()


def compare(both: list[MatchIndex], batch: Any) -> None:
    native, numpy = (index.match(batch) for index in both)
    assert len(native.rows) > 0
    assert np.array_equal(native.rows, numpy.rows) and np.array_equal(native.slots, numpy.slots)
    groups = np.left_shift(np.uint64(1), np.arange(both[0].slots_end, dtype=np.uint64) % np.uint64(60))
    assert np.array_equal(*(index.match_groups(batch, groups) for index in both))


NOT_W = tuple(term for term in TERMS if "w " not in term)
MORE_TERMS = (
    "u LIKE '%{a}'",
    "u IN ('u1', 'u{b}')",
    "u <> 'u2'",
    "u IS NULL",
    "t >= TIMESTAMP '2026-01-0{d}T00:00:00Z'",
)


def worded_filters(rng: random.Random, size: int) -> list[Filter]:
    """Return filters on words of `w`: most words occur in few filters, forty in many, one in 90% of them."""
    out = []
    for _ in range(size):
        a = rng.randrange(900)
        numbers = {
            "a": a,
            "b": a + rng.randrange(1, 100),
            "c": a + rng.randrange(1, 5000),
            "d": rng.randint(1, 9),
        }
        words = {f"w{rng.randrange(3000)}" for _ in range(rng.randint(1, 3))} | {f"w{rng.randrange(40)}"}
        words |= {"all"} if rng.random() < 0.9 else set()
        named = f"w IN ({', '.join(map(repr, sorted(words)))})"
        terms = [rng.choice(NOT_W + MORE_TERMS).format(**numbers) for _ in range(rng.randint(0, 3))]
        out.append(to_filter(" AND ".join([named, *terms])))
    return out


def worded_events(rng: random.Random, size: int) -> list[dict[str, Any]]:
    events = events_of(rng.randrange(1 << 30), size)
    for event in events:
        some = [f"w{rng.randrange(3000)}", f"w{rng.randrange(40)}", "all", "unknown", 7, True, rv.NULL]
        event["w"] = rng.choices(some, [8, 8, 1, 1, 1, 1, 1])[0]
        event["u"] = f"u{rng.randrange(1000)}"
        event["t"] = datetime(2026, 1, rng.randint(1, 9), tzinfo=UTC)
        for name in [name for name in event if rng.random() < 0.05]:
            del event[name]
    return events


@needs_native
@pytest.mark.parametrize(
    ("level", "size"),
    [
        # The last level in `make check`; more than one tile, and chunk, at the last in `make test`.
        *((level, 300) if level == LEVELS[-1] else slow(level, 300) for level in LEVELS),
        *((slow if level == LEVELS[-1] else thorough)(level, 6000) for level in LEVELS),
    ],
)
def test_both_kernels_give_the_same_where_few_clauses_name_the_word_of_an_event(
    level: str, size: int
) -> None:
    """Those few are checked one by one; all are if a clause of the tile names no word or has a pattern."""
    assert NATIVE is not None
    rng, before = random.Random(level), NATIVE.level()
    both = [MatchIndex("native"), MatchIndex("numpy")]
    NATIVE.set_level(level)
    NATIVE.set_limits(20)
    try:
        filters = worded_filters(rng, size)
        assert both[0].insert_many(filters) == both[1].insert_many(filters)
        for others in ([], ["x > 5 AND w LIKE 'w1%'"], ["y > 5"], []):
            for many in (1, 40, 1200) if size > 300 else (1, 40):
                compare(both, batch_of([*worded_events(rng, many), {"w": "all", "x": 10, "y": 10}]))
            come = [[index.insert(to_filter(other)) for index in both] for other in others]
            compare(both, batch_of(worded_events(rng, 60)))
            gone = rng.sample([slot for slot in range(size) if both[0]._held[slot]], size // 30)
            for slot in gone + [slots[0] for slots in come]:
                for index in both:
                    index.remove(slot)
            compare(both, batch_of(worded_events(rng, 60)))
            fresh = worded_filters(rng, 150)
            assert [both[0].insert(item) for item in fresh] == [both[1].insert(item) for item in fresh]
        both[0].check()
    finally:
        NATIVE.set_level(before)
        NATIVE.set_limits()


@cache
def intervals_of(width: float) -> tuple[list[Filter], EventBatch, MatchIndex]:
    """Return filters of intervals, a batch, and the filters in an index of numpy, for all levels of the kernel."""
    load, reference = make(Shape("intervals", 10, 6, width), 3000, 120, 5), MatchIndex("numpy")
    filters = load.filters(0, 3000)
    reference.insert_many(filters)
    return filters, load.batch(), reference


@pytest.mark.slow
@needs_native
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize(("width", "buckets"), [(0.25, 20), (0.5, 2)])
def test_both_kernels_give_the_same_where_few_columns_of_a_tile_are_left(
    level: str, width: float, buckets: int
) -> None:
    """With 20 buckets toggles reject most columns that the rows leave; with 2 each has a hundred lines."""
    assert NATIVE is not None
    before = NATIVE.level()
    filters, batch, reference = intervals_of(width)
    both = [MatchIndex("native"), reference]
    NATIVE.set_level(level)
    NATIVE.set_limits(buckets)
    try:
        both[0].insert_many(filters)
        compare(both, batch)
    finally:
        NATIVE.set_level(before)
        NATIVE.set_limits()


@needs_native
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("buckets", [2, 20])
def test_bounds_closer_together_than_a_step_and_of_one_value(level: str, buckets: int) -> None:
    """Of 2 buckets one is so wide that all bounds share a step; of 20 most are so narrow that none do.

    Adjacent columns match, so all 64 bits of a word are written.
    """
    assert NATIVE is not None
    before = NATIVE.level()
    texts = [
        text.format(n)
        for text in ("x >= {}", "x <= {}", "x > {}.5", "x < {}.5", "x = {}")
        for n in range(100)
    ]
    both = [MatchIndex("native"), MatchIndex("numpy")]
    NATIVE.set_level(level)
    NATIVE.set_limits(buckets)
    try:
        for index in both:
            index.insert_many(map(to_filter, texts))
        for value in (-0.5, 1.0, 50, 98.5, 100.0):
            compare(both, batch_of({"x": value + more} for more in (0, 1)))
        both[0].check()
    finally:
        NATIVE.set_level(before)
        NATIVE.set_limits()


@needs_native
def test_more_words_than_rows_are_kept_for() -> None:
    """Rows of words are a cache: 3,000 words are matched against patterns, and there is room for 1,024."""
    assert NATIVE is not None
    both = [MatchIndex("native"), MatchIndex("numpy")]
    for index in both:
        index.insert_many([to_filter(f"w LIKE '%{n}%' AND w <> 'w{n}1'") for n in range(40)])
    NATIVE.set_limits(20, 0)
    try:
        for begin in (0, 1500, 0):
            compare(both, batch_of({"w": f"w{n}"} for n in range(begin, begin + 1500)))
        both[0].check()
        assert both[0].nbytes < 1100 * 200
    finally:
        NATIVE.set_limits()


SAME_WORDS = tuple(f"w{number}" for number in range(1200))


def batch_of_words(words: tuple[str, ...], codes: Sequence[int]) -> EventBatch:
    column = Column(Kind.STRING, np.array(codes, np.int32), None, words)
    return batch_from_columns({("s", Kind.STRING): column}, len(codes))


def churned_words(rng: random.Random, index: MatchIndex, held: dict[int, frozenset[str]]) -> None:
    """Insert one filter, or ninety with the same words, which need rows, or remove all that have the same words."""
    drawn = rng.choice(
        ["a word", "a word", "a word", "words", "words", "a pattern", "removal", "removal", "removal"]
    )
    if drawn == "removal" and held:
        gone = rng.choice([*held.values()])
        for slot in [slot for slot, words in held.items() if words == gone]:
            index.remove(slot)
            del held[slot]
    elif drawn == "a pattern":
        end = str(rng.randrange(3))
        slot = index.insert(to_filter(f"s LIKE '%{end}'"))
        held[slot] = frozenset(word for word in SAME_WORDS if word.endswith(end))
    else:
        some = rng.sample(SAME_WORDS, 3)
        slots = index.insert_many([to_filter(f"s IN {tuple(some)}")] * (90 if drawn == "words" else 1))
        held.update(dict.fromkeys(slots, frozenset(some)))


@needs_native
@pytest.mark.parametrize("seed", range(4))
def test_batches_with_the_same_words_match_what_the_filters_name_by_then(seed: int) -> None:
    """The kernel remembers where the words of the last batch stand; filters that come and go change that.

    There are more words than rows, and while there is a pattern each word that an event has needs one.
    """
    assert NATIVE is not None
    rng = random.Random(f"same words {seed}")
    index, held = MatchIndex("native"), dict[int, frozenset[str]]()
    NATIVE.set_limits(20, 0)
    try:
        for step in range(40):
            for _ in range(rng.randrange(4)):
                churned_words(rng, index, held)
            words = tuple(reversed(SAME_WORDS)) if rng.random() < 0.1 else SAME_WORDS
            some = rng.sample(range(len(words)), rng.choice([3, 40, len(words)]))
            codes = rng.choices(some, k=rng.choice([1, 150, 1600]))
            by_word: dict[str, list[int]] = {word: [] for word in words}
            for slot in sorted(held):
                for word in held[slot]:
                    by_word[word].append(slot)
            found = index.match(batch_of_words(words, codes))
            expected = [(row, slot) for row, code in enumerate(codes) for slot in by_word[words[code]]]
            assert list(zip(found.rows.tolist(), found.slots.tolist(), strict=True)) == expected, step
            index.check()
    finally:
        NATIVE.set_limits()


@needs_native
@pytest.mark.parametrize("batches", [1, 3])
@pytest.mark.parametrize("named", ["by a pattern", "by many lists"])
def test_words_that_no_filter_names_any_more_do_not_keep_their_rows(named: str, batches: int) -> None:
    """Otherwise such a word leaves when another one needs its row, while it is remembered where it stood."""
    assert NATIVE is not None
    words = (*(f"w{number}" for number in range(1024)), "often")
    first, second, often = 0, 1, 1024
    index = MatchIndex("native")
    NATIVE.set_limits(20, 0)
    try:
        kept = index.insert_many([to_filter("s = 'often'")] * 80)
        text = "s LIKE 'w%'" if named == "by a pattern" else f"s IN {words[:-1]}"
        gone = index.insert_many([to_filter(text)] * 80)
        assert len(index.match(batch_of_words(words, range(1024))).rows) == 80 * 1024
        for slot in gone:
            index.remove(slot)
        index.check()
        codes = [*[first] * 512, *[second] * 512, often, first]  # three chunks
        for part in np.array_split(codes, [512, 1024] if batches == 3 else []):
            found = index.match(batch_of_words(words, part.tolist()))
            assert found.slots.tolist() == (kept if often in part else [])
    finally:
        NATIVE.set_limits()


@needs_native
def test_clauses_come_back_equal_from_their_columns() -> None:
    odd = [
        Domain(numbers=(Interval(low, high, low_open, high_open),))
        for low, high in (
            (1, 5),
            (1.5, 5.25),
            (-0.0, 1),
            (2**53, 2**60),
            (None, 3),
            (0.5, None),
            (-(2**70), 10),
        )
        for low_open in (False, True)
        for high_open in (False, True)
    ]
    odd += [Domain.PRESENT, Domain.ABSENT, Domain(null=True), Domain(strings=Strings((Interval("a", "a"),)))]
    index = MatchIndex("native")
    slots = index.insert_many(Filter((Clause((("x", domain),)),)) for domain in odd)
    again = dict(pair for pair in zip(slots, (filter for filter, _ in index.snapshot()[1]), strict=True))
    for slot, domain in zip(slots, odd, strict=True):
        assert again[slot].clauses[0].constraints == (("x", domain),)


def test_the_kernel_reads_every_part_of_a_domain() -> None:
    """`plain_constraint` in kernel.c checks by name that all other parts are empty, so it must name all."""
    assert [field.name for field in fields(Domain)] == [
        "missing", "booleans", "numbers", "strings", "timestamps", "null",
    ]  # fmt: skip


@pytest.mark.parametrize("wanted", ["", None])
def test_a_kernel_is_chosen_by_what_was_built(wanted: str | None) -> None:
    assert kernels.chosen(wanted, None) == "numpy"
    assert kernels.chosen(wanted, kernels) == "native"


def test_a_kernel_is_chosen_by_hand() -> None:
    assert kernels.chosen("numpy", kernels) == "numpy"
    with pytest.raises(InputError, match="RAYVOUS_KERNEL=native: the kernel was not built"):
        kernels.chosen("native", None)
    with pytest.raises(InputError, match="RAYVOUS_KERNEL=fast: it must be native or numpy"):
        kernels.chosen("fast", kernels)


@needs_native
def test_columns_that_are_not_what_they_say_are_refused() -> None:
    index = MatchIndex("native")
    index.insert(to_filter("x > 5"))
    batch = batch_of([{"x": 6}])
    column = next(iter(batch.columns.values()))
    object.__setattr__(column, "data", np.zeros(1, np.int8))
    with pytest.raises(ValueError, match="not the type of its kind"):
        index.match(batch)


@needs_native
def test_of_a_clause_that_cannot_be_read_nothing_is_left() -> None:
    """A leftover attribute without clauses and tiles would cause a division by zero that ends the process."""
    assert NATIVE is not None
    (clause,) = to_filter("x > 5 AND y LIKE '%a'").clauses
    broken = NATIVE.Kernel(lambda domain: 1 / 0, None, NO_STRINGS)
    with pytest.raises(ZeroDivisionError):
        broken.add(0, clause.constraints)
    assert broken.nbytes == NATIVE.Kernel(None, None, NO_STRINGS).nbytes
    assert broken.find(dict(batch_of([{"x": 6, "y": 1}]).columns), 1, None, 0) == 0
    broken.check()


@needs_native
def test_arrays_by_column_that_are_too_short_or_name_no_slot_are_refused() -> None:
    rows = NativeRows(NATIVE)
    for column in range(3):
        rows.add(column, to_filter("x > 5").clauses[0])
    batch = batch_of([{"x": 6}])
    columns, out = dict(batch.columns), np.zeros(1, np.uint64)
    kernel = rows._kernel
    assert kernel.find(columns, 1, np.array([4, 4, 0]), 5) == 2
    for owners in (np.zeros(2, np.int64), np.zeros(8, np.int32)):
        with pytest.raises(ValueError, match="64 bits for each column"):
            kernel.find(columns, 1, owners, 5)
        with pytest.raises(ValueError, match="64 bits for each column"):
            kernel.groups(columns, 1, owners, 1, out)
    for owner in (5, 1 << 40, -1):
        with pytest.raises(IndexError, match="no slot"):
            kernel.find(columns, 1, np.array([0, owner, 1]), 5)
    rows.remove(2)
    assert kernel.find(columns, 1, np.zeros(2, np.int64), 1) == 1
    kernel.groups(columns, 1, np.array([1, 2], np.uint64), 3, out)
    assert out[0] == 3


@needs_native
def test_rows_of_one_event_are_the_same_for_all_and_stay_zeros() -> None:
    """The zeros are shared and read-only, so no caller can change them; a larger result keeps them."""
    index = MatchIndex("native")
    index.insert_many([to_filter(f"x > {n}") for n in range(300)] + [to_filter("y > 1 OR z > 1")] * 3)
    few = index.match(batch_of([{"x": 10}]))
    with pytest.raises(ValueError, match="read-only"):
        few.rows[0] = 1
    many = index.match(batch_of([{"x": 299.5, "y": 2}]))
    assert (len(few.rows), len(many.rows)) == (10, 303)
    assert few.rows.dtype == few.slots.dtype == np.intp and not few.rows.any() and not many.rows.any()
    assert many.slots.tolist() == [*range(301), 302, 304]


@needs_native
def test_keys_of_columns_that_are_no_pair_of_a_name_and_a_kind_are_refused() -> None:
    rows = NativeRows(NATIVE)
    rows.add(0, to_filter("x > 5").clauses[0])
    (column,) = batch_of([{"x": 6}]).columns.values()
    for key in ("x", ("x",), ("x", "integer"), ("x", 1, 2)):
        with pytest.raises(TypeError):
            rows._kernel.find({key: column}, 1, None, 0)
    with pytest.raises(ValueError, match="no known kind"):
        rows._kernel.find({("x", 9): column}, 1, None, 0)


@needs_native
def test_a_kernel_of_other_sources_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    assert kernels.compiled() is NATIVE
    monkeypatch.setattr(kernels, "FORM", "0" * len(kernels.FORM))
    assert kernels.compiled() is None
