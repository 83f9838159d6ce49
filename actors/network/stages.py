"""What a user sees while a network starts: "starting Ray", "brokers ready: 3 of 4".

Rules
-----
* Nobody is told anything who has not asked, but for people: at a terminal, or in a notebook.
* A terminal has a spinner on standard error that goes away, a notebook one line that stays, a log a line each time.
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
    """Whoever is told how far the start of a network is."""

    def show(self, name: str, done: int, total: int) -> None:
        """Say how far the stage of that name is; 0 of 1 when it has begun."""
        ...


Progress: TypeAlias = Callable[[int, int], None] | Stages | bool | None
"""A function of (brokers ready, brokers in all), something with a `show`, or whether people are shown it at all."""


class _Silence:
    """Nobody is told."""

    def show(self, name: str, done: int, total: int) -> None:
        pass


class _Callback:
    """Tells a function of (done, total) about the brokers, and nothing else."""

    def __init__(self, function: Callable[[int, int], None]) -> None:
        self._function = function

    def show(self, name: str, done: int, total: int) -> None:
        if name == BROKERS and done:
            self._function(done, total)


class _Spinner:
    """A spinner of `rich` with words beside it."""

    def __init__(self, status: Any) -> None:
        self._status = status

    def show(self, name: str, done: int, total: int) -> None:
        self._status.update(_words(name, done, total))


class _Lines:
    """Lines of a log, on standard error."""

    def show(self, name: str, done: int, total: int) -> None:
        if name != RAY or not done:
            sys.stderr.write(_words(name, done, total) + "\n")


class _Line:
    """One line of a notebook that is written over."""

    def __init__(self) -> None:
        self._begun = time.monotonic()

    def show(self, name: str, done: int, total: int) -> None:
        took = f", {time.monotonic() - self._begun:.0f} s" if done == total else ""
        sys.stdout.write(f"\r{_words(name, done, total) + took:<40}")
        sys.stdout.flush()


def _words(name: str, done: int, total: int) -> str:
    return name if total == 1 and name == RAY else f"{name}: {done:,} of {total:,}"


def check_progress(progress: Progress) -> None:
    """Raise InputError unless it is something that can be told."""
    if not (
        progress is None or isinstance(progress, bool) or callable(progress) or hasattr(progress, "show")
    ):
        raise wrong(
            "progress", progress, "a function of (brokers ready, brokers in all), True, False or None"
        )


@contextmanager
def told(progress: Progress) -> Iterator[Stages]:
    """Give whoever is to be told while the block runs.

    Parameters
    ----------
    progress
        As `Network.launch` takes it; None shows it to people, and to nobody where there are none.
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
