"""What a look at this machine comes to, and how looks are taken: all at once, each within its time."""

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
    """One line of what was found.

    Attributes
    ----------
    name
        What was looked at.
    state
        ``"ok"``; ``"missing"``, which something optional is; ``"wrong"``, which hinders every network.
    said
        What was seen.
    todo
        The line to type; empty where there is nothing to do.
    """

    name: str
    state: State
    said: str
    todo: str = ""


@dataclass(frozen=True, slots=True)
class Check:
    """A look at one thing.

    Attributes
    ----------
    name
        What it looks at.
    look
        Returns what it finds; it may raise, and it may hang.
    needed
        Whether every network needs that thing.
    """

    name: str
    look: Callable[[], Iterable[Finding]]
    needed: bool = True


def take(checks: Sequence[Check], seconds: float) -> list[Finding]:
    """Look at all things at once, and return what was found in the order of the checks.

    Parameters
    ----------
    checks
        What to look at.
    seconds
        How long all may take; what has not come back then is a finding, too, and is left to itself.
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
    except Exception as error:  # what is broken on this machine is what is looked for
        said = " ".join(f"{type(error).__name__}: {error}".split())
        findings = [_unseen(check, said)]
    done.put((number, findings))


def _unseen(check: Check, said: str) -> Finding:
    return Finding(check.name, "wrong" if check.needed else "missing", said)
