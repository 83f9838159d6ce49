"""The list of durable subscribers: what brokers hold, what only the rendezvous point knows, and who is ended."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from rayvous.actors.network import durables
from rayvous.actors.network.durables import Durables
from rayvous.actors.network.names import LastingNames
from rayvous.protocol.durables import SHOWN_MAX, DurableStatus, furthest_behind
from rayvous.protocol.errors import InputError


class Point(LastingNames):
    """What a rendezvous point is asked."""

    durables_seen = LastingNames.seen


def network(*answers: list[DurableStatus], seen: dict[str, float] | None = None, heals: bool = True) -> Any:
    return SimpleNamespace(
        name="flights", features=SimpleNamespace(heals=heals), require_open=lambda: None, find_reborn=lambda: None,
        ask=lambda question, **how: list(answers), rendezvous=Actor(Point, durables_seen=seen or {}),
    )  # fmt: skip


def one(name: str, broker: int | None = 0, **given: Any) -> DurableStatus:
    usual = {"attached": True, "away_seconds": 0.0, "selectors": ("x > 1",)}
    return DurableStatus(name, broker, **(usual | given))


def test_all_are_listed_and_those_first_whose_events_have_waited_longest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Ray(monkeypatch, durables)
    late = one("late", 1, events=5, bytes=99, seconds=7.0, selectors=("x > 1",))
    gone = one("gone", attached=False, away_seconds=None)
    never = one("never", attached=False, selectors=())
    hosts = network(
        [one("b"), gone, never], [late], seen={"gone": time.time() - 50, "lost": time.time() - 60}
    )
    found = Durables(hosts, SimpleNamespace(), SimpleNamespace()).durable()
    assert [each.name for each in found] == ["late", "b", "gone", "lost"] and found[0] == late
    away = {each.name: each.away_seconds for each in found}
    assert away["late"] == 0 and 50 <= away["gone"] < 60 <= away["lost"]
    assert found[2].broker == 0 and found[3].broker is None and not found[3].attached


def test_who_is_at_two_brokers_for_a_moment_is_where_he_is_attached(monkeypatch: pytest.MonkeyPatch) -> None:
    Ray(monkeypatch, durables)
    before = one("a", 0, attached=False, away_seconds=3.0, events=9, seconds=9.0)
    longer = one("a", 2, attached=False, away_seconds=5.0)
    for answers in ([before], [one("a", 1)], [longer]), ([longer], [one("a", 1)], [before]):
        assert Durables(network(*answers), SimpleNamespace(), SimpleNamespace()).durable() == [one("a", 1)]
    assert Durables(network([longer], [before]), SimpleNamespace(), SimpleNamespace()).durable() == [before]


def test_a_network_that_does_not_heal_has_none_and_asks_nobody() -> None:
    hosts = network(heals=False)
    assert (
        Durables(hosts, SimpleNamespace(), SimpleNamespace()).durable() == [] and not hosts.rendezvous.asked
    )


def test_nobody_is_ended_who_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    Ray(monkeypatch, durables)
    nobody = SimpleNamespace()  # attaches nobody
    with pytest.raises(InputError, match="no durable subscriber 'ailce': there is 'alice'"):
        Durables(network([one("alice")]), nobody, SimpleNamespace()).end_durable("ailce")
    with pytest.raises(InputError, match="no durable subscriber 'alice', and no other"):
        Durables(network([]), nobody, SimpleNamespace()).end_durable("alice")
    with pytest.raises(InputError, match="name"):
        Durables(network([]), nobody, SimpleNamespace()).end_durable(3)  # type: ignore[arg-type]


def test_a_status_shows_the_furthest_behind() -> None:
    many = [one(f"{number:03}", seconds=float(number % 7), events=number) for number in range(3 * SHOWN_MAX)]
    shown = furthest_behind(many)
    assert (
        len(shown) == SHOWN_MAX
        and shown[0].name == "293"
        and {each.seconds for each in shown} == {6.0, 5.0, 4.0}
    )


def test_a_group_that_runs_is_ended_by_its_actor_and_no_other_by_its_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Ray(monkeypatch, durables)
    asked, runs = [], {"work": True, "gone": False}
    groups = SimpleNamespace(end=lambda name: asked.append(name) or runs[name])
    taken = []

    def subscriber(name: str, *, durable: bool) -> Any:
        taken.append((name, durable))
        raise InputError("it is taken over here")

    listed = network([one("group:work"), one("group:gone"), one("work")])
    parts = Durables(listed, SimpleNamespace(subscriber=subscriber), groups)
    parts.end_durable("group:work")
    assert (asked, taken) == (["work"], [])
    for name in ("group:gone", "work"):
        with pytest.raises(InputError, match="taken over here"):
            parts.end_durable(name)
    assert (asked, taken) == (["work", "gone"], [("group:gone", True), ("work", True)])
