"""The metrics that Ray exports, as scraped by Prometheus, include all that the dashboard queries."""

import json
import re
import time
import urllib.request
from pathlib import Path

import ray
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.actors.telemetry.metrics import COUNTERS, GAUGES, LABELS, BrokerMetrics, Instruments
from rayvous.faults.game_day.machine import Strike
from rayvous.faults.real.game_day import FAULTS_METRIC, Metrics

DASHBOARD = Path(__file__).resolve().parents[2] / "deploy/grafana/rayvous.json"
EVENTS = 40


def scraped() -> dict[str, list[tuple[dict[str, str], float]]]:
    """Return the Rayvous metrics that Ray exports, by name: the labels and value of each series."""
    node = ray.nodes()[0]
    address = f"http://{node['NodeManagerAddress']}:{node['MetricsExportPort']}/metrics"
    with urllib.request.urlopen(address) as answer:
        lines = answer.read().decode().splitlines()
    out: dict[str, list[tuple[dict[str, str], float]]] = {}
    for line in lines:
        if line.startswith("ray_rayvous_"):
            name, labels, value = re.fullmatch(r"(\w+){(.*)} (\S+)", line).groups()
            out.setdefault(name, []).append((dict(re.findall(r'(\w+)="([^"]*)"', labels)), float(value)))
    return out


def notified(
    found: dict[str, list[tuple[dict[str, str], float]]], name: str
) -> list[tuple[dict[str, str], float]]:
    """Return what broker 0 of a network has exported of its notifications: the labels and value of each series."""
    series = found.get("ray_rayvous_notifications_total", ())
    return [row for row in series if (row[0]["network"], row[0]["broker"]) == (name, "0")]


def test_the_dashboard_asks_for_what_is_exported(net: rv.Network, fresh: str) -> None:
    before = sum(value for _, value in notified(scraped(), net.name))
    subscriber = net.subscriber(fresh, broker=0)
    subscriber.subscribe("metered = TRUE")
    net.publisher(f"{fresh}-p", broker=net.inspect.positions[-1].broker).publish_batch(
        [{"metered": True}] * EVENTS
    )
    net.settle()
    assert len(list(subscriber.notifications(0))) == EVENTS
    # Rare events are not exported until they happen, so each is counted once for a made-up network.
    place = net.inspect.positions[0]
    made_up = BrokerMetrics(Instruments(), "made-up", place)
    made_up.look(place, {size: 1 for size, _ in (*COUNTERS.values(), *GAUGES.values())})
    Metrics("made-up").struck(Strike(1, "kill", (0,), 1.0, 0.1))

    text = DASHBOARD.read_text(encoding="utf-8")
    asked = set(re.findall(r"\bray_rayvous_\w+", text))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:  # Ray reports from time to time, without notice
        found = scraped()
        ours = notified(found, net.name)
        if (
            asked | {f"ray_{FAULTS_METRIC}"} <= found.keys()
            and sum(value for _, value in ours) >= before + EVENTS
        ):
            break
        assert time.monotonic() < deadline, (asked - found.keys(), before, ours)
        time.sleep(0.2)

    assert {labels["role"] for labels, _ in ours} == {place.role}
    assert {labels["cluster"] for labels, _ in ours} == {str(place.cluster)}
    for labels, _ in found["ray_rayvous_filters"]:
        assert set(LABELS) <= labels.keys()
    assert json.loads(text)["title"] == "Rayvous"
