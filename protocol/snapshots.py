"""The state of a machine as plain data, and back: for machines that are made of attributes and nothing hidden.

Rules
-----
* The state of a machine is its attributes. No state are functions, tables of functions, and what :data:`SHARED` of its
  class names: what it was made with, and other machines that it knows but does not own.
* What has a `snapshot` of its own is asked for it. Values of `protocol` and filters are as they are: nobody changes
  them. Anything else of this package is taken apart in the same way, and made again without its constructor.
* It is put back into a machine that was made with the same arguments: parts that this has are filled in their place, so
  whoever else knows them goes on knowing them.
* The order of mappings and sets is kept. Nothing is called by name: a class is one of this package that is loaded.

Source: decision 0021 (a layer can be put down and made again).
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, NamedTuple

import numpy as np

from .effects import Plain

SHARED: Final = "SHARED"
"""The class attribute that names, in a frozenset, attributes that are no state of the machine."""

_PACKAGE: Final = __name__.partition(".")[0]
_VALUES: Final = (f"{_PACKAGE}.protocol.", f"{_PACKAGE}.routing.filters.")
_ATOMS: Final = (type(None), bool, int, float, str, bytes, np.ndarray, np.generic)


class Part(NamedTuple):
    """What is not plain by itself: what it is, of which class, and what it is made from."""

    kind: str
    name: str
    parts: Any


def state_of(machine: Any) -> Plain:
    """Return the state of a machine: nothing that it changes later."""
    return {name: _plain(value) for name, value in _attributes(machine)}


def restore_state(machine: Any, plain: Plain) -> None:
    """Be as the machine of this class was whose state that is; only for one that has handled nothing."""
    for name, value in plain.items():
        object.__setattr__(machine, name, _made(value, getattr(machine, name, None)))  # it may be frozen


class Restorable:
    """A machine the snapshot of which is its state."""

    __slots__ = ()

    def snapshot(self) -> Plain:
        """Return all that it keeps; `restore` takes it."""
        return state_of(self)

    def restore(self, plain: Plain) -> None:
        """Be as the one was whose snapshot that is; only for one that has handled nothing."""
        restore_state(self, plain)


def _attributes(machine: Any) -> Iterator[tuple[str, Any]]:
    """Iterate over (name, value) of what is state."""
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


def _is_code(value: Any) -> bool:
    """Return whether a value is a function, a class, or a table of functions, which is never empty."""
    if isinstance(value, Mapping) and value:
        return all(map(_is_code, value.values()))
    return isinstance(value, Callable | type) and not isinstance(value, Enum)  # type: ignore[arg-type]


def _plain(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, _ATOMS):
        return value
    if kind in _CONTAINERS:
        return _CONTAINERS[kind](value)
    if hasattr(value, "getstate") and hasattr(value, "setstate"):  # a source of chance
        return Part("chance", "", value.getstate())
    if hasattr(value, "snapshot"):
        return Part("own", _name_of(kind), value.snapshot())
    if kind.__module__.startswith(_VALUES):
        return value
    if not kind.__module__.startswith(f"{_PACKAGE}."):
        raise TypeError(f"{kind.__module__}.{kind.__qualname__} is no state: {value!r}")
    if isinstance(value, Enum):
        return Part("word", _name_of(kind), value.name)
    if isinstance(value, tuple):
        return Part("tuple", _name_of(kind), tuple(map(_plain, value)))
    return Part("machine", _name_of(kind), state_of(value))


_CONTAINERS: Final[dict[type, Callable[[Any], Any]]] = {
    list: lambda value: [_plain(each) for each in value],
    tuple: lambda value: tuple(_plain(each) for each in value),
    set: lambda value: Part("set", "", [_plain(each) for each in value]),
    frozenset: lambda value: Part("frozenset", "", [_plain(each) for each in value]),
    dict: lambda value: {key: _plain(each) for key, each in value.items()},
    deque: lambda value: Part("deque", "", (value.maxlen, [_plain(each) for each in value])),
}


def _made(plain: Any, there: Any = None) -> Any:
    """Return what stands for plain data; `there` is what stands in its place in a machine that is new."""
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


def _machine(part: Part, there: Any) -> Any:
    kind = _class_of(part.name)
    made = there if type(there) is kind else kind.__new__(kind)
    restore_state(made, part.parts)
    return made


def _own(part: Part, there: Any) -> Any:
    if type(there) is not _class_of(part.name):
        raise TypeError(f"{part.name} is not made anew: its machine has it from the start")
    there.restore(part.parts)
    return there


def _chance(part: Part, there: Any) -> Any:
    there.setstate(part.parts)
    return there


_MAKERS: Final[dict[str, Callable[[Part, Any], Any]]] = {
    "machine": _machine,
    "own": _own,
    "chance": _chance,
    "word": lambda part, there: _class_of(part.name)[part.parts],
    "tuple": lambda part, there: _class_of(part.name)(*map(_made, part.parts)),
    "set": lambda part, there: set(map(_made, part.parts)),
    "frozenset": lambda part, there: frozenset(map(_made, part.parts)),
    "deque": lambda part, there: deque(map(_made, part.parts[1]), maxlen=part.parts[0]),
}


def _name_of(kind: type) -> str:
    return f"{kind.__module__.removeprefix(_PACKAGE)}:{kind.__qualname__}"


def _class_of(name: str) -> Any:
    """Return a class of this package.

    Raises
    ------
    TypeError
        If there is none of that name.
    """
    module, _, qualname = name.partition(":")
    found = getattr(sys.modules.get(_PACKAGE + module), qualname, None)
    if not isinstance(found, type) or found.__module__ != _PACKAGE + module:
        raise TypeError(f"{name} is no class of {_PACKAGE}")
    return found
