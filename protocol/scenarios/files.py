"""Read plain data from JSON files; errors name the file and the position."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from ..checks import path as checked_path
from ..errors import InputError, ScenarioError

T = TypeVar("T")

FILE_BYTES_MAX: Final = 64 << 20
"""More than any scenario, case or schedule; a larger file is not read."""


def check_file(path: Path, instead: str, bytes_max: int = FILE_BYTES_MAX) -> None:
    """Check that a file can be read whole: it is a regular one, whose size is known and bounded.

    Parameters
    ----------
    path
        The file.
    instead
        What a larger file is, or is not, for the message.
    bytes_max
        The largest size that is accepted.

    Raises
    ------
    InputError
        If there is no such file, or it is a device or a pipe, or too large.
    """
    try:
        size = path.stat().st_size
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    if not path.is_file():
        raise InputError(f"{path}: it is no regular file: copy what it contains to one")
    if size > bytes_max:
        raise InputError(f"{path}: {size:,} bytes are {instead}")


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
