"""Conversion of plain data, as parsed from JSON, to dataclasses: scenarios and fault plans.

Rule: an error names the position (`where`) and the valid alternatives.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar

from ..errors import ScenarioError

K = TypeVar("K")


def known_keys(given: object, kind: type, where: str) -> dict[str, Any]:
    """Return the mapping as a dict if it has only keys of `kind`, and all required ones.

    Raises
    ------
    ScenarioError
        If a key is unknown or missing, or if the data is no mapping.
    """
    values = _as_dict(given, where)
    names = [entry.name for entry in fields(kind)]
    for key in values:
        if key not in names:
            raise ScenarioError(f"{where}: unknown key {key!r}: there are {', '.join(names) or 'none'}")
    for entry in fields(kind):
        if entry.name not in values and entry.default is MISSING:
            raise ScenarioError(f"{where}: {entry.name!r} is missing")
    return values


def named_kind(
    given: object, key: str, kinds: Mapping[str, type[K]], where: str
) -> tuple[type[K], dict[str, Any]]:
    """Return the kind that the word under `key` names, and the rest of the mapping.

    Raises
    ------
    ScenarioError
        If the data is no mapping, or names none of the kinds.
    """
    values = _as_dict(given, where)
    word = values.pop(key, None)
    if not isinstance(word, str) or word not in kinds:
        raise ScenarioError(f"{where}: {key!r} is {word!r}: it must be one of {', '.join(kinds)}")
    return kinds[word], values


def _as_dict(given: object, where: str) -> dict[str, Any]:
    if not isinstance(given, Mapping):
        raise ScenarioError(f"{where} is a {type(given).__name__}: it must be an object")
    return dict(given)
