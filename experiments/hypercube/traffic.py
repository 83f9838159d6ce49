"""Networks whose messages are counted per broker as they are sent: a hypercube, and the networks compared with it.

Rules
-----
* A message counts where it is sent and where it is received. Of the messages that a broker sends, its *own*
  are those that its clients caused; all others it *forwards*. An event counts one, whatever the size of its
  batch.
* Messages that announce a change of subscriptions (`told`) are the paper's broadcasts; the answers that a
  subscription is installed (`answers`) are ours, and are counted separately.
* The networks: the cube of paper 2; a *star* and a *hierarchy* on which every broker is told of every
  subscription, so that the same messages have to be carried as in a cube (match-first, as in Gryphon); and
  hierarchies that tell only their root, to which every event goes up (JEDI, Siena); and a random *graph* with cycles
  and as many links as the cube, on which events are flooded, and copies dropped; no broker is told of subscriptions.

Source: paper 2, sections 1 and 2.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from ...protocol.effects import Send
from ...protocol.messages.pubsub import Announce, Echo, Events, Installed, Spread, Withdraw
from ...routing.topologies.cluster_trees import ClusterTree
from ...simulator.network import Step
from ...simulator.simulation import Simulation

KINDS: Final[Mapping[type, str]] = {
    Spread: "told",
    Announce: "told",
    Withdraw: "told",
    Echo: "answers",
    Installed: "answers",
    Events: "events",
}
BATCH: Final = 50
"""Replies that a publisher publishes at a time."""

Counts = npt.NDArray[np.int64]


class Net(NamedTuple):
    """A scheme, and the maximum number of children in its tree; 0 for no limit."""

    scheme: str
    degree: int


CUBE: Final = "hypercube"
GRAPH: Final = "flooding of a graph"
NETS: Final = {
    CUBE: Net("hypercube", 2),
    "star": Net("match-first", 0),
    "hierarchy": Net("match-first", 2),
    "hierarchy, 8 children": Net("match-first", 8),
    "hierarchy to the root": Net("hierarchical", 2),
    "hierarchy to the root, 8 children": Net("hierarchical", 8),
    GRAPH: Net("flooding+graph", 2),
}
"""The networks by the names of their curves."""


class Traffic:
    """Counts the messages between brokers.

    Attributes
    ----------
    own, forwarded, received
        By kind of message, a number for each broker.
    """

    def __init__(self, brokers: int) -> None:
        kinds = sorted(set(KINDS.values()))
        self.own: dict[str, Counts] = {kind: np.zeros(brokers, np.int64) for kind in kinds}
        self.forwarded: dict[str, Counts] = {kind: np.zeros(brokers, np.int64) for kind in kinds}
        self.received: dict[str, Counts] = {kind: np.zeros(brokers, np.int64) for kind in kinds}

    def __call__(self, step: Step) -> None:
        """Count a step of a broker."""
        source = getattr(step.received, "source", None)
        sent = self.own if isinstance(source, str) else self.forwarded
        here = step.broker.position.broker
        for effect in step.effects:
            kind = KINDS.get(type(effect.message)) if isinstance(effect, Send) else None
            if kind is not None:
                many = len(effect.message.batch) if kind == "events" else 1  # type: ignore[union-attr]
                sent[kind][here] += many
                self.received[kind][effect.to] += many  # type: ignore[union-attr]

    def messages(self, kind: str) -> int:
        """Return the number of messages of a kind."""
        return int(self.received[kind].sum())


def simulated(curve: str, brokers: int, record: Callable[[Step], None], run: int = 0) -> Simulation:
    """Return the network of a curve; `record` is called with every step of its brokers. Each run has another graph."""
    net = NETS[curve]
    tree = ClusterTree(brokers, 1, degree=net.degree or max(1, brokers - 1))
    if curve == GRAPH:
        tree = ClusterTree(brokers, 1, degree=net.degree, shape="transit-stub", seed=run)
    return Simulation(tree.positions(), net.scheme, record=record, keep_notifications=False)


def await_replies(net: Simulation, brokers: int) -> None:
    """Let a subscriber at each broker subscribe to the events addressed `to` that broker."""
    for broker in range(brokers):
        net.subscribe(f"s{broker}", broker, f"to = {broker}")
    net.run()


def reply(net: Simulation, broker: int, others: Sequence[int]) -> None:
    """Let a publisher at a broker send an event to each of these brokers, in batches."""
    for first in range(0, len(others), BATCH):
        net.publish(f"p{broker}", broker, [{"to": to} for to in others[first : first + BATCH]])
        net.run()
