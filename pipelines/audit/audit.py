"""The conditions of `faults.checker.conditions` as Spark jobs over a trace in Parquet, of millions of rows.

Rules
-----
* The result equals that of :func:`rayvous.faults.checker.reliability.judge` for the same trace, count by
  count.
* Filters are evaluated by brute force, without any index: each executor evaluates the reference interpreter
  of predicates for every (event, distinct selector) pair, so three-valued logic is exactly that of the
  reference. All else is joins, groups and windows.
* An event is identified by the position of its publication. Subscriptions, notices, advertisements and quiet
  moments are few compared with events and notifications: the driver reads them and broadcasts them.
* Claims of loss are few, too. Only claims about events that were due and did not arrive are examined: by the
  driver, in the record of retained events, as the judge does (:mod:`rayvous.faults.checker.ledger`).
* A few violations of each condition are explained: the relevant part of the trace is read again.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from ...faults.checker.conditions import RULES
from ...faults.checker.ledger import Ledger, Moment
from ...faults.checker.numbers import number_error
from ...faults.checker.predicates import test_of
from ...faults.checker.reliability import explain_violation
from ...faults.checker.verdict import EXAMPLES_MAX, Finding, Verdict, Violation
from ...protocol.errors import InputError
from ...protocol.extras import extra
from ...protocol.ids import EventId
from ...protocol.traces.trace import Life, Trace, placed_lives
from ..spark.frames import checked
from .trace_files import (
    WINDOWS,
    check_folder,
    check_rows,
    check_values,
    decode_event,
    load_trace,
    operations_from,
    read_table,
)

with extra("spark"):
    from pyspark.sql import Window
    from pyspark.sql import functions as F  # noqa: N812 - the name everybody gives it

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

NEVER: Final = 2**62
"""A position after all others."""

PARTITIONS_MAX: Final = 64
ROWS_A_PARTITION: Final = 50_000

_TERM = "struct<begin: long, end: long, publishers: array<string>, others: boolean>"
_LIFE = (
    "client string, number long, filter int, registered long, cancelled long, over long, "
    f"terms array<{_TERM}>"
)
_MATCH = "event_at long, settled long, filter int"


def audit(
    spark: SparkSession, folder: str | Path, progress: Callable[[int, int], None] | None = None
) -> Verdict:
    """Return the verdict of the built-in conditions on a trace.

    Parameters
    ----------
    spark
        A session of :func:`~rayvous.pipelines.spark.session.spark_session`.
    folder
        A folder written by :func:`~rayvous.pipelines.audit.trace_files.save_trace`. With several machines,
        all of them must be able to read it.
    progress
        Called with (jobs done, all jobs).

    Raises
    ------
    InputError
        The folder is not a trace, or the numbers of a publisher do not rise in it.
    UnreadableFile
        A file of it is damaged.
    """
    rows = check_folder(folder)
    check_values(Path(folder))
    return _Audit(spark, Path(folder).resolve(), rows).run(progress)


@dataclass(frozen=True, slots=True)
class _Broken:
    """A violation: its client, event and position, and the sequence number of another event involved in it, if any."""

    client: str
    event: EventId
    position: int
    other: int | None = None


class _Audit:
    def __init__(self, spark: SparkSession, folder: Path, rows: dict[str, int]) -> None:
        self.spark = spark
        self.folder = folder
        self.verdict = Verdict(events_published=rows["published"], notifications_delivered=rows["notified"])
        rows_most = max(rows["published"], rows["notified"])
        self.partitions = min(PARTITIONS_MAX, 1 + rows_most // ROWS_A_PARTITION)
        marks = read_table(folder, "marks")
        self.rows = {name: read_table(folder, name) for name in (*WINDOWS, "terms")}
        check_rows(folder, {"marks": marks, **self.rows})
        self.quiet = sorted(row["position"] for row in marks if row["kind"] == "quiet")
        self.seconds = {row["position"]: row["time_seconds"] for row in marks}
        self.lost = [row for row in marks if row["kind"] == "lost"]
        few = operations_from(self.rows)
        self.lives = {name: placed_lives(few, begins) for name, begins in WINDOWS.items()}
        selectors = [life.selector for lives in self.lives.values() for life in lives]
        self.filters = {selector: code for code, selector in enumerate(dict.fromkeys(selectors))}
        self.wanted: dict[str, list[int]] = {}
        self.held: list[DataFrame] = []

    def run(self, progress: Callable[[int, int], None] | None) -> Verdict:
        self.verdict.findings = {name: Finding() for name in RULES}
        try:
            for done, job in enumerate(self._jobs(), 1):
                job()
                if progress is not None:
                    progress(done, len(self._jobs()))
        except InputError:
            raise
        except Exception:
            load_trace(
                self.folder
            )  # raises what is wrong with a row, if that is the reason; Spark tells no row
            raise
        finally:
            for frame in self.held:
                frame.unpersist()
        return self.verdict

    def _jobs(self) -> tuple[Callable[[], None], ...]:
        return self._load, self._each, self._reasons, self._complete, self._noticed, self._advertised

    # Tables.

    def _load(self) -> None:
        events = self._hold(
            self._read("published").select(
                F.col("position").alias("event_at"),
                F.col("time_seconds").alias("event_seconds"),
                "publisher",
                "sequence",
                "event",
            )
        )
        self._check_numbers(events)
        self.events = events.drop("event")
        self.matches = self._hold(
            events.select("event_at", "event")
            .repartition(self.partitions)
            .mapInArrow(_matcher(list(self.filters), self.quiet), _MATCH)
        )
        self.subscribed = self._lives("subscriptions")
        self.given = self._lives("notices")
        self.offers = self._lives("advertisements")
        pairs = self.matches.join(F.broadcast(self.subscribed), "filter")
        self.pairs = self._hold(pairs.drop("filter", "number"))
        again = Window.partitionBy("client", "publisher", "sequence").orderBy("position")
        self.notes = self._hold(
            self._read("notified")
            .select("position", "client", "publisher", "sequence", "time_seconds")
            .join(self.events, ["publisher", "sequence"], "left")
            .repartition(self.partitions, "client")
            .withColumn("nth", F.row_number().over(again))
            .withColumn("later", F.lead("position").over(again))
        )
        self.last = self._hold(
            self.notes.where("event_at is not null")
            .groupBy("client", "event_at")
            .agg(F.max("position").alias("last"))
        )

    def _check_numbers(self, events: DataFrame) -> None:
        """Refuse a trace in which a publisher's numbers do not rise, as :func:`.check_trace` does."""
        in_order = Window.partitionBy("publisher").orderBy("event_at")
        numbered = events.select("event_at", "publisher", "sequence").withColumn(
            "before", F.lag("sequence").over(in_order)
        )
        fallen = numbered.where("sequence <= before").orderBy("event_at").limit(1).collect()
        for position, publisher, sequence, before in fallen:
            raise InputError(number_error(position, publisher, sequence, before, str(self.folder)))

    def _hold(self, frame: DataFrame) -> DataFrame:
        self.held.append(frame.persist())
        return frame

    def _read(self, name: str) -> DataFrame:
        # Not `as_uri`: Spark takes a path literally, and would look for %20 where a folder has a space.
        return checked(self.spark.read).parquet(f"file://{self.folder / name}.parquet")

    def _lives(self, name: str) -> DataFrame:
        def row(life: Life) -> tuple[Any, ...]:
            ended = NEVER if life.cancelled is None else life.cancelled
            return (
                life.client, life.number, self.filters[life.selector], life.registered, ended,
                _after(self.quiet, ended), _terms(life),
            )  # fmt: skip

        return self.spark.createDataFrame([row(life) for life in self.lives[name]], _LIFE)

    # Notifications.

    def _each(self) -> None:
        """Check the rules `once` and `published`."""
        known = F.coalesce(F.col("event_at") < F.col("position"), F.lit(False))
        self._count(
            self.notes,
            once=F.when(F.col("later").isNull(), 2).otherwise(0),
            published=F.when(known, 2).otherwise(0),
        )

    def _reasons(self) -> None:
        """Check the rules `wanted`, `fresh` and `ordered`."""
        at, event_at, registered = F.col("position"), F.col("event_at"), F.col("registered")
        active = (registered < at) & (at < F.col("cancelled"))
        going = (F.col("cancelled") < at) & (at < F.col("over"))
        new = F.when(registered < event_at, 2).when(F.col("settled") < registered, 0).otherwise(1)
        judged = (
            self.notes.where(event_at < at)
            .join(self.pairs, ["client", "event_at"], "left")
            .groupBy("position", "client", "publisher", "sequence", "nth")
            .agg(
                F.coalesce(F.max(F.when(active, 2).when(going, 1)), F.lit(0)).alias("wanted"),
                F.max(F.when(active | going, new)).alias("fresh"),
            )
        )
        before = (
            Window.partitionBy("client", "publisher")
            .orderBy("position")
            .rowsBetween(Window.unboundedPreceding, -1)
        )
        good = F.col("wanted") > 0
        highest = F.max(F.when(good, F.col("sequence"))).over(before)
        overtaken = F.coalesce(F.col("other") > F.col("sequence"), F.lit(False))
        self._count(
            self._hold(judged.withColumn("other", highest)),
            wanted=F.col("wanted"),
            fresh=F.col("fresh"),
            ordered=F.when(good & (F.col("nth") == 1), F.when(overtaken, 0).otherwise(2)),
        )

    # Events that were due.

    def _complete(self) -> None:
        event_at, publisher = F.col("event_at"), F.col("publisher")

        def in_force(term: Column) -> Column:
            for_it = F.array_contains(term.publishers, publisher) != term.others
            return for_it & (term.begin < event_at) & (F.col("settled") < term.end)

        asked = (
            self.pairs.where((F.col("registered") < event_at) & (event_at < F.col("cancelled")))
            .join(self.events, "event_at")
            .groupBy("client", *self.events.columns)
            .agg(F.max(F.exists("terms", in_force)).alias("due"))
        )
        asked = asked.join(self.last, ["client", "event_at"], "left")
        came = F.coalesce(F.col("last") > event_at, F.lit(False))
        named = asked.withColumn("came", came).withColumn("position", event_at)
        named = self._with_limits(self._hold(named))
        lost = F.coalesce(F.col("limit") != "", F.lit(False))
        missing = F.col("due") & ~F.col("came")
        kept = F.when(F.col("came") | lost, 2).when(F.col("due"), 0).otherwise(1)
        counted = self._count(
            named,
            F.count(F.when(missing & (F.col("limit") == ""), 1)).alias("unexplained"),
            F.count(F.when(F.col("due") & ~(missing & lost), 1)).alias("due"),
            *(F.count(F.when(missing & (F.col("limit") == name), 1)).alias(name) for name in self.limits),
            complete=kept,
        )
        self.verdict.notifications_expected, self.verdict.unexplained = counted["due"], counted["unexplained"]
        self.verdict.losses = {name: counted[name] for name in self.limits if counted[name]}

    def _with_limits(self, asked: DataFrame) -> DataFrame:
        """Add the limit that explains each reported loss: "" if none does, null if the loss is not reported.

        `other` is the first later event of the publisher that the subscriber was notified of, which the limit
        depends on.
        """
        self.limits: list[str] = []
        if not self.lost:
            none = F.lit(None)
            return asked.withColumn("limit", none.cast("string")).withColumn("other", none.cast("long"))
        told: dict[tuple[str, str, int], list[int]] = {}
        for row in self.lost:
            told.setdefault((row["client"], row["publisher"], row["sequence"]), []).append(row["position"])
        events = self.spark.createDataFrame(
            list(dict.fromkeys(key[1:] for key in told)), "publisher string, sequence long"
        )
        missing = asked.where(~F.col("came")).join(F.broadcast(events), ["publisher", "sequence"], "semi")
        fields = "client", "event_at", "event_seconds", "publisher", "sequence"
        ledger = self._ledger(events)
        explained = []
        for client, event_at, seconds, publisher, sequence, passing in self._passed(missing.select(*fields)):
            said = [told.get((who, publisher, sequence), ()) for who in (client, "")]
            event, published = (publisher, sequence), Moment(event_at, seconds)
            passed = None if passing is None else Moment(passing["position"], passing["time_seconds"])
            limits = [
                self._limit(ledger, client, event, published, position, passed)
                for position in (position for each in said for position in each)
                if position > event_at
            ]
            if limits:
                other = None if passing is None else passing["later"]
                explained.append((client, event_at, next(filter(None, limits), ""), other))
        self.limits = sorted({limit for _, _, limit, _ in explained} - {""})
        found = self.spark.createDataFrame(
            explained, "client string, event_at long, limit string, other long"
        )
        return self._hold(asked.join(F.broadcast(found), ["client", "event_at"], "left"))

    def _passed(self, missing: DataFrame) -> list[Any]:
        """Return rows of missing notifications, each with the first one of a later event of the same publisher."""
        notes = self.notes.select(
            "client",
            "publisher",
            F.struct("position", "time_seconds", F.col("sequence").alias("later")).alias("note"),
        )
        found = (
            notes.join(F.broadcast(missing), ["client", "publisher"])
            .where((F.col("note.later") > F.col("sequence")) & (F.col("note.position") > F.col("event_at")))
            .groupBy("client", "event_at")
            .agg(F.min("note").alias("passing"))
        )
        joined = missing.join(found, ["client", "event_at"], "left")
        rows: list[Any] = joined.select(*missing.columns, "passing").collect()
        return rows

    def _ledger(self, claimed: DataFrame) -> Ledger:
        """Return the ledger, with the first notification of each event whose loss is claimed."""
        heard = self.notes.join(F.broadcast(claimed), ["publisher", "sequence"], "semi")
        first = heard.groupBy("publisher", "sequence").agg(F.min("position").alias("position"))
        tables: dict[str, list[dict[str, Any]]] = {
            "notified": [{"client": "", "time_seconds": 0.0, **row.asDict()} for row in first.collect()],
            **{name: read_table(self.folder, name) for name in ("kept", "limits")},
        }
        return Ledger(operations_from(tables))

    def _limit(
        self,
        ledger: Ledger,
        client: str,
        event: EventId,
        published: Moment,
        position: int,
        passed: Moment | None,
    ) -> str:
        """Return the limit that explains a loss claimed at a position, "" for none."""
        quiet = _after(self.quiet, published.position)
        settled = None if quiet == NEVER else Moment(quiet, self.seconds[quiet])
        claimed = Moment(position, self.seconds[position])
        return ledger.explain(
            client, event, published, claimed, settled, passed, lambda: self._wanted(client)
        )

    def _wanted(self, client: str) -> list[int]:
        """Return the positions of all publications that match any subscription that a client ever had."""
        if client not in self.wanted:
            rows = self.pairs.where(F.col("client") == client).select("event_at").distinct().collect()
            self.wanted[client] = sorted(at for (at,) in rows)
        return self.wanted[client]

    # Notices.

    def _noticed(self) -> None:
        """Check the rule `noticed` for every pair of subscriber and event except those that a notice matched."""
        if not self.lives["notices"]:
            return
        begun = min(life.registered for life in self.lives["notices"])
        event_at, registered, cancelled = F.col("event_at"), F.col("registered"), F.col("cancelled")
        later = event_at > begun
        going = (cancelled < event_at) & (event_at < F.col("over"))
        coming = (event_at < registered) & (registered < F.col("settled"))
        active = (registered < event_at) & (event_at < cancelled)
        known = (
            self.matches.join(F.broadcast(self.given), "filter")
            .where(later)
            .groupBy("client", "event_at")
            .agg(F.max(F.when(active, 2).when(going | coming, 1).otherwise(0)).alias("known"))
        )
        clients = self._hold(self._clients())
        known = self._hold(known.join(clients, "client", "semi"))
        told = (
            self.last.where(later & (F.col("last") > event_at))
            .join(known, ["client", "event_at"], "left")
            .join(self.events, "event_at")
            .withColumn("known", F.coalesce("known", F.lit(0)))
            .where("known < 2")
            .withColumn("position", event_at)
        )
        self._count(self._hold(told), noticed=F.col("known"))
        pairs = self.events.where(later).count() * clients.count()
        self.verdict.findings["noticed"].checked = pairs - known.where("known = 2").count()

    def _clients(self) -> DataFrame:
        return self.notes.select("client").union(self.subscribed.select("client")).distinct()

    # Advertisements.

    def _advertised(self) -> None:
        """Check the rules `within` and `advertised`."""
        if not self.lives["advertisements"]:
            return
        begun = min(life.registered for life in self.lives["advertisements"])
        active = (F.col("registered") < F.col("event_at")) & (F.col("event_at") < F.col("cancelled"))
        covered = (
            self.matches.join(F.broadcast(self.offers), "filter")
            .withColumnRenamed("client", "publisher")
            .where(active)
            .select("event_at", "publisher")
            .distinct()
            .withColumn("covered", F.lit(2))
        )
        asked = self.events.where(F.col("event_at") > begun).join(covered, ["event_at", "publisher"], "left")
        asked = self._hold(
            asked.withColumn("covered", F.coalesce("covered", F.lit(0)))
            .withColumn("position", F.col("event_at"))
            .withColumn("client", F.lit(""))
        )
        self._count(asked, within=F.col("covered"))
        outside = asked.where("covered = 0").drop("client").crossJoin(self._clients())
        told = outside.join(self.last, ["client", "event_at"], "left")
        broken = F.coalesce(F.col("last") > F.col("event_at"), F.lit(False))
        self._count(told, advertised=F.when(broken, 0).otherwise(2))

    # Counting and explaining.

    def _count(self, rows: DataFrame, *more: Column, **kept: Column) -> dict[str, int]:
        """Count the instances of rules in one job, and explain the first violations.

        Parameters
        ----------
        rows
            With `client`, `publisher`, `sequence` and `position`; and `other`, a sequence number, if needed
            to explain.
        more
            Further aggregates to compute.
        kept
            For each rule 2 if it is kept, 1 if that is indeterminate, 0 if it is violated, and null if the
            row is not an instance of the rule.
        """
        counts = [
            each
            for name, column in kept.items()
            for each in (
                F.count(column).alias(f"{name}_checked"),
                F.count(F.when(column == 0, 1)).alias(f"{name}_violated"),
                F.count(F.when(column == 1, 1)).alias(f"{name}_indeterminate"),
            )
        ]
        counted: dict[str, int] = rows.agg(*counts, *more).collect()[0].asDict()
        shown = ["client", "publisher", "sequence", "position"]
        for name, column in kept.items():
            finding = self.verdict.findings[name]
            finding.checked, finding.violated = counted[f"{name}_checked"], counted[f"{name}_violated"]
            finding.indeterminate = counted[f"{name}_indeterminate"]
            if finding.violated:
                other = F.col("other") if name in ("ordered", "complete") else F.lit(None).cast("long")
                first = rows.where(column == 0).select(*shown, other.alias("beside"))
                for row in first.orderBy("position", "client").limit(EXAMPLES_MAX).collect():
                    event = row["publisher"], row["sequence"]
                    broken = _Broken(row["client"], event, row["position"], row["beside"])
                    finding.violations.append(self._explain(name, broken))
        return counted

    def _explain(self, name: str, broken: _Broken) -> Violation:
        publisher, sequence = broken.event
        numbers = [sequence] if broken.other is None else [sequence, broken.other]
        events = [("publisher", "==", publisher), ("sequence", "in", numbers)]

        def concerns(mark: dict[str, object]) -> bool:
            whose = mark["client"] in ("", broken.client)
            about = mark["publisher"] == publisher and mark["sequence"] in numbers
            return mark["kind"] == "quiet" or (whose and about)

        tables = {
            "published": read_table(self.folder, "published", events),
            "notified": read_table(self.folder, "notified", events),
            "subscriptions": [row for row in self.rows["subscriptions"] if row["client"] == broken.client],
            "terms": [row for row in self.rows["terms"] if row["client"] == broken.client],
            "notices": self.rows["notices"],
            "advertisements": self.rows["advertisements"],
            "kept": read_table(self.folder, "kept", events),
            "limits": [row for row in read_table(self.folder, "limits") if row["kind"] != "shed"],
            "marks": [row for row in read_table(self.folder, "marks") if concerns(row)],
        }
        placed = operations_from(tables)
        here = next(place for place, (position, _) in enumerate(placed) if position == broken.position)
        elements = (broken.client, broken.event) if broken.client else (broken.event,)
        return explain_violation(Trace(op for _, op in placed), RULES[name], elements, here)


