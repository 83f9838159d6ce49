"""Frozen values whose constructors set their slots."""

import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, replace

import pytest
from rayvous.protocol.batch import batch_of
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Events, in_round, marks_of, part_of
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


def test_a_message_of_a_round_has_the_marks_of_the_one_that_it_is_made_of() -> None:
    batch = batch_of([{"x": 1}])
    given = Events(batch, RoundNumber(1, 2), True, (3, 4), 5.0, 6.0, 7.0, 8, 9)
    assert len({*marks_of(given)}) == len(marks_of(given)), "each field has a value of its own"
    made = in_round(given, RoundNumber(10, 11), 12.0)
    assert made == replace(given, round=RoundNumber(10, 11), repair_window_seconds=12.0)
    assert part_of(given, batch, 13) == replace(given, entry=13)
