"""Events as a stream of Spark: the files of a sink as a streaming DataFrame, and rows of micro-batches as events.

Rules
-----
* A sink writes the events of a stream to files, in columns that never change. Spark reads each file in one micro-batch,
  and notes it in the checkpoint of the query: so each event counts once in each query, whoever dies.
* A stream has a folder: its files are in ``events``, what it is of is in ``stream.json``, and the checkpoints of its
  queries shall be beside them, one folder each. The sink removes files that all of these queries have read.
* A stream without a folder is for one query of this process. Spark removes the files that it has read.
* Rows are published by a durable publisher. Before a micro-batch its number, and how many events were published before,
  are put on the disk: when Spark repeats the micro-batch, the rows that were published are left out.

Source: docs/decisions/0178-spark-reads-what-is-acknowledged.md.
"""

from __future__ import annotations

import atexit
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from urllib.parse import quote
from uuid import uuid4

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import ray

from ...actors.clients.record_batches import ATTRIBUTE, KIND, Layout
from ...actors.network.lasting_actors import actors_of
from ...actors.network.network import Network
from ...actors.network.sinks import FileSink, mark_of, place_of, subscriber_of
from ...protocol import checks
from ...protocol.batch import batch_of
from ...protocol.errors import InputError
from ...protocol.sinks import COLUMN_KINDS, NAME, Columns
from ...routing.filters.filter import Filter
from ...routing.language.questions import Predicate, to_filter
from ..ray_data.reading import subscribe_once
from ..ray_data.rows import batches_of, beyond
from ..sink.folder import REFUSED, opened, synchronise
from .frames import is_raydp
from .local import open_session, start_local
from .session import on_one_machine
from .tables import spark_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Said: TypeAlias = dict[str, Any]
"""What a file of JSON says."""

FILES: Final = "events"
STREAM: Final = "stream.json"
SAMPLE_SECONDS: Final = 1.0
"""How long after the first event others are looked at for the columns of a stream."""
FILES_MAX: Final = 1_000
"""How many files a micro-batch has at most."""
REMEMBERED: Final = "1d"
"""How long a query remembers a file that it has read: the sink removes it long before, and the list is copied often."""


def spark_stream(
    net: Network,
    selector: Filter | Predicate | str,
    session: SparkSession | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    folder: str | Path | None = None,
    name: str | None = None,
    late_seconds: float = 60.0,
    roll_seconds: float = 1.0,
    wait_seconds: float = 60.0,
) -> DataFrame:
    """Return the events of a selector from now on as a streaming DataFrame of Spark.

    A sink of the network writes them to files, which Spark reads. It goes on when this process ends.

    Parameters
    ----------
    net, selector
        The network, which has to heal, and which events.
    session
        Your Spark session, on Ray (`spark_session`) or elsewhere. The default is the one that is open in this process,
        or else a new one on this machine, which you must stop.
    columns
        The columns of attributes: their kind by their name, one of ``"boolean"``, ``"integer"``, ``"float"``,
        ``"string"``, ``"timestamp"``. What fits into none is in the column `_more`, as JSON. None for those of the
        first events, for which this call then waits.
    folder
        A folder that every node sees, for the files. The checkpoint of a query belongs into a folder in it
        (``.option("checkpointLocation", f"{folder}/counts")``): then the query goes on after a restart, each event
        counts once, and files are removed when all queries have read them. None for a stream of one query, on one
        machine, that ends with this process.
    name
        The name of the sink; ``"spark"`` if there is a folder.
    late_seconds
        The watermark: how much later than others an event may arrive, by its time of publication.
    roll_seconds
        How long events wait for their file.
    wait_seconds
        How long to wait for the first event, without `columns`.

    Returns
    -------
    pyspark.sql.DataFrame
        With the columns `_publisher`, `_sequence`, `_published_at` (which has the watermark), those of attributes,
        `_form` and `_more` (see docs/data.md).

    Raises
    ------
    InputError
        If an argument is wrong, the folder belongs to another stream (of another network, or with another selector or
        other columns), cannot be used, or no event comes that would tell the columns.
    SparkUnavailable
        If the session is stopped, or none could be started.
    """
    checks.instance("net", net, Network, "a Network")
    late = checks.seconds("late_seconds", late_seconds)
    patience = checks.seconds("wait_seconds", wait_seconds)
    wanted = to_filter(selector)
    given = None if columns is None else _checked(columns)
    lasts = folder is not None
    chosen = name or ("spark" if lasts else f"spark-{uuid4().hex[:8]}")
    if not NAME.fullmatch(checks.text("name", chosen)):
        raise checks.wrong("name", chosen, "at most 64 letters, digits, dots, hyphens and underscores")
    spark = open_session(session) or start_local()
    place = _Notes(place_of(folder) if folder is not None else _folder_of_one_query(spark))
    said: Said = {
        "network": f"{net.name} ({mark_of(net.inspect.directory)})",
        "selector": str(wanted),
        "name": chosen,
        "columns": None if given is None else [list(each) for each in given],
    }
    known = place.known(said)
    if known is None:
        known = (
            said if given is not None else said | {"columns": _first_columns(net, chosen, wanted, patience)}
        )
        place.write(STREAM, known)
    fixed = tuple((attribute, kind) for attribute, kind in known["columns"])
    sink = net.sink(
        f"{place.folder}/{FILES}", str(wanted), name=chosen, partition="none", roll_seconds=roll_seconds,
        columns=dict(fixed), checkpoints=place.folder if lasts else None,
    )  # fmt: skip
    if not lasts:
        atexit.register(_end, sink, place.folder)
    return _reading(spark, f"{place.folder}/{FILES}", fixed, late, remove=not lasts)


