"""The part of a run's telemetry about one event and one subscriber, for `faults.explaining.seen`.

Rules
-----
* Rows are selected in Arrow; only those about the event become Python objects, and of the others a sample of at most
  :data:`SAMPLE_ROWS`, by which clocks are aligned.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from ...actors.telemetry.files import runs as runs_in
from ...actors.telemetry.telemetry import Telemetry
from ...faults.explaining.explain import Explanation, event_of
from ...faults.explaining.seen import (
    HOP_SECONDS_MAX,
    NetworkRows,
    NotifiedRow,
    PublishedRow,
    Seen,
    TransferRow,
    explain_seen,
)
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClientId, EventId

SAMPLE_ROWS: Final = 20_000
TRANSFERS_MAX: Final = 20_000
CLOCK_SECONDS: Final = 2.0
"""By how much clocks of hosts may differ: messages that far outside the time of an event are looked at, too."""


def explain_telemetry(
    telemetry: Telemetry, subscriber: ClientId | None = None, event: EventId | str | None = None
) -> Explanation:
    """Explain what became of one event, by the telemetry of a network that traced events.

    Parameters
    ----------
    telemetry
        The result of `Network.telemetry`, or read from a folder.
    subscriber, event
        What is asked; without an event it is the notification that took longest.

    Raises
    ------
    InputError
        If the network did not trace events, or there is no such event or subscriber.
    UnreadableFile
        If a part of a folder is damaged.
    """
    published, notified = telemetry.table("published"), telemetry.table("notified")
    if not published.num_rows:
        raise InputError("the telemetry names no events: launch the network with trace_events=True")
    mine = notified if subscriber is None else notified.filter(pc.equal(notified["subscriber"], subscriber))
    if subscriber is not None and not mine.num_rows:
        raise InputError(f"no broker has handed anything to a subscriber {subscriber!r}")
    asked, chosen = None if event is None else event_of(event), ""
    if asked is None:
        asked, subscriber = _slowest(mine)
        chosen = "the notification that took longest"
    rows, heard = _about(published, asked), _about(notified, asked)
    if not rows.num_rows and not heard.num_rows:
        raise InputError(f"nobody published {asked[0]}:{asked[1]}")
    if subscriber is None:
        if not heard.num_rows:
            raise InputError(
                f"nobody was notified of {asked[0]}:{asked[1]}; say whose notification is missing: --subscriber"
            )
        subscriber = heard["subscriber"][0].as_py()
    seen = Seen(
        asked,
        subscriber,
        sorted(PublishedRow(row["time_seconds"], row["broker"]) for row in rows.to_pylist()),
        sorted(
            NotifiedRow(row["time_seconds"], row["broker"], row["subscriber"]) for row in heard.to_pylist()
        ),
        _home(notified, subscriber),
        _transfers(telemetry.table("transfers"), rows, heard),
        _exchanged(published, notified),
        sum(count for reasons in telemetry.lost.values() for count in reasons.values()),
    )
    network = telemetry.network
    rows_of_it = NetworkRows(brokers=network.get("brokers", ()), links=network.get("links", ()))
    return explain_seen(seen, rows_of_it, chosen)


def _about(table: pa.Table, event: EventId) -> pa.Table:
    return table.filter(
        pc.and_(pc.equal(table["publisher"], event[0]), pc.equal(table["sequence"], event[1]))
    )


def _slowest(notified: pa.Table) -> tuple[EventId, ClientId]:
    if not notified.num_rows:
        raise InputError("nothing to explain: nobody was notified of anything")
    notified = notified.append_column("took", pc.subtract(notified["time_seconds"], notified["published_at"]))
    timed = notified.filter(pc.is_finite(notified["took"]))
    if not timed.num_rows:
        raise InputError("nothing to explain: no notification has a time; name an event: --event")
    row = timed.slice(pc.index(timed["took"], pc.max(timed["took"])).as_py(), 1).to_pylist()[0]
    return (row["publisher"], row["sequence"]), row["subscriber"]


def _home(notified: pa.Table, subscriber: ClientId) -> BrokerId | None:
    """Return the broker that last handed something to a subscriber."""
    known = pc.and_(pc.equal(notified["subscriber"], subscriber), pc.is_finite(notified["time_seconds"]))
    mine = notified.filter(known)
    if not mine.num_rows:
        return None
    last = pc.index(mine["time_seconds"], pc.max(mine["time_seconds"])).as_py()
    return int(mine["broker"][last].as_py())


def _transfers(transfers: pa.Table, published: pa.Table, notified: pa.Table) -> list[TransferRow]:
    times = [*published["time_seconds"].to_pylist(), *notified["time_seconds"].to_pylist()]
    begin, end = min(times) - CLOCK_SECONDS, max(times) + CLOCK_SECONDS + HOP_SECONDS_MAX
    at = transfers["time_seconds"]
    inside = pc.and_(pc.greater_equal(at, begin), pc.less_equal(at, end))
    between = pc.is_in(transfers["link_kind"], pa.array(["up", "down", "multicast"]))
    found = transfers.filter(pc.and_(pc.and_(inside, between), pc.greater(transfers["events"], 0)))
    return [
        TransferRow(row["time_seconds"], row["broker"], row["link_kind"], row["peer"])
        for row in found.slice(0, TRANSFERS_MAX).to_pylist()
    ]


def _exchanged(published: pa.Table, notified: pa.Table) -> list[tuple[BrokerId, float, BrokerId, float]]:
    """Return events that one broker took and another handed over, with the times on both clocks."""
    sent = {
        (row["publisher"], row["sequence"]): (row["broker"], row["time_seconds"])
        for row in published.slice(0, SAMPLE_ROWS).to_pylist()
    }
    return [
        (*origin, row["broker"], row["time_seconds"])
        for row in notified.slice(0, SAMPLE_ROWS).to_pylist()
        if (origin := sent.get((row["publisher"], row["sequence"]))) is not None
    ]


__all__ = ["Telemetry", "explain_telemetry", "runs_in"]
