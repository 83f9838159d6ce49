"""The folder of a sink on any file system of pyarrow or fsspec: what is in it, and how a file gets its name.

Rules
-----
* A file is written under another name and then renamed, so a file that has its name is complete. On a local disk it is
  also synchronised before, and its folder and those above it after.
* A file is never replaced: one that has its name, and whose folder could not be synchronised, is only synchronised.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.fs as pafs

from ...protocol.batch import EventBatch
from ...protocol.errors import InputError
from ...protocol.ids import ClientId
from ...protocol.sinks import Format, shown
from .files import Files, files_of
from .rolling import FileName, Sequences, found_in, held_by, sequences_of

REFUSED: Final = (OSError, pa.ArrowException, ValueError, ImportError)
"""What file systems raise; those of pyarrow and fsspec have many classes."""


class SinkFolder:
    """The files of one sink.

    Parameters
    ----------
    target
        The folder: an absolute path or a URL.
    stem, format
        What the names of its files begin with, and the format of new ones.

    Attributes
    ----------
    files, bytes
        What was written.
    """

    def __init__(self, target: str, stem: str, format: Format) -> None:
        self._target, self._stem, self._format = target, stem, format
        self._system, self._root = opened(target)
        self._files: dict[Format, Files] = {format: files_of(format)}
        self._file: _File | None = None
        self._parents: set[str] = set()  # of folders that were made, and that a power loss could take away
        self.files = self.bytes = 0

    @property
    def conflicts(self) -> tuple[tuple[str, int], ...]:
        """How many values went to a column of their own, by column."""
        return tuple(sorted(self._files[self._format].conflicts.items()))

    def find(self) -> tuple[int, dict[int, dict[ClientId, Sequences]]]:
        """Remove unfinished files; return the highest number of a roll, and what recent files hold, by number."""
        self._make(self._root)
        infos = self._system.get_file_info(pafs.FileSelector(self._root, recursive=True))
        found = found_in(self._stem, sorted(each.path for each in infos if each.type == pafs.FileType.File))
        for path in found.unfinished:
            self._system.delete_file(path)
        recent = sorted(found.recent, key=lambda each: each[1].number)  # the layout is that of the last one
        return found.last, held_by((name.number, self._sequences(path, name)) for path, name in recent)

    def _sequences(self, path: str, name: FileName) -> dict[ClientId, Sequences]:
        files = self._files.setdefault(name.format, files_of(name.format))
        with self._system.open_input_file(path) as file:
            return sequences_of(*files.identities(file))

    def write(self, number: int, floor: int, folder: str, batch: EventBatch) -> None:
        """Write a file of a roll; when this returns, it has its name. What was refused can be tried again."""
        name = FileName(self._stem, number, floor, self._format)
        home = f"{self._root}/{folder}" if folder else self._root
        unfinished, finished = f"{home}/{name.unfinished}", f"{home}/{name}"
        files = self._files[self._format]
        if self._file is None or self._file.path != finished:
            self._file = _File(finished, files.made(batch))
        file = self._file
        try:
            if not file.named:
                self._make(home)
                with self._system.open_output_stream(unfinished) as out:
                    files.write(file.content, out)
                    file.size = out.tell()
                self._synchronise(unfinished)
                self._system.move(unfinished, finished)
                file.named = True
            self._synchronise_folders(home)
        except REFUSED:
            if not file.named:
                with suppress(*REFUSED):  # a full disk has room again
                    self._system.delete_file(unfinished)
            raise
        self._file = None
        self.files += 1
        self.bytes += file.size

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
        if isinstance(self._system, pafs.LocalFileSystem):
            handle = os.open(path, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


@dataclass(slots=True)
class _File:
    """A file that is being written: what is in it, and whether it has its name."""

    path: str
    content: object
    size: int = 0
    named: bool = False


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


def attempt(work: Callable[[], object]) -> str:
    """Do work on files; return why it was refused, empty if it was done."""
    try:
        work()
    except REFUSED as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""
