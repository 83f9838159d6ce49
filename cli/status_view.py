"""A network's status for people: a summary line, the tree, and a row for each broker and gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Literal, TypeAlias

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from ..actors.network.gateways import GatewayStatus
from ..actors.network.status import BrokerStatus, NetworkStatus
from ..protocol.durables import DurableStatus
from ..protocol.ids import BrokerId
from ..protocol.printable import printable
from ..protocol.sinks import SinkStatus
from .console import cell

Rates: TypeAlias = Mapping[BrokerId, Mapping[str, float]]
Order: TypeAlias = Literal["id", "load"]

STYLES: Final = {"alive": "green", "silent": "yellow", "dead": "red"}
CONDITION_STYLES: Final = {"healthy": "green", "healing": "yellow", "whole": "yellow", "broken": "red"}
SINK_STYLES: Final = {"writing": "green", "waiting": "red", "silent": "yellow"}
GATEWAY_STYLES: Final = {"serving": "green", "silent": "yellow", "failed": "red"}
NODE_DIGITS: Final = 8
"""The number of digits shown of Ray's node id, which has 56."""
PROBLEMS_MAX: Final = 5
TREE_MAX: Final = 60
"""The largest number of brokers for which the tree is drawn; a larger tree is unreadable."""


def status_view(
    status: NetworkStatus,
    rates: Rates,
    *,
    healing_seconds: float | None = None,
    order: Order = "id",
    rows: int = 40,
) -> RenderableType:
    """Return the printed form of a status.

    Parameters
    ----------
    status, rates
        The status, and the rates of each broker per second.
    healing_seconds
        How long the network has not been healthy, if known.
    order, rows
        The order of the brokers, and the maximum number of rows.
    """
    parts: list[RenderableType] = [_summary(status, healing_seconds)]
    parts += [cell(f"  {problem}", "yellow") for problem in status.problems[:PROBLEMS_MAX]]
    if len(status.problems) > PROBLEMS_MAX:
        parts.append(cell(f"  and {len(status.problems) - PROBLEMS_MAX} more", "yellow"))
    if status.collector != "alive":
        told = f"  the collector of telemetry is {status.collector}: what brokers record is not collected"
        parts.append(cell(told, "yellow"))
    if (
        order == "id"
        and 1 < len(status.brokers) <= TREE_MAX
        and any(one.parent is not None for one in status.brokers)
    ):
        parts.append(_tree(status))
    parts.append(_table(_ordered(status.brokers, rates, order), rates, rows))
    if status.gateways:
        parts.append(gateways_view(status.gateways[:rows]))
    if status.sinks:
        parts.append(sinks_view(status.sinks[:rows]))
    if status.durables:
        parts.append(durables_view(status.durables[:rows]))
    return Group(*parts)


