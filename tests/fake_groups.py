"""A group's actor without Ray: on a subscriber that only answers."""

import threading
from collections import deque
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from patience import PATIENCE_SECONDS
from rayvous.actors.groups import actor as module
from rayvous.actors.groups.actor import GroupActor
from rayvous.protocol.batch import batch_of
from rayvous.protocol.groups import GroupConfig


class Subscriber:
    """A durable subscriber as a group uses it."""

    def __init__(self, beside: Any = None, position: dict[str, int] | None = None) -> None:
        self.position, self.found_beside, self.incarnation = position or {}, beside, 5
        self.arrivals: deque[Any] = deque()
        self.stored: list[tuple[dict[str, int], Any]] = []
        self.letters: list[tuple[str, int, Any, str]] = []
        self.subscriptions: dict[int, Any] = {}
        self.may_store = threading.Event()
        self.may_store.set()
        self.may_give_up = threading.Event()
        self.may_give_up.set()
        self.unexpected: list[Exception] = []
        self.refuses: Exception | None = None
        self.error: Exception | None = None
        self.ended = threading.Event()

    def end(self) -> None:
        self.ended.set()

    def listen(self, more: Any) -> None:
        self.more = more

    def take(self) -> Any:
        if self.error is not None and not self.arrivals:
            raise self.error
        return self.arrivals.popleft() if self.arrivals else None

    def come(self, *events: dict[str, Any], publisher: str = "p", first: int = 1) -> None:
        batch = batch_of(events, publisher=publisher, first_sequence=first)
        self.arrivals.append(SimpleNamespace(batch=batch, rows=np.arange(len(batch))))
        self.more()

    def acknowledge_up_to(self, marks: dict[str, int], beside: Any) -> None:
        assert self.may_store.wait(PATIENCE_SECONDS)
        if self.refuses is not None:
            raise self.refuses
        self.stored.append((dict(marks), beside))

    def give_up(self, publisher: str, sequence: int, event: Any, reason: str) -> None:
        assert self.may_give_up.wait(PATIENCE_SECONDS)
        if self.unexpected:
            raise self.unexpected.pop()
        self.letters.append((publisher, sequence, event, reason))

    def subscribe(
        self, wanted: Any, *, priority: int = 0, max_delay: float | None = None, at: Any = None
    ) -> int:
        self.subscriptions[1] = wanted
        return 1


def begun(
    monkeypatch: pytest.MonkeyPatch, subscriber: Subscriber, *, restarted: bool = False, **given: Any
) -> GroupActor:
    context = SimpleNamespace(was_current_actor_reconstructed=restarted)
    monkeypatch.setattr(module.ray, "get_runtime_context", lambda: context)
    monkeypatch.setattr(module, "end_with_raylet", lambda end: None)
    monkeypatch.setattr(module, "has_ended", lambda network: False)
    net = SimpleNamespace(subscriber=lambda name, durable: subscriber)
    monkeypatch.setattr(module.Network, "attach", lambda name: net)
    monkeypatch.setattr(module, "clients_of", lambda attached: attached)
    return GroupActor("flights", GroupConfig("w", **({"silent_seconds": 0.3} | given)))
