"""Conditions written in Python are the same as those written as text."""

import datetime
from typing import Any

import numpy as np
import pandas as pd
import pytest
from rayvous.protocol.errors import SelectorError
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.language.builders import Attribute, attr
from rayvous.routing.language.predicates import Predicate
from rayvous.routing.language.selectors import parse_selector

x = attr("x")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (x == 1, "x = 1"),
        (x != 1, "x <> 1"),
        (x < 1, "x < 1"),
        (x <= 1, "x <= 1"),
        (x > 1, "x > 1"),
        (x >= 1, "x >= 1"),
        (1 < x, "x > 1"),  # noqa: SIM300 - Python mirrors it
        (x.between(1, 2.5), "x BETWEEN 1 AND 2.5"),
        (x.isin(["a", "b"]), "x IN ('a', 'b')"),
        (x.isin(np.array([1, 2])), "x IN (1, 2)"),
        (x.like("a!%%", "!"), "x LIKE 'a!%%' ESCAPE '!'"),
        (x.prefix("a"), "x PREFIX 'a'"),
        (x.suffix("a"), "x SUFFIX 'a'"),
        (x.contains("a"), "x CONTAINS 'a'"),
        (x.is_null(), "x IS NULL"),
        (x.is_missing(), "x IS MISSING"),
        (x.ilike("a!%", "!"), "x ILIKE 'a!%' ESCAPE '!'"),
        (x.cidr("10.0.0.0/8"), "x CIDR '10.0.0.0/8'"),
        (x.upper() == "A", "UPPER(x) = 'A'"),
        (x.lower() != "a", "LOWER(x) <> 'a'"),
        (x.upper().isin(["A", "B"]), "UPPER(x) IN ('A', 'B')"),
        (x.upper().like("A_"), "UPPER(x) LIKE 'A_'"),
        (x.lower().prefix("a"), "LOWER(x) PREFIX 'a'"),
        (x.lower().suffix("a"), "LOWER(x) SUFFIX 'a'"),
        (x.lower().contains("A"), "LOWER(x) CONTAINS 'A'"),
        (~x.is_null(), "x IS NOT NULL"),
        ((x > 1) & (attr("y") == "a") | ~(x < 0), "x > 1 AND y = 'a' OR NOT x < 0"),
        (x == np.bool_(True), "x"),
        (x > np.float32(0.5), "x > 0.5"),
        (x > datetime.datetime(2013, 1, 1, 5), "x > TIMESTAMP '2013-01-01 05:00'"),
        (x > pd.Timestamp("2013-01-01 05:00", tz="UTC"), "x > TIMESTAMP '2013-01-01 05:00'"),
        (x > np.datetime64("2013-01-01T05:00"), "x > TIMESTAMP '2013-01-01 05:00'"),
        (attr("odd name") == 1, '"odd name" = 1'),
        (x == attr("y"), "x = y"),
        (x * attr("y") > 1000, "x * y > 1000"),
        (2 - x / 4 <= attr("y") + 1, "2 - x / 4 <= y + 1"),
        (np.float64(2) * x - -attr("y") != 0.5, "2.0 * x - -y != 0.5"),
        ((x + 1).between(attr("y"), 5), "x + 1 BETWEEN y AND 5"),
        ((3 + x).isin([1, attr("y")]), "3 + x IN (1, y)"),
        ((x * 2).is_null(), "x * 2 IS NULL"),
    ],
)
def test_builders_and_text_make_the_same(built: Predicate, text: str) -> None:
    assert built == parse_selector(text)
    assert to_filter(built) == to_filter(text)


def test_and_or_not_are_refused_with_a_hint() -> None:
    with pytest.raises(TypeError, match=r"& \| ~ instead of and"):
        assert (x > 1) and (x < 2)
    with pytest.raises(TypeError, match="between"):
        assert 1 < x < 2
    with pytest.raises(TypeError, match="== True"):
        assert not x


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: x + "a" > 1, "needs numbers, found a string"),
        (lambda: x * 2 == "a", "cannot be compared with a string"),
        (lambda: x / None > 1, "IS NULL"),
        (lambda: x == None, "IS NULL"),  # noqa: E711
        (lambda: x > float("nan"), "NaN"),
        (lambda: x.isin("abc"), "found 'abc'"),
        (lambda: x.isin([]), "at least one"),
        (lambda: attr("") > 1, "attribute name"),
    ],
)
def test_mistakes_are_named(make: Any, message: str) -> None:
    with pytest.raises(SelectorError, match=message):
        make()


def test_an_attribute_shows_itself_and_has_no_hash() -> None:
    assert repr(Attribute("x")) == "attr('x')"
    assert repr(2 * x) == "<2 * x>"
    with pytest.raises(TypeError):
        hash(x)
