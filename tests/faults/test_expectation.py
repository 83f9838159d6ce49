"""What a scenario's steps ask for: what must come, and what may while nothing has settled."""

from typing import Any

from rayvous.faults.expectation import Expectation, expectation_of
from rayvous.protocol.scenario import Scenario
from rayvous.protocol.steps import Publish, Settle, Step, Subscribe, Unsubscribe


def expected(*steps: Step) -> Expectation:
    return expectation_of(Scenario(name="steps", topology={}, steps=steps))


def sub(client: str, selector: str, number: int = 1) -> Subscribe:
    return Subscribe(client, 0, number, selector)


def pub(*values: int, client: str = "p") -> Publish:
    events: tuple[dict[str, Any], ...] = tuple({"x": value} for value in values)
    return Publish(client, 0, events)


def must(expectation: Expectation, client: str = "c") -> list[tuple[str, int]]:
    return list(expectation.must[client])


def test_what_is_published_while_a_subscription_is_there_must_come() -> None:
    found = expected(sub("c", "x > 1"), pub(1, 2, 3), pub(9, client="q"), Settle())
    assert must(found) == [("p", 2), ("p", 3), ("q", 1)]
    assert found.may == {"c": set()}
    assert found.published == {("p", 1): {"x": 1}, ("p", 2): {"x": 2}, ("p", 3): {"x": 3}, ("q", 1): {"x": 9}}


def test_the_end_settles_too() -> None:
    assert must(expected(sub("c", "x > 1"), pub(2))) == [("p", 1)]


def test_what_was_under_way_when_it_was_cancelled_may_come() -> None:
    found = expected(sub("c", "x > 1"), pub(2), Settle(), pub(3), Unsubscribe("c", 1), pub(4))
    assert must(found) == [("p", 1)] and found.may["c"] == {("p", 2)}


def test_what_another_subscription_of_the_same_client_asks_for_must_come_all_the_same() -> None:
    found = expected(sub("c", "x > 1"), sub("c", "x > 2", 2), pub(2, 3), Unsubscribe("c", 1), Settle())
    assert must(found) == [("p", 2)] and found.may["c"] >= {("p", 1)}


def test_what_was_under_way_when_it_was_made_may_come() -> None:
    found = expected(pub(1, 2), sub("c", "x > 1"), pub(3))
    assert must(found) == [("p", 3)] and found.may["c"] == {("p", 2)}


def test_what_had_settled_before_it_was_made_may_not_come() -> None:
    found = expected(pub(1, 2), Settle(), sub("c", "x > 1"))
    assert must(found) == [] and found.may["c"] == set()


def test_a_number_that_is_used_again_is_a_new_subscription() -> None:
    found = expected(sub("c", "x = 1"), pub(1), Unsubscribe("c", 1), Settle(), sub("c", "x = 2"), pub(1, 2))
    assert must(found) == [("p", 3)] and found.may["c"] == {("p", 1)}


def test_a_subscription_made_anew_in_place_of_another_cancels_it() -> None:
    found = expected(sub("c", "x = 1"), pub(1), sub("c", "x = 2"), pub(1, 2))
    assert must(found) == [("p", 3)] and found.may["c"] == {("p", 1)}
