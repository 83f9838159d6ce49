"""Schedules: what a search found, as a file and as sentences, and their repetition on new machines.

Rule: a schedule contains the setting and the actions, nothing else. It is repeated by the system itself, action by
action, on machines that nobody has used before. So it names no message but by its link.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final, TypeAlias, TypeVar

from ...protocol.checks import shown
from ...protocol.errors import InputError
from ...protocol.messages.pubsub import Ack, Back, Numbered
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.scenarios.files import check_file
from ...protocol.traces.trace import describe
from .crash_recovery import Action, CrashRecovery, Setting, State
from .election import ElectionSetting
from .search import System

S = TypeVar("S")
Settings: TypeAlias = Setting | ElectionSetting

FORMAT: Final = "rayvous_schedule"
VERSION: Final = 1
KINDS: Final[dict[str, type[Settings]]] = {"crash": Setting, "election": ElectionSetting}
"""The settings of each subcommand of ``rayvous explore``."""


def save(path: Path, setting: Settings, actions: Sequence[Action]) -> None:
    """Write a schedule to a file."""
    kind = next(name for name, each in KINDS.items() if isinstance(setting, each))
    said = {FORMAT: VERSION, "of": kind, "setting": asdict(setting)}
    said["actions"] = [list(each) for each in actions]
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def load(path: Path, kind: str = "crash") -> tuple[Settings, list[Action]]:
    """Read a schedule of this kind.

    Raises
    ------
    InputError
        If the file cannot be read, or is no such schedule.
    """
    check_file(path, "no schedule")
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        if (said[FORMAT], said["of"]) != (VERSION, kind):
            raise ValueError((said[FORMAT], said["of"]))
        return KINDS[kind](**said["setting"]), [tuple(each) for each in said["actions"]]
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        wanted = f"it is no schedule that `rayvous explore {kind}` has written"
        why = error if isinstance(error, InputError) else shown(error)
        raise InputError(f"{path}: {wanted}: {why}") from None


def follow(system: System[S, Action], actions: Sequence[Action]) -> list[tuple[Action, S]]:
    """Take the actions one after the other; return each with the state after it.

    Raises
    ------
    InputError
        If one of them is not possible where it stands.
    """
    state, found = system.first(), []
    for place, action in enumerate(actions, 1):
        possible = [there for each, there in system.actions(state) if each == action]
        if not possible:
            raise InputError(f"action {place} of the schedule, {list(action)}, is not possible there")
        state = possible[0]
        found.append((action, state))
    return found


def judged(system: System[S, Action], actions: Sequence[Action]) -> tuple[str, ...]:
    """Return what is violated after these actions, or in a state on the way.

    Raises
    ------
    InputError
        If one of them is not possible where it stands.
    """
    for _, state in follow(system, actions):
        if wrong := system.judge(state):
            return wrong
    return ()


def plain_story(actions: Sequence[Action]) -> list[str]:
    """Return a sentence for each action of an election."""
    return [_plain_sentence(action) for action in actions]


def _plain_sentence(action: Action) -> str:
    verb, *about = action
    if verb == "time":
        return "time passes"
    if verb == "late":
        return "time passes, and what is under way is late"
    if verb in ("arrive", "hear"):
        source, target, what, *crash = about
        group = " over the group" if verb == "hear" else ""
        return f"{what} from {_name(source)} arrives{group} at {_name(target)}{_crash(crash)}"
    words = {"crash": "crashes", "restart": "starts again, without its state"}
    lost = " with what it had sent" if about[1:] else ""
    return f"{_name(about[0])} {words[str(verb)]}{lost}"


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
    if who == RENDEZVOUS:
        return "the rendezvous point"
    return who if isinstance(who, str) else f"broker {who}"


def _message(message: object) -> str:
    if isinstance(message, Numbered):
        return f"message {message.number} ({type(message.message).__name__})"
    if isinstance(message, Ack | Back):
        return f"{type(message).__name__}({message.number})"
    return type(message).__name__
