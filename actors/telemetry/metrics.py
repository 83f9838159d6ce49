"""Metrics of brokers for monitoring of the Ray cluster: through ``ray.util.metrics``, for Prometheus.

Rules
-----
* Names follow Prometheus: a unit at the end, ``_total`` for counters. Ray prepends ``ray_``.
* The labels are `LABELS`, each with at most as many values as the network has brokers. No label is derived from the
  content of messages or the names of clients.
* Events cost nothing here: counts that a broker has anyway are read every few seconds (`BrokerMetrics.look`). A
  delivery costs one observation, however many notifications it has. Observations are exported with the next look,
  or when `OBSERVATIONS_MAX` wait. Ray takes several times as long for an observation as a broker takes to append a
  number to a list, and a subscriber waits.
* A broker that changes its place continues under new labels, and its gauges under the old labels become 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ray.util.metrics import Counter, Gauge, Histogram

from ...protocol.configs import Position
from ...protocol.expiry import PAST_TTL

LABELS: Final = ("network", "broker", "cluster", "role")

COUNTERS: Final[Mapping[str, tuple[str, str]]] = {
    "rayvous_events_total": ("events_in", "Events that came in from publishers and brokers"),
    "rayvous_forwarded_events_total": ("events_out", "Events that left for other brokers"),
    "rayvous_notifications_total": ("notifications", "Notifications handed to subscribers"),
    "rayvous_lost_events_total": ("lost_events", "Events lost with calls that failed"),
    "rayvous_expired_events_total": ("expired_events", "Events dropped because they had waited for too long"),
    "rayvous_past_ttl_events_total": (PAST_TTL, "Events dropped because their time to live had passed"),
    "rayvous_shed_notifications_total": ("shed_notifications", "Notifications dropped for slow subscribers"),
}
"""Counters: by the name of the metric, the name in `Inspection.describe` and the description."""

GAUGES: Final[Mapping[str, tuple[str, str]]] = {
    "rayvous_queue_events": ("outbox_events", "Events that wait for a link"),
    "rayvous_subscribers": ("subscribers", "Subscribers that are attached"),
    "rayvous_filters": ("filters", "Filters in the routing table"),
    "rayvous_durable_events": ("durable_events", "Events that durable subscribers have not acknowledged"),
    "rayvous_durable_seconds": ("durable_seconds", "Time that the oldest of these has waited"),
}
"""Gauges, in the same form."""

LATENCY: Final = "rayvous_notification_seconds"
LATENCY_TEXT: Final = "Mean time of a batch of notifications from publication to the delivering broker"
OBSERVATIONS_MAX: Final = 256
"""Deliveries that wait to be exported: a few milliseconds of Ray's time."""
LATENCY_BOUNDARIES_SECONDS: Final = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0]


class Instruments:
    """Ray's counters, gauges and histogram of one process; its brokers share them.

    Parameters
    ----------
    counter, gauge, histogram
        Their factories; Ray's by default.
    """

    def __init__(self, counter: Any = Counter, gauge: Any = Gauge, histogram: Any = Histogram) -> None:
        self.counters = {name: counter(name, text, LABELS) for name, (_, text) in COUNTERS.items()}
        self.gauges = {name: gauge(name, text, LABELS) for name, (_, text) in GAUGES.items()}
        self.latency = histogram(LATENCY, LATENCY_TEXT, LATENCY_BOUNDARIES_SECONDS, LABELS)


class BrokerMetrics:
    """The metrics of one broker.

    Parameters
    ----------
    instruments
        Those of the process.
    network
        The network's name.
    place
        The broker's place at the start.

    Attributes
    ----------
    looked_in
        In which rest of the broker it was looked at last; None if that may have changed since, or it was awake.
    """

    def __init__(self, instruments: Instruments, network: str, place: Position) -> None:
        self.looked_in: tuple[float, ...] | None = None
        self._instruments = instruments
        self._network = network
        self._labels = self._labels_of(place)
        self._counted: dict[str, int] = {}
        self._sizes = [0] * len(GAUGES)
        self._observed: list[float] = []

    def _labels_of(self, place: Position) -> dict[str, str]:
        values = (self._network, place.broker, place.cluster, place.role)
        return dict(zip(LABELS, map(str, values), strict=True))

    def look(self, place: Position, sizes: Mapping[str, int]) -> None:
        """Export a broker's sizes and counts so far, under its current place."""
        labels = self._labels_of(place)
        self._tell_observed()
        if labels != self._labels:
            self.leave()
            self._labels = labels
        for name, (size, _) in COUNTERS.items():
            now = sizes.get(size, 0)
            more = now - self._counted.get(name, 0)  # negative when a link was recreated
            self._counted[name] = now
            if more > 0:
                self._instruments.counters[name].inc(more, labels)
        self._sizes = [sizes.get(size, 0) for size, _ in GAUGES.values()]
        self._set_gauges()

    def look_again(self) -> None:
        """Export the same sizes as the last time; nothing was counted since."""
        self._tell_observed()
        self._set_gauges()

    def _set_gauges(self) -> None:
        for gauge, size in zip(self._instruments.gauges.values(), self._sizes, strict=True):
            gauge.set(size, self._labels)

    def leave(self) -> None:
        """Set the gauges to 0: the broker is gone."""
        self._tell_observed()
        for gauge in self._instruments.gauges.values():
            gauge.set(0, self._labels)

    def delivered(self, seconds: float) -> None:
        """Record the latency of a batch of notifications."""
        self._observed.append(seconds)
        if len(self._observed) >= OBSERVATIONS_MAX:
            self._tell_observed()

    def _tell_observed(self) -> None:
        observed, self._observed = self._observed, []
        for seconds in observed:
            self._instruments.latency.observe(seconds, self._labels)
