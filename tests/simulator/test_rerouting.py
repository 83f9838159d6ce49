"""A golden trace of whole brokers: a link is cut, a cluster finds another parent, and routes change (4.2).

``traces/rerouting.txt`` is the example of paper 1, run by complete brokers: which requests to join are made,
which routes are removed (4.2.2, step 1) and built (step 2), and the path of P2's events before and after.
Heartbeats and round trips are left out. `pytest --rewrite` writes the outputs anew.
"""

import json
from pathlib import Path

from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.effects import Deliver, Multicast, Received, Send
from rayvous.protocol.messages.pubsub import Announce, Events, Withdraw
from rayvous.protocol.messages.recovery import Goodbye, JoinAnswer, JoinRequest, Recovery, TableOfChild
from rayvous.routing.schemes.hybrid import Hybrid
from rayvous.routing.topologies.cluster_trees import figure_1
from rayvous.simulator.simulation import Simulation
from tracing import Tracer

PATH = Path(__file__).parent / "traces" / "rerouting.txt"
TOLD = Announce, Withdraw, Goodbye, JoinRequest, JoinAnswer
LOAD_MAX = 50.0
"""Events per second; a quarter of the rate that the story's `burden` publishes."""


class Story:
    """The network of figure 1 under faults, and the part of its trace that is shown."""

    def network(self, *, lines):
        self.topology = figure_1()
        positions = self.topology.positions()
        self.tracer = Tracer(positions)
        recovery = Recovery.for_simulator(degree=2, load_max=LOAD_MAX)
        self.net = Simulation(positions, recovery=recovery, record=self._record, seed=1)
        self._wait(2.0)
        return []

    def subscribe(self, client, broker, selector, *, lines):
        self.net.subscribe(client, self.topology.broker(broker), selector, 1)
        return self._wait(2.0)

    def publish(self, client, broker, *, lines):
        self.net.publish(client, self.topology.broker(broker), [json.loads(line) for line in lines])
        return self._wait(0.5)

    def burden(self, client, broker, *, lines):
        """Let a client publish events that nobody wants, 200 a second for half a minute."""
        for turn in range(300):
            events = [{"n": number} for number in range(20)]
            self.net.at(
                self.net.now + turn / 10, self.net.publish, client, self.topology.broker(broker), events
            )
        return self._wait(2.0)

    def cut(self, one, other, *, lines):
        self.net.faults.cut([(self.topology.broker(one), self.topology.broker(other))], "the story")
        told = self._wait(20.0)
        problems = structure_problems(self.net) or subscription_problems(self.net)
        return [*told, *problems]

    def tables(self, *, lines):
        return [
            f"{self.tracer.label(broker.position.broker)}: {row}"
            for broker in self.net.brokers()
            for row in self.tracer.table(broker)
        ]

    def _record(self, step):
        before = len(self.tracer.lines)
        self.tracer.record(step._replace(effects=[each for each in step.effects if self._is_effect(each)]))
        told = isinstance(step.received, Received) and self._is_told(step.received.message)
        if not told and not any("table " in line for line in self.tracer.lines[before:]):
            del self.tracer.lines[before:]

    def _is_told(self, message):
        mine = isinstance(message, Events) and "p1" not in message.batch.publishers
        return isinstance(message, TOLD) or (mine and not message.retransmitted)

    def _is_effect(self, effect):
        sends = isinstance(effect, Send | Multicast)
        return isinstance(effect, Deliver) or (
            sends and isinstance(effect.message, (*TOLD, Events, TableOfChild))
        )

    def _wait(self, seconds):
        self.net.advance(seconds)
        return self.tracer.take()


def test_the_example_of_the_paper_is_as_written(golden):
    """Reference: paper 1, 4.2.1 and 4.2.2."""
    golden(Story(), PATH)


def test_an_old_route_that_is_not_removed_is_noticed(replay, monkeypatch):
    """Step 1 of 4.2.2 is switched off: D3 drops D4 and keeps what it wanted."""
    monkeypatch.setattr(Hybrid, "drop", lambda self, link, holder: [])
    wrong = {command for command, _, _ in replay(Story(), PATH.read_text(encoding="utf-8"))[1]}
    assert {"cut D3 D4", "tables"} <= wrong
