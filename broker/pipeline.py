"""The layers of one broker, run as one value machine.

Rules
-----
* An event goes inwards to the outermost layer that looks at its type, and from there as that layer says. The results
  go outwards through every layer around, each of which may alter them.
* The writes of all layers in a step leave first, as one `Persist`.
* Every type has one owner: two layers that take the same type are an error when the pipeline is made. A message of a
  type that no layer takes is a stray: it is counted and changes nothing.
* The handler for each type at each depth is determined once, when it is first needed: a broker sees a few of all types.
  A layer that does not look at a type is not called for it.
* A single layer that has its own `handle`, which returns only effects, is the whole pipeline.

The contract is in `protocol/layers.py`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar, get_args

from ..protocol.effects import Effect, Persist, Plain, Received, Ticked, Write
from ..protocol.errors import InputError
from ..protocol.layers import Event, Handler, Inward, Layer, News, RecordedLayer
from ..protocol.queries import Answering, Query

_NEWS: Final[frozenset[type]] = frozenset(get_args(News))
_INSIDE: Final = _NEWS | {Inward, Write}
"""What a layer returns that is no effect."""

L = TypeVar("L", bound=Layer)
T = TypeVar("T")


class Call(NamedTuple):
    """One call of a layer.

    Attributes
    ----------
    layer, handler
        The layer, and which of its handlers.
    given
        An event on its way in, or an effect or news on its way out.
    out
        What the handler returned.
    leaving
        Those effects among it that no layer around looks at any more.
    """

    layer: object
    handler: Handler
    given: object
    out: Sequence[object]
    leaving: Sequence[object]


Watcher: TypeAlias = Callable[[Call], None]


class Pipeline(Generic[L]):
    """Nested layers.

    Parameters
    ----------
    layers
        The outermost first; at least one.

    Attributes
    ----------
    handle
        Handles one event and returns the effects.
    strays
        How many messages no layer has taken.

    Raises
    ------
    InputError
        If two layers take messages of one type.
    """

    def __init__(self, layers: Sequence[L]) -> None:
        self.layers = tuple(layers)
        self.strays = 0
        self._owed: list[Effect] = []  # effects that leave with the first step
        self._owners = _owners_of(self.layers)
        self._inward: list[dict[type, tuple[int, Handler]]] = [{} for _ in self.layers]
        self._outward = [_next_to_alter(self.layers, place) for place in range(len(self.layers))]
        self._answers = _who_know(self.layers)
        alone = getattr(self.layers[0], "handle", None) if len(self.layers) == 1 else None
        self.handle: Callable[[Event], list[Effect]] = alone or self._handle

    @property
    def takes(self) -> frozenset[type]:
        """The types of messages, and of events that are not messages, that some layer takes."""
        return frozenset(self._owners)

    def watch(self, tell: Watcher) -> None:
        """Call `tell` after each call of a layer; for the record of a run, which it does not change.

        A layer that is alone handles its events itself, and a pipeline that was watched once stays so.
        """

        def told(place: int, handler: Handler) -> Handler:
            layer, altered = self.layers[place], self._outward[place]

            def call(given: object) -> list[object]:
                out = handler(given)  # type: ignore[arg-type]
                leaving = [each for each in out if type(each) not in altered and type(each) not in _INSIDE]
                tell(Call(layer, handler, given, out, leaving))
                return out

            return call

        for depth, kind in product(range(len(self.layers)), self._owners):
            self._first_to_look(kind, depth)
        for table in (*self._inward, *self._outward):
            table |= {kind: (place, told(place, handler)) for kind, (place, handler) in table.items()}
        for layer in self.layers:
            if isinstance(inside := getattr(layer, "inside", None), Pipeline):
                inside.watch(tell)

    def begin(self) -> None:
        """Pass the state that layers around have restored from an earlier incarnation to the layers inside.

        The resulting effects leave with the first step, when the time is known. Nothing is written: the state comes
        from the store, and a write now would carry a wrong time.
        """
        for place, layer in enumerate(self.layers):
            for event in getattr(layer, "begin", tuple)():
                self._enter(event, place + 1, [], self._owed)

    def _handle(self, event: Event) -> list[Effect]:
        writes: list[Write] = []
        effects: list[Effect] = []
        if self._owed:
            effects, self._owed = self._owed, []
        self._enter(event, 0, writes, effects)
        return [Persist(tuple(writes)), *effects] if writes else effects

    def _enter(self, event: Event, depth: int, writes: list[Write], effects: list[Effect]) -> None:
        """Pass an event to the layers from `depth` on."""
        kind = type(event.message) if isinstance(event, Received) else type(event)
        found = self._inward[depth].get(kind) or self._first_to_look(kind, depth)
        if found is None:
            self.strays += 1
        else:
            place, handler = found
            self._leave(handler(event), place, writes, effects)  # type: ignore[arg-type]

    def _first_to_look(self, kind: type, depth: int) -> tuple[int, Handler] | None:
        """Return the outermost layer from `depth` on that looks at a type, and its handler; None if none takes it."""
        owner = self._owners.get(kind, -1)
        if owner < depth:
            return None
        place = next((each for each in range(depth, owner) if kind in self.layers[each].sees), owner)
        layer = self.layers[place]
        found = self._inward[depth][kind] = place, (layer.takes if place == owner else layer.sees)[kind]
        return found

    def _leave(self, out: list[Any], place: int, writes: list[Write], effects: list[Effect]) -> None:
        """Pass the effects of a layer outwards, and its events for the layers inside inwards."""
        outward = self._outward[place]
        for each in out:
            kind = type(each)
            found = outward.get(kind)
            if found is not None:
                around, handler = found
                self._leave(handler(each), around, writes, effects)
            elif kind is Inward:
                self._enter(each.event, place + 1, writes, effects)
            elif kind is Write:
                writes.append(each)
            elif kind not in _NEWS:  # news that no layer has asked for end here
                effects.append(each)

    def ask(self, query: Query[T]) -> T:
        """Return the answer of the layers that know; the query says what it is otherwise."""
        known = self._answers.get(type(query))
        if known is None:
            return query.otherwise
        answers: list[T] = [answer(query) for answer in known]
        return answers[0] if len(answers) == 1 else query.together(answers)

    # Recorded state, as one state for a layer around.

    def changed_by(self: Pipeline[RecordedLayer], event: Received) -> bool:
        """Return whether a message can change the state of some layer."""
        for layer in self.layers:  # noqa: SIM110  # called for every message, and a generator is slow
            if layer.changed_by(event):
                return True
        return False

    def rests_until(self) -> float:
        """Return the time before which it needs no tick, if nothing else happens."""
        timed = (layer for layer in self.layers if Ticked in layer.takes or Ticked in layer.sees)
        return min((_rest_of(layer) for layer in timed), default=math.inf)

    def snapshot(self) -> Plain:
        """Return the state of all layers, the outermost first."""
        return [layer.snapshot() for layer in self.layers]

    def restore(self, plain: Plain) -> None:
        """Restore the state of a snapshot of the same layers; only for a pipeline that has handled nothing."""
        for layer, kept in zip(self.layers, plain, strict=True):
            layer.restore(kept)

    def describe(self) -> dict[str, int]:
        """Return the sizes of the layers' state."""
        sizes: dict[str, int] = {}
        for layer in reversed(self.layers):
            sizes |= layer.describe()
        return sizes

    def check(self) -> None:
        """Assert the invariants of every layer; for tests."""
        for layer in self.layers:
            layer.check()