def spark_sink(net: Network, name: str, folder: str | Path) -> Callable[[DataFrame, int], None]:
    """Return what publishes the rows of each micro-batch: ``rows.writeStream.foreachBatch(rv.spark_sink(...))``.

    Each row is published once, also if Spark repeats a micro-batch after a restart, if it then has the same rows. A row
    is an event whose attributes are its columns.

    Parameters
    ----------
    net
        The network, which has to heal.
    name
        The name of the durable publisher. It is for one query.
    folder
        A folder for ``name.json``: which micro-batch was published last.

    Raises
    ------
    InputError
        If an argument is wrong, the network does not heal, or the folder cannot be used or is of another network. Also
        raised in the query: for a micro-batch that comes after later ones, from another checkpoint.
    """
    checks.instance("net", net, Network, "a Network")
    checks.text("name", name)
    return _Publishing(net, name, _Notes(place_of(folder)))


class _Publishing:
    """Publishes the rows of micro-batches."""

    def __init__(self, net: Network, name: str, notes: _Notes) -> None:
        self._notes, self._file = notes, f"{quote(name, safe='')}.json"
        if self._file == STREAM:
            raise checks.wrong(
                "name", name, f"another name, since {STREAM} says what the folder's stream is of"
            )
        self._publisher = net.publisher(name, durable=True)
        self._network = mark_of(net.inspect.directory)
        notes.write(self._file, self._last())  # a folder that cannot be used is found out now

    def _last(self) -> Said:
        last = self._notes.read(self._file) or {"network": self._network, "batch": -1, "before": 0}
        if last["network"] != self._network:
            raise InputError(
                f"{self._notes.folder}/{self._file} is of another network: give another folder, or remove it"
            )
        return last

    def __call__(self, rows: DataFrame, batch: int) -> None:
        """Publish the rows of a micro-batch that were not published before."""
        last = self._last()
        if batch < last["batch"]:
            raise InputError(
                f"micro-batch {batch} comes after {last['batch']}: the query has another checkpoint than before. "
                f"Give rv.spark_sink another name, or remove {self._notes.folder}/{self._file}"
            )
        if batch > last["batch"]:
            last |= {"batch": batch, "before": self._publisher.published}
            self._notes.write(self._file, last)
        for part in beyond(self._publisher.published - last["before"], batches_of(_in_order(rows))):
            self._publisher.publish_batch(part)
        self._publisher.flush()


def _in_order(rows: DataFrame) -> pa.Table:
    """Return rows in an order that follows from them alone: Spark has another one each time."""
    batches = rows._collect_as_arrow()
    if not batches:
        return pa.table({})
    table = pa.Table.from_batches(batches)
    while any(pa.types.is_struct(field.type) for field in table.schema):
        table = table.flatten()  # to dotted names, which is how events have objects
    keys = [field.name for field in table.schema if not pa.types.is_nested(field.type)]
    return table.sort_by([(key, "ascending") for key in keys]) if keys else table


