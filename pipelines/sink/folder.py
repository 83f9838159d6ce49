"""The folder of a sink on any file system of pyarrow or fsspec: what is in it, and how a file gets its name.

Rules
-----
* A file is written under another name, and renamed when it is acknowledged (`rolling`). On a local disk it is
  synchronised before, with its folder and those above it.
* Whatever was refused can be tried again. A file that has its name is not written again, nor named twice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Set
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from uuid import uuid4

import pyarrow as pa
import pyarrow.fs as pafs

from ...protocol.batch import EventBatch
from ...protocol.errors import InputError
from ...protocol.sinks import Columns, Format, shown
from .files import files_of
from .rolling import Acknowledged, FileName, found_in, parsed

REFUSED: Final = (OSError, pa.ArrowException, ValueError, ImportError)
"""What file systems raise; those of pyarrow and fsspec have many classes."""


class SinkFolder:
    """The files of one sink.

    Parameters
    ----------
    target
        The folder: an absolute path or a URL.
    stem, format, columns
        What the names of its files begin with, the format of new ones, and their columns (see `files.ParquetFiles`).

    Attributes
    ----------
    files, bytes
        What was written and has its name.
    process
        Names this process: one that was cut off may still write beside it.
    """

    def __init__(self, target: str, stem: str, format: Format, columns: Columns | None = None) -> None:
        self._stem, self._format, self.process = stem, format, uuid4().hex[:8]
        self._system, self._root = opened(target)
        self._files = files_of(format, columns)
        self._file: _File | None = None
        self._unnamed: list[_File] = []
        self._parents: set[str] = set()  # of folders that were made, and that a power loss could take away
        self.files = self.bytes = 0

    @property
    def conflicts(self) -> tuple[tuple[str, int], ...]:
        """How many values went to a column of their own, by column."""
        return tuple(sorted(self._files.conflicts.items()))

    def find(self, acknowledged: Acknowledged) -> int:
        """Name or remove the files without a name; return the highest number of a roll. The layout goes on."""
        self._make(self._root)
        infos = self._system.get_file_info(pafs.FileSelector(self._root, recursive=True))
        paths = sorted(each.path for each in infos if each.type == pafs.FileType.File)
        found = found_in(self._stem, paths, acknowledged)
        for path in found.to_remove:
            self._system.delete_file(path)
        if found.newest is not None and self._is_of_this_format(found.newest):
            with self._system.open_input_file(found.newest) as file:
                self._files.go_on_after(file)
        for unnamed, named in found.to_name:
            self._give_name(unnamed, named)
        return found.last

    def _is_of_this_format(self, path: str) -> bool:
        known = parsed(self._stem, path.rpartition("/")[2])
        return known is not None and known[0].format == self._format

    def write(self, number: int, folder: str, batch: EventBatch) -> None:
        """Write a file of a roll; when this returns, it is on the disk without a name."""
        name = FileName(self._stem, number, self._format)
        home = f"{self._root}/{folder}" if folder else self._root
        unnamed = f"{home}/{name.written_by(self.process)}"
        if self._file is None or self._file.unnamed != unnamed:
            self._file = _File(home, unnamed, f"{home}/{name}", self._files.made(batch))
        file = self._file
        try:
            self._make(home)
            with self._system.open_output_stream(unnamed) as out:
                self._files.write(file.content, out)
                file.size = out.tell()
            self._synchronise(unnamed)
            self._synchronise_folders(home)
        except REFUSED:
            with suppress(*REFUSED):  # a full disk has room again
                self._system.delete_file(unnamed)
            raise
        self._file, file.content = None, None
        self._unnamed.append(file)

    def name(self) -> None:
        """Give the files that were written their names: their roll is acknowledged."""
        while self._unnamed:
            file = self._unnamed[0]
            # Otherwise a later process of this sink has named it.
            if self._system.get_file_info(file.unnamed).type != pafs.FileType.NotFound:
                self._give_name(file.unnamed, file.named)
            self._synchronise(file.home)
            del self._unnamed[0]
            self.files += 1
            self.bytes += file.size

    def _give_name(self, unnamed: str, named: str) -> None:
        self._system.move(unnamed, named)

    def remove(self, names: Set[str]) -> None:
        """Remove the files of these names."""
        if names:
            infos = self._system.get_file_info(pafs.FileSelector(self._root, recursive=True))
            for each in infos:
                if each.base_name in names and parsed(self._stem, each.base_name):
                    self._system.delete_file(each.path)

    def _make(self, folder: str) -> None:
        """Make a folder and those above it, and note in which ones that are."""
        if isinstance(self._system, pafs.LocalFileSystem):
            place = Path(folder)
            while not place.exists():
                place = place.parent
                self._parents.add(str(place))
        self._system.create_dir(folder, recursive=True)

    def _synchronise_folders(self, home: str) -> None:
        """Synchronise a folder and those above it: an earlier process may have made them and died."""
        inner = home.removeprefix(self._root).count("/")
        above = [str(each) for each in Path(home).parents[:inner]]
        for folder in (home, *above, *self._parents.difference([home, *above])):
            self._synchronise(folder)
        self._parents.clear()

    def _synchronise(self, path: str) -> None:
        synchronise(self._system, path)


@dataclass(slots=True)
class _File:
    """A file of a roll: its folder, its paths before and after, what is in it until that is written, and its size."""

    home: str
    unnamed: str
    named: str
    content: object
    size: int = 0


def opened(target: str) -> tuple[pafs.FileSystem, str]:
    """Return the file system of a target and the path there; of fsspec, if pyarrow does not know the scheme.

    Raises
    ------
    InputError
        If neither knows it.
    """
    try:
        if "://" not in target:
            return pafs.LocalFileSystem(), target.rstrip("/") or "/"
        try:
            system, path = pafs.FileSystem.from_uri(target)
        except pa.ArrowInvalid:
            from fsspec.core import url_to_fs

            other, path = url_to_fs(target)
            system = pafs.PyFileSystem(pafs.FSSpecHandler(other))
    except REFUSED as error:
        said = str(error).replace(target, shown(target))
        raise InputError(f"target {shown(target)!r} cannot be opened: {said}") from None
    return system, path.rstrip("/")


def synchronise(system: pafs.FileSystem, path: str) -> None:
    """Return when a file or a folder would outlast a loss of power; elsewhere than on a local disk it is so anyway."""
    if isinstance(system, pafs.LocalFileSystem):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def attempt(work: Callable[[], object]) -> str:
    """Do work on files; return why it was refused, empty if it was done."""
    try:
        work()
    except REFUSED as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""
