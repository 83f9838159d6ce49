"""Snapshots of a machine's state as plain data, and their restoration; all state must be in attributes.

Rules
-----
* The state of a machine is its attributes, except functions, tables of functions, and the attributes that
  :data:`SHARED` of its class names: constructor arguments, and other machines that it references but does not own.
* An object with its own `snapshot` method provides its snapshot. Values of `protocol` and filters are immutable and
  stored unchanged. Any other object of this package is decomposed in the same way, and recreated without its
  constructor.
* State is restored into a machine that was made with the same arguments. Its existing parts are restored in place, so
  that references to them stay valid.
* The order of mappings and sets is preserved. A snapshot cannot call arbitrary names: it can only name classes of
  this package that are loaded.

Source: decision 0021 (a layer can be snapshotted and restored).
"""

from __future__ import annotations

import sys
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from .effects import Plain

if TYPE_CHECKING:
    from random import Random

SHARED: Final = "SHARED"
"""The class attribute, a frozenset, that names the attributes that are not state of the machine."""

_PACKAGE: Final = __name__.partition(".")[0]
_VALUES: Final = (f"{_PACKAGE}.protocol.", f"{_PACKAGE}.routing.filters.")
MOVED: Final = (
    (".actors.broker.membership.", ".recovery.membership."),
    (".actors.broker.", ".broker."),
    (".faults.membership.", ".recovery.membership."),
    (".faults.replay.", ".recovery.replay."),
    (".faults.durability.", ".recovery.durability."),
)
"""Where classes stand now that a snapshot of an earlier version names in a module of their old folder."""

RENAMED: Final = {
    (".protocol.messages.admission", "Standing"): "GuaranteeStatus",
    (".protocol.messages.pubsub", "Again"): "Resend",
    (".protocol.messages.rounds", "Doubt"): "FailureNotice",
    (".protocol.messages.views", "CubeSeat"): "ViewMember",
    (".protocol.messages.views", "CubeView"): "MembershipView",
    (".protocol.messages.views", "CubeWants"): "ViewWants",
}
"""What classes are called now that a store of an earlier version names: by module, as it is now, and former name."""

RENAMED_ATTRIBUTES: Final = {
    (".recovery.durability.numbered_links:CrashRecover", "_fellows"): "_other_members",
    (".recovery.membership.place:Place", "fellows"): "other_members",
    (".recovery.replay.rounds:Rounds", "doubt_seconds"): "repair_window_seconds",
    (".recovery.replay.rounds:Rounds", "_doubted"): "_repair_since",
}
"""What attributes are called now that a snapshot of an earlier version names: by class and former name."""

_ATOMS: Final = (type(None), bool, int, float, str, bytes, np.ndarray, np.generic)


class Part(NamedTuple):
    """The stored form of a value that is not plain data: its kind, its class, and its parts."""

    kind: str
    name: str
    parts: Any


def state_of(machine: object) -> Plain:
    """Return the state of a machine as data that the machine does not change later."""
    return {name: _plain(value) for name, value in _attributes(machine)}


def restore_state(machine: object, plain: Plain) -> None:
    """Restore a machine of the same class to this state; only before it has handled anything."""
    kind = _name_of(type(machine))
    for former, value in plain.items():
        name = RENAMED_ATTRIBUTES.get((kind, former), former)
        object.__setattr__(
            machine, name, _made(value, getattr(machine, name, None))
        )  # the dataclass may be frozen


class Restorable:
    """A machine whose snapshot is its state."""

    __slots__ = ()

    def snapshot(self) -> Plain:
        """Return the whole state, for `restore`."""
        return state_of(self)

    def restore(self, plain: Plain) -> None:
        """Restore the state from a snapshot; only before anything was handled."""
        restore_state(self, plain)


def _attributes(machine: object) -> Iterator[tuple[str, object]]:
    """Iterate over (name, value) of the attributes that are state."""
    kind = type(machine)
    shared = frozenset().union(*(getattr(each, SHARED, ()) for each in kind.__mro__))
    names = [name for each in kind.__mro__ for name in _slots(each)]
    for name in dict.fromkeys((*names, *getattr(machine, "__dict__", ()))):
        if name in shared or not hasattr(machine, name):
            continue
        value = getattr(machine, name)
        if not _is_code(value):
            yield name, value


def _slots(kind: type) -> tuple[str, ...]:
    slots = kind.__dict__.get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


