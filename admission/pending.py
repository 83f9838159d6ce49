"""What is on its way through one broker, as plain data: requests and waves that several places share.

Rule: what stands in several places stands once in the data, by number, and is one object again in all of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import fields
from typing import Any, Generic, TypeVar

from ..protocol.effects import Plain

T = TypeVar("T")


class Shared(Generic[T]):
    """Objects of one dataclass, numbered in the order in which they are first met."""

    def __init__(self, objects: Iterable[T] = ()) -> None:
        self.objects: list[T] = list(objects)
        self._numbers = {id(each): number for number, each in enumerate(self.objects)}

    def number(self, each: T) -> int:
        """Return the number of an object, which is kept from now on."""
        if id(each) not in self._numbers:
            self._numbers[id(each)] = len(self.objects)
            self.objects.append(each)
        return self._numbers[id(each)]

    def snapshot(self) -> Plain:
        """Return the objects as tuples of their fields."""
        return [
            tuple(_plain(getattr(each, field.name)) for field in fields(each))  # type: ignore[arg-type]
            for each in self.objects
        ]


def _plain(value: Any) -> Any:
    """Return a field as it is put down: a set in order, a list copied."""
    if isinstance(value, set):
        return sorted(value)
    return list(value) if isinstance(value, list) else value
