"""Golden traces: each file of `traces` is a sequence of commands with their outputs.

A block is a command, lines of input if it has any, ``----``, and the output up to an empty line. `pytest
--rewrite` writes the outputs anew, and the difference is then reviewed. Lines that begin with ``#`` are
comments.
"""

import json
from pathlib import Path

import pytest
from rayvous.routing.topologies.cluster_trees import figure_1, fixed
from rayvous.simulator import Simulation
from tracing import Tracer

FOLDER = Path(__file__).parent / "traces"


class Story:
    """A network and the commands of the traces."""

    def network(self, scheme, *, lines):
        """Build figure 1, or the tree in the lines: children are indented, normal brokers follow a colon."""
        self.topology = _drawn(lines) if lines else figure_1()
        self.tracer = Tracer(self.topology.positions())
        self.simulation = Simulation(self.topology.positions(), scheme, record=self._record)
        return [_place(broker.position, self.tracer) for broker in self.simulation.brokers()]

    def _record(self, step):
        step.broker.check()
        self.tracer.record(step)

    def subscribe(self, client, broker, number, selector, *, lines):
        self.simulation.subscribe(client, self.topology.broker(broker), selector, int(number))
        return self._run()

    def unsubscribe(self, client, number, *, lines):
        self.simulation.unsubscribe(client, int(number))
        return self._run()

    def detach(self, client, *, lines):
        self.simulation.detach(client)
        return self._run()

    def publish(self, client, broker, *, lines):
        self.simulation.publish(client, self.topology.broker(broker), [json.loads(line) for line in lines])
        return self._run()

    def tables(self, *, lines):
        out = []
        for broker in self.simulation.brokers():
            rows = [f"    {row}" for row in self.tracer.table(broker)]
            out += [self.tracer.label(broker.position.broker), *rows] if rows else []
        return out or ["all tables are empty"]

    def notifications(self, *, lines):
        return [
            f"{client}: " + " ".join(f"{publisher}#{number}" for publisher, number in inbox)
            for client in self.simulation.subscribers()
            if (inbox := self.simulation.notifications(client))
        ]

    def traffic(self, *, lines):
        return [
            f"{kind}: {count.events} with events, {count.control} about subscriptions"
            for kind, count in self.simulation.traffic().items()
        ]

    def _run(self):
        self.simulation.run(steps_max=1000)
        return self.tracer.take()


def _drawn(lines):
    parents, members, path = {}, {}, []
    for line in lines:
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, normal = line.strip().partition(":")
        path[depth:] = [name]
        parents[name] = path[depth - 1] if depth else None
        members[name] = normal.split()
    return fixed(parents, members)


def _place(position, tracer):
    line = f"{position.label} ({position.broker}): {position.role}"
    if position.role == "NEB" or position.parent is None:
        return line
    return f"{line} under {tracer.label(position.parent)}"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_story_is_as_written(path, golden):
    golden(Story(), path)


def test_there_are_stories():
    assert len(list(FOLDER.glob("*.txt"))) >= 5


def test_a_wrong_story_is_noticed(replay):
    text = (FOLDER / "figure_1.txt").read_text(encoding="utf-8")
    assert replay(Story(), text)[1] == []
    assert replay(Story(), text.replace("notify s1: p1#1", "notify s1: p1#2", 1))[1] != []
