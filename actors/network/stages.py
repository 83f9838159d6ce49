"""What a user sees while a network starts: "starting Ray", "brokers ready: 3 of 4".

Rules
-----
* Progress is shown only on request, except to people: at a terminal, or in a notebook.
* A terminal gets a spinner on standard error that disappears, a notebook one line that stays, a log one line
  per update.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol, TypeAlias

from ...protocol.checks import wrong

BROKERS: Final = "brokers ready"
RAY: Final = "starting Ray"


class Stages(Protocol):
    """Receives the progress of a network's start."""

    def show(self, name: str, done: int, total: int) -> None:
        """Show the progress of the stage of that name; 0 of 1 when it has begun."""
        ...


Progress: TypeAlias = Callable[[int, int], None] | Stages | bool | None
"""A function of (brokers ready, brokers in all), an object with `show`, or a flag: whether people are shown
progress at all."""


class _Silence:
    """Shows nothing."""

    def show(self, name: str, done: int, total: int) -> None:
        pass


class _Callback:
    """Calls a function of (done, total) for the brokers, and for nothing else."""

    def __init__(self, function: Callable[[int, int], None]) -> None:
        self._function = function

    def show(self, name: str, done: int, total: int) -> None:
        if name == BROKERS and done:
            self._function(done, total)


class _Spinner:
    """A spinner of `rich` with text beside it."""

    def __init__(self, status: Any) -> None:
        self._status = status

    def show(self, name: str, done: int, total: int) -> None:
        self._status.update(_words(name, done, total))


class _Lines:
    """Log lines on standard error."""

    def show(self, name: str, done: int, total: int) -> None:
        if name != RAY or not done:
            sys.stderr.write(_words(name, done, total) + "\n")


class _Line:
    """One line in a notebook that is overwritten."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def show(self, name: str, done: int, total: int) -> None:
        took = f", {time.monotonic() - self._begun:.0f} s" if done == total else ""
        sys.stdout.write(f"\r{_words(name, done, total) + took:<40}")
        sys.stdout.flush()


def _words(name: str, done: int, total: int) -> str:
    return name if total == 1 and name == RAY else f"{name}: {done:,} of {total:,}"


def check_progress(progress: Progress) -> None:
    """Raise InputError unless this is a valid `progress`."""
    if not (
        progress is None or isinstance(progress, bool) or callable(progress) or hasattr(progress, "show")
    ):
        raise wrong(
            "progress", progress, "a function of (brokers ready, brokers in all), True, False or None"
        )


@contextmanager
def told(progress: Progress) -> Iterator[Stages]:
    """Yield the receiver of progress while the block runs.

    Parameters
    ----------
    progress
        As `Network.launch` takes it. None shows progress at a terminal and in a notebook, and nowhere else.
    """
    if progress is None:
        progress = sys.stderr.isatty() or _in_notebook()
    if not isinstance(progress, bool):
        yield _Callback(progress) if callable(progress) else progress
    elif not progress:
        yield _Silence()
    elif _in_notebook():
        yield _Line()
        sys.stdout.write("\n")
    elif not sys.stderr.isatty():
        yield _Lines()
    else:
        from rich.console import Console

        with Console(stderr=True).status("") as status:
            yield _Spinner(status)


def _in_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return getattr(shell, "kernel", None) is not None
