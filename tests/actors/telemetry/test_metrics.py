"""What brokers report to Ray's metrics: differences of their counts, labelled with their place."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
from rayvous.actors.host.hosted_broker import HostedBroker
from rayvous.actors.host.metering import LOOKS_A_REST, Metering
from rayvous.actors.telemetry import metrics
from rayvous.actors.telemetry.metrics import COUNTERS, GAUGES, LABELS, BrokerMetrics, Instruments
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Told:
    """Replaces one of Ray's metrics, and records its values by labels."""

    def __init__(self, name, text, *rest):
        assert rest[-1] == LABELS
        self.name, self.values = name, {}

    def inc(self, more, labels):
        assert more > 0 and list(labels) == list(LABELS)
        key = tuple(labels.values())
        self.values[key] = self.values.get(key, 0) + more

    def set(self, value, labels):
        self.values[tuple(labels.values())] = value

    def observe(self, value, labels):
        self.values.setdefault(tuple(labels.values()), []).append(value)


ROOT = next(place for place in ClusterTree(2, 2).positions() if place.role == "REB")
SIZES = {size: number for number, (size, _) in enumerate([*COUNTERS.values(), *GAUGES.values()], start=1)}
AT_ROOT = ("flights", str(ROOT.broker), str(ROOT.cluster), "REB")


def fresh():
    instruments = Instruments(Told, Told, Told)
    return instruments, BrokerMetrics(instruments, "flights", ROOT)


def test_counters_grow_by_what_is_new():
    instruments, broker = fresh()
    broker.look(ROOT, SIZES)
    broker.look(ROOT, SIZES | {"events_in": 10})
    for name, (size, _) in COUNTERS.items():
        assert instruments.counters[name].values == {AT_ROOT: 10 if size == "events_in" else SIZES[size]}
    for name, (size, _) in GAUGES.items():
        assert instruments.gauges[name].values == {AT_ROOT: SIZES[size]}


def test_what_was_counted_by_a_link_that_is_gone_is_not_taken_back():
    instruments, broker = fresh()
    for lost in (5, 2, 3):
        broker.look(ROOT, {"lost_events": lost})
    assert instruments.counters["rayvous_lost_events_total"].values == {AT_ROOT: 6}


def test_a_broker_that_changes_its_place_has_new_labels():
    instruments, broker = fresh()
    broker.look(ROOT, {"events_in": 3, "outbox_events": 7})
    moved = replace(ROOT, designated=ROOT.broker + 1)
    broker.look(moved, {"events_in": 4, "outbox_events": 2})
    now = (*AT_ROOT[:3], "NEB")
    assert instruments.counters["rayvous_events_total"].values == {AT_ROOT: 3, now: 1}
    assert instruments.gauges["rayvous_queue_events"].values == {AT_ROOT: 0, now: 2}


def test_how_long_a_batch_took_is_observed():
    instruments, broker = fresh()
    broker.delivered(0.5)
    broker.delivered(0.0)
    assert instruments.latency.values == {}, "Ray was told while a subscriber waits"
    broker.look(ROOT, SIZES)
    broker.look(ROOT, SIZES)
    assert instruments.latency.values == {AT_ROOT: [0.5, 0.0]}


def test_what_was_observed_is_told_under_the_labels_of_its_time_and_by_a_broker_that_leaves():
    instruments, broker = fresh()
    broker.delivered(0.5)
    broker.look(replace(ROOT, designated=ROOT.broker + 1), SIZES)
    broker.delivered(0.25)
    broker.leave()
    assert instruments.latency.values == {AT_ROOT: [0.5], (*AT_ROOT[:3], "NEB"): [0.25]}


def test_few_observations_wait_to_be_told():
    instruments, broker = fresh()
    for _ in range(metrics.OBSERVATIONS_MAX):
        broker.delivered(0.5)
    assert instruments.latency.values == {AT_ROOT: [0.5] * metrics.OBSERVATIONS_MAX}


def test_names_and_labels():
    for name in COUNTERS:
        assert name.startswith("rayvous_") and name.endswith("_total")
    for name in GAUGES:
        assert name.startswith("rayvous_") and not name.endswith("_total")
    assert metrics.LATENCY.endswith("_seconds")


def test_a_host_without_a_network_tells_nothing():
    metering = Metering({}, None)
    metering.begin()  # without a loop, starting a task would raise
    assert metering.of(ROOT) is None


class Resting:
    """A host with one broker, which rests, and counts how often what it has is read."""

    def __init__(self, **sizes):
        self.instruments, metrics = fresh()
        self.sizes, self.read = sizes, 0
        broker = SimpleNamespace(position=ROOT, describe=self._describe, ask=lambda query: None)
        telemetry = SimpleNamespace(dropped_rows={})
        self.hosted = HostedBroker(broker, telemetry, metrics, rests_until=10.0, ticked_at=1.0)
        self.metering = Metering({ROOT.broker: self.hosted}, None)

    def _describe(self):
        self.read += 1
        return self.sizes

    def report(self):
        """Return what Ray reports of a gauge: what was set since the last report."""
        gauge = self.instruments.gauges["rayvous_filters"]
        gauge.values.clear()
        for _ in range(LOOKS_A_REST):
            self.metering.look()
        return gauge.values.get(AT_ROOT)


def test_what_a_resting_broker_has_is_read_once_and_in_each_report():
    host = Resting(filters=3)
    assert [host.report() for _ in range(3)] == [3, 3, 3] and host.read == 1


@pytest.mark.parametrize(
    "change",
    [
        {"ticked_at": 2.0},
        {"rests_until": 11.0},
        {"owners": {"a": None}},
        {"past_ttl": 1},
        {"tally": SimpleNamespace(shed=1)},
    ],
    ids=str,
)
def test_what_a_broker_has_is_read_again_in_another_rest_and_when_its_clients_have_changed(change):
    host = Resting(filters=3)
    host.report()
    host.sizes = {"filters": 4}
    for name, value in change.items():
        setattr(host.hosted, name, value)
    assert host.report() == 4 and host.read == 2


def test_what_waits_for_durable_subscribers_is_read_each_time_since_its_age_rises():
    host = Resting(filters=3, durable_events=1)
    assert [host.report() for _ in range(3)] == [3, 3, 3] and host.read == 3
    host.sizes = {"filters": 3}
    assert [host.report() for _ in range(3)] == [3, 3, 3] and host.read == 4


def test_a_broker_that_is_awake_is_read_each_time():
    host = Resting(filters=3)
    host.hosted.rests_until = None
    host.report()
    assert host.read == LOOKS_A_REST