def _rest_of(layer: Layer) -> float:
    """Return the time before which a layer needs no tick: 0, at once, if the layer does not say."""
    rests_until: Callable[[], float] | None = getattr(layer, "rests_until", None)
    return 0.0 if rests_until is None else rests_until()


def _who_know(layers: Sequence[Layer]) -> dict[type, list[Callable[[Any], Any]]]:
    """Return, for each query that some layer knows the answer to, those layers' answers, of the innermost first."""
    found: dict[type, list[Callable[[Any], Any]]] = {}
    for layer in reversed(layers):
        answers: Answering = getattr(layer, "answers", {})
        for kind, answer in answers.items():
            found.setdefault(kind, []).append(answer)
    return found


def _owners_of(layers: Sequence[Layer]) -> dict[type, int]:
    """Return the place of the layer that takes each type."""
    owners: dict[type, int] = {}
    for place, layer in enumerate(layers):
        for kind in layer.takes:
            if kind in owners:
                names = " and ".join(type(layers[each]).__name__ for each in (owners[kind], place))
                raise InputError(f"layers {names} both take {kind.__name__}: a message has one owner")
            owners[kind] = place
    return owners


def _next_to_alter(layers: Sequence[Layer], place: int) -> dict[type, tuple[int, Handler]]:
    """Return, for each type that a layer around this one alters, the innermost of them."""
    found: dict[type, tuple[int, Handler]] = {}
    for around, layer in enumerate(layers[:place]):
        found |= {kind: (around, handler) for kind, handler in layer.alters.items()}
    return found
