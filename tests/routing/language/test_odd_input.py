"""Any object given as an event, a selector or a pattern gives a result or a Rayvous error that explains it.

Reference: docs/spec.md, promise 10.
"""

import enum
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
import rayvous as rv
from rayvous.protocol.batch import batch_of
from rayvous.routing.language import questions
from rayvous.routing.language.patterns import parse_pattern

attr, to_filter = rv.attr, rv.to_filter

ODD: list[Any] = [
    None,
    5,
    "odd",
    10**5000,
    -(10**5000),
    float("nan"),
    pd.NA,
    pd.NaT,
    [],
    {},
    [[]],
    np.array([1, 2]),
    np.datetime64(5, "as"),
    np.datetime64(5, "fs"),
    b"x",
    object(),
    type,
]
WAYS: dict[str, Callable[[Any], Any]] = {
    "event": lambda odd: batch_of([odd]),
    "value": lambda odd: batch_of([{"a": odd}]),
    "name": lambda odd: batch_of([{odd: 1}]),
    "selector": to_filter,
    "covers": lambda odd: rv.covers(odd, "a = 1"),
    "attribute": attr,
    "compare": lambda odd: to_filter(attr("a") > odd),
    "between": lambda odd: to_filter(attr("a").between(odd, 3)),
    "isin": lambda odd: to_filter(attr("a").isin(odd)),
    "isin one": lambda odd: to_filter(attr("a").isin([odd])),
    "like": lambda odd: to_filter(attr("a").like(odd)),
    "escape": lambda odd: to_filter(attr("a").like("a", odd)),
    "pattern name": lambda odd: to_filter({odd: [1]}),
    "alternatives": lambda odd: to_filter({"a": odd}),
    "alternative": lambda odd: to_filter({"a": [odd]}),
    "matcher": lambda odd: to_filter({"a": [{odd: 1}]}),
    "prefix": lambda odd: to_filter({"a": [{"prefix": odd}]}),
    "exists": lambda odd: to_filter({"a": [{"exists": odd}]}),
    "anything-but": lambda odd: to_filter({"a": [{"anything-but": odd}]}),
    "numeric": lambda odd: to_filter({"a": [{"numeric": odd}]}),
    "numeric operator": lambda odd: to_filter({"a": [{"numeric": [odd, 1]}]}),
    "numeric operand": lambda odd: to_filter({"a": [{"numeric": [">", odd]}]}),
    "$or": lambda odd: to_filter({"$or": odd}),
}


def hashable(odd: Any) -> bool:
    try:
        hash(odd)
    except TypeError:
        return False
    return True


@pytest.mark.parametrize("way", WAYS)
def test_what_is_odd_is_taken_or_refused_by_name(way: str) -> None:
    for odd in ODD:
        if way in ("name", "pattern name", "matcher") and not hashable(odd):
            continue
        try:
            WAYS[way](odd)
        except rv.RayvousError as error:
            assert 0 < len(str(error)) < 400


@pytest.mark.parametrize("asked", [rv, questions])
def test_questions_take_whatever_describes_a_filter(asked: Any) -> None:
    assert asked.covers("a > 1", {"a": [2]}) and not asked.covers("a = 1", "a = 2")
    assert asked.intersects("a > 1", attr("a") == 2)
    assert asked.merge("a = 1", "a = 2") == to_filter("a IN (1, 2)")
    with pytest.raises(rv.SelectorError, match="a int is not a filter"):
        asked.covers(5, "a = 1")


class Own(str):
    """A string with its own equality and hash, which a dictionary would not find again."""

    def __eq__(self, other: object) -> bool:
        return False

    def __hash__(self) -> int:
        return 7


class Named(enum.StrEnum):
    A = "a"


@pytest.mark.parametrize("name", [Own("a"), Named.A, np.str_("a")])
def test_names_and_texts_are_plain_strings(name: Any) -> None:
    ((found, _),) = batch_of([{name: 1}]).columns
    assert type(found) is str and found == "a"
    for written in ({name: [1]}, attr(name) == 1, {"a": [1]}):
        (found,) = to_filter(written).attributes
        assert type(found) is str and to_filter(written) == to_filter("a = 1")
    for predicate in (attr("x").prefix(name), parse_pattern({"x": [{"prefix": name}]})):
        assert to_filter(predicate) == to_filter("x PREFIX 'a'")
        assert to_filter(predicate).matches({"x": "ab"})


def test_a_name_that_is_there_twice_is_refused() -> None:
    with pytest.raises(rv.EventError, match="event 0: attribute 'a' occurs twice"):
        batch_of([{"a": 1, Own("a"): 2}])
