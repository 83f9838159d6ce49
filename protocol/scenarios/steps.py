"""The steps of a scenario, and their conversion from and to plain data.

Rules
-----
* Data is validated as it is read: an unknown or missing key, or a value of the wrong type, is an error that names the
  position.
* JSON has no timestamps: a timestamp is written ``{"timestamp": "2013-01-01T05:00:00Z"}`` or as nanoseconds
  since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias

from ..errors import EventError, ScenarioError
from ..ids import BrokerId, ClientId
from ..values import Timestamp, Value, moment_of, normalize
from .plain import known_keys, named_kind


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A client subscribes under a number that it chooses."""

    client: ClientId
    broker: BrokerId | str
    number: int
    selector: str


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """A client cancels one of its subscriptions."""

    client: ClientId
    number: int


@dataclass(frozen=True, slots=True)
class Publish:
    """A client publishes events, in this order, as one batch."""

    client: ClientId
    broker: BrokerId | str
    events: tuple[Mapping[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Settle:
    """Wait until the network is quiescent."""


Step: TypeAlias = Subscribe | Unsubscribe | Publish | Settle

STEPS: Final[dict[str, type[Step]]] = {
    "subscribe": Subscribe,
    "unsubscribe": Unsubscribe,
    "publish": Publish,
    "settle": Settle,
}
"""The step classes by their name in JSON."""

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "name": (str,),
    "topology": (dict,),
    "scheme": (str,),
    "seed": (int,),
    "links": (dict,),
    "publish_interval_seconds": (int, float),
    "steps": (list,),
    "workload": (dict,),
    "client": (str,),
    "broker": (int, str),
    "number": (int,),
    "selector": (str,),
    "events": (list,),
}
"""The types of the values of steps and scenarios, by key."""


def broker_of(step: Subscribe | Publish) -> BrokerId:
    """Return the id of a step's broker, in an explicit scenario, which has no labels."""
    assert isinstance(step.broker, int), "explicit() turns labels into ids"
    return step.broker


def checked_values(given: object, kind: type, where: str) -> dict[str, Any]:
    """Return the mapping as `known_keys` does, and check the types of its values."""
    values = known_keys(given, kind, where)
    for key, value in values.items():
        wanted = _TYPES[key]
        if not isinstance(value, wanted) or isinstance(value, bool):
            names = " or ".join("object" if each is dict else each.__name__ for each in wanted)
            raise ScenarioError(f"{where}: {key} is {value!r}: it must be of type {names}")
    return values


def step_from(given: object, where: str) -> Step:
    """Return the step that plain data describes; `where` is its place, for the message of the error."""
    kind, values = named_kind(given, "do", STEPS, where)
    values = checked_values(values, kind, where)
    if "events" in values:
        values["events"] = tuple(
            _event(event, f"{where}.events[{place}]") for place, event in enumerate(values["events"])
        )
    return kind(**values)


def _event(given: object, where: str) -> dict[str, Value]:
    if not isinstance(given, Mapping):
        raise ScenarioError(f"{where} is a {type(given).__name__}: it must be an object")
    event: dict[str, Value] = {}
    for name, value in given.items():
        try:
            normal = _moment(value) if isinstance(value, Mapping) else normalize(value)
        except (EventError, ValueError, TypeError) as error:
            raise ScenarioError(f"{where}: {name}: {error}") from None
        if normal is not None:
            event[name] = normal
    return event


def _moment(given: Mapping[str, object]) -> Value | None:
    if list(given) != ["timestamp"]:
        raise EventError('an object stands for a timestamp: {"timestamp": "2013-01-01T05:00:00Z"}')
    moment = given["timestamp"]
    if isinstance(moment, str):
        return moment_of(moment)
    if isinstance(moment, bool) or not isinstance(moment, int):
        raise EventError(f"timestamp {moment!r}: it must be ISO 8601 text or whole nanoseconds since 1970")
    return Timestamp(normalize(moment))  # type: ignore[arg-type]


def plain_step(step: Step) -> dict[str, object]:
    """Return plain data that `step_from` takes."""
    word = next(word for word, kind in STEPS.items() if type(step) is kind)
    plain = {"do": word} | {entry.name: getattr(step, entry.name) for entry in fields(step)}
    if isinstance(step, Publish):
        plain["events"] = [
            {name: _plain_value(value) for name, value in event.items()} for event in step.events
        ]
    return plain


def _plain_value(value: Value) -> object:
    if isinstance(value, Timestamp):
        return {"timestamp": int(value) if value % 1000 else value.isoformat()}
    return value
