"""Scenarios on Ray: the steps that the simulator executes, done by real clients at real broker actors."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from ...actors.clients.publisher import Publisher
from ...actors.clients.subscriber import Subscriber
from ...actors.network.network import Network
from ...protocol.scenarios.scenario import Scenario
from ...protocol.scenarios.steps import Publish, Settle, Subscribe, Unsubscribe, broker_of
from ...protocol.telemetry.tables import SCHEMAS
from ...protocol.traces.recording import Recording
from ...protocol.traces.trace import Trace


@dataclass(slots=True)
class _Clients:
    """The clients of a scenario; each attaches when it first acts."""

    net: Network
    publishers: dict[str, Publisher] = field(default_factory=dict)
    subscribers: dict[str, Subscriber] = field(default_factory=dict)
    numbers: dict[tuple[str, int], int] = field(default_factory=dict)

    def subscribe(self, step: Subscribe) -> None:
        if step.client not in self.subscribers:
            self.subscribers[step.client] = self.net.subscriber(step.client, broker=broker_of(step))
        number = self.subscribers[step.client].subscribe(step.selector)
        self.numbers[step.client, step.number] = number

    def unsubscribe(self, step: Unsubscribe) -> None:
        self.subscribers[step.client].unsubscribe(self.numbers.pop((step.client, step.number)))

    def publish(self, step: Publish) -> None:
        if step.client not in self.publishers:
            self.publishers[step.client] = self.net.publisher(step.client, broker=broker_of(step))
        self.publishers[step.client].publish_batch(list(step.events))

    def drain(self, trace: Trace) -> None:
        """Record the notifications that subscribers received since the last call."""
        for name, subscriber in self.subscribers.items():
            for arrival in subscriber.arrivals(timeout_seconds=0):
                for row in arrival.rows.tolist():
                    trace.notified(arrival.received_at, name, *arrival.batch.identity(row))


def replay(net: Network, scenario: Scenario) -> Trace:
    """Execute the steps of a scenario on a network; return what clients did and received.

    Parameters
    ----------
    net
        A network launched with the scenario's topology and scheme.
    scenario
        As :meth:`Scenario.explicit` returns it.
    """
    clients = _Clients(net)
    recording = Recording()
    for step in scenario.steps:
        recording.begin(time.time(), step)
        if isinstance(step, Subscribe):
            clients.subscribe(step)
            recording.confirm(time.time(), step)
        elif isinstance(step, Unsubscribe):
            clients.unsubscribe(step)
        elif isinstance(step, Publish):
            clients.publish(step)
        elif isinstance(step, Settle):
            net.settle()
            clients.drain(recording.trace)
            recording.trace.settled(time.time())
    net.settle()
    clients.drain(recording.trace)
    return recording.finish(time.time())


def telemetry_of(net: Network, names: Sequence[str]) -> dict[str, dict[str, object]]:
    """Return telemetry tables of the run so far as numpy columns; see `protocol.telemetry.tables`."""
    found = net.telemetry().to_arrow()
    return {
        name: {
            column: found[name][column].to_numpy().astype(object if kind is str else kind)
            for column, kind in SCHEMAS[name].items()
        }
        for name in names
    }
