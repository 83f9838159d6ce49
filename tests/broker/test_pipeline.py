"""The pipeline alone, with layers made for the test: which are called, in which order, and what leaves."""

from dataclasses import dataclass, field
from typing import Any

import pytest
from rayvous.broker import Broker, Pipeline
from rayvous.protocol.configs import Placed
from rayvous.protocol.effects import Persist, Received, Send, Ticked, Write
from rayvous.protocol.errors import InputError
from rayvous.protocol.layers import Inward
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.messages.pubsub import Ack, Back, Cancel, Detach
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.routing.topologies.cluster_trees import ClusterTree


@dataclass
class Made:
    """A layer with three tables that records its calls."""

    name: str
    calls: list[str]
    takes: dict[type, Any] = field(default_factory=dict)
    sees: dict[type, Any] = field(default_factory=dict)
    alters: dict[type, Any] = field(default_factory=dict)
    kept: list[Any] = field(default_factory=list)

    def owns(self, kind: type, *out: Any) -> "Made":
        self.takes[kind] = self._saying(out)
        return self

    def looks_at(self, kind: type, *before: Any) -> "Made":
        self.sees[kind] = lambda event: [*self._saying(before)(event), Inward(event)]
        return self

    def changes(self, kind: type, into: Any) -> "Made":
        self.alters[kind] = lambda effect: [*self._saying(())(effect), *into(effect)]
        return self

    def _saying(self, out: tuple[Any, ...]) -> Any:
        def handler(given: Any) -> list[Any]:
            self.calls.append(self.name)
            return list(out)

        return handler

    def changed_by(self, event: Received) -> bool:
        return type(event.message) in self.takes

    def snapshot(self) -> Any:
        return list(self.kept)

    def restore(self, plain: Any) -> None:
        self.kept = list(plain)

    def describe(self) -> dict[str, int]:
        return {self.name: len(self.kept)}

    def check(self) -> None:
        assert self.name


CANCEL = Received("c", Cancel(1))
HEALS = ["Ages", "Flushing", "DurableClients", "Replay", "HealingBroker"]


def test_an_event_goes_past_who_does_not_look_at_it_and_effects_past_who_does_not_alter_them() -> None:
    calls: list[str] = []
    outer = Made("outer", calls).looks_at(Cancel).changes(Ack, lambda _: [])
    middle = Made("middle", calls).looks_at(Detach).changes(Ack, lambda _: [])
    inner = Made("inner", calls).owns(Cancel, Send(3, Ack(1))).owns(Detach)
    pipeline = Pipeline([outer, middle, inner])
    assert pipeline.handle(CANCEL) == [Send(3, Ack(1))]
    assert calls == ["outer", "inner"]
    calls.clear()
    assert pipeline.handle(Received("c", Detach())) == []
    assert calls == ["middle", "inner"]


def test_effects_pass_every_layer_around_from_the_inside_out() -> None:
    calls: list[str] = []

    def to_next(effect: Send) -> list[Any]:
        return [Send(effect.to + 1, effect.message), Write(f"by {effect.to}", (0,), 1)]

    outer = Made("outer", calls).changes(Send, to_next)
    middle = Made("middle", calls).changes(Send, to_next).looks_at(Cancel, Send(7, Back(0)))
    inner = Made("inner", calls).owns(Cancel, Send(1, Ack(1)), Write("own", (0,), 1))
    effects = Pipeline([outer, middle, inner]).handle(CANCEL)
    # All writes leave first, in one Persist; then the sends in order.
    assert effects == [
        Persist((Write("by 7", (0,), 1), Write("by 2", (0,), 1), Write("by 1", (0,), 1), Write("own", (0,), 1))),
        Send(8, Back(0)),
        Send(3, Ack(1)),
    ]  # fmt: skip
    assert calls == ["middle", "outer", "inner", "middle", "outer"]


def test_a_layer_may_hold_an_event_back_and_hand_it_inwards_later() -> None:
    calls: list[str] = []
    outer = Made("outer", calls).owns(Ticked, Send(1, Back(1)), Inward(CANCEL), Send(1, Back(2)))
    outer.sees[Cancel] = lambda _: []
    inner = Made("inner", calls).owns(Cancel, Send(2, Ack(1)))
    pipeline = Pipeline([outer, inner])
    assert pipeline.handle(CANCEL) == [] and calls == []
    assert pipeline.handle(Ticked(1.0)) == [Send(1, Back(1)), Send(2, Ack(1)), Send(1, Back(2))]


