"""The counters of a gateway in the Prometheus format."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from ...protocol.extras import extra
from ..core import Gateway

with extra("gateway"):
    from prometheus_client import CollectorRegistry, generate_latest
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
    from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE: Final = CONTENT_TYPE_LATEST
_REFUSED: Final = "refused."
_COUNTERS: Final = {
    "published": "Events that the network accepted from clients of this gateway.",
    "repeated": "Events that were published again under their key, and were not.",
    "delivered": "Events, and gaps, that were written to clients of this gateway.",
    "past_ttl": "Events that were dropped here since their time to live had passed; of streams that have ended.",
    "shed": "Events that were shed since a client did not take them in time; of streams that have ended.",
    "nacked": "Messages that clients of STOMP answered with NACK; of connections that have ended.",
}


class _Collector:
    def __init__(self, gateway: Gateway) -> None:
        self._gateway = gateway

    def collect(self) -> Iterator[Any]:
        gateway = self._gateway
        labels, values = ["network"], [gateway.upstream.name]
        for name, told in _COUNTERS.items():
            counter = CounterMetricFamily(f"rayvous_gateway_{name}", told, labels=labels)
            counter.add_metric(values, gateway.counts[name])
            yield counter
        told = "What was refused, by the right that was missing or the limit that was reached."
        refused = CounterMetricFamily("rayvous_gateway_refused", told, labels=[*labels, "reason"])
        for name, count in sorted(gateway.counts.items()):
            if name.startswith(_REFUSED):
                refused.add_metric([*values, name.removeprefix(_REFUSED)], count)
        yield refused
        for name, told, number in (
            ("sessions", "Connections, and requests under way.", gateway.sessions),
            ("streams", "Subscriptions that are open.", gateway.streams),
        ):
            gauge = GaugeMetricFamily(f"rayvous_gateway_{name}", told, labels=labels)
            gauge.add_metric(values, number)
            yield gauge


def metrics_of(gateway: Gateway) -> bytes:
    """Return the metrics of a gateway in the text format."""
    registry = CollectorRegistry()
    registry.register(_Collector(gateway))
    return generate_latest(registry)
