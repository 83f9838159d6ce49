"""Brokers and links that can carry only so much, in virtual time; events that wait too long are dropped by name.

Rules
-----
* A broker takes in one event after the other, at its rate; a link sends one after the other, at its own. What comes
  meanwhile waits, first in first out. Announcements and answers cost nothing.
* An event that would wait longer than the deadline at one place is dropped there and counted: "cpu" at a broker,
  "bandwidth" at a link.

Source: paper 3, section 5.1 (the processing and link rates, and the 5 s after which a node drops an event).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from ..protocol.admission import Capacity
from ..protocol.effects import Drained, Effect, Multicast, Received, Send, Ticked
from ..protocol.ids import GROUP, BrokerId
from ..protocol.messages import Events
from .network import Node
from .simulation import Simulation


class _Served(Received):
    """Events whose turn has come: they have waited, and been worked on."""


class LoadedSimulation(Simulation):
    """A network whose brokers and links have limits; further parameters as of :class:`Simulation`.

    Parameters
    ----------
    capacity_of
        What each broker can carry, and its links out.
    deadline_seconds
        How long an event may wait at one place.

    Attributes
    ----------
    dropped
        Events dropped so far, by resource and broker.
    taken_in, sent
        Events that each broker has worked on, and that each directed link has carried.
    """

    def __init__(
        self,
        *args: Any,
        capacity_of: Callable[[BrokerId], Capacity],
        deadline_seconds: float = 5.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self._capacity_of = capacity_of
        self._deadline = deadline_seconds
        self._cpu_free_at = dict.fromkeys(self._nodes, 0.0)
        self._link_free_at: dict[tuple[BrokerId, BrokerId], float] = {}
        self.dropped = {"cpu": dict.fromkeys(self._nodes, 0), "bandwidth": dict.fromkeys(self._nodes, 0)}
        self.taken_in = dict.fromkeys(self._nodes, 0)
        self.sent: dict[tuple[BrokerId, BrokerId], int] = {}
        for node in self._nodes.values():
            node.handle = self._in_turn(node, node.handle)

    def _in_turn(
        self, node: Node, handle: Callable[[Received | Ticked | Drained], list[Effect]]
    ) -> Callable[[Received | Ticked | Drained], list[Effect]]:
        """Return a broker's `handle` behind a queue."""
        seconds = 1.0 / self._capacity_of(node.id).events_per_second

        def handle_in_turn(event: Received | Ticked | Drained) -> list[Effect]:
            if isinstance(event, Ticked | Drained) or not isinstance(event.message, Events):
                return handle(event)
            if isinstance(event, _Served):
                self.taken_in[node.id] += len(event.message.batch)
                return handle(event)
            events = len(event.message.batch)
            start = max(self.now, self._cpu_free_at[node.id])
            if start - self.now > self._deadline:
                self.dropped["cpu"][node.id] += events
                return []
            done = self._cpu_free_at[node.id] = start + events * seconds
            heappush(self._heap, (done, next(self._order), node, _Served(event.source, event.message)))
            return []

        return handle_in_turn

    def _send(self, node: Node, effect: Send) -> None:
        if isinstance(effect.message, Events):
            self._transmit(
                node, effect.to, effect.message, lambda: super(LoadedSimulation, self)._send(node, effect)
            )
        else:
            super()._send(node, effect)

    def _multicast(self, node: Node, effect: Multicast) -> None:
        if isinstance(effect.message, Events):
            self._transmit(
                node, GROUP, effect.message, lambda: super(LoadedSimulation, self)._multicast(node, effect)
            )
        else:
            super()._multicast(node, effect)

    def _transmit(self, node: Node, to: BrokerId, message: Events, go: Callable[[], None]) -> None:
        """Let events leave when it is their turn on the link, unless that takes too long."""
        link, events = (node.id, to), len(message.batch)
        start = max(self.now, self._link_free_at.get(link, 0.0))
        if start - self.now > self._deadline:
            self.dropped["bandwidth"][node.id] += events
            return
        done = self._link_free_at[link] = start + events / self._capacity_of(node.id).link(to)
        self.sent[link] = self.sent.get(link, 0) + events
        now, self.now = self.now, done
        go()
        self.now = now

    def dropped_events(self) -> dict[str, int]:
        """Return how many events were dropped so far, by the resource that they waited for."""
        return {resource: sum(counts.values()) for resource, counts in self.dropped.items()}
