"""The figures of a run in progress: totals, the last windows of event time, and late rows.

Rules
-----
* Micro-batches come in order, and each counts once: one that is repeated after a restart is ignored.
* Totals include every row. A row whose window is closed counts in the totals and as late, not in a window.
* The watermark of a table is the greatest time of its rows in earlier micro-batches, minus the allowed
  lateness. A window is closed for a table when it ends at or before the watermark.
* The state does not grow with the run: it holds windows until they are closed, and the last `WINDOWS_MAX`.
* Latencies are counted in buckets slightly more than `2 * ACCURACY` apart, so percentiles have that relative
  accuracy.
* Pure: partial sums in, figures out. `streaming` reads the files and keeps the state in its checkpoint.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...protocol.errors import InputError
from ...protocol.telemetry.tables import LINK_KINDS
from .aggregates import PERCENTILES
from .costs import TREE_KINDS

WINDOWS_MAX: Final = 60
ACCURACY: Final = 0.01
BUCKET_RATIO: Final = (1 + ACCURACY) / (1 - ACCURACY)
BUCKET_FLOOR_SECONDS: Final = 1e-6
BUCKETS_MAX: Final = 2_000

SUMS: Final = ("rows", "events", "batches", "control_messages", "nbytes", "delay_seconds")
LEAST: Final = ("first_seconds", "first_published_seconds")
GREATEST: Final = ("last_seconds", "newest_seconds")
"""The measures of a partial sum: `SUMS` are added up, of `LEAST` the least and of `GREATEST` the greatest counts."""


@dataclass(frozen=True, slots=True)
class Following:
    """Settings of a follower; they stay the same from one start to the next.

    Attributes
    ----------
    run
        The run to follow.
    window_seconds
        The length of a window of event time.
    late_seconds
        How much later than others of its table a row may come and still count in its window.
    """

    run: str
    window_seconds: float = 60.0
    late_seconds: float = 120.0

    def validate(self) -> Following:
        """Return the settings themselves; raise InputError if one is invalid."""
        for name, least in (("window_seconds", 0.001), ("late_seconds", 0.0)):
            value = getattr(self, name)
            if not isinstance(value, int | float) or not math.isfinite(value) or value < least:
                raise InputError(f"{name} is {value!r}: it must be a number from {least:g}")
        return self


@dataclass(slots=True)
class Window:
    """The sums of one window of event time."""

    events: int = 0
    notifications: int = 0
    delay_seconds: float = 0.0
    lost_rows: int = 0
    buckets: dict[int, int] = field(default_factory=dict)

    def add(self, partial: Mapping[str, Any]) -> None:
        """Add a partial sum of this window."""
        match partial["table"]:
            case "transfers" if partial["kind"] == "publish":
                self.events += partial["events"]
            case "deliveries":
                self.notifications += partial["events"]
                self.delay_seconds += partial["delay_seconds"]
            case "notified":
                count(self.buckets, partial)
            case "lost":
                self.lost_rows += partial["events"]

    def figures(self, start_seconds: float) -> dict[str, Any]:
        """Return the window as figures; null for a figure without data."""
        return {
            "start_seconds": start_seconds,
            "events": self.events,
            "notifications": self.notifications,
            "mean_latency_seconds": self.delay_seconds / self.notifications if self.notifications else None,
            "p99_latency_seconds": quantile(self.buckets, 0.99),
            "lost_rows": self.lost_rows,
        }


class Live:
    """Totals and the last windows.

    Parameters
    ----------
    following
        Settings.
    """

    def __init__(self, following: Following) -> None:
        self.following = following.validate()
        self.batch = -1
        self.totals: dict[tuple[str, str], dict[str, Any]] = {}
        self.buckets: dict[int, int] = {}
        self.late: dict[str, int] = {}
        self.newest: dict[str, float] = {}
        self.windows: dict[float, Window] = {}

    def apply(self, batch: int, partials: Iterable[Mapping[str, Any]]) -> bool:
        """Add the partial sums of a micro-batch; return whether it is new.

        Raises
        ------
        InputError
            If an earlier micro-batch is missing.
        """
        if batch <= self.batch:
            return False
        if batch != self.batch + 1:
            raise InputError(
                f"the checkpoint is at micro-batch {batch} and the figures at {self.batch}: they do not belong "
                "together; follow into another folder, or remove the checkpoint to count from the beginning"
            )
        self.batch = batch
        newest = dict(self.newest)
        for partial in partials:
            table = partial["table"]
            self._add_up(partial)
            if self._closed(table, partial["window"]):
                self.late[table] = self.late.get(table, 0) + partial["rows"]
            else:
                self.windows.setdefault(partial["window"], Window()).add(partial)
            newest[table] = max(newest.get(table, -math.inf), partial["newest_seconds"])
        self.newest = newest
        self._trim()
        return True

    def _add_up(self, partial: Mapping[str, Any]) -> None:
        total = self.totals.setdefault((partial["table"], partial["kind"]), {})
        for name in SUMS:
            total[name] = total.get(name, 0) + (partial[name] or 0)
        for names, pick in ((LEAST, min), (GREATEST, max)):
            for name in names:
                said = [value for value in (total.get(name), partial[name]) if value is not None]
                total[name] = pick(said) if said else None
        if partial["table"] == "notified":
            count(self.buckets, partial)

    def _closed(self, table: str, start: float) -> bool:
        watermark = self.newest.get(table, -math.inf) - self.following.late_seconds
        return start + self.following.window_seconds <= watermark

    def _trim(self) -> None:
        """Drop the oldest windows that are closed for every table."""
        starts = sorted(self.windows)
        for start in starts[:-WINDOWS_MAX]:
            if all(self._closed(table, start) for table in self.newest):
                del self.windows[start]

    # Figures, with the names that they have in the report.

    def figures(self) -> dict[str, Any]:
        """Return totals, losses and windows as plain data; null for a figure without data."""
        traced = any(table == "notified" for table, _ in self.totals)
        lost: dict[str, dict[str, int]] = {}
        for (table, kind), total in self.totals.items():
            if table == "lost":
                name, reason = kind.split("/", 1)
                lost.setdefault(name, {})[reason] = total["events"]
        return {
            "run": self.following.run,
            "batch": self.batch,
            "tct": self._tct(),
            "throughput": self._throughput(),
            "aed": self._aed("notified" if traced else "deliveries"),
            "latency_percentiles": self._percentiles() if traced else None,
            "lost": lost,
            "late_rows": dict(self.late),
            "windows": [self.windows[start].figures(start) for start in sorted(self.windows)],
        }

    def _tct(self) -> list[dict[str, Any]]:
        groups = {**{kind: (kind,) for kind in LINK_KINDS}, "tree": TREE_KINDS, "all": LINK_KINDS}
        names = {
            "tct": "events",
            "batches": "batches",
            "control_messages": "control_messages",
            "nbytes": "nbytes",
        }
        return [
            {
                "link_kind": group,
                **{
                    name: sum(self.totals.get(("transfers", kind), {}).get(measure, 0) for kind in kinds)
                    for name, measure in names.items()
                },
            }
            for group, kinds in groups.items()
        ]

    def _throughput(self) -> dict[str, Any]:
        published = self.totals.get(("transfers", "publish"), {})
        delivered = self.totals.get(("deliveries", ""), {})
        events, notifications = published.get("events", 0), delivered.get("events", 0)
        ends = [total["last_seconds"] for total in (published, delivered) if total.get("last_seconds")]
        first = published.get("first_seconds")
        elapsed = max(ends) - first if ends and first is not None else None
        return {
            "events": events,
            "notifications": notifications,
            "elapsed_seconds": elapsed,
            "events_per_second": events / elapsed if elapsed else None,
            "notifications_per_second": notifications / elapsed if elapsed else None,
        }

    def _aed(self, table: str) -> dict[str, Any]:
        """Return the figures with the report's names; figures per subscriber are not kept for a run in progress."""
        total = self.totals.get((table, ""), {})
        notifications = total.get("events", 0)
        elapsed = total["last_seconds"] - total["first_published_seconds"] if notifications else None
        return {
            "notifications": notifications,
            "subscribers": None,
            "elapsed_seconds": elapsed,
            "aed_seconds": None,
            "seconds_per_notification": None if elapsed is None else elapsed / notifications,
            "mean_delay_seconds": total["delay_seconds"] / notifications if notifications else None,
        }

    def _percentiles(self) -> dict[str, Any]:
        told = {f"{name}_seconds": quantile(self.buckets, share) for name, share in PERCENTILES.items()}
        return {"notifications": sum(self.buckets.values()), **told}

    # The state, as stored in the checkpoint.

    def to_plain(self) -> dict[str, Any]:
        """Return the state as plain data, which `from_plain` reads back."""
        return {
            "run": self.following.run,
            "window_seconds": self.following.window_seconds,
            "late_seconds": self.following.late_seconds,
            "batch": self.batch,
            "totals": [[table, kind, total] for (table, kind), total in self.totals.items()],
            "buckets": list(self.buckets.items()),
            "late": self.late,
            "newest": self.newest,
            "windows": [
                [
                    start,
                    one.events,
                    one.notifications,
                    one.delay_seconds,
                    one.lost_rows,
                    list(one.buckets.items()),
                ]
                for start, one in self.windows.items()
            ],
        }

    @classmethod
    def from_plain(cls, plain: Mapping[str, Any], following: Following) -> Live:
        """Restore the state from the result of `to_plain`.

        Raises
        ------
        InputError
            If it belongs to another run, or to other settings.
        """
        for name in ("run", "window_seconds", "late_seconds"):
            if plain[name] != getattr(following, name):
                raise InputError(
                    f"the checkpoint was made with {name} {plain[name]!r}, not {getattr(following, name)!r}: "
                    "give the same again, or follow into another folder"
                )
        live = cls(following)
        live.batch = plain["batch"]
        live.totals = {(table, kind): total for table, kind, total in plain["totals"]}
        live.buckets = dict(map(tuple, plain["buckets"]))
        live.late, live.newest = dict(plain["late"]), dict(plain["newest"])
        for start, events, notifications, delay, lost, buckets in plain["windows"]:
            live.windows[start] = Window(events, notifications, delay, lost, dict(map(tuple, buckets)))
        return live


def count(buckets: dict[int, int], partial: Mapping[str, Any]) -> None:
    """Count the rows of a partial sum in their latency bucket."""
    buckets[partial["bucket"]] = buckets.get(partial["bucket"], 0) + partial["rows"]


def quantile(buckets: Mapping[int, int], share: float) -> float | None:
    """Return a quantile of the latency in seconds, interpolated between the two nearest values as in numpy."""
    total = sum(buckets.values())
    if not total:
        return None
    place = share * (total - 1)
    below, beyond = math.floor(place), place - math.floor(place)
    low = _at_rank(buckets, below)
    return low if beyond == 0 else low * (1 - beyond) + _at_rank(buckets, below + 1) * beyond


def _at_rank(buckets: Mapping[int, int], rank: int) -> float:
    seen = 0
    for bucket in sorted(buckets):
        seen += buckets[bucket]
        if rank < seen:
            break
    # The relative error of this value is the same at both ends of the bucket.
    return BUCKET_FLOOR_SECONDS * BUCKET_RATIO ** (bucket - 1) * (1 + ACCURACY)
