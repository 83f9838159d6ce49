"""Read plain data from JSON files; errors name the file and the position."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from ..checks import path as checked_path
from ..errors import ScenarioError

T = TypeVar("T")


def read_json(path: str | Path, make: Callable[[Any], T], **options: Any) -> T:
    """Read a JSON file and return what `make` builds from its data.

    Parameters
    ----------
    path
        The file.
    make
        Builds the result from the data; its `ScenarioError` is raised again with the file's name in front.
    options
        Passed on to ``json.loads``.

    Raises
    ------
    ScenarioError
        If the file is missing, empty, or not JSON, or `make` raises it; the message says where.
    """
    place = checked_path("path", path, ScenarioError)
    try:
        text = place.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {error}") from None
    if not text.strip():
        raise ScenarioError(f"{path}: the file is empty")
    try:
        return make(json.loads(text, **options))
    except json.JSONDecodeError as error:
        raise ScenarioError(
            f"{path}: line {error.lineno}, column {error.colno}: not JSON: {error.msg}"
        ) from None
    except ScenarioError as error:
        raise ScenarioError(f"{path}: {error}") from None
