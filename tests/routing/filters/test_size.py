"""The size limit of a filter is the same however it is written, and discarded filters leave no memory behind.

Reference: docs/spec.md, promises 9 and 10.
"""

import gc
import tracemalloc
from typing import Any

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import FilterTooComplex, SelectorError
from rayvous.routing.filters.computed import key_text
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.filters.printing import CHARACTERS_MAX, characters_at_most
from rayvous.routing.language.builders import attr
from rayvous.routing.language.predicates import compile_predicate
from rayvous.routing.language.selectors import parse_selector
from rayvous.routing.matching.index import MatchIndex


def test_every_filter_prints_as_a_selector_that_is_read() -> None:
    values = [float(f"{n}e9") for n in range(1_000, 8_000)]
    long = to_filter(attr("a").isin(values))
    written = f"a IN ({','.join(f'{n}e9' for n in range(1_000, 8_000))})"
    assert len(written) < 64 * 1024 < len(str(long)) < CHARACTERS_MAX
    assert to_filter(str(long)) == long


TOO_LONG = "x" * (CHARACTERS_MAX + 1)
MANY = [f"value {n}" for n in range(12_000)]
NUMBERS = [float(f"{n}e9") for n in range(10_000, 20_000)]


@pytest.mark.parametrize(
    "written",
    [
        f"a IN ({','.join(f'{n}e9' for n in range(10_000, 20_000))})",
        {"a": NUMBERS},
        {"a": [{"anything-but": NUMBERS}]},
        attr("a").isin(MANY),
        ~attr("a").isin(MANY),
    ],
    ids=["text", "JSON", "JSON anything-but", "Python", "Python not"],
)
def test_the_limit_is_on_the_normal_form(written: Any) -> None:
    with pytest.raises(FilterTooComplex, match=r"normal form has \d+ characters .* limit is 131072: split"):
        to_filter(written)


@pytest.mark.parametrize(
    "make",
    [
        lambda: attr("a").prefix(TOO_LONG),
        lambda: attr("a").like(TOO_LONG),
        lambda: attr("a") == TOO_LONG,
        lambda: attr("a").isin(range(CHARACTERS_MAX + 1)),
        lambda: to_filter({"a": [{"prefix": TOO_LONG}]}),
        lambda: to_filter({"a": [TOO_LONG]}),
        lambda: to_filter({"a": [{"wildcard": TOO_LONG}]}),
        lambda: to_filter(f"a PREFIX '{TOO_LONG}'"),
    ],
    ids=range(8),
)
def test_what_is_too_long_by_itself_is_refused_before_work_goes_into_it(make: Any) -> None:
    with pytest.raises(SelectorError, match=r"131\d\d\d (characters|values), the limit"):
        make()


def test_no_text_is_longer_than_it_is_reckoned() -> None:
    for text in (
        "a = 'it''s' AND b NOT LIKE '!%%_' ESCAPE '!'",
        "a NOT IN ('x', 'y') AND \"an odd name\" BETWEEN TIMESTAMP '2013-01-01' AND TIMESTAMP '2014-01-01'",
        "a IS NULL OR a < -9223372036854775808 OR a > 1.7976931348623157e308 OR a LIKE '%''''%'",
        "a + 1 = 2 AND (NOT a <= b OR (a <= b) IS UNKNOWN)",
    ):
        item = to_filter(text)
        reckoned = [
            characters_at_most(key_text(key), domain)
            for c in item.clauses
            for key, domain in c.domains.items()
        ]
        assert len(str(item)) <= sum(reckoned)


def test_filters_that_are_gone_leave_nothing_behind() -> None:
    def use() -> None:
        index = MatchIndex()
        for number in range(5):
            text = f"a LIKE '{number}%{'b_' * 500}%'"
            slot = index.insert(to_filter(text))
            compile_predicate(parse_selector(text))({"a": "1b"})
            index.match(batch_of([{"a": "1b"}]))
            index.remove(slot)

    to_filter("a LIKE 'b%c_'")  # allocate what a process allocates only once
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    use()
    gc.collect()
    left = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    assert left < 50_000
