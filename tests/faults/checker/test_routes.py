"""The checker of routes: correct routes have no problem, and each superfluous or missing entry is named."""

from dataclasses import replace
from typing import Any

import pytest
from rayvous.broker.routes import SeenRoutes
from rayvous.faults.checker.books import Clients
from rayvous.faults.checker.routes import route_problems
from rayvous.protocol.ids import GROUP
from rayvous.protocol.messages.recovery import ClusterView
from rayvous.routing.language.questions import merge, to_filter

LOW, HIGH, WIDE, OTHER = (
    to_filter(text) for text in ("n BETWEEN 1 AND 4", "n BETWEEN 5 AND 9", "n > 0", "m = 1")
)
BOTH = merge(to_filter("n >= 1 AND n < 5"), to_filter("n >= 5 AND n < 9"))
ROOT, CHILD = ClusterView(0, 0, 1, (0, 1)), ClusterView(1, 0, 2, (2,))


def says(broker: int, view: ClusterView, **more: Any) -> dict[str, Any]:
    speaks = broker == view.designated
    said = {"broker": broker, "cluster": view.cluster, "view": view, "designated": speaks, "left": False}
    return said | {"parent": None, "children": ()} | more


SURVEY = {
    0: says(0, ROOT),
    1: says(1, ROOT, children=(CHILD,), root=True),
    2: says(2, CHILD, parent=ROOT),
}


def few(*items: Any) -> frozenset[Any]:
    return frozenset(items)


def right() -> tuple[dict[int, SeenRoutes | None], Clients]:
    """Return a root cluster of 0 and 1, and 2 below it: a at 0 wants LOW, b at 2 wants WIDE and LOW, c at 1 OTHER."""
    seen: dict[int, SeenRoutes | None] = {
        0: SeenRoutes({"a": few(LOW)}, {}, {(GROUP, 1): few(LOW)}, {1: few(WIDE)}),
        1: SeenRoutes({"c": few(OTHER)}, {(GROUP, 0): few(LOW), (2, 2): few(WIDE)}, {}, {}),
        2: SeenRoutes({"b": few(WIDE, LOW)}, {}, {(1, 1): few(WIDE)}, {}),
    }
    wanted = {"a": {1: LOW}, "b": {1: WIDE, 2: LOW}, "c": {1: OTHER}}
    return seen, Clients(homes={"a": 0, "b": 2, "c": 1}, wanted=wanted)


def judged(seen: dict[int, SeenRoutes | None], clients: Clients) -> list[str]:
    return route_problems(seen, clients, SURVEY, announces_first=True)


def test_right_routes_have_no_problem() -> None:
    assert judged(*right()) == []


@pytest.mark.parametrize(
    ("broker", "changes", "problem"),
    [
        (0, {"clients": {}}, "broker 0 holds for a: too much [], missing"),
        (0, {"clients": {"a": few(LOW, OTHER)}}, "broker 0 holds for a: too much ['m = 1'], missing []"),
        (0, {"clients": {"a": few(LOW), "b": few(WIDE)}}, "broker 0 holds for b: too much"),
        (0, {"clients": {"a": few(LOW), "nobody": few(WIDE)}}, "broker 0 holds for nobody: too much"),
        (1, {"brokers": {(2, 2): few(WIDE)}}, "broker 1 holds for broker 0: too much [], missing"),
        (
            1,
            {"brokers": {(GROUP, 0): few(LOW), (2, 2): few(WIDE, OTHER)}},
            "broker 1 holds for broker 2: too much ['m = 1']",
        ),
        (
            1,
            {"brokers": {(GROUP, 0): few(LOW), (2, 2): few(WIDE), (7, 7): few(LOW)}},
            "broker 1 holds for broker 7: too much",
        ),
        (2, {"announced": {}}, "broker 2 does not tell broker 1 what it wants"),
        (2, {"announced": {(1, 1): few()}}, "broker 2 tells broker 1: too much [], missing"),
        (
            2,
            {"announced": {(1, 1): few(WIDE, OTHER)}},
            "broker 2 tells broker 1: too much ['m = 1'], missing []",
        ),
        (0, {"copies": {}}, "broker 0 has a copy of what cluster 1 wants: too much [], missing"),
        (0, {"copies": {1: few(WIDE), 5: few(LOW)}}, "broker 0 has a copy of what cluster 5 wants: too much"),
    ],
)
def test_each_entry_too_many_or_too_few_is_named(broker: int, changes: dict[str, Any], problem: str) -> None:
    seen, clients = right()
    seen[broker] = replace(seen[broker], **changes)  # type: ignore[type-var]
    found = judged(seen, clients)
    assert any(each.startswith(problem) for each in found), found


def test_what_is_told_may_be_merged_of_what_is_held_and_of_nothing_else() -> None:
    seen, clients = right()
    parts = few(to_filter("n >= 1 AND n < 5"), to_filter("n >= 5 AND n < 9"))
    clients.wanted["a"] = dict(enumerate(parts))
    seen[0] = replace(seen[0], clients={"a": parts}, announced={(GROUP, 1): few(BOTH)})  # type: ignore[type-var]
    seen[1] = replace(seen[1], brokers={(GROUP, 0): few(BOTH), (2, 2): few(WIDE)})  # type: ignore[type-var]
    assert judged(seen, clients) == []
    clients.wanted["a"] = dict(enumerate(list(parts)[:1]))
    seen[0] = replace(seen[0], clients={"a": few(*list(parts)[:1])})  # type: ignore[type-var]
    assert any("broker 0 tells broker 1: too much" in each for each in judged(seen, clients))


def test_what_came_over_a_link_is_not_due_over_it() -> None:
    mine = SeenRoutes({"a": few(LOW)}, {(1, 1): few(WIDE), (2, 2): few(OTHER)}, {})
    assert mine.due_over(1) == {LOW, OTHER} and mine.due_over(3) == {LOW, WIDE, OTHER}
    assert replace(mine, relays=False).due_over(3) == {LOW}
    assert replace(mine, kept=few(LOW)).due_over(1) == {OTHER}, "publishers here satisfy it"
    assert replace(mine, kept=few(WIDE)).due_over(3) == {LOW, WIDE, OTHER}, "others want it, too"


def test_who_tells_nobody_is_held_to_nothing_and_who_keeps_no_table_is_not_judged() -> None:
    seen, clients = right()
    alone = {
        here: replace(each, brokers={}, announced={}, copies=None)  # type: ignore[type-var]
        for here, each in seen.items()
    }
    assert route_problems(alone, clients, SURVEY, announces_first=False) == []
    assert route_problems({**alone, 0: None}, clients, SURVEY, announces_first=True) == []


def test_a_broker_that_has_left_is_not_there() -> None:
    seen, clients = right()
    gone = {**SURVEY, 7: says(7, ClusterView(3, 0, 7, (7,)), left=True)}
    seen[7] = SeenRoutes({"x": few(LOW)}, {}, {(1, 1): few(LOW)})
    assert route_problems(seen, clients, gone, announces_first=True) == []
