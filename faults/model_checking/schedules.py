"""Schedules: what a search found, as a file and as sentences, and their repetition on new machines.

Rule: a schedule contains the setting and the actions, nothing else. It is repeated by the system itself, action by
action, on machines that nobody has used before.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ...protocol.errors import InputError
from ...protocol.messages.pubsub import Ack, Back, Numbered
from ...protocol.traces.trace import describe
from .crash_recovery import Action, CrashRecovery, Setting, State

FORMAT: Final = "rayvous_schedule"
VERSION: Final = 1


def save(path: Path, setting: Setting, actions: Sequence[Action]) -> None:
    """Write a schedule to a file."""
    said = {FORMAT: VERSION, "setting": asdict(setting), "actions": [list(each) for each in actions]}
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def load(path: Path) -> tuple[Setting, list[Action]]:
    """Read a schedule.

    Raises
    ------
    InputError
        If the file cannot be read, or is no schedule.
    """
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if said[FORMAT] != VERSION:
            raise InputError(
                f"{path}: it is a schedule of version {said[FORMAT]}, this program knows {VERSION}"
            )
        return Setting(**said["setting"]), [tuple(each) for each in said["actions"]]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(
            f"{path}: it is no schedule that `rayvous explore crash` has written: {error!r}"
        ) from None


def follow(system: CrashRecovery, actions: Sequence[Action]) -> list[tuple[Action, State]]:
    """Take the actions one after the other; return each with the state after it.

    Raises
    ------
    InputError
        If one of them is not possible where it stands.
    """
    state, found = system.first(), []
    for place, action in enumerate(actions, 1):
        after = next((there for possible, there in system.actions(state) if possible == action), None)
        if after is None:
            raise InputError(f"action {place} of the schedule, {list(action)}, is not possible there")
        found.append((action, state := after))
    return found


def story(system: CrashRecovery, actions: Sequence[Action]) -> list[str]:
    """Return a sentence for each action, with what the clients did and heard by it."""
    before, lines = system.first(), []
    for action, state in follow(system, actions):
        said = [
            describe(each).partition("s  ")[2]
            for each in list(system.trace(state))[len(system.trace(before)) :]
        ]
        lines.append(_sentence(system, before, action) + (f": {'; '.join(said)}" if said else ""))
        before = state
    return lines


def _sentence(system: CrashRecovery, before: State, action: Action) -> str:
    verb, *about = action
    if verb in ("arrive", "lose"):
        source, target, *crash = about
        what = _message(system.under_way(before, source, target)[0])
        if verb == "lose":
            return f"{what} from {_name(source)} to {_name(target)} is lost"
        return f"{what} from {_name(source)} arrives at {_name(target)}{_crash(crash)}"
    who, *crash = about
    words = {
        "connect": "connects",
        "repeat": "repeats what is not acknowledged",
        "break": "loses its connection",
        "begin": "is told the time for the first time",
        "tick": "is told that its timeouts have expired",
        "recover": "recovers from its store",
        "crash": "crashes",
        "subscribe": "subscribes",
        "cancel": "cancels",
        "publish": "publishes",
    }
    tail = " with what it had sent" if verb == "crash" and crash else _crash(crash)
    return f"{_name(who)} {words[str(verb)]}{tail}"


def _crash(crash: Sequence[object]) -> str:
    if not crash:
        return ""
    _, effects, *lost = crash
    return f", which crashes after {effects} effects{' with what it had sent' if lost else ''}"


def _name(who: int | str) -> str:
    return who if isinstance(who, str) else f"broker {who}"


def _message(message: object) -> str:
    if isinstance(message, Numbered):
        return f"message {message.number} ({type(message.message).__name__})"
    if isinstance(message, Ack | Back):
        return f"{type(message).__name__}({message.number})"
    return type(message).__name__
