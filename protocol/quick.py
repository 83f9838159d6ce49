"""A quicker constructor for the values that every event makes several of.

A frozen dataclass sets its fields by `object.__setattr__`, which looks each of them up by its name. Its slots know how
they are set.
"""

from __future__ import annotations

from dataclasses import MISSING, fields
from types import FunctionType
from typing import TypeVar

T = TypeVar("T")


def quick(kind: type[T]) -> type[T]:
    """Give a frozen dataclass with slots a constructor that sets its slots; the arguments remain what they are.

    Written above ``@dataclass(frozen=True, slots=True)``. Fields that the constructor does not take are not there until
    somebody sets them; there is no `__post_init__`.
    """
    known: dict[str, object] = {"MISSING": MISSING}
    parameters, steps = [], []
    for each in (each for each in fields(kind) if each.init):  # type: ignore[arg-type]
        name, value = each.name, each.name
        known[f"set_{name}"] = getattr(kind, name).__set__
        if each.default_factory is not MISSING:
            known[f"make_{name}"] = each.default_factory
            parameters.append(f"{name}=MISSING")
            value = f"make_{name}() if {name} is MISSING else {name}"
        elif each.default is not MISSING:
            known[f"default_{name}"] = each.default
            parameters.append(f"{name}=default_{name}")
        else:
            parameters.append(name)
        steps.append(f"set_{name}(self, {value})")
    exec(f"def __init__(self, {', '.join(parameters)}):\n    " + "\n    ".join(steps), known)
    init = known["__init__"]
    assert isinstance(init, FunctionType)
    init.__qualname__ = f"{kind.__qualname__}.__init__"
    init.__module__ = kind.__module__
    init.__annotations__ = kind.__init__.__annotations__
    setattr(kind, "__init__", init)  # noqa: B010  # not a change of a method that mypy knows
    return kind