def gateways_view(gateways: Sequence[GatewayStatus]) -> RenderableType:
    """Return the printed form of gateways: a row for each, with its URLs, or its problem."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="cyan")
    for name in ("gateway on", "node", "state"):
        table.add_column(name, no_wrap=True)
    table.add_column("", overflow="fold")
    for one in gateways:
        table.add_row(
            cell(one.address),
            one.node[:NODE_DIGITS] + (f" {one.process}" if one.process else ""),
            cell(one.state, GATEWAY_STYLES[one.state]),
            cell(one.problem or " ".join(one.urls)),
        )
    return table


def sinks_view(sinks: Sequence[SinkStatus]) -> RenderableType:
    """Return the printed form of sinks: a row for each, with what it has written, and its problem or its folder."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="cyan")
    for name in ("sink", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("events", "files", "MB", "waiting", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("", overflow="fold")
    for one in sinks:
        figures = (one.events, one.files, one.bytes / 1e6, one.waiting, one.lost)
        table.add_row(
            cell(one.name),
            cell(one.state, SINK_STYLES[one.state]),
            *(f"{figure:,.0f}" for figure in figures),
            cell(one.problem or one.target),
        )
    return table


def durables_view(durables: Sequence[DurableStatus]) -> RenderableType:
    """Return the printed form of durable subscribers: a row for each, with how far it is behind."""
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="cyan")
    table.add_column("durable subscriber", overflow="fold")
    table.add_column("broker", justify="right", no_wrap=True)
    table.add_column("process", no_wrap=True)
    for name in ("events behind", "seconds", "MB"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in durables:
        away = "away" if one.away_seconds is None else f"away {one.away_seconds:,.0f} s"
        table.add_row(
            cell(one.name),
            "-" if one.broker is None else str(one.broker),
            cell("attached" if one.attached else away, "green" if one.attached else "yellow"),
            *(
                ("-", "-", "-")
                if one.broker is None
                else (f"{one.events:,}", f"{one.seconds:,.0f}", f"{one.bytes / 1e6:,.1f}")
            ),
        )
    return table


def _summary(status: NetworkStatus, healing_seconds: float | None) -> Text:
    clusters = len({one.cluster for one in status.brokers})
    text = Text.assemble(
        (printable(status.name), "bold"),
        f": {status.scheme}, {len(status.brokers)} brokers in {clusters} clusters, ",
    )
    word = status.condition.split()[0]
    text.append(status.condition, style=f"bold {CONDITION_STYLES[word]}")
    if word == "healthy":
        return text.append(_latency(status)).append(_links(status))
    since = "" if healing_seconds is None or word == "whole" else f" for {healing_seconds:,.1f} s"
    return text.append(since + (", and does not heal" if word == "broken" else ""))


def _latency(status: NetworkStatus) -> str:
    """Return the latencies of the last minute; empty if there are none."""
    p50, p99 = (status.latency_seconds[name] for name in ("p50", "p99"))
    if p50 is None or p99 is None:
        return ""
    return f"; latency p50 {1000 * p50:,.1f} ms, p99 {1000 * p99:,.1f} ms"


def _links(status: NetworkStatus) -> str:
    """Return how many brokers reach another one by Ray in a network with channels, and this process; empty if none."""
    slow = sum(one.sizes.get("hosts_by_ray", 0) > 0 for one in status.brokers)
    said = f"; {slow} brokers have no channel to some other" if slow else ""
    return said + (f"; here is no channel to {status.hosts_by_ray} of them" if status.hosts_by_ray else "")


def _tree(status: NetworkStatus) -> RenderableType:
    """Return the tree of clusters: the designated broker of each, and its members, by their present roles."""
    present = [one for one in status.brokers if one.state != "dead" or not status.heals]
    speaks = {one.broker: one for one in present if one.role != "NEB"}
    nodes: dict[BrokerId, Tree] = {}
    drawn = Group()

    def draw(one: BrokerStatus, above: Tree | None) -> None:
        members = [other for other in present if other.cluster == one.cluster and other is not one]
        text = cell(one.name, f"bold {STYLES[one.state]}")
        for other in members:
            text.append(f"  {other.name}", style=STYLES[other.state])
        node = Tree(text) if above is None else above.add(text)
        nodes[one.broker] = node
        for child in one.children:
            if child in speaks and child not in nodes:
                draw(speaks[child], node)

    for one in speaks.values():
        if one.broker not in nodes and (one.parent is None or one.parent not in speaks):
            draw(one, None)
            drawn.renderables.append(nodes[one.broker])
    return drawn


def _ordered(brokers: Sequence[BrokerStatus], rates: Rates, order: Order) -> list[BrokerStatus]:
    if order == "id":
        return list(brokers)
    return sorted(brokers, key=lambda one: -sum(rates.get(one.broker, {}).values()))


def _table(brokers: Sequence[BrokerStatus], rates: Rates, rows: int) -> RenderableType:
    table = Table(box=None, padding=(0, 1, 0, 0), header_style="cyan")
    for name in ("broker", "role", "state"):
        table.add_column(name, no_wrap=True)
    for name in ("clients", "filters", "in/s", "out/s", "notified/s", "queued", "lost"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in brokers[:rows]:
        table.add_row(
            str(one.broker),
            "-" if one.state == "dead" else one.role,
            cell(one.state, STYLES[one.state]),
            *_figures(one, rates),
        )
    if len(brokers) > rows:
        table.add_row(f"... {len(brokers) - rows} more")
    return table


def _figures(one: BrokerStatus, rates: Rates) -> list[str]:
    if not one.sizes:
        return ["-"] * 7
    rate: Mapping[str, float] = rates.get(one.broker, {})
    flow = [_rate(rate.get(name)) for name in ("events_in", "events_out", "notifications")]
    numbers = (one.sizes.get("subscribers", 0), one.sizes.get("filters", 0))
    return [*(f"{number:,}" for number in numbers), *flow, f"{one.queued:,}", f"{one.lost:,}"]


def _rate(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 10 or value == 0 else f"{value:.1f}"