class _Notes:
    """The small files of a folder, each replaced as a whole."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._system, self._root = opened(folder)

    def read(self, name: str) -> Said | None:
        """Return what a file says, or None if there is none."""
        path = f"{self._root}/{name}"
        try:
            if self._system.get_file_info(path).type != pafs.FileType.File:
                return None
            with self._system.open_input_stream(path) as file:
                return dict(json.loads(file.read()))
        except REFUSED as error:
            raise InputError(f"folder {self.folder!r}: {name} cannot be read: {error}") from None

    def write(self, name: str, said: Mapping[str, object]) -> None:
        """Write a file."""
        path = f"{self._root}/{name}"
        try:
            self._system.create_dir(self._root, recursive=True)
            with self._system.open_output_stream(f"{path}.writing") as out:
                out.write(json.dumps(said).encode())
            synchronise(self._system, f"{path}.writing")
            self._system.move(f"{path}.writing", path)
            synchronise(self._system, self._root)
        except REFUSED as error:
            raise InputError(f"folder {self.folder!r} cannot be used: {error}") from None

    def known(self, said: Mapping[str, object]) -> Said | None:
        """Return what the stream of this folder is of; None if there is none so far.

        Raises
        ------
        InputError
            If it is of something else, or the folder is the checkpoint of a query.
        """
        known = self.read(STREAM)
        if known is None:
            if self._system.get_file_info(f"{self._root}/offsets").type != pafs.FileType.NotFound:
                raise InputError(
                    f"folder {self.folder!r} is the checkpoint of a query: give the folder that it is in"
                )
            return None
        for field, value in said.items():
            if value is not None and value != known[field]:
                raise InputError(
                    f"folder {self.folder!r} has a stream with the {field} {known[field]!r}, not {value!r}: its files "
                    "and checkpoints belong together. Give another folder, or end the sink "
                    f"{known['name']!r} and remove this one"
                )
        return known


def _checked(columns: Mapping[str, str]) -> Columns:
    checks.instance("columns", columns, Mapping, "a mapping of names to kinds")
    for attribute, kind in columns.items():
        checks.one_of(f"columns[{attribute!r}]", kind, COLUMN_KINDS)
    if len({attribute.lower() for attribute in columns}) < len(columns):
        raise checks.wrong("columns", dict(columns), "names that differ by more than their case, for Spark")
    return tuple(columns.items())


def _first_columns(net: Network, name: str, wanted: Filter, seconds: float) -> list[list[str]]:
    """Return the columns of the first events of a sink, which gets them again."""
    if any(each.rpartition(":")[2] == name for each in actors_of(net.name, "sink")):
        raise InputError(
            f"network {net.name!r} has a sink {name!r} already: end it first, or choose another name"
        )
    subscriber = net.subscriber(subscriber_of(name), durable=True)
    layout, deadline = Layout("us"), time.monotonic() + seconds
    schema: pa.Schema | None = None
    with closing(subscriber):
        subscribe_once(subscriber, wanted)
        while (arrival := next(subscriber.arrivals(max(0.0, deadline - time.monotonic())), None)) is not None:
            if schema is None:
                deadline = time.monotonic() + SAMPLE_SECONDS
            schema = layout.record_batch(arrival.batch.take(arrival.rows)).schema
    if schema is None:
        raise InputError(
            f"no event came within {seconds:g} s that would tell the columns: give them, for example "
            'columns={"origin": "string", "dep_delay": "float"}'
        )
    return [*_columns_in(schema)]


def _columns_in(schema: pa.Schema) -> Iterator[list[str]]:
    """Yield attribute and kind of the first column of each attribute; of two that differ in case, of the first."""
    seen = set[str]()
    for field in schema:
        said = field.metadata or {}
        if ATTRIBUTE in said and (attribute := said[ATTRIBUTE].decode()).lower() not in seen:
            seen.add(attribute.lower())
            yield [attribute, said[KIND].decode().lower()]


def _reading(spark: SparkSession, files: str, columns: Columns, late: float, *, remove: bool) -> DataFrame:
    from pyspark.sql.pandas.types import from_arrow_schema

    nothing = batch_of([{"x": 1}]).take(np.arange(0))
    schema = from_arrow_schema(Layout.fixed(columns, "us").record_batch(nothing).schema)
    reader = spark.readStream.schema(schema).option("maxFilesPerTrigger", FILES_MAX)
    reader = reader.option("maxFileAge", REMEMBERED).option("cleanSource", "delete" if remove else "off")
    rows = reader.parquet(files if "://" in files else spark_path(Path(files)))
    return rows.withWatermark("_published_at", f"{late:f} seconds")


def _folder_of_one_query(spark: SparkSession) -> str:
    if not on_one_machine() or not (is_raydp(spark) or spark.sparkContext.master.startswith("local")):
        raise InputError("folder: Ray or Spark has several nodes, give one that each of them sees")
    return tempfile.mkdtemp(prefix="rayvous-stream-")


def _end(sink: FileSink, folder: str) -> None:
    if ray.is_initialized():  # otherwise the call would start a Ray of its own
        with suppress(Exception):  # the network may have ended before this process
            sink.end()
    shutil.rmtree(folder, ignore_errors=True)
