"""Which lines of the brokers' code runs have reached, and which they have not.

Rule: measuring takes some three times as long as running (`sys.settrace` is what Python 3.11 has), so a search is not
guided by lines. They are measured on the cases that it has kept: what a run reaches that those do not is nothing new.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Final, NamedTuple, TypeAlias, TypeVar

FOLDERS: Final = "broker", "recovery/membership", "recovery/replay", "clients"
"""The folders of the package whose lines are measured."""

T = TypeVar("T")
Line = tuple[str, int]
Trace: TypeAlias = Callable[[FrameType, str, object], "Trace | None"]
_PACKAGE: Final = Path(__file__).parents[2]
_GENERATED: Final = inspect.CO_NEWLOCALS | inspect.CO_OPTIMIZED


def traced(run: Callable[[], T]) -> tuple[T, frozenset[Line]]:
    """Run something, and return its result and the lines of brokers that it reached: (file, line)."""
    reached: set[tuple[CodeType, int]] = set()
    looked: dict[CodeType, bool] = {}
    places = tuple(f"{_PACKAGE / folder}/" for folder in FOLDERS)

    def line(frame: FrameType, event: str, argument: object) -> Trace:
        reached.add((frame.f_code, frame.f_lineno))
        return line

    def call(frame: FrameType, event: str, argument: object) -> Trace | None:
        code = frame.f_code
        found = looked.get(code)
        if found is None:
            found = looked[code] = code.co_filename.startswith(places)
        return line if found else None

    before = sys.gettrace()
    sys.settrace(call)
    try:
        result = run()
    finally:
        sys.settrace(before)
    return result, frozenset((code.co_filename, number) for code, number in reached)


class Unreached(NamedTuple):
    """A function of which some lines were not reached, or none.

    Attributes
    ----------
    file, function
        Where it is: the file as a path in the package.
    lines
        The lines.
    entered
        Whether any of its lines was reached.
    """

    file: str
    function: str
    lines: tuple[int, ...]
    entered: bool


class Covered(NamedTuple):
    """How many lines of functions there are, how many were reached, and where the others are."""

    reached: int
    lines: int
    unreached: list[Unreached]


def covered(reached: Iterable[Line]) -> Covered:
    """Return what was reached of the modules that were loaded; a module of which nothing was reached is left out."""
    by_file: dict[str, set[int]] = {}
    for file, number in reached:
        by_file.setdefault(file, set()).add(number)
    there = count = 0
    missing: list[Unreached] = []
    for module in _modules():
        got = by_file.get(file := str(module.__file__))
        if not got:
            continue
        for code in _functions(compile(Path(file).read_text(encoding="utf-8"), file, "exec")):
            numbers = {line for _, _, line in code.co_lines() if line is not None} - {code.co_firstlineno}
            left = sorted(numbers - got)
            there, count = there + len(numbers) - len(left), count + len(numbers)
            if left:
                short = str(Path(file).relative_to(_PACKAGE))
                missing.append(Unreached(short, code.co_qualname, tuple(left), len(left) < len(numbers)))
    return Covered(there, count, missing)


def _modules() -> Iterator[ModuleType]:
    places = tuple(f"{_PACKAGE / folder}/" for folder in FOLDERS)
    for name in sorted(sys.modules):
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(places):
            yield sys.modules[name]


def _functions(code: CodeType) -> Iterator[CodeType]:
    """Yield the functions in a module, without what only defines them."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            if inner.co_flags & _GENERATED == _GENERATED and not inner.co_name.startswith("<"):
                yield inner
            yield from _functions(inner)


__all__ = ["Covered", "Unreached", "covered", "traced"]
