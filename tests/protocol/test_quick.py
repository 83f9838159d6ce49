"""Frozen values whose constructors set their slots."""

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest
from rayvous.protocol.quick import quick


@dataclass(frozen=True, slots=True)
class Plain:
    number: int
    name: str = "none"
    found: list[int] = field(default_factory=list)
    later: int = field(init=False, repr=False, compare=False)


@quick
@dataclass(frozen=True, slots=True)
class Quick:
    number: int
    name: str = "none"
    found: list[int] = field(default_factory=list)
    later: int = field(init=False, repr=False, compare=False)


def test_a_quick_value_is_made_and_behaves_as_any_frozen_value() -> None:
    assert list(inspect.signature(Quick).parameters) == list(inspect.signature(Plain).parameters)
    for given, named in (((1,), {}), ((1, "x"), {"found": [3]}), ((), {"number": 4})):
        one, other = Quick(*given, **named), Plain(*given, **named)  # type: ignore[arg-type, misc]
        assert repr(one) == repr(other).replace("Plain", "Quick") and one == Quick(*given, **named)  # type: ignore[arg-type, misc]
    assert replace(one, name="y") == Quick(4, "y") and Quick(1).found is not Quick(1).found
    with pytest.raises(FrozenInstanceError):
        one.number = 5  # type: ignore[misc]
    with pytest.raises(AttributeError):
        _ = one.later
    for wrong in ({}, {"number": 1, "later": 2}):
        with pytest.raises(TypeError, match="__init__"):
            Quick(**wrong)  # type: ignore[arg-type]
    assert pickle.loads(pickle.dumps(Quick.__init__)) is Quick.__init__
