"""The check of all books of a network: every kind of error in a book is named.

Reference: promise 8.
"""

from dataclasses import replace
from typing import Any

import pytest
from rayvous.broker.books import SeenBooks
from rayvous.faults.checker.books import Clients, books_problems, joined
from rayvous.protocol.messages.admission import Refusal
from rayvous.routing.language.questions import to_filter

LOW, HIGH, ALL = to_filter("x < 5"), to_filter("x > 7"), to_filter("x >= 0")
LACK = (Refusal(1, "cpu", 10.0, 0.0),)
CHAIN = joined({0: None, 1: 0, 2: 1})
"""A publisher of everything at 2, a subscriber at 0 that wants what is low and lacks something at 1."""


def clients() -> Clients:
    return Clients({"p": 2, "s": 0}, {"p": ALL}, {"s": {1: LOW}}, {"s": {1: LACK}})


def books(**changes: Any) -> dict[int, SeenBooks]:
    held = frozenset({LOW})
    right = {
        0: SeenBooks(frozenset({1}), {1: frozenset({"p"})}, {None: held, 1: frozenset()}, {}, True),
        1: SeenBooks(
            frozenset({0, 2}),
            {2: frozenset({"p"})},
            {None: frozenset(), 0: held, 2: frozenset()},
            {(LOW, 0): LACK},
            True,
        ),
        2: SeenBooks(frozenset({1}), {None: frozenset({"p"})}, {None: frozenset(), 1: held}, {}, True),
    }
    for broker in right:
        fields = {name: value for name, (at, value) in changes.items() if at == broker}
        right[broker] = replace(right[broker], **fields)
    return right


def test_a_tree_is_who_reaches_the_root_through_whom_and_the_dead_are_not_in_it() -> None:
    assert joined({0: None, 1: 0, 2: 0, 5: 4}) == {0: {1, 2}, 1: {0}, 2: {0}, 5: set()}


def test_books_that_say_what_follows_from_who_is_there_are_right() -> None:
    assert books_problems(books(), CHAIN, clients()) == []


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"unbalanced": (2, "a recount differs")}, "the books of broker 2 do not balance: a recount differs"),
        ({"neighbours": (0, frozenset({1, 4}))}, "broker 0 has books for [1, 4], its links are [1]"),
        ({"adverts": (0, {})}, "broker 0 has adverts over 1: too much [], missing ['p']"),
        ({"adverts": (1, {0: frozenset({"p"})})}, "broker 1 has adverts over 0: too much ['p']"),
        ({"held": (2, {None: frozenset(), 1: frozenset()})}, "broker 2 holds for 1: too much [], missing"),
        (
            {"held": (0, {None: frozenset({LOW, HIGH}), 1: frozenset()})},
            "broker 0 holds for its own clients: too much",
        ),
        ({"degraded": (1, {})}, "s #1 was told that it lacks: too much"),
        ({"degraded": (2, {(LOW, 1): LACK[:1]})}, ""),
    ],
)
def test_what_is_wrong_is_told(changes: dict[str, Any], words: str) -> None:
    found = books_problems(books(**changes), CHAIN, clients())
    assert (words in " ".join(found)) if words else found == []


@pytest.mark.parametrize("client", ["p", "s"])
def test_who_is_still_at_a_broker_that_is_gone_is_told(client: str) -> None:
    late = replace(clients(), homes={"p": 2, "s": 0} | {client: 7})
    assert books_problems(books(), CHAIN, late) == [f"{client} is still at broker 7, which is gone"]


def test_what_is_not_promised_is_not_missed_and_without_balance_nothing_else_is_asked() -> None:
    lax = {broker: replace(each, promises=False) for broker, each in books().items()}
    told = replace(clients(), lacking={})
    assert books_problems(lax, CHAIN, told) == []
    assert any("was told that it lacks" in each for each in books_problems(books(), CHAIN, told))
    assert len(books_problems(books(adverts=(0, {})), CHAIN, clients())) >= 1
    assert len(books_problems(books(unbalanced=(1, "off"), adverts=(0, {})), CHAIN, clients())) == 1
