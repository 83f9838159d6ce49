"""Gateways that do not answer or cannot be started do not affect anything else.

Reference: docs/decisions/0099-gateways-come-with-nodes.md; promise 9.
"""

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Method, Ray
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError, RpcError
from rayvous.actors.network import gateways
from rayvous.actors.network.gateway_places import GatewayNodes
from rayvous.actors.network.gateways import GatewaysSeen, GatewaySupervisor
from rayvous.gateway.on_nodes import GatewayActor
from rayvous.protocol.errors import BrokerUnavailable, MissingExtra, RayvousError
from rayvous.protocol.gateways import ACTOR
from rayvous.routing.schemes.own import own

DIRECTORY: Any = SimpleNamespace(name="net", gateway="gateway")
NODES = "1" * 56, "2" * 56
SECOND = f"net:gateway:{NODES[1]}:0"


class Gateways(Ray):
    """Ray with two nodes, and a control store that may be away."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *modules: Any) -> None:
        super().__init__(monkeypatch, *modules)
        self.lookups = 0
        self.control_store: RayError | None = None
        self.here = SimpleNamespace(was_current_actor_reconstructed=True)
        self.known_nodes = [
            {
                "NodeID": name,
                "Alive": True,
                "Resources": {"CPU": 1.0},
                "NodeManagerAddress": f"10.0.0.{name[0]}",
            }
            for name in NODES
        ]

    def get_actor(self, name: str, namespace: str | None = None) -> Any:
        self.lookups += 1
        if self.control_store is not None:
            raise self.control_store
        return super().get_actor(name, namespace)


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Gateways:
    return Gateways(monkeypatch, gateways)


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the actors of gateways by name; one that is an exception cannot be started."""
    made: dict[str, Any] = {}

    def actor(kind: Any, name: str, *args: Any, **options: Any) -> Any:
        def remote(*args: Any, **kwargs: Any) -> Any:
            one = made.setdefault(name, gateway())
            if isinstance(one, Exception):
                raise one
            return one

        return SimpleNamespace(remote=remote)

    monkeypatch.setattr(gateways, "actor", actor)
    return made


def gateway(*, answers: bool = True) -> Any:
    made = Actor(GatewayActor, urls=["http://here"], share=None)
    if not answers:
        made.fall_silent()
    return made


def supervisor(monkeypatch: pytest.MonkeyPatch) -> GatewaySupervisor:
    """Return a supervisor that has looked once, and looks again only on request."""
    monkeypatch.setattr(GatewaySupervisor, "_look_on", lambda self: None)
    made = GatewaySupervisor("net", 1, GatewayNodes(), share_limits=True)
    made._look()
    return made


def test_a_gateway_that_does_not_answer_has_one_question_open_however_often_one_looks(
    ray: Gateways, actors: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    mute = actors[SECOND] = gateway(answers=False)
    made = supervisor(monkeypatch)
    at_start = len(mute.urls.calls)
    for _ in range(3):
        assert [one.state for one in made.status()] == ["serving", "silent"]
    assert len(mute.urls.calls) == at_start + 1
    mute.urls.answers = mute.urls.calls[-1].done = True
    assert [one.state for one in made.status()] == ["serving", "serving"]


def test_the_supervisor_is_looked_up_once_and_what_ray_cannot_say_is_left_out(ray: Gateways) -> None:
    seen, status = GatewaysSeen(), Method(["one"])
    ray.control_store = RpcError("the head is away")
    assert seen.ask(DIRECTORY) is None and seen.said(None, 1.0) == ()
    ray.control_store = None
    assert seen.ask(DIRECTORY) is None, "none is there yet"
    ray.names["net:gateways"] = SimpleNamespace(status=status)
    assert seen.said(seen.ask(DIRECTORY), 1.0) == ("one",)
    ray.control_store = RpcError("the head is away")
    assert seen.said(seen.ask(DIRECTORY), 1.0) == ("one",)
    assert ray.lookups == 3
    for error in (RayError("something of the supervisor"), GetTimeoutError("no answer")):
        status.answer = error
        assert seen.said(seen.ask(DIRECTORY), 1.0) == ()


@pytest.mark.parametrize(
    "error", [MissingExtra("pip install rayvous[gateway]"), RpcError("the head is away")]
)
def test_what_cannot_be_started_is_in_the_status_and_the_others_serve(
    ray: Gateways, actors: dict[str, Any], monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    actors[SECOND] = error
    one, other = supervisor(monkeypatch).status()
    assert one.state == "serving"
    assert (other.state, other.problem) == ("failed", str(error))


@pytest.mark.parametrize(
    ("error", "told"),
    [(MissingExtra("pip install rayvous[gateway]"), MissingExtra), (ActorDiedError(), BrokerUnavailable)],
)
def test_at_the_launch_it_is_told_in_the_words_of_this_package(
    ray: Gateways,
    actors: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    told: type[RayvousError],
) -> None:
    actors[SECOND] = error
    with pytest.raises(told):
        supervisor(monkeypatch).begin()


@pytest.mark.parametrize("again", [False, True])
def test_it_looks_on_when_all_serve_and_in_a_later_life_at_once(
    ray: Gateways, actors: dict[str, Any], monkeypatch: pytest.MonkeyPatch, again: bool
) -> None:
    looks, look = threading.Semaphore(0), GatewaySupervisor._look

    def counted(self: GatewaySupervisor) -> None:
        look(self)
        looks.release()

    monkeypatch.setattr(GatewaySupervisor, "_look", counted)
    ray.here.was_current_actor_reconstructed = again
    made = GatewaySupervisor("net", 1, GatewayNodes(), share_limits=True)
    try:
        assert looks.acquire(timeout=PATIENCE_SECONDS if again else 0.05) == again
        made.begin()
        assert looks.acquire(timeout=PATIENCE_SECONDS), "what the launch has asked for"
        assert again or looks.acquire(timeout=PATIENCE_SECONDS), "and by itself"
    finally:
        made._ended.set()
        for thread in threading.enumerate():
            if thread.name == "supervisor":
                thread.join(5.0)


def test_who_asks_for_gateways_while_one_goes_gets_those_that_are_there(
    ray: Gateways, actors: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = supervisor(monkeypatch)

    class Changing(dict[Any, Any]):
        """A mapping from which one place disappears just after all were listed."""

        def __iter__(self) -> Any:
            listed = list(super().__iter__())
            self.pop(listed[-1])
            return iter(listed)

    made._actors = Changing(made._actors)
    assert len(made.gateways()) == 2


def test_the_actors_of_a_gateway_are_of_the_class_that_is_named() -> None:
    assert own(ACTOR) is GatewayActor
