"""Follow a telemetry folder with Spark Structured Streaming while a run is in progress.

Rules
-----
* One query reads the files of all tables as they appear, sums each micro-batch by table and window of event
  time, and passes the sums to :class:`~rayvous.pipelines.figures.live.Live`. One query has one checkpoint, so
  all tables are at the same point after a restart.
* The state is written into the checkpoint before Spark commits the micro-batch. After a restart Spark repeats
  the last micro-batch if it was not committed, with the same files; the state knows its number. So each file
  counts once.
* The watermark is `Live`'s, not ``withWatermark``: Spark drops late rows and counts groups of them, not rows;
  here every late row is counted.
* The files are never deleted, and no Ray is needed.
"""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

from ...actors.telemetry.files import PartKey, check_run, part_folder, parts
from ...actors.telemetry.reading import check_part, naming_damage
from ...protocol.errors import InputError, RayvousError, UnreadableFile
from ...protocol.telemetry.tables import TABLES
from ..spark.tables import spark_path, spark_schema
from .live import BUCKET_FLOOR_SECONDS, BUCKET_RATIO, BUCKETS_MAX, GREATEST, LEAST, SUMS, Following, Live

CHECKPOINT: Final = "checkpoint"
STATE_FILE: Final = "state.json"
FIGURES_FILE: Final = "live.json"
EVERY_SECONDS: Final = 2.0
_POLL_SECONDS: Final = 0.2


def follow(
    spark: SparkSession,
    folder: str | Path,
    out_dir: str | Path,
    following: Following,
    *,
    show: Callable[[dict[str, Any]], None] = lambda _: None,
    stop: threading.Event | None = None,
    every_seconds: float = EVERY_SECONDS,
    only_what_is_there: bool = False,
) -> dict[str, object]:
    """Follow a run in a telemetry folder until told to stop; return the final figures.

    Parameters
    ----------
    spark
        Any Spark session.
    folder
        The telemetry folder.
    out_dir
        Receives ``live.json``, rewritten with each micro-batch, and the checkpoint, from which the next call
        with the same folder resumes.
    following
        The run and the settings.
    show
        Called with the figures at the start and after each micro-batch.
    stop
        Ends the call when set.
    every_seconds
        The interval between two searches for new files.
    only_what_is_there
        Whether to end when the existing files have been read.

    Raises
    ------
    InputError
        A folder cannot be used, the checkpoint belongs to another run or to other settings, or a part has
        another schema version.
    """
    sink = _Sink(Path(out_dir), following, show, Path(folder))
    rows = stream_of(spark, Path(folder), following)
    writer = rows.writeStream.foreachBatch(sink.take).option(
        "checkpointLocation", spark_path(sink.checkpoint)
    )
    seconds = f"{every_seconds:g} seconds"
    writer = (
        writer.trigger(availableNow=True) if only_what_is_there else writer.trigger(processingTime=seconds)
    )
    show(sink.live.figures())
    query = writer.start()
    try:
        while not query.awaitTermination(_POLL_SECONDS):
            if stop is not None and stop.is_set():
                break
    except Exception as error:
        _raise_cause(sink, error)
    finally:
        sink.close()
        query.stop()
    return sink.live.figures()


def _raise_cause(sink: _Sink, error: Exception) -> None:
    """Raise the error of the sink, which Spark passes on only as text, or that of a damaged part, or Spark's."""
    if sink.error is not None:
        raise sink.error
    with naming_damage({name: list(found.values()) for name, found in sink.parts().items()}):
        raise error


class _Sink:
    """Applies micro-batches to the state, and writes state and figures."""

    def __init__(
        self, out: Path, following: Following, show: Callable[[dict[str, Any]], None], folder: Path
    ) -> None:
        self._folder = folder
        self._run = following.run
        self._checked: set[Path] = set()
        self.checkpoint = (out / CHECKPOINT / following.run).absolute()
        self.error: RayvousError | None = None
        self._figures = out / FIGURES_FILE
        self._state = self.checkpoint / STATE_FILE
        self._show = show
        self._turn = threading.Lock()
        self._closed = False
        try:
            self.checkpoint.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"the folder {out} for the figures cannot be made: {error}") from None
        self.live = Live(following)
        if self._state.is_file():
            try:
                plain = json.loads(self._state.read_text(encoding="utf-8"))
                self.live = Live.from_plain(plain, following)
            except InputError:
                raise
            except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                raise UnreadableFile(
                    self._state, f"cannot be read: {error!r}; follow into another folder"
                ) from None

    def take(self, rows: DataFrame, batch: int) -> None:
        """Apply one micro-batch; Spark commits it when this returns."""
        try:
            self._check_parts()
            partials = [row.asDict() for row in partial_sums(rows).collect()]
            with self._turn:
                if self._closed:
                    raise InputError("this follower has ended; the next one takes the micro-batch again")
                if self.live.apply(batch, partials):
                    self._put_down()
        except RayvousError as error:
            self.error = error
            raise

    def parts(self) -> dict[str, dict[PartKey, Path]]:
        """Return the parts that are in the folder now, by table."""
        return {name: parts(self._folder, name, self._run) for name in TABLES}

    def _check_parts(self) -> None:
        """Check the columns of new parts: Spark reads a column that misses as nulls, without a word."""
        for name, found in self.parts().items():
            for path in found.values():
                if path not in self._checked:
                    check_part(path, name)
                    self._checked.add(path)

    def _put_down(self) -> None:
        figures = self.live.figures()
        for path, plain in ((self._state, self.live.to_plain()), (self._figures, figures)):
            hidden = path.with_name(f".{path.name}.writing")
            hidden.write_text(json.dumps(plain, allow_nan=False), encoding="utf-8")
            hidden.replace(path)
        self._show(figures)

    def close(self) -> None:
        """Accept no more micro-batches: one in flight when its query is stopped is left to the next follower."""
        with self._turn:
            self._closed = True