def _is_code(value: object) -> bool:
    """Return whether a value is a function, a class, or a non-empty table of functions."""
    if isinstance(value, Mapping) and value:
        return all(map(_is_code, value.values()))
    return isinstance(value, Callable | type) and not isinstance(value, Enum)  # type: ignore[arg-type]


def _is_value(kind: type) -> bool:
    """Return whether objects of a class are stored as they are: nobody changes them afterwards."""
    parameters = getattr(kind, "__dataclass_params__", None)
    unchanging = issubclass(kind, tuple | Enum) or (parameters is not None and parameters.frozen)
    return unchanging and kind.__module__.startswith(_VALUES)


def _plain(value: object) -> object:
    kind = type(value)
    if isinstance(value, _ATOMS):
        return value
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](value)
    if hasattr(value, "getstate") and hasattr(value, "setstate"):  # a random generator
        return Part("chance", "", value.getstate())
    if hasattr(value, "snapshot"):
        return Part("own", _name_of(kind), value.snapshot())
    if _is_value(kind):
        return value
    if not kind.__module__.startswith(f"{_PACKAGE}."):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is no state: {value!r}")
    if isinstance(value, Enum):
        return Part("word", _name_of(kind), value.name)
    if isinstance(value, tuple):
        return Part("tuple", _name_of(kind), tuple(map(_plain, value)))
    return Part("machine", _name_of(kind), state_of(value))


_CONTAINERS: Final[dict[type, Callable[[Any], object]]] = {
    list: lambda value: [_plain(each) for each in value],
    tuple: lambda value: tuple(_plain(each) for each in value),
    set: lambda value: Part("set", "", [_plain(each) for each in value]),
    frozenset: lambda value: Part("frozenset", "", [_plain(each) for each in value]),
    dict: lambda value: {key: _plain(each) for key, each in value.items()},
    OrderedDict: lambda value: Part("ordered", "", [(key, _plain(each)) for key, each in value.items()]),
    deque: lambda value: Part("deque", "", (value.maxlen, [_plain(each) for each in value])),
}


def _made(plain: Any, there: object = None) -> Any:
    """Return the value that plain data stands for; `there` is the current value in the new machine."""
    kind = type(plain)
    if kind is Part:
        return _MAKERS[plain.kind](plain, there)
    if kind is dict:
        return {key: _made(each) for key, each in plain.items()}
    if kind is list:
        return [_made(each) for each in plain]
    if kind is tuple:
        return tuple(_made(each) for each in plain)
    return plain


def _machine(part: Part, there: object) -> object:
    kind = _class_of(part.name)
    made = there if type(there) is kind else kind.__new__(kind)
    restore_state(made, part.parts)
    return made


def _own(part: Part, there: Restorable) -> object:
    if type(there) is not _class_of(part.name):
        raise TypeError(f"{part.name} is not made anew: its machine has it from the start")
    there.restore(part.parts)
    return there


def _chance(part: Part, there: Random) -> object:
    there.setstate(part.parts)
    return there


_MAKERS: Final[dict[str, Callable[[Part, Any], object]]] = {
    "machine": _machine,
    "own": _own,
    "chance": _chance,
    "word": lambda part, there: _class_of(part.name)[part.parts],
    "tuple": lambda part, there: _class_of(part.name)(*map(_made, part.parts)),
    "set": lambda part, there: set(map(_made, part.parts)),
    "frozenset": lambda part, there: frozenset(map(_made, part.parts)),
    "ordered": lambda part, there: OrderedDict((key, _made(each)) for key, each in part.parts),
    "deque": lambda part, there: deque(map(_made, part.parts[1]), maxlen=part.parts[0]),
}


def _name_of(kind: type) -> str:
    return f"{kind.__module__.removeprefix(_PACKAGE)}:{kind.__qualname__}"


def _class_of(name: str) -> Any:
    """Return the class of this package with that name.

    Raises
    ------
    TypeError
        If there is none.
    """
    module, _, qualname = name.partition(":")
    for old, new in MOVED:
        if module.startswith(old):
            module = new + module.removeprefix(old)
            break
    qualname = RENAMED.get((module, qualname), qualname)
    found = getattr(sys.modules.get(_PACKAGE + module), qualname, None)
    if not isinstance(found, type) or found.__module__ != _PACKAGE + module:
        raise TypeError(f"{name} is not a class of {_PACKAGE}")
    return found