def test_news_are_for_the_layers_around_and_end_at_the_edge() -> None:
    calls: list[str] = []
    news = Placed((4,), 4)
    inner = Made("inner", calls).owns(Cancel, news)
    assert Pipeline([Made("outer", calls), inner]).handle(CANCEL) == []
    told: list[Any] = []
    outer = Made("outer", calls).changes(Placed, lambda given: told.append(given) or [])
    assert Pipeline([outer, inner]).handle(CANCEL) == [] and told == [news]


def test_what_nobody_takes_is_counted_and_changes_nothing() -> None:
    calls: list[str] = []
    # The outer layer would look at it on its way to its owner; here it has no owner.
    pipeline = Pipeline([Made("outer", calls).looks_at(Detach), Made("inner", calls).owns(Cancel)])
    assert pipeline.handle(Received("c", Detach())) == [] and pipeline.handle(Ticked(0.0)) == []
    assert pipeline.strays == 2 and calls == []
    assert pipeline.takes == {Cancel}


def test_a_type_is_looked_up_when_it_comes_and_a_watcher_sees_those_that_come_later() -> None:
    calls: list[str] = []
    outer = Made("outer", calls).looks_at(Cancel)
    pipeline = Pipeline([outer, Made("inner", calls).owns(Cancel).owns(Ticked)])
    assert pipeline._inward == [{}, {}]
    pipeline.handle(CANCEL)
    assert [list(table) for table in pipeline._inward] == [[Cancel], [Cancel]]
    seen: list[object] = []
    pipeline.watch(lambda call: seen.append(call.given))
    pipeline.handle(Ticked(1.0))
    assert seen == [Ticked(1.0)] and pipeline.strays == 0


def test_two_owners_of_one_type_are_an_error_that_names_them() -> None:
    layers = [Made("outer", []).owns(Cancel), Made("inner", []).owns(Cancel)]
    with pytest.raises(InputError, match="layers Made and Made both take Cancel"):
        Pipeline(layers)


def test_what_is_to_be_done_for_an_earlier_life_leaves_with_the_first_step_and_is_not_written_again() -> None:
    outer = Made("outer", [])
    outer.begin = lambda: [CANCEL]  # type: ignore[attr-defined]
    inner = Made("inner", []).owns(Cancel, Send(1, Ack(1)), Write("own", (0,), 1))
    inner.owns(Ticked, Send(2, Ack(2)), Write("own", (1,), 1))
    pipeline = Pipeline([outer, inner])
    pipeline.begin()
    first = [Persist((Write("own", (1,), 1),)), Send(1, Ack(1)), Send(2, Ack(2))]
    assert pipeline.handle(Ticked(1.0)) == first
    assert pipeline.handle(Ticked(2.0)) == [first[0], first[2]]


def test_layers_are_put_down_and_made_again_as_one() -> None:
    one = Pipeline([Made("a", [], kept=[1]).owns(Cancel), Made("b", [], kept=[2, 3])])
    other = Pipeline([Made("a", []), Made("b", [])])
    other.restore(one.snapshot())
    assert other.describe() == one.describe() == {"a": 1, "b": 2}
    assert one.changed_by(CANCEL) and not one.changed_by(Received("c", Detach()))


@pytest.mark.parametrize(
    "options, layers",
    [
        ({}, ["Routing"]),
        ({"admission": AdmissionConfig()}, ["Shaping", "Admitting", "Routing"]),
        ({"store": MemoryStore}, ["CrashRecover", "Routing"]),
        (
            {"store": MemoryStore, "admission": AdmissionConfig()},
            ["Shaping", "CrashRecover", "Admitting", "Routing"],
        ),
        ({"recovery": Recovery()}, HEALS),
        ({"recovery": Recovery(), "admission": AdmissionConfig()}, ["Shaping", "Admitting", *HEALS]),
        (
            {"recovery": Recovery(), "store": MemoryStore, "admission": AdmissionConfig()},
            ["Shaping", "Admitting", *HEALS],
        ),
        (
            {"recovery": Recovery(history_seconds=600.0), "store": MemoryStore},
            [*HEALS[:3], "History", *HEALS[3:]],
        ),
        ({"recovery": Recovery(history_seconds=600.0)}, HEALS),
    ],
)
def test_a_feature_is_a_layer_that_is_there_or_not(options: dict[str, Any], layers: list[str]) -> None:
    made = {name: given() if isinstance(given, type) else given for name, given in options.items()}
    broker = Broker(ClusterTree(2, 2).positions()[0], **made)
    assert [type(layer).__name__ for layer in broker.pipeline.layers] == layers
    broker.check()


def test_a_router_that_is_alone_is_called_without_anything_between() -> None:
    broker = Broker(ClusterTree(2, 2).positions()[0])
    assert broker.handle == broker.router.handle
