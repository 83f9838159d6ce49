"""The findings of a check, and how checks run: all concurrently, each within its time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from threading import Thread
from time import monotonic
from typing import Literal, TypeAlias

State: TypeAlias = Literal["ok", "missing", "wrong"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the result.

    Attributes
    ----------
    name
        What was checked.
    state
        ``"ok"``; ``"missing"`` for something optional; ``"wrong"`` for something that every network needs.
    said
        What was observed.
    todo
        The command to run; empty if there is nothing to do.
    """

    name: str
    state: State
    said: str
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A check of one thing.

    Attributes
    ----------
    name
        What it checks.
    look
        Returns the findings; it may raise, and it may hang.
    needed
        Whether every network needs that thing.
    """

    name: str
    look: Callable[[], Iterable[Finding]]
    needed: bool = True


def take(checks: Sequence[Check], seconds: float) -> list[Finding]:
    """Run all checks concurrently, and return the findings in the order of the checks.

    Parameters
    ----------
    checks
        The checks.
    seconds
        The time limit for all; a check that exceeds it yields a finding, too, and is abandoned.
    """
    done: SimpleQueue[tuple[int, list[Finding]]] = SimpleQueue()
    for number, check in enumerate(checks):
        Thread(target=_look, args=(number, check, done), daemon=True).start()
    found: dict[int, list[Finding]] = {}
    deadline = monotonic() + seconds
    while len(found) < len(checks):
        try:
            number, findings = done.get(timeout=max(0.0, deadline - monotonic()))
        except Empty:
            break
        found[number] = findings
    late = f"no answer within {seconds:g} s"
    return [
        finding
        for number, check in enumerate(checks)
        for finding in found.get(number, [_unseen(check, late)])
    ]


def _look(number: int, check: Check, done: SimpleQueue[tuple[int, list[Finding]]]) -> None:
    try:
        findings = list(check.look())
    except Exception as error:  # broken parts of this machine are what the check looks for
        said = " ".join(f"{type(error).__name__}: {error}".split())
        findings = [_unseen(check, said)]
    done.put((number, findings))


def _unseen(check: Check, said: str) -> Finding:
    return Finding(check.name, "wrong" if check.needed else "missing", said)