def _terms(life: Life) -> list[tuple[int, int, list[str], bool]]:
    """Return (begin, end, publishers, whether all others) for each time in which a subscription is in force."""
    named = sorted(life.named)
    whose: list[tuple[str | None, list[str]]] = [(None, named), *((name, [name]) for name in named)]
    return [
        (begin, NEVER if end is None else end, publishers, name is None)
        for name, publishers in whose
        for begin, end in life.spans(name)
    ]


def _after(quiet: list[int], position: int) -> int:
    place = bisect_right(quiet, position)
    return quiet[place] if place < len(quiet) else NEVER


def _matcher(
    selectors: list[str], quiet: list[int]
) -> Callable[[Iterator[pa.RecordBatch]], Iterable[pa.RecordBatch]]:
    """Return the function that an executor applies to its events: evaluate each selector for each event."""

    def match(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        tests = [test_of(selector) for selector in selectors]
        for batch in batches:
            at = batch.column("event_at").to_pylist()
            settled = [_after(quiet, position) for position in at]
            events = [decode_event(text) for text in batch.column("event").to_pylist()]
            found: list[tuple[int, int]] = []
            for code, test in enumerate(tests):
                found += [(row, code) for row, event in enumerate(events) if test(event) is True]
            columns = [
                pa.array([at[row] for row, _ in found], pa.int64()),
                pa.array([settled[row] for row, _ in found], pa.int64()),
                pa.array([code for _, code in found], pa.int32()),
            ]
            yield pa.RecordBatch.from_arrays(columns, names=["event_at", "settled", "filter"])

    return match
