"""Clients from a shell, with a network that is a stand-in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.clients.notification import Notification
from rayvous.cli.verbs import clients
from rayvous.protocol.errors import BrokerUnavailable


class Subscriber:
    broker = 3

    def __init__(self) -> None:
        self.subscriptions: dict[int, Any] = {}

    def subscribe(self, selector: str, at: str | None = None, last_per: str | None = None) -> None:
        self.subscriptions[1] = selector

    def notifications(self, timeout: float | None) -> Iterator[Any]:
        return iter(())


class Failing(Subscriber):
    """A subscriber of a broker that dies when two events have come."""

    def __init__(self) -> None:
        super().__init__()
        self.events = [{"x": 1}, {"x": 2}]

    def notifications(self, timeout: float | None) -> Iterator[Any]:
        while self.events:
            yield Notification(self.events.pop(0), "bob", 1, 0.0, 0.0)
        raise BrokerUnavailable("the subscriber's broker is gone")


def test_subscribe_prints_what_came_before_an_error(
    rayvous: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def joined(name: str, address: str | None) -> Iterator[Any]:
        yield SimpleNamespace(name=name, subscriber=lambda name: Failing())

    monkeypatch.setattr(clients, "joined", joined)
    status, out, err = rayvous("subscribe", "flights", "x > 0", "--timeout", "0")
    assert status != 0 and "broker is gone" in err
    assert [json.loads(line)["event"]["x"] for line in out.splitlines()] == [1, 2]


@pytest.mark.parametrize(
    ("selector", "doubts"),
    [
        ("a > 1", ""),
        ('country = "UK"', "doubtful: country = UK compares two attributes: a string is written 'UK'\n"),
        ("a > 5 AND a < 3", "doubtful: no event can match it: its conditions on a exclude each other\n"),
    ],
)  # fmt: skip
def test_subscribe_tells_what_is_doubtful_and_goes_on(
    rayvous: Callable[..., tuple[int, str, str]],
    monkeypatch: pytest.MonkeyPatch,
    selector: str,
    doubts: str,
) -> None:
    made = Subscriber()

    @contextmanager
    def joined(name: str, address: str | None) -> Iterator[Any]:
        yield SimpleNamespace(name=name, subscriber=lambda name: made)

    monkeypatch.setattr(clients, "joined", joined)
    status, out, err = rayvous("subscribe", "flights", selector, "--timeout", "0")
    assert (status, out) == (0, "")
    assert err == f"subscribed at broker 3\n{doubts}events: 0\n"
    assert made.subscriptions == {1: selector}


def test_a_durable_subscriber_that_exists_does_not_begin_with_the_last_events(
    rayvous: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    @contextmanager
    def joined(name: str, address: str | None) -> Iterator[Any]:
        yield SimpleNamespace(name=name, durable=lambda: [SimpleNamespace(name="alice")])

    monkeypatch.setattr(clients, "joined", joined)
    status, out, err = rayvous("subscribe", "flights", "--durable", "alice", "--last-per", "flight")
    assert (status, out) == (2, "") and "'alice' has begun: take another name, or end it first" in err
