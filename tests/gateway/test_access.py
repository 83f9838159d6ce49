"""Which selectors are read on the loop of a gateway, and which in a thread, so that nobody waits for them."""

import pytest
from rayvous.gateway.access import QUICK_CHARACTERS_MAX, is_quick
from rayvous.protocol.errors import SelectorError
from rayvous.routing.filters.filter import to_filter

QUICK = [
    "symbol = 'S17' AND price > 50.25",
    "origin = 'JFK' and dep_delay >= 60 AND carrier LIKE 'A%' AND tail IS NULL",
    "cancelled",
]
LONG = [
    "a = 1 OR b = 2",
    "a = 1\tor\nb = 2",
    "a=1 AND(b=2)",
    "NOT a = 1",
    "a <> 1",
    "a != 1",
    "a IN ('x', 'y')",
    "a BETWEEN 1 AND 2",
    "CESQL 'a'",
    " AND ".join(f"a{number} = 1" for number in range(QUICK_CHARACTERS_MAX)),
]


@pytest.mark.parametrize("selector", QUICK)
def test_a_short_row_of_conditions_is_read_at_once_and_has_no_alternatives(selector: str) -> None:
    assert is_quick(selector) and len(to_filter(selector).clauses) == 1


@pytest.mark.parametrize("selector", LONG, ids=lambda selector: selector[:12])
def test_what_may_be_multiplied_out_or_nested_or_is_long_is_read_in_a_thread(selector: str) -> None:
    assert not is_quick(selector)


def test_what_is_no_selector_is_not_quick_or_fails_quickly() -> None:
    assert not is_quick({"a": 1})
    with pytest.raises(SelectorError):
        to_filter("a = ")
