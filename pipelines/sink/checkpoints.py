"""What queries of Spark Structured Streaming have read, by their checkpoints: the files that a sink may remove.

Rules
-----
* A query has read a file when it has committed a micro-batch with it. Then it never reads the file again, also after a
  restart from its checkpoint.
* A file may be removed when each query of the folder has read it, and each source of a query with several. A folder
  without queries has read nothing.

Formats: ``commits/N`` says that micro-batch N was committed. ``offsets/N`` has, after its version and one line about
the query, a line for each use of a source: ``{"logOffset":K}`` if it reads files. ``sources/I/K`` and
``sources/I/K.compact`` name the files of source I, one JSON object a line; the latter also those of earlier ones.

Source: org.apache.spark.sql.execution.streaming of Spark 3.5: CommitLog, OffsetSeqLog, FileStreamSourceLog.
"""

from __future__ import annotations

import json
import re
from collections.abc import Set
from urllib.parse import unquote

import pyarrow.fs as pafs

from .folder import opened


def read_by_all(folder: str) -> Set[str]:
    """Return the names of the files that all queries whose checkpoints are in a folder have read.

    Parameters
    ----------
    folder
        The path or URL of a folder with one folder for each checkpoint.
    """
    system, root = opened(folder)
    read: Set[str] | None = None
    for checkpoint in system.get_file_info(pafs.FileSelector(root, allow_not_found=True)):
        if checkpoint.type == pafs.FileType.Directory:
            for names in _read_by(system, checkpoint.path):
                read = names if read is None else read & names
    return read or frozenset()


def _read_by(system: pafs.FileSystem, checkpoint: str) -> list[Set[str]]:
    """Return what each source of a query has read; nothing for a query that has not begun."""
    numbers = _numbers(system, f"{checkpoint}/offsets")
    if not numbers:
        metadata = system.get_file_info(f"{checkpoint}/metadata")
        return [frozenset()] if metadata.type == pafs.FileType.File else []
    committed = max(_numbers(system, f"{checkpoint}/commits"), default=None)
    if committed not in numbers:
        return [frozenset()]
    # The first line is about the query. Of others than file sources nothing is known here, and nothing needs to be.
    offsets = _lines(system, f"{checkpoint}/offsets/{committed}")[1:]
    if None in offsets:  # a source has read nothing so far
        return [frozenset()]
    ends = [each["logOffset"] if isinstance(each, dict) and "logOffset" in each else None for each in offsets]
    logs = sorted(_numbers(system, f"{checkpoint}/sources"))
    if len(offsets) != max(logs, default=0) + 1:  # a source that is used twice has two offsets and one log
        least = min((each for each in ends if each is not None), default=None)
        ends = [least] * (max(logs, default=0) + 1)
    return [
        _named(system, f"{checkpoint}/sources/{number}", end)
        for number in logs
        if (end := ends[number]) is not None
    ]


def _named(system: pafs.FileSystem, log: str, last: int) -> Set[str]:
    found = set[str]()
    for number in _numbers(system, log):
        if number <= last:
            for entry in _lines(system, f"{log}/{number}") or _lines(system, f"{log}/{number}.compact"):
                if isinstance(entry, dict) and "path" in entry:
                    found.add(unquote(str(entry["path"])).rpartition("/")[2])
    return found


def _numbers(system: pafs.FileSystem, folder: str) -> set[int]:
    infos = system.get_file_info(pafs.FileSelector(folder, allow_not_found=True))
    return {int(each[1]) for info in infos if (each := re.fullmatch(r"(\d+)(\.compact)?", info.base_name))}


def _lines(system: pafs.FileSystem, path: str) -> list[object]:
    """Return the lines of a log after its version; ``-`` is None. Nothing if there is no such file."""
    if system.get_file_info(path).type != pafs.FileType.File:
        return []
    with system.open_input_stream(path) as file:
        lines = file.read().decode().splitlines()[1:]
    return [None if line == "-" else json.loads(line) for line in lines]
