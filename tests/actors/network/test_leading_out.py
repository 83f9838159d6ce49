"""A broker that is to leave, and is unreachable or dies meanwhile."""

from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray, in_turn
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network import operations
from rayvous.actors.network.operations import Operations
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.protocol.errors import BrokerUnavailable, InputError
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery

AWAY = ActorUnavailableError("not now", None)


class Net:
    """Fakes the hosts of a network, and Ray: a broker gives these answers, and then the last one again."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, *, may_leave: bool = True, **answers: list[Any]
    ) -> None:
        self.now = 0.0
        self.done: list[Any] = []
        self.waits: list[float] = []
        self.dead: set[Any] = set()
        self.features = Features(Recovery.for_tests())
        self.directory = SimpleNamespace(scheme="hybrid", hosts={})
        self.rendezvous = self._actor(
            Rendezvous,
            let_leave=[may_leave],
            retire=[None],
            clients_at=[0],
            forget=[None],
            trustee_of=[2],
            handed_over=[None],
        )
        self.host = self._actor(
            BrokerHost, **{"dismiss": [None], "attached": [0], "detach_all": [None], "holds": [0]} | answers
        )
        self.directory.hosts.update({2: self.host, 3: self.host, 4: self.host})
        self.ray = Ray(monkeypatch, operations)
        monkeypatch.setattr(self.ray, "get", self.get)
        monkeypatch.setattr(self.ray, "kill", self.kill)
        ours = SimpleNamespace(monotonic=lambda: self.now, sleep=self.passes)
        monkeypatch.setattr(operations, "time", ours)

    def _actor(self, kind: type, **answers: list[Any]) -> Actor:
        def recorded(name: str, answer: Any) -> Any:
            return lambda *arguments: (self.done.append(name), answer(*arguments))[1]

        return Actor(kind, **{name: recorded(name, in_turn(*mine)) for name, mine in answers.items()})

    def get(self, call: Any, timeout: float) -> Any:
        if isinstance(call.value, GetTimeoutError):
            self.waits.append(timeout)
            self.passes(timeout)
        return Ray.get(self.ray, call, timeout=timeout)

    def kill(self, host: Any, no_restart: bool) -> None:
        self.done.append("kill")

    def passes(self, seconds: float) -> None:
        self.now += seconds

    def survey(self) -> dict[int, dict[str, Any]]:
        return {2: {}, 3: {"designated": False}}

    def host_of(self, broker: int) -> Any:
        return self.host

    def find_reborn(self) -> None:
        pass

    def remove(self, timeout_seconds: float = 5.0, broker: int = 3) -> None:
        Operations(self).remove_broker(broker, timeout_seconds)  # type: ignore[arg-type]


def test_who_is_out_of_reach_is_asked_again_until_it_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise what only this broker has accepted would be lost. Reference: promise 2; decision 0041."""
    net = Net(monkeypatch, receive=[AWAY, AWAY, "node"], left=[AWAY, False, True], end_broker=[AWAY, 0])
    net.remove()
    assert net.done.count("receive") == 3 and net.done.count("end_broker") == 2
    assert net.done[-2:] == ["forget", "kill"] and not net.dead


def test_who_would_leave_nobody_beside_those_who_are_leaving_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two brokers that wait for each other to take over would both wait in vain. Reference: promise 2."""
    net = Net(monkeypatch, may_leave=False)
    with pytest.raises(InputError, match="no broker would stay"):
        net.remove()
    assert net.done == ["let_leave"]


def test_who_was_out_of_reach_lets_its_clients_go_before_it_is_told_to_leave(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its subscribers may still poll an actor that it shares, and would get nothing. Reference: promise 2."""
    host = {"dismiss": [AWAY, None], "attached": [AWAY], "detach_all": [AWAY, AWAY, None]}
    net = Net(monkeypatch, receive=["node"], left=[True], end_broker=[1], **host)
    net.remove()
    told = [what for what in net.done if what in ("dismiss", "detach_all", "receive")]
    assert told == ["dismiss", "detach_all", *["dismiss", "detach_all"] * 2, "receive"]
    assert net.done[-1] == "forget"


def test_who_does_not_answer_is_asked_again_until_the_time_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    mute = GetTimeoutError("not in time")
    net = Net(monkeypatch, dismiss=[mute, None], receive=["node"], left=[mute, True], end_broker=[mute, 0])
    net.remove(60.0)
    assert net.done[-2:] == ["forget", "kill"] and not net.dead
    net = Net(monkeypatch, receive=[mute])
    with pytest.raises(BrokerUnavailable, match="broker 3 has not left in time"):
        net.remove()
    assert net.waits and max(net.waits) <= 5.0 and "forget" not in net.done


def test_who_stays_out_of_reach_stays_in_the_network(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(monkeypatch, receive=["node"], left=[AWAY], end_broker=[0], attached=[AWAY])
    with pytest.raises(BrokerUnavailable, match="broker 3 has not left in time"):
        net.remove()
    assert "forget" not in net.done and "kill" not in net.done and not net.dead


def test_who_dies_meanwhile_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    net = Net(monkeypatch, receive=["node"], left=[False, ActorDiedError()], end_broker=[0])
    net.remove()
    assert net.done[-2:] == ["forget", "kill"] and "end_broker" not in net.done


def test_who_has_left_and_was_not_forgotten_is_forgotten_when_it_is_removed_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The process that made it leave ended before that: it is in no survey, and cannot be restarted."""
    net = Net(monkeypatch, receive=["node"], left=[True], end_broker=[0])
    net.remove(broker=4)
    assert net.done[-2:] == ["forget", "kill"]


@pytest.mark.parametrize("answer", [False, AWAY, ActorDiedError(), GetTimeoutError("not in time")])
def test_who_has_not_left_and_is_in_no_survey_is_not_removed(
    monkeypatch: pytest.MonkeyPatch, answer: Any
) -> None:
    net = Net(monkeypatch, left=[answer])
    with pytest.raises(InputError, match="no broker 4 is alive"):
        net.remove(broker=4)
    with pytest.raises(InputError, match="no broker 9 is alive"):
        net.remove(broker=9)
    assert "forget" not in net.done


def test_it_waits_for_its_trustee_to_take_over_its_durable_subscribers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They are told of it before any other client goes, and once for each try. Reference: decision 0185."""
    net = Net(monkeypatch, holds=[AWAY, 2, 1, 0], receive=["node"], left=[True], end_broker=[1])
    net.remove()
    told = [what for what in net.done if what in ("handed_over", "dismiss", "forget", "receive")]
    assert told == ["receive", "handed_over", "dismiss", "dismiss", "receive", "forget"]
    net = Net(monkeypatch, holds=[2], receive=["node"])
    with pytest.raises(BrokerUnavailable, match="broker 2 to take over its durable subscribers"):
        net.remove(60.0)
    assert net.done.count("receive") > 1 and "dismiss" not in net.done and "forget" not in net.done
