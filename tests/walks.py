"""What a walk through the code enters: the files of the package whose functions run, in the order of first calls."""

import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
NOT_CODE = ("tests", ".venv", "examples")
FOLDERS = ("routing/filters", "routing/matching")
"""Of these a walk names only the folder: which files match a filter depends on its kind, and on the kernel."""


INSIDE = f"{ROOT}/"
OUTSIDE = tuple(f"{ROOT}/{folder}/" for folder in NOT_CODE)


def file_of(frame: FrameType) -> str | None:
    """Return the file of the package whose code this is; None for any other code."""
    path = frame.f_code.co_filename
    return path.removeprefix(INSIDE) if path.startswith(INSIDE) and not path.startswith(OUTSIDE) else None


@contextmanager
def _calls_noted(note: Callable[[FrameType, str], None]) -> Iterator[None]:
    """Note each call of a function of the package in the block, with its file."""

    def see(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and (file := file_of(frame)) is not None:
            note(frame, file)

    before = sys.getprofile()
    sys.setprofile(see)
    try:
        yield
    finally:
        sys.setprofile(before)


@contextmanager
def files_entered() -> Iterator[list[str]]:
    """Yield a list that has, after the block, the files of the package that were entered in it, each once."""
    entered: dict[str, None] = {}
    files: list[str] = []
    with _calls_noted(lambda _, file: entered.setdefault(file)):
        yield files
    files += entered


class Entry(NamedTuple):
    """A function of one file is called from another one, from a test, or by the event loop."""

    caller: str
    file: str
    function: str


@contextmanager
def entries_made() -> Iterator[list[Entry]]:
    """Yield a list that has, after the block, the entries into files of the package, in order.

    A coroutine that goes on after waiting is not entered again.
    """
    frames: dict[FrameType, None] = {}
    entries: list[Entry] = []

    def caller_of(frame: FrameType | None) -> str:
        while frame is not None and not frame.f_code.co_filename.startswith(INSIDE):
            frame = frame.f_back
        return "" if frame is None else frame.f_code.co_filename.removeprefix(INSIDE)

    def note(frame: FrameType, file: str) -> None:
        if frame in frames:
            return
        frames[frame] = None
        caller = caller_of(frame.f_back)
        if caller != file:
            entries.append(Entry(caller, file, frame.f_code.co_qualname))

    made: list[Entry] = []
    with _calls_noted(note):
        yield made
    made += entries


def steps_of(files: list[str]) -> list[str]:
    """Return what a walk names: files, or the folder where that says enough, each once."""
    folders = {file: next((each for each in FOLDERS if file.startswith(f"{each}/")), file) for file in files}
    return list(dict.fromkeys(folders[file] for file in files))


def walk_in_docs(title: str) -> list[str]:
    """Return the files that a walk of docs/architecture.md names, in its order."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = text.split(f"\n### {title}\n")[1].split("\n## ")[0].split("\n### ")[0]
    return re.findall(r"`((?:\w+/)+\w+(?:\.py)?)`", section)