# From files to partial sums.


def stream_of(spark: SparkSession, folder: Path, following: Following) -> DataFrame:
    """Return the rows of all tables of a run as one stream of values to sum, as files appear.

    Raises
    ------
    InputError
        The folder cannot be read, or a part has another schema version.
    """
    check_run(folder, following.run)
    streams = []
    for name in TABLES:
        place = part_folder(folder.absolute(), name, following.run)
        with suppress(OSError):  # a read-only folder has them already, or Spark reports the missing one
            place.mkdir(parents=True, exist_ok=True)
        rows = (
            spark.readStream.option("parquet.page.verify-checksum.enabled", "true")
            .schema(spark_schema(name))
            .parquet(spark_path(place))
        )
        streams.append(measured(rows, name, following.window_seconds))
    union = streams[0]
    for stream in streams[1:]:
        union = union.unionByName(stream)
    return union


def measured(rows: DataFrame, name: str, window_seconds: float) -> DataFrame:
    """Return the rows of one table with their window and their contributions to the sums, in common columns."""
    time = F.col("time_seconds")
    nothing: dict[str, Column] = {
        **dict.fromkeys(SUMS, F.lit(0).cast("bigint")),
        **dict.fromkeys((*LEAST, *GREATEST), F.lit(None).cast("double")),
        "table": F.lit(name),
        "kind": F.lit(""),
        "window": F.floor(time / window_seconds) * F.lit(float(window_seconds)),
        "bucket": F.lit(0),
        "rows": F.lit(1).cast("bigint"),
        "delay_seconds": F.lit(0.0),
        "newest_seconds": time,
    }
    own = {**nothing, **_OWN[name](time)}
    return rows.select(*(column.alias(key) for key, column in own.items()))


def _transfers(time: Column) -> dict[str, Column]:
    events, messages = F.col("events"), F.col("messages")
    carries = F.when(events > 0, time)
    return {
        "kind": F.col("link_kind"),
        "events": events,
        "batches": F.when(events > 0, messages).otherwise(0),
        "control_messages": F.when(events == 0, messages).otherwise(0),
        "nbytes": F.col("nbytes"),
        "first_seconds": carries,
        "last_seconds": carries,
    }


def _deliveries(time: Column) -> dict[str, Column]:
    count, delay = F.col("notifications"), F.col("latency_sum_seconds")
    return {
        "events": count,
        "delay_seconds": delay,
        "last_seconds": F.when(count > 0, time),
        "first_published_seconds": F.when(count > 0, time - delay / count),
    }


def _notified(time: Column) -> dict[str, Column]:
    delay = time - F.col("published_at")
    # A clock that is behind the publisher's gives a negative latency; it counts as the shortest latency.
    steps = F.ceil(F.log(F.greatest(delay, F.lit(BUCKET_FLOOR_SECONDS)) / BUCKET_FLOOR_SECONDS) / _STEP)
    return {
        "events": F.lit(1).cast("bigint"),
        "delay_seconds": delay,
        "last_seconds": time,
        "first_published_seconds": F.col("published_at"),
        "bucket": F.least(steps, F.lit(BUCKETS_MAX)).cast("int"),
    }


def _published(_: Column) -> dict[str, Column]:
    return {"events": F.lit(1).cast("bigint")}


def _lost(_: Column) -> dict[str, Column]:
    return {
        "kind": F.concat_ws("/", "table", "reason"),
        "events": F.col("rows"),
        "rows": F.lit(1).cast("bigint"),
    }


def _multicasts(_: Column) -> dict[str, Column]:
    return {}


_STEP: Final = math.log(BUCKET_RATIO)
_OWN: Final[dict[str, Callable[[Column], dict[str, Column]]]] = {
    "transfers": _transfers,
    "deliveries": _deliveries,
    "multicasts": _multicasts,
    "published": _published,
    "notified": _notified,
    "lost": _lost,
}


def partial_sums(rows: DataFrame) -> DataFrame:
    """Return the sums of a micro-batch by table, kind, window and latency bucket: a few rows, whatever its size."""
    return rows.groupBy("table", "kind", "window", "bucket").agg(
        *(F.sum(name).alias(name) for name in SUMS),
        *(F.min(name).alias(name) for name in LEAST),
        *(F.max(name).alias(name) for name in GREATEST),
    )
