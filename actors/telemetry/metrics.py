"""Counters and latencies of brokers for whoever watches the Ray cluster (``ray.util.metrics``, Prometheus).

Rule: one call a batch, never one an event. The names are documented in docs/architecture.md.
"""

from __future__ import annotations

from typing import Final

from ray.util.metrics import Counter, Histogram

from ...protocol.effects import Deliver
from ...protocol.ids import BrokerId

_LATENCY_BOUNDARIES_SECONDS: Final = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]
_TAGS: Final = ("network", "broker")


class BrokerMetrics:
    """The metrics of one broker.

    Parameters
    ----------
    network, broker
        The tags that every value carries.
    """

    def __init__(self, network: str, broker: BrokerId) -> None:
        tags = {"network": network, "broker": str(broker)}
        self._events = Counter("rayvous_events_in", "Events that came in from publishers and brokers", _TAGS)
        self._notifications = Counter("rayvous_notifications", "Notifications handed to subscribers", _TAGS)
        self._latency = Histogram(
            "rayvous_notification_latency_seconds",
            "Mean time of a batch of notifications from publication to the delivering broker",
            _LATENCY_BOUNDARIES_SECONDS,
            _TAGS,
        )
        for metric in (self._events, self._notifications, self._latency):
            metric.set_default_tags(tags)

    def events_in(self, count: int) -> None:
        """Count events that came in."""
        if count:
            self._events.inc(count)

    def delivered(self, now: float, deliver: Deliver) -> None:
        """Count notifications and note how long they took."""
        self._notifications.inc(len(deliver.rows))
        self._latency.observe(max(0.0, now - float(deliver.batch.published_at[deliver.rows].mean())))
