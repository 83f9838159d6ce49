"""Cases as plain data and as JSON files: a run that needs no seed to be drawn.

Rules
-----
* A file has the version of its form, and everything from which a run is made; what has its usual value is left out.
  The seed in it still determines what is random inside the run: delays of links, ids, the order of equal events.
* A file is readable: an action, a fault, an operation stands on one line.
* What cannot run is refused with the place in the file: an unknown key, a broker that does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, TypeVar, get_args, get_origin, get_type_hints

from ...protocol.errors import InputError, ScenarioError
from ...protocol.scenarios.files import read_json
from ...protocol.scenarios.plain import known_keys
from ...routing.language.questions import to_filter
from ...routing.schemes.registry import scheme as scheme_of
from ...routing.topologies.cluster_trees import topology_of
from .cases import Action, Case
from .plans import FaultPlan

VERSION: Final = 1
FORM: Final = "rayvous_chaos_case"
"""The key of the version: it tells what the file is."""

DOINGS: Final = "subscribe", "cancel", "publish", "move", "stop", "start"
K = TypeVar("K")


def case_to_dict(case: Case) -> dict[str, object]:
    """Return plain data that `case_from_dict` accepts."""
    return {FORM: VERSION, **_plain(case), "plan": case.plan.to_dict()}


def case_from_dict(given: object) -> Case:
    """Return the case that plain data describes, as `case_to_dict` gives it.

    Raises
    ------
    ScenarioError
        If it is no case, of another version, or has something that cannot run; the message says where.
    """
    if not isinstance(given, Mapping) or FORM not in given:
        raise ScenarioError(f"this is no case of chaos: it has no {FORM!r}")
    values = dict(given)
    version = values.pop(FORM)
    if version != VERSION:
        raise ScenarioError(f"{FORM} is {version!r}: this version of rayvous reads {VERSION}")
    try:
        case: Case = _made(Case, values, "case")
        _check(case)
    except ScenarioError:
        raise
    except InputError as error:
        raise ScenarioError(str(error)) from None
    return case


def load_case(path: str | Path) -> Case:
    """Read a case from a JSON file.

    Raises
    ------
    ScenarioError
        If the file is missing, empty, not JSON, or `case_from_dict` refuses what is in it.
    """
    return read_json(path, case_from_dict)


def save_case(case: Case, path: str | Path) -> None:
    """Write a case to a JSON file, an action on each line."""
    Path(path).write_text(_lines(case_to_dict(case)) + "\n", encoding="utf-8")


def _lines(plain: Mapping[str, object], indent: str = " ") -> str:
    """Return JSON in which each item of a list of objects has a line of its own."""
    parts = []
    for key, value in plain.items():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            items = ",\n".join(f"{indent} {json.dumps(item)}" for item in value)
            text = f"[\n{items}\n{indent}]"
        elif isinstance(value, dict) and any(isinstance(each, list) for each in value.values()):
            text = _lines(value, indent + " ")
        else:
            text = json.dumps(value)
        parts.append(f"{indent}{json.dumps(key)}: {text}")
    return "{\n" + ",\n".join(parts) + "\n" + indent[1:] + "}"


def _plain(value: object) -> Any:
    """Return a value as plain data, without what is usual."""
    if is_dataclass(value) and not isinstance(value, type):
        found = {entry.name: getattr(value, entry.name) for entry in fields(value)}
        return {
            entry.name: _plain(found[entry.name])
            for entry in fields(value)
            if found[entry.name] != _usual(entry)
        }
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value


def _usual(entry: Field[object]) -> object:
    if entry.default_factory is not MISSING:
        return entry.default_factory()
    return entry.default


def _made(kind: type[K], given: object, where: str) -> K:
    """Return the value of a dataclass that plain data describes."""
    usual = {each.name: _usual(each) for each in fields(kind) if each.default_factory is not MISSING}  # type: ignore[arg-type]
    values = known_keys({**usual, **given} if isinstance(given, Mapping) else given, kind, where)
    hints = get_type_hints(kind)
    return kind(**{key: _value(hints[key], value, f"{where}: {key}") for key, value in values.items()})


def _value(hint: object, given: object, where: str) -> Any:
    """Return a value of an annotated type."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is FaultPlan:
        return FaultPlan.from_dict(given)
    if isinstance(hint, type) and is_dataclass(hint):
        return _made(hint, given, where)
    if origin is UnionType:
        others = [each for each in arguments if each is not NoneType]
        return None if given is None and NoneType in arguments else _value(others[0], given, where)
    if origin is tuple:
        items = _of_type(given, list | tuple, "a list", where)
        return tuple(_value(arguments[0], item, f"{where}[{place}]") for place, item in enumerate(items))
    if origin in (dict, Mapping) or (isinstance(origin, type) and issubclass(origin, Mapping)):
        items = _of_type(given, Mapping, "an object", where)
        return {
            _key(arguments[0], key, where): _value(arguments[1], item, f"{where}[{key!r}]")
            for key, item in items.items()
        }
    if hint is float:
        number = not isinstance(given, bool) and isinstance(given, int | float) and abs(given) < float("inf")
        return _when(number, given, "a number", where)
    if hint is int:
        return _when(isinstance(given, int) and not isinstance(given, bool), given, "a whole number", where)
    if hint in (str, bool):
        return _of_type(given, hint, "text" if hint is str else "true or false", where)
    return given  # a word of a few, or the value of an attribute: checked by who has it


def _key(hint: object, key: Any, where: str) -> Any:
    if hint is not int:
        return key
    return int(key) if str(key).isdigit() else _when(False, key, "a number of a broker", where)


def _of_type(given: Any, kind: Any, wanted: str, where: str) -> Any:
    return _when(isinstance(given, kind), given, wanted, where)


def _when(good: bool, given: object, wanted: str, where: str) -> object:
    if not good:
        raise ScenarioError(f"{where} is {given!r}: it must be {wanted}")
    return given


def _check(case: Case) -> None:
    """Check that a case can run on the network that it has."""
    positions = topology_of(case.topology).positions()
    scheme_of(case.scheme)
    if case.features.heals:
        case.features.times.validate()
    elif case.plan.faults:
        raise ScenarioError("case: there are faults, but no 'recovery': nothing would heal")
    if case.admission is not None:
        case.admission.validate()
    case.plan.check(positions)
    bounds = (0.0, *case.intermissions, case.plan.heal_seconds) if case.intermissions else ()
    for before, after in pairwise(bounds):
        _when(
            before < after,
            list(case.intermissions),
            "moments of the plan, in order, before its healing",
            "case: intermissions",
        )
    brokers = {place.broker for place in positions}
    late = () if case.late is None else (*case.late.publications, *case.late.subscriptions)
    phases: dict[str, Sequence[Action]] = {
        "opening": case.opening, "actions": case.actions, "closing": case.closing, "late": late,
    }  # fmt: skip
    for phase, actions in phases.items():
        for place, action in enumerate(actions):
            where = f"case: {phase}[{place}]"
            _when(action.do in DOINGS, action.do, f"one of {', '.join(DOINGS)}", f"{where}: do")
            _when(
                action.broker in brokers,
                action.broker,
                f"one of the {len(brokers)} brokers",
                f"{where}: broker",
            )
            if action.do == "subscribe":
                try:
                    to_filter(action.selector)
                except InputError as error:
                    raise ScenarioError(f"{where}: selector {action.selector!r}: {error}") from None


__all__ = ["case_from_dict", "case_to_dict", "load_case", "save_case"]
