"""A publisher that comes back asks every broker that may have accepted its last events.

Reference: promise 1; docs/exactly-once.md.
"""

from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray, in_turn
from ray.exceptions import ActorDiedError, ActorUnavailableError
from rayvous.actors.clients import reattach
from rayvous.actors.clients.client import Context
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.clients.places import NOBODY
from rayvous.protocol.errors import BrokerUnavailable

AWAY = ActorUnavailableError("not now", None)
CALL_SECONDS = 20.0
HOME = 4


class Net:
    """Fakes time and a network: broker 4 gives these answers in turn, and then the last one again."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *answers: Any) -> None:
        self.now = 0.0
        self.answers = list(answers)
        self.buried = list[Any]()
        Ray(monkeypatch, reattach)
        monkeypatch.setattr(reattach, "time", SimpleNamespace(monotonic=lambda: self.now, sleep=self.passes))
        monkeypatch.setattr(
            reattach, "ReturningPublisher", lambda name, place, context, known: (place, known)
        )

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def reattach(self) -> Any:
        host = Actor(BrokerHost, request=in_turn(*self.answers))
        rendezvous = Actor(
            Rendezvous,
            reattach_publisher=(HOME, {HOME: host}, 100, {}),
            bury=self.buried.append,
            home_of_publisher=None,
        )
        limits = SimpleNamespace(call_seconds=CALL_SECONDS)
        directory, process = SimpleNamespace(name="net", limits=limits), SimpleNamespace(owner=NOBODY)
        context = Context(directory, process, rendezvous)  # type: ignore[arg-type]
        return reattach.reattached_publisher(context, "p", None, None)


def test_a_broker_that_is_out_of_reach_is_asked_again_and_not_buried(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(monkeypatch, AWAY, AWAY, (7, []))
    assert net.reattach() == (HOME, (7, [], 100)) and not net.buried


def test_nobody_comes_back_past_a_broker_that_stays_out_of_reach(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(monkeypatch, AWAY)
    with pytest.raises(BrokerUnavailable):
        net.reattach()
    assert not net.buried and CALL_SECONDS <= net.now < CALL_SECONDS + 1.0


def test_a_broker_that_has_died_is_buried_and_its_last_number_is_not_used_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    net = Net(monkeypatch, AWAY, ActorDiedError())
    assert net.reattach() == (HOME, (100, [], 100))
    assert [list(dead) for dead in net.buried] == [[HOME]]
