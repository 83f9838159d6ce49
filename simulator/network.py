"""A network of brokers in virtual time, in one process.

Rules
-----
* One heap of messages under way, ordered by arrival and then by when they were sent. Time jumps from one to
  the next.
* The broker is the same object as in the Ray host: it takes a message and returns effects, which are carried
  out here in their order.
* A multicast is one message and one copy for each other member, each over a link of its own.
* Nothing depends on hash order, wall time or global chance: the same calls with the same seed give the same
  run.

The whole driver is :meth:`VirtualNetwork._drive`; the rest is what the effects do.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Any, Final, NamedTuple, TypeAlias

from ..actors.broker import Broker
from ..faults.stores import MemoryStore, Store
from ..protocol import checks
from ..protocol.admission import AdmissionConfig, HeldBack, LetIn, News
from ..protocol.configs import Limits, Position
from ..protocol.effects import (
    Confirm,
    Deliver,
    Drained,
    Effect,
    Inform,
    Missed,
    Multicast,
    Persist,
    Received,
    Send,
    Ticked,
)
from ..protocol.errors import ClientError, SimulationStepLimit
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages import Directed, Events
from ..protocol.recorder import TelemetryBuffer, merge_tables
from ..protocol.scenario import LinkModel
from ..protocol.telemetry import LINK_KINDS, Table
from ..routing.schemes import scheme as scheme_of
from ..routing.topologies import GROUP_SECONDS, LINK_SECONDS
from .links import Arrival, make_link

STEPS_MAX: Final = 100_000_000
CARRIERS: Final = (Events, Directed)
FLUSH_STEPS: Final = 200_000
"""Telemetry goes out at least after so many steps, long before a buffer is full."""


class Step(NamedTuple):
    """One step of a broker: when, the broker as it is after it, what came in, and what is to be done."""

    now: float
    broker: Broker
    received: Received | Ticked | Drained | Missed
    effects: list[Effect]


class Traffic(NamedTuple):
    """Messages over the links of one kind: those that carry events, and those about subscriptions."""

    events: int
    control: int


class Node:
    """A broker and its outgoing links, which are made when they are first used."""

    __slots__ = (
        "broker",
        "buffer",
        "free_at",
        "group",
        "handle",
        "id",
        "parent",
        "position",
        "store",
        "unicast",
    )

    def __init__(self, position: Position, scheme: str, admission: AdmissionConfig | None = None) -> None:
        self.position = position
        self.id = position.broker
        self.parent = position.parent
        self.broker = Broker(position, scheme, admission=admission)
        self.handle = self.broker.handle
        self.unicast: dict[BrokerId, tuple[Arrival, Node]] = {}
        self.group: list[tuple[Arrival, Node]] | None = None
        self.buffer: TelemetryBuffer | None = None
        self.free_at = 0.0
        self.store: Store = MemoryStore()


_Underway: TypeAlias = tuple[float, int, Node, Received | Ticked]


class VirtualNetwork:
    """Brokers and the links between them; :class:`rayvous.simulator.Simulation` adds the clients.

    Parameters
    ----------
    positions
        The brokers, as a topology gives them.
    scheme
        The routing scheme of all of them.
    links
        Delay, jitter and loss.
    seed
        The seed of all chance on the links.
    delay_of
        Delay between two brokers in seconds, where `links` leaves it to the topology.
    telemetry
        Called with chunks of the tables of `protocol.telemetry`, the same as on Ray.
    trace_events
        Whether the tables with one row an event are kept too.
    record
        Called with every step of every broker, before its effects are carried out.
    keep_notifications
        Whether to keep what each subscriber got; off, only the count is kept.
    admission
        What brokers admit; None for a network without admission control.

    Attributes
    ----------
    links
        The model that it was given.
    now
        Virtual time in seconds.
    steps
        Messages that brokers have taken in.
    notified
        Notifications handed to subscribers.
    lost
        Copies of messages that were lost on links.
    """

    def __init__(
        self,
        positions: Sequence[Position],
        scheme: str = "hybrid",
        *,
        links: LinkModel | None = None,
        seed: int = 0,
        delay_of: Callable[[BrokerId, BrokerId], float] | None = None,
        telemetry: Callable[[dict[str, Table]], None] | None = None,
        trace_events: bool = False,
        record: Callable[[Step], None] | None = None,
        keep_notifications: bool = True,
        limits: Limits | None = None,
        admission: AdmissionConfig | None = None,
    ) -> None:
        for position in checks.instance(
            "positions", positions, Sequence, "what a topology's positions() returns"
        ):
            checks.instance("a position", position, Position, "one of what a topology's positions() returns")
        self.now = 0.0
        self.steps = self.notified = self.lost = 0
        self.links = checks.optional("links", links, LinkModel, "a LinkModel()") or LinkModel()
        for name, given in (("delay_of", delay_of), ("telemetry", telemetry), ("record", record)):
            checks.callback(name, given)
        checks.whole_number("seed", seed)
        checks.flag("trace_events", trace_events)
        checks.flag("keep_notifications", keep_notifications)
        limits = (checks.optional("limits", limits, Limits, "a Limits()") or Limits()).validate()
        checks.optional("admission", admission, AdmissionConfig, "an AdmissionConfig()")
        if admission is not None:
            admission.validate()
        self._seed = seed
        self._delay_of = delay_of
        self._record = record
        self._telemetry = telemetry
        self._unflushed = 0
        self._keep = keep_notifications
        self._nodes = {
            place.broker: Node(place, scheme, admission) for place in scheme_of(scheme).positions(positions)
        }
        if admission is not None:
            for node in self._nodes.values():
                node.handle = self._in_time(node.handle)
        if telemetry is not None:
            for node in self._nodes.values():
                node.buffer = TelemetryBuffer(node.position, limits, trace_events=trace_events)
        self._heap: list[_Underway] = []
        self._order = itertools.count()
        self._quiet_at = 0.0  # when the last of what clients were sent has arrived
        self._halt_on: tuple[ClientId, int] | None = None
        self._event_messages = dict.fromkeys(LINK_KINDS, 0)
        self._control_messages = dict.fromkeys(LINK_KINDS, 0)
        self._installed: dict[tuple[ClientId, int], float] = {}
        self._delivered: list[tuple[float, Deliver]] = []
        self._news: dict[ClientId, list[tuple[float, News]]] = {}
        self._carry_out: dict[type, Callable[[Node, Any], None]] = {
            Send: self._send,
            Multicast: self._multicast,
            Deliver: self._deliver,
            Confirm: self._confirm,
            Persist: self._persist,
            Inform: self._inform,
        }

    # The driver.

    def run(self, steps_max: int = STEPS_MAX) -> int:
        """Let time pass until nothing moves any more; return how many steps that took.

        Raises
        ------
        SimulationStepLimit
            If it takes more than `steps_max` steps.
        """
        steps = self._drive(math.inf, checks.whole_number("steps_max", steps_max, 0))
        self.now = max(self.now, self._quiet_at)
        self.flush()
        return steps

    def advance(self, seconds: float) -> int:
        """Let that much time pass; return how many steps were made."""
        return self._advance_to(self.now + checks.seconds("seconds", seconds))

    def _advance_to(self, until: float) -> int:
        steps = self._drive(until, STEPS_MAX)
        self.now = until
        return steps

    def run_until_installed(self, client: ClientId, number: int) -> bool:
        """Let time pass until the subscription is installed up to the root; False if that never happens."""
        key = checks.text("client", client), checks.whole_number("number", number)
        if key not in self._installed:
            self._halt_on = key
            self._drive(math.inf, STEPS_MAX)
            self._halt_on = None
        confirmed = self._installed.get(key)
        if confirmed is None:
            return False
        self._advance_to(max(self.now, confirmed))
        return True

    def _drive(self, until: float, steps_max: int) -> int:
        heap, record, carry_out, buffered = self._heap, self._record, self._carry_out, self._telemetry
        awaited = self._halt_on
        steps = 0
        while heap and heap[0][0] <= until:
            if steps == steps_max:
                self.steps += steps
                raise SimulationStepLimit(
                    f"{steps_max} steps, and {len(heap)} messages are still under way at "
                    f"{self.now:.6f} virtual seconds; give a higher steps_max if that is not a loop"
                )
            self.now, _, node, received = heappop(heap)
            effects = node.handle(received)
            if record is not None:
                record(Step(self.now, node.broker, received, effects))
            if buffered is not None:
                self._note_publication(node, received)
            for effect in effects:
                carry_out[type(effect)](node, effect)
            steps += 1
            if awaited is not None and awaited in self._installed:
                break
        self.steps += steps
        return steps

    def _in_time(self, handle: Callable[[Any], list[Effect]]) -> Callable[[Any], list[Effect]]:
        """Return a broker's `handle` that is told the time before a publisher's events: it has so many a second."""

        def handle_in_time(event: Received | Ticked) -> list[Effect]:
            if (
                isinstance(event, Received)
                and isinstance(event.source, str)
                and type(event.message) is Events
            ):
                return [*handle(Ticked(self.now)), *handle(event)]
            return handle(event)

        return handle_in_time

    # The effects.

    def _send(self, node: Node, effect: Send) -> None:
        to, message = effect.to, effect.message
        counts = self._event_messages if type(message) in CARRIERS else self._control_messages
        counts["up" if to == node.parent else "down"] += 1
        leaves = self._leave(node, effect, 1)
        link = node.unicast.get(to)
        if link is None:
            link = node.unicast[to] = self._link(node, to, "unicast")
        arrival, target = link
        arrives = arrival(leaves)
        if arrives is None:
            self.lost += 1
        else:
            heappush(self._heap, (arrives, next(self._order), target, Received(node.id, message)))

    def _multicast(self, node: Node, effect: Multicast) -> None:
        message = effect.message
        counts = self._event_messages if type(message) in CARRIERS else self._control_messages
        counts["multicast"] += 1
        leaves = self._leave(node, effect, 1)
        if node.group is None:
            members = node.position.members
            node.group = [self._link(node, other, "group") for other in members if other != node.id]
        heap, order = self._heap, self._order
        received = Received(node.id, message)
        for arrival, target in node.group:
            arrives = arrival(leaves)
            if arrives is None:
                self.lost += 1
            else:
                heappush(heap, (arrives, next(order), target, received))

    def _deliver(self, node: Node, effect: Deliver) -> None:
        self._event_messages["deliver"] += len(effect.clients)
        self.notified += len(effect.rows)
        arrives = self._leave(node, effect, len(effect.clients)) + self.links.client_seconds
        if arrives > self._quiet_at:
            self._quiet_at = arrives
        if self._keep:
            self._delivered.append((arrives, effect))

    def _confirm(self, node: Node, effect: Confirm) -> None:
        self._control_messages["deliver"] += 1
        arrives = self._leave(node, effect, 1) + self.links.client_seconds
        self._quiet_at = max(self._quiet_at, arrives)
        self._installed[effect.client, effect.subscription] = arrives

    def _persist(self, node: Node, effect: Persist) -> None:
        node.store.commit(effect.writes)

    def _inform(self, node: Node, effect: Inform) -> None:
        self._control_messages["deliver"] += 1
        arrives = self._leave(node, effect, 1) + self.links.client_seconds
        self._quiet_at = max(self._quiet_at, arrives)
        self._news.setdefault(effect.client, []).append((arrives, effect.news))
        if isinstance(effect.news, HeldBack | LetIn) and effect.news.seconds:
            when = self.now + effect.news.seconds
            heappush(self._heap, (when, next(self._order), node, Ticked(when)))

    def _leave(self, node: Node, effect: Effect, copies: int) -> float:
        """Return when the effect's messages leave; of several, when the middle one does."""
        leaves = self.now
        busy = self.links.send_seconds
        if busy:
            start = max(leaves, node.free_at)
            node.free_at = start + busy * copies
            leaves = start + busy * (copies + 1) / 2
        if node.buffer is not None:
            node.buffer.effect(leaves, effect)
        return leaves

    def _link(self, node: Node, to: BrokerId, kind: str) -> tuple[Arrival, Node]:
        target = self._nodes[to]
        near = node.position.cluster == target.position.cluster
        delay = self.links.group_seconds if near else self.links.delay_seconds
        if delay is None and self._delay_of is not None:
            delay = self._delay_of(node.id, to)
        elif delay is None:
            delay = GROUP_SECONDS if near else LINK_SECONDS
        return make_link(f"{kind}/{node.id}/{to}", delay, self.links, self._seed), target

    # What it was like.

    def traffic(self) -> dict[str, Traffic]:
        """Return the messages over the links of each kind; their sum is TCT (paper 1, section 5.1)."""
        return {
            kind: Traffic(self._event_messages[kind], self._control_messages[kind]) for kind in LINK_KINDS
        }

    def broker(self, broker: BrokerId) -> Broker:
        """Return one broker, to look at.

        Raises
        ------
        ClientError
            If there is no such broker.
        """
        return self._node(broker).broker

    def _node(self, broker: BrokerId) -> Node:
        checks.whole_number("broker", broker)
        if broker not in self._nodes:
            raise ClientError(f"no broker {broker!r}: there are {len(self._nodes)}, numbered from 0")
        return self._nodes[broker]

    def brokers(self) -> list[Broker]:
        """Return all brokers, to look at."""
        return [node.broker for node in self._nodes.values()]

    def flush(self) -> None:
        """Hand the telemetry so far to whoever asked for it; :meth:`run` does so at its end."""
        if self._telemetry is not None:
            chunk = merge_tables(node.buffer.flush() for node in self._nodes.values() if node.buffer)
            self._unflushed = 0
            if chunk:
                self._telemetry(chunk)

    def _note_publication(self, node: Node, received: Received | Ticked) -> None:
        if (
            isinstance(received, Received)
            and isinstance(received.source, str)
            and isinstance(received.message, Events)
        ):
            assert node.buffer is not None
            node.buffer.published(self.now, received.message.batch)
        self._unflushed += 1
        if self._unflushed >= FLUSH_STEPS:
            self.flush()
