"""Telemetry in a folder: where each table of each run is stored, how a part is written, and how it is read.

Rules
-----
* The layout is that of Hive partitions, which Spark, pandas and DuckDB read directly::

      DIR/<table>/run=<run>/part-<incarnation>-<number>.parquet
      DIR/_runs/<run>.json       the network of the run, for pictures; readers of Parquet skip the underscore

* A part appears whole or not at all: it is written under a hidden name in the same folder, and renamed.
* A part is never changed. Its name says when its writer was started and which of its parts it is. Sorted names are in
  the order of writing, and writing the same part again puts it in the same place.
* Nothing here deletes a file, except its own temporary file when writing fails.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ...protocol import checks
from ...protocol.configs import Position
from ...protocol.errors import InputError, UnreadableFile
from ...protocol.telemetry.tables import SCHEMA_VERSION, SCHEMAS, TABLES
from .reading import check_parts

if TYPE_CHECKING:
    import networkx as nx

_PART: Final = re.compile(r"part-(\d+)-(\d+)\.parquet")


class PartKey(NamedTuple):
    """The key of a part: the start of its writer (nanoseconds since 1970), and its number among that writer's parts."""

    incarnation: int
    number: int

    @property
    def file_name(self) -> str:
        """The name of its file; names sort as keys do."""
        return f"part-{self.incarnation:020d}-{self.number:010d}.parquet"


def run_name(network: str, token: str) -> str:
    """Return the name of a run: the network's name, in characters valid on every file system, and a unique suffix."""
    return f"{re.sub('[^A-Za-z0-9_.-]', '-', network)}-{token[:8]}"


def part_folder(folder: Path, table: str, run: str) -> Path:
    """Return the folder of the parts of one table of one run."""
    return folder / table / f"run={run}"


def prepare_folder(folder: str | Path) -> Path:
    """Create a folder for telemetry if it does not exist, and return its absolute path.

    Raises
    ------
    InputError
        If the path is a file or lies under one, or cannot be written.
    """
    path = Path(folder).absolute()
    try:
        for table in TABLES:
            (path / table).mkdir(parents=True, exist_ok=True)
        probe = path / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InputError(f"telemetry folder {path} cannot be used: {error}; give a writable folder") from None
    return path


def write_part(folder: Path, name: str, run: str, key: PartKey, table: pa.Table, **metadata: str) -> Path:
    """Write one part of a table, whole or not at all.

    Parameters
    ----------
    folder, name, run, key
        Where it goes: the telemetry folder, the table's name, the run, the part.
    table
        Its rows, with the schema of `arrow_schema`.
    metadata
        Additional metadata of the file, under ``rayvous.<key>``.

    Raises
    ------
    OSError
        If it cannot be written; then no file is left.
    """
    more = {f"rayvous.{key}": value for key, value in metadata.items()}
    place = part_folder(folder, name, run) / key.file_name
    hidden = place.with_name(f".{place.name}.writing")
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        pq.write_table(
            table.replace_schema_metadata({**(table.schema.metadata or {}), **more}),
            hidden,
            write_page_checksum=True,
        )
        hidden.replace(place)
    except BaseException:
        with suppress(OSError):
            hidden.unlink(missing_ok=True)
        raise
    return place


def parts(folder: Path, name: str, run: str) -> dict[PartKey, Path]:
    """Return the parts of one table of one run, in the order of writing; other files are ignored."""
    found = {}
    place = part_folder(folder, name, run)
    for path in sorted(place.iterdir()) if place.is_dir() else ():
        match = _PART.fullmatch(path.name)
        if match:
            found[PartKey(int(match[1]), int(match[2]))] = path
    return found


def runs(folder: str | Path) -> list[str]:
    """Return the runs that have a part in a folder, ordered by start."""
    begun: dict[str, int] = {}
    for name in SCHEMAS:
        for place in Path(folder).glob(f"{name}/run=*"):
            run = place.name.removeprefix("run=")
            for key in parts(Path(folder), name, run):
                begun[run] = min(begun.get(run, key.incarnation), key.incarnation)
                break
    return sorted(begun, key=lambda run: (begun[run], run))


def check_is_folder(folder: str | Path) -> None:
    """Raise InputError if there is no such folder."""
    try:
        found = Path(folder).is_dir()
    except OSError:  # a name that no file system accepts
        found = False
    if not found:
        raise InputError(f"{checks.shown(str(folder))}: there is no such folder")


def choose_run(folder: str | Path, run: str | None = None) -> str:
    """Return the named run, or else the run in the folder that was started last.

    Raises
    ------
    InputError
        If the folder does not exist, or has no telemetry, or none of that run.
    """
    check_is_folder(folder)
    known = runs(folder)
    if not known:
        inside = Path(folder) / "tables"  # where a report has its telemetry
        hint = f"; that of the report is in {inside}" if runs(inside) else ""
        raise InputError(f"{folder} has no telemetry: it needs <table>/run=<run>/part-*.parquet{hint}")
    if run is not None and run not in known:
        raise InputError(f"{folder} has no run {run!r}; there is {', '.join(known)}")
    return run or known[-1]


def check_run(folder: Path, run: str) -> None:
    """Check version and columns of every part of a run.

    Raises
    ------
    UnreadableFile
        If a part is damaged, or was written with another version of the schema.
    """
    for name in TABLES:
        check_parts(parts(folder, name, run).values(), name)


# The network of a run.


def network_of(positions: Sequence[Position], scheme: str) -> dict[str, Any]:
    """Return the brokers and links of a network as plain data."""
    edges = []
    for place in positions:
        if place.role != "NEB":
            edges += [[place.broker, child, "tree"] for child in place.children]
            edges += [[place.broker, member, "group"] for member in place.members if member != place.broker]
    brokers = [
        {"broker": place.broker, "label": place.label, "role": place.role, "cluster": place.cluster}
        for place in positions
    ]
    return {"schema_version": SCHEMA_VERSION, "scheme": scheme, "brokers": brokers, "links": edges}


def write_network(folder: Path, run: str, network: Mapping[str, Any]) -> None:
    """Write the network of a run beside its tables."""
    place = folder / "_runs" / f"{run}.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    hidden = place.with_name(f".{place.name}.writing")
    hidden.write_text(json.dumps(network), encoding="utf-8")
    hidden.replace(place)


def read_network(folder: str | Path, run: str) -> dict[str, Any]:
    """Return what `write_network` wrote, or an empty dict if it wrote nothing.

    Raises
    ------
    UnreadableFile
        If the file is not what it wrote.
    """
    place = Path(folder) / "_runs" / f"{run}.json"
    if not place.is_file():
        return {}
    try:
        network: dict[str, Any] = json.loads(place.read_text(encoding="utf-8"))
        graph_of(network)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UnreadableFile(place, f"does not describe a network: {error!r}; remove it to go on") from None
    return network


def graph_of(network: Mapping[str, Any]) -> nx.Graph:
    """Return a network as a graph, as it was launched.

    Nodes are broker ids with `label`, `role` and `cluster`; edges have `kind`.
    """
    import networkx as nx  # takes a sixth of a second to import; every host would pay that

    graph = nx.Graph()
    for broker in network.get("brokers", ()):
        graph.add_node(broker["broker"], **{key: broker[key] for key in ("label", "role", "cluster")})
    for one, other, kind in network.get("links", ()):
        graph.add_edge(one, other, kind=kind)
    return graph
