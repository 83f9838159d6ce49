"""The content of a report's page, as plain text and numbers for its template.

Rules
-----
* A part without data is empty, and the template leaves it out.
* Every number has a unit or says what it counts. Null, NaN and None are never written.
* Nothing here is HTML, and nothing is trusted: the template escapes all of it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from numbers import Real
from typing import Any, Final

import networkx as nx

from ...protocol.extras import extra
from .pictures import MARKED, named
from .plots import seconds

with extra("spark"):
    import pandas as pd

CONDITIONS: Final = {
    "once": "No subscriber is notified of an event twice.",
    "published": "Every notification is of an event that was published.",
    "wanted": "Every notification matches an active subscription of its subscriber.",
    "noticed": "No subscriber is notified of an event that matched none of its notices.",
    "advertised": "No event outside of its publisher's advertisements is notified.",
    "within": "Publishers publish only what they advertised.",
    "complete": "Every event reaches every subscriber that wants it, or is reported as lost.",
    "ordered": "The events of a publisher arrive in the order of publication.",
    "fresh": "No event is notified that was settled before the subscription was made.",
}
"""The conditions that every run must meet, in a sentence each; docs/conditions.md has the details."""

LINK_KINDS: Final = {
    "publish": "publishers to brokers",
    "up": "up the tree",
    "down": "down the tree",
    "multicast": "multicast in clusters",
    "deliver": "brokers to subscribers",
    "tree": "tree: up, down and multicast (TCT)",
    "all": "all links",
}
LOSSES: Final = {
    "notifications": "notifications that brokers wrote down",
    "pairs": "distinct pairs of subscriber and event",
    "duplicated_pairs": "pairs that came more than once",
    "duplicates": "notifications beyond the first of a pair",
    "never_published": "pairs whose event was never published",
    "unexpected": "pairs that were not expected",
    "missing": "pairs that were expected and never came",
}
SPARK: Final = {
    "spark_start_seconds": "starting Spark",
    "spark_report_seconds": "computing the figures",
    "floor_seconds": "the least that Spark takes here: its start, and one count",
}
RENDEZVOUS: Final = -2
OPEN_ROWS_MAX: Final = 40
"""A longer table is collapsed."""


@dataclass(frozen=True, slots=True)
class Tile:
    """One figure of the headline."""

    name: str
    value: str
    note: str


@dataclass(frozen=True, slots=True)
class Table:
    """A table: the first column holds names, the others numbers."""

    title: str
    note: str
    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    @property
    def folded(self) -> bool:
        """Whether it is too long to be shown expanded."""
        return len(self.rows) > OPEN_ROWS_MAX


def facts(graph: nx.Graph, summary: Mapping[str, Any], figures: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return the settings of the run: name and value."""
    brokers = graph.number_of_nodes()
    clusters = len({cluster for _, cluster in graph.nodes(data="cluster")})
    dead = [node for node, dead in graph.nodes(data="dead") if dead]
    found = {
        "network": str(graph.graph.get("name") or ""),
        "scheme": str(graph.graph.get("scheme") or ""),
        "brokers": f"{count(brokers, 'broker')} in {count(clusters, 'cluster')}" if brokers else "",
        "died": ", ".join(f"{label(graph, node, dagger=False)} (broker {node})" for node in dead),
    }
    for name, value in dict(summary.get("settings") or {}).items():
        found[str(name)] = f"{value:,}" if isinstance(value, int) and name != "seed" else _text(value)
    published = known(summary, "events_published") or known(row(figures, "throughput"), "events")
    found["events published"] = "" if published is None else f"{published:,.0f}"
    rates = figures.get("rate_over_time")
    first = known(summary, "started_at") or (
        None if rates is None else known(row(figures, "rate_over_time"), "time_seconds")
    )
    if first is not None and first > 1e9:  # virtual time begins at 0
        found["began"] = datetime.fromtimestamp(first, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return {name: value for name, value in found.items() if value}


def tiles(summary: Mapping[str, object], figures: Mapping[str, pd.DataFrame]) -> list[Tile]:
    """Return the available figures of the headline."""
    rates, delays = row(figures, "throughput"), row(figures, "aed")
    latency = row(figures, "latency_percentiles")
    tree = next((each for each in records(figures, "tct") if each["link_kind"] == "tree"), {})
    at_clients = "from publishing until the subscriber's process had it"
    at_brokers = "from publishing until the broker handed it over"
    wanted = (
        ("published", "events_per_second", (summary, rates), "{:,.0f} /s", "events, until all were delivered"),
        ("notified", "notifications_per_second", (summary, rates), "{:,.0f} /s", "notifications of subscribers"),
        ("p50 at clients", "latency_p50_seconds", (summary,), seconds, at_clients),
        ("p99 at clients", "latency_p99_seconds", (summary,), seconds, at_clients),
        ("p50 at brokers", "p50_seconds", (latency,), seconds, at_brokers),
        ("p99 at brokers", "p99_seconds", (latency,), seconds, at_brokers),
        ("healed in", "recovery_seconds", (summary,), seconds, "from the failure to one settled tree"),
        ("TCT", "tct", (tree,), "{:,.0f}", "events over links of the tree"),
        ("AED", "aed_seconds", (summary, delays), seconds, "a subscriber's time over its events, mean of subscribers"),
        ("a notification", "seconds_per_notification", (delays,), seconds, "elapsed time over all notifications"),
    )  # fmt: skip
    found: dict[str, Tile] = {}
    for name, key, sources, form, note in wanted:
        value = next((known(source, key) for source in sources if known(source, key) is not None), None)
        if value is not None and name not in found:
            found[name] = Tile(name, form.format(value) if isinstance(form, str) else form(value), note)
    return list(found.values())


def sentence(graph: nx.Graph, summary: Mapping[str, Any]) -> str:
    """Summarize the run in one text; "" if the summary has no counts."""
    events, notifications = known(summary, "events_published"), known(summary, "notifications_delivered")
    if events is None or notifications is None:
        return ""
    took = known(summary, "elapsed_seconds")
    text = f"{count(events, 'event')} led to {count(notifications, 'notification')}"
    text += "" if took is None else f" in {seconds(took)}"
    if healed := known(summary, "recovery_seconds"):
        dead = ", ".join(label(graph, int(node), dagger=False) for node in summary.get("killed") or ())
        what = f"{dead} died" if dead else "A link was cut"
        text += f". {what}; the network healed in {seconds(healed)}"
    if known(summary, "missing") == 0 and known(summary, "duplicates") == 0 and not known(summary, "lost"):
        text += ". Nothing was lost, nothing came twice"
    return text + "."


def conditions(summary: Mapping[str, Any]) -> Table:
    """Return the checked conditions with their counts."""
    counts = ("checked", "violated", "indeterminate")
    rows = [
        (str(name), CONDITIONS.get(name, ""), *(f"{int(found.get(key) or 0):,}" for key in counts))
        for name, found in dict(summary.get("conditions") or {}).items()
        if found.get("checked")
    ]
    return Table("Conditions", "", ("condition", "what it says", "checked", "violated", "undecided"), rows)


def captions(summary: Mapping[str, object], figures: Mapping[str, pd.DataFrame]) -> dict[str, str]:
    """Return what this run adds to the captions of pictures, by picture."""
    found = {}
    published = known(summary, "events_published")
    seen = sum(int(each["events"]) for each in records(figures, "rate_over_time"))
    if published is not None and seen and seen != published:
        found["rate"] = (
            f"Telemetry has {seen:,} publications of {published:,.0f} events: what a broker that died had not handed "
            "over is missing, and what was published again after that is counted twice."
        )
    if known(summary, "latency_p50_seconds") is not None:
        found["latency"] = (
            "The figures at clients, above, include the way from the broker to the subscriber's process."
        )
    return found


def timeline(summary: Mapping[str, Any], graph: nx.Graph) -> list[tuple[str, str, bool]]:
    """Return the entries of the timeline: when, what, and whether it is marked in the picture of the rates."""
    return [
        (
            f"{float(moment['seconds']):,.2f} s",
            named(str(moment["what"]), graph),
            str(moment["what"]).startswith(MARKED),
        )
        for moment in summary.get("timeline") or ()
    ]


def tables(
    graph: nx.Graph, figures: Mapping[str, pd.DataFrame], summary: Mapping[str, Any]
) -> dict[str, Table]:
    """Return the tables that have rows, by name."""
    found = {
        "links": _links(graph, figures),
        "load": _loads(graph, figures),
        "costs": _costs(figures),
        "multicasts": _multicasts(figures),
        "losses": _losses(figures),
        "lost": _lost(figures),
        "spark": _spark(summary),
    }
    return {name: table for name, table in found.items() if table.rows}


def _loads(graph: nx.Graph, figures: Mapping[str, pd.DataFrame]) -> Table:
    rows = []
    for each in sorted(records(figures, "broker_load"), key=lambda each: (-each["load"], each["broker"])):
        node = int(each["broker"])
        data = graph.nodes[node] if node in graph else {}
        name = label(graph, node) + (
            f" ({data['role']})" if data.get("role") not in (None, label(graph, node)) else ""
        )
        numbers = ("load", "events_in", "events_out", "notifications", "control_messages", "nbytes")
        rows.append((name, str(node), _whole(each["cluster"]), *(_whole(each[number]) for number in numbers)))
    note = (
        "The busiest first. Load: events in, events out and notifications. Messages and bytes are those sent."
    )
    balance = row(figures, "load_balance")
    if known(balance, "gini") is not None:
        note += (
            f" The busiest carries {balance['max_over_mean']:.2f} times the mean; Gini {balance['gini']:.2f}."
        )
    headings = ("broker", "id", "cluster", "load", "in", "out", "notified", "control", "bytes")
    return Table("Each broker", note, headings, rows)


def _links(graph: nx.Graph, figures: Mapping[str, pd.DataFrame]) -> Table:
    links = records(figures, "link_load")
    busy = [each for each in links if each["events"]]
    rows = []
    for each in sorted(busy, key=lambda each: -each["events"]):
        if each["kind"] == "group":
            name, ways = f"multicast in cluster {_whole(each['cluster'])}", ("–", "–")
        else:
            name = " – ".join(label(graph, int(each[end])) for end in ("low", "high"))
            ways = (_whole(each["events_low_to_high"]), _whole(each["events_high_to_low"]))
        rows.append((name, _whole(each["events"]), *ways, _whole(each["messages"]), _whole(each["nbytes"])))
    note = (
        "Events over each link between brokers, the busiest first; → is from the first named to the second."
    )
    if idle := len(links) - len(busy):
        note += f" {count(idle, 'link')} carried control messages only."
    return Table("Each link", note, ("link", "events", "→", "←", "messages", "bytes"), rows)


def _costs(figures: Mapping[str, pd.DataFrame]) -> Table:
    columns = ("tct", "batches", "control_messages", "nbytes")
    rows = [
        (LINK_KINDS.get(each["link_kind"], each["link_kind"]), *(_whole(each[name]) for name in columns))
        for each in records(figures, "tct")
    ]
    note = "What went over which kind of link. An event over one link counts one, however many travelled in its batch."
    return Table("Cost by kind of link", note, ("links", "events", "batches", "control", "bytes"), rows)


def _multicasts(figures: Mapping[str, pd.DataFrame]) -> Table:
    numbers = ("loads", "events", "nbytes", "members", "calls", "nodes", "sent_bytes")
    rows = [
        (str(each["how"]), *(_whole(each[name]) for name in numbers))
        for each in records(figures, "multicast_cost")
        if each["loads"]
    ]
    note = (
        "The cost above counts an event once for a cluster, as a network that multicasts would have it. Ray calls each "
        "member in another process; what is large is put into the object store of each node once."
    )
    headings = ("how", "loads", "events", "bytes", "members", "calls", "nodes", "bytes sent")
    return Table("Multicasts as they were carried out", note, headings, rows)


def _losses(figures: Mapping[str, pd.DataFrame]) -> Table:
    found = row(figures, "loss_and_duplicates")
    rows = [(text, f"{found[name]:,.0f}") for name, text in LOSSES.items() if known(found, name) is not None]
    note = (
        "As telemetry has it. What a broker had not handed over when it died is not in it; "
        "the verdict counts what clients received."
    )
    return Table("Losses and duplicates", note, ("what", "count"), rows)


def _lost(figures: Mapping[str, pd.DataFrame]) -> Table:
    rows = [
        (f"{lost['table']}: {lost['reason']}", f"{lost['rows']:,}")
        for lost in records(figures, "telemetry_lost")
    ]
    return Table(
        "What telemetry lacks", "Rows that were dropped, and why.", ("table and reason", "rows"), rows
    )


def _spark(summary: Mapping[str, Any]) -> Table:
    rows = [
        (text, seconds(summary[name])) for name, text in SPARK.items() if known(summary, name) is not None
    ]
    if known(summary, "spark_jobs") is not None:
        rows.append(("Spark jobs", f"{summary['spark_jobs']:,}"))
    return Table("How long Spark took", "", ("step", "took"), rows)


def records(figures: Mapping[str, pd.DataFrame], name: str) -> list[dict[str, Any]]:
    """Return the rows of a figure; none if it was not computed."""
    return [] if name not in figures else [dict(each) for each in figures[name].to_dict("records")]


def row(figures: Mapping[str, pd.DataFrame], name: str) -> dict[str, Any]:
    """Return the first row of a figure; empty if there is none."""
    return next(iter(records(figures, name)), {})


def known(values: Mapping[str, object], name: str) -> float | None:
    """Return a number, or None if it is missing, null, NaN or not a number."""
    value = values.get(name)
    return float(value) if isinstance(value, Real) and math.isfinite(value) else None


def label(graph: nx.Graph, node: int, *, dagger: bool = True) -> str:
    """Return the label of a broker; with a dagger if it is dead, unless `dagger` is off."""
    if node == RENDEZVOUS:
        return "rendezvous point"
    data = graph.nodes[node] if node in graph else {}
    return str(data.get("label", node)) + (" †" if dagger and data.get("dead") else "")


def count(number: float, noun: str) -> str:
    """Return a number with its noun: ``1 broker``, ``12 brokers``."""
    return f"{number:,.0f} {noun}" + ("" if number == 1 else "s")


def _whole(value: Any) -> str:
    return "–" if value is None or not math.isfinite(value) else f"{value:,.0f}"


def _text(value: Any) -> str:
    return "" if value is None else str(value)
