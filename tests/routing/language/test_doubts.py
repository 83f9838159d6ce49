"""Filters that are valid and hardly meant are reported, and rejected on request.

Reference: docs/selectors.md, Doubts.
"""

from typing import Any

import pytest
import rayvous as rv
from rayvous.protocol.errors import SelectorError
from rayvous.routing.language.questions import doubts_about, doubts_to_tell

TAGS = rv.attr("tags")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "tags = 'new' AND tags = 'paid'",
            "^no event .* on tags exclude each other; if tags is an array, write tags",
        ),
        ((TAGS == "new") & (TAGS == "paid"), "CONTAINS ALL"),
        ("a > 5 AND b = 1 AND a < 3", "^no event can match it: its conditions on a exclude each other$"),
        ("a = 1 OR (b = 'x' AND b = 'y')", "^no event can match alternative 2 of its OR: .* CONTAINS ALL"),
        ("NOT (a IS NULL OR a IS NOT NULL)", "^no event can match it$"),
        ("tags CONTAINS ALL ('a') AND tags CONTAINS NONE ('a')", "on tags exclude each other$"),
        ({"a": [{"numeric": [">", 5]}], "$or": [{"a": [1]}, {"a": [2]}]}, "on a exclude each other$"),
        ('country = "UK"', "^country = UK compares two attributes: a string is written 'UK'$"),
        ("foo=bar", "^foo = bar compares two attributes: a string is written 'bar'$"),
        ("a IN ('x', \"it's\")", "a = \"it's\" compares two attributes: a string is written 'it''s'$"),
        ("NOT before.tags <> after.tags", "compares two attributes"),
        ("x-type > 5", '^x-type is a subtraction: .* write "x-type", otherwise put blanks around -$'),
        ("'a-b' = x AND price-cost-tax > 5", "^price-cost-tax is a subtraction"),
        ("NOT tags = 'x' AND SIZE(tags) > 1", "^tags is an array: .* write tags CONTAINS NONE"),
        ("tags <> 'x' AND tags CONTAINS ALL ('a')", "CONTAINS NONE"),
        ("(tags IN ('x', 'y')) IS FALSE AND tags <> ARRAY[]", "CONTAINS NONE"),
    ],
)
def test_the_doubt(given: Any, message: str) -> None:
    assert isinstance(rv.to_filter(given), rv.Filter), "it is valid"
    assert len(doubts_about(given)) == 1
    with pytest.raises(SelectorError, match=message):
        rv.to_filter(given, strict=True)


@pytest.mark.parametrize(
    "given",
    [
        "",
        "TRUE",
        "FALSE",
        "a = 1 OR FALSE",
        "price - cost > 5 AND a = '--x-y' AND \"x-type\" = 'a-b' AND b > -5 AND c > 1e-5",
        rv.attr("bid") >= rv.attr("ask"),
        "bid + 0 >= ask",
        "tags = 'a' AND tags CONTAINS ALL ('a', 'b') AND NOT tags CONTAINS ALL ('c')",
        "NOT tags <> 'a' AND SIZE(tags) = 1",
        {"tags": [{"contains-none": ["a"]}]},
        rv.to_filter("a <= b"),
    ],
)
def test_no_doubt(given: Any) -> None:
    assert doubts_about(given) == ()
    assert rv.to_filter(given, strict=True) == rv.to_filter(given)


def test_what_is_advertised_decides_about_two_attributes() -> None:
    quotes = ["bid > 0 AND ask > 0", {"sym": ["X"]}]
    assert rv.to_filter("bid >= ask", strict=True, advertised=quotes) == rv.to_filter("bid >= ask")
    with pytest.raises(
        SelectorError, match=r"^sym = UK .*, and no publisher advertises UK: a string is written 'UK'$"
    ):
        rv.to_filter('sym = "UK"', strict=True, advertised=quotes)
    assert (
        doubts_about('bid > ask AND sym = "UK"', advertised=[])
        != doubts_about("bid > ask", advertised=quotes)
        == ()
    )


def test_one_filter_is_no_list_of_them() -> None:
    with pytest.raises(SelectorError, match="a list of filters"):
        rv.to_filter("a = b", strict=True, advertised="a = 1")


def test_the_comment_of_a_dialect() -> None:
    assert doubts_about("a - --5 > 1", dialect="cesql") == (
        "-- is two minus signs here, and begins no comment",
    )
    assert doubts_about("a = '--'", dialect="cesql") == ()
    assert doubts_about('a = "x"', dialect="jms") == (
        "a = x compares two attributes: a string is written 'x'",
    )


def test_whoever_subscribes_is_told_a_few_doubts_on_one_line_each() -> None:
    many = " OR ".join(f'a{number} = "x{number}"' for number in range(100))
    assert len(doubts_about(many)) == 100
    assert doubts_to_tell(many) == tuple(
        f"a{number} = x{number} compares two attributes: a string is written 'x{number}'"
        for number in range(4)
    )
    assert max(map(len, doubts_to_tell(f'{"a" * 900} = "{"b" * 900}"'))) == 300
    assert doubts_to_tell("a > 1") == doubts_to_tell("a >") == ()
    products = " AND ".join(f"(a{n} = 1 OR b{n} = 2)" for n in range(40))
    assert doubts_to_tell(products) == (), "too complex to be doubted"
