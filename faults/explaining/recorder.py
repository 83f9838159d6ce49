"""Records the journey of one event in the simulator, while a run is made once more.

Rules
-----
* It looks and changes nothing, so a seed with it is the same run as without it. It is told of every step of a broker
  (`record`), of every message on a link (`observer`), of every call of a layer (`Pipeline.watch`), and of deaths.
* Of other messages than those with the event only the control messages are kept, without heartbeats, and at most
  :data:`COPIES_MAX` of them; at most :data:`TAKEN_MAX` steps with the event.
* Where a broker has one layer only, there is nothing to watch: its router is asked what it would return, if that
  changes nothing in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final

from ...broker import Broker
from ...broker.pipeline import Call, Pipeline
from ...protocol.batch import EventBatch
from ...protocol.effects import Deliver, Multicast, Received, Send
from ...protocol.ids import GROUP, BrokerId, ClientId, EventId, Link
from ...protocol.layers import Inward, RoundBegan
from ...protocol.messages.beats import is_beat
from ...protocol.messages.pubsub import Cancel, Detach, Directed, Events, Lost, Numbered, Register, Resume
from ...protocol.messages.recovery import RENDEZVOUS
from ...protocol.traces.trace import Cancelled, LossTold, Notified, Published, Registered, Trace
from ...protocol.values import Value
from ...recovery.membership.structure import Survey, above_each, in_views
from ...recovery.replay.history import Page, ReadHistory
from ...recovery.replay.replay import Replay
from ...routing.filters.filter import Filter
from ...routing.language.questions import covers
from ...simulator.hosts import Connection, FromClient, Host
from ...simulator.network import Step
from ...simulator.simulation import Simulation
from ...simulator.survey import survey_of
from ..checker.predicates import test_of
from ..simulated.judging import structure_problems, subscription_problems
from .journey import Copy, Entry, Journey, Mark, Process, Round, Stop, Taken
from .past import PastRecorder
from .rules import place_of, stop_of

COPIES_MAX: Final = 50_000
TAKEN_MAX: Final = 5_000
ENTRIES_MAX: Final = 64
JUDGED_MAX: Final = 3


class Recorder:
    """What is seen of one event, and of the filters of one subscriber.

    Parameters
    ----------
    event
        (publisher, number).
    subscriber
        The subscriber.

    Attributes
    ----------
    network
        The network, once it exists.
    """

    def __init__(self, event: EventId, subscriber: ClientId) -> None:
        self.event, self.subscriber = event, subscriber
        self.network: Simulation | None = None
        self._make: Callable[..., object] = Broker
        self._calls: list[Call] = []
        self._taken: list[Taken] = []
        self._copies: list[_Flight] = []
        self._flights: dict[tuple[int, Process], list[_Flight]] = {}
        self._rounds: list[Round] = []
        self._marks: list[Mark] = []
        self._filters: list[Filter] = []
        self._homes: dict[ClientId, tuple[BrokerId, int]] = {}
        self._skipped = self._beats = self._steps_skipped = 0
        self._past = PastRecorder(event)

    # What a simulation is given.

    def options(self, make: Callable[..., object] = Broker) -> dict[str, object]:
        """Return the options of a simulation that is to be recorded; `make` makes its brokers."""
        self._make = make
        return {"broker": self.make, "record": self.stepped, "observer": self}

    def attend(self, network: Simulation) -> None:
        """Look at a network from now on, as soon as it exists."""
        self.network = network
        network.faults.mourners.append(self._died)

    def make(self, *arguments: object, **options: object) -> object:
        """Make a broker whose layers are watched."""
        broker = self._make(*arguments, **options)
        if isinstance(broker, Broker):
            broker.pipeline.watch(self._calls.append)
            incarnation = arguments[3] if len(arguments) > 3 else 0
            if incarnation and self.network is not None:
                self._mark(broker.position.broker, "death", f"broker {broker.position.broker} starts again")
        return broker

    # Messages between processes.

    def under_way(
        self, connection: Connection, received: Received, leaves: float, arrives: float
    ) -> Callable[[Received], None]:
        """Note a message, and return what takes it when it arrives."""
        flight = self._flight(connection, received, leaves)
        if flight is None:
            return connection.arrive
        flight.arrives_at, arrive = arrives, connection.arrive
        ticket: list[Connection] = arrive.__self__  # type: ignore[attr-defined]  # emptied when it is lost

        def take(message: Received) -> None:
            if not ticket:
                flight.lost, flight.arrives_at = self._why_lost(connection), None
            elif self.network is not None and connection.pair in self.network.cuts.reasons:
                flight.held, flight.arrives_at = ticket, None
            arrive(message)

        return take

    def lost(self, connection: Connection, received: Received, leaves: float, why: str) -> None:
        """Note a message that was lost as it left."""
        flight = self._flight(connection, received, leaves)
        if flight is not None:
            flight.lost = why

    def _flight(self, connection: Connection, received: Received, leaves: float) -> _Flight | None:
        message = received.message
        if is_beat(message):
            self._beats += 1
            return None
        carries = carries_event(message, self.event)
        if not carries and (_batch_of(message) is not None or len(self._copies) >= COPIES_MAX):
            self._skipped += 1
            return None
        source, to = connection.source.id, connection.target.id
        flight = _Flight(leaves, source, to, message, carries, not carries and self._is_wanted(message))
        self._copies.append(flight)
        if carries:
            self._flights.setdefault((id(received), to), []).append(flight)
            flight.received = received  # so that its id stays its own
        return flight

    def _is_wanted(self, message: object) -> bool:
        item = getattr(message.message if isinstance(message, Numbered) else message, "filter", None)
        return isinstance(item, Filter) and any(covers(item, each) for each in self._filters)

    def _why_lost(self, connection: Connection) -> str:
        for end in (connection.target, connection.source):
            if not end.alive:
                return f"broker {end.id} died before it arrived"
        return "the connection broke before it arrived"

    def _died(self, host: Host, paused: bool) -> None:
        if host.id == RENDEZVOUS:
            self._mark(None, "death", "the rendezvous point dies")
        else:
            self._mark(host.id, "death", f"broker {host.id} dies")

    def _mark(self, process: Process | None, kind: str, what: str) -> None:
        if len(self._marks) < TAKEN_MAX and self.network is not None:
            self._marks.append(Mark(self.network.now, process, kind, what))

    # The past, which a subscriber reads itself.

    def past_begins(self, client: ClientId, todo: Mapping[ClientId, tuple[int, int]]) -> None:
        """Note that a subscriber begins to read its past."""
        if client == self.subscriber and self.network is not None:
            self._past.begins(self.network.now, todo)

    def past_asked(
        self, client: ClientId, broker: BrokerId, question: ReadHistory, page: Page | None
    ) -> None:
        """Note a question about the past, and the answer."""
        if client == self.subscriber and self.network is not None:
            self._past.asked(self.network.now, broker, question, page)

    def past_lost(self, client: ClientId, lost: Sequence[Lost], answered: Collection[BrokerId]) -> None:
        """Note what is given up of the past."""
        if client == self.subscriber and self.network is not None:
            self._past.lost(self.network, lost, answered)

    # Steps of brokers.

    def stepped(self, step: Step) -> None:
        """Note a step of a broker, before its effects are carried out."""
        calls = self._calls[:]
        self._calls.clear()
        received = step.received
        if isinstance(received, FromClient):
            self._heard(step, received)
        for call in calls:
            if isinstance(call.given, RoundBegan) and isinstance(call.layer, Replay):
                self._round(step, call)
        came_in = isinstance(received, Received) and carries_event(received.message, self.event)
        to = links_of(step.effects, self.event)
        inner = any(carries_event_of(call.given, self.event) for call in calls)
        if came_in or to or inner:
            self._take(step, calls, to, came_in=came_in)

    def _heard(self, step: Step, received: FromClient) -> None:
        client, here, message = received.source, step.broker.position.broker, received.message
        message = message.message if isinstance(message, Numbered) else message
        if client not in (self.subscriber, self.event[0]):
            return
        before = self._homes.get(client)
        if isinstance(message, Resume) or (before is not None and before[0] != here):
            if before is None or before != (here, received.connection):
                where = f" from broker {before[0]}" if before is not None and before[0] != here else ""
                self._mark(client, "client", f"{client} comes to broker {here}{where}")
        self._homes[client] = here, received.connection
        if client != self.subscriber:
            return
        if isinstance(message, Register):
            self._filters.append(message.filter)
            what = f"{client} registers #{message.subscription} at broker {here}: {_cut(str(message.filter))}"
            self._mark(client, "client", what)
        elif isinstance(message, Cancel):
            self._mark(client, "client", f"{client} cancels #{message.subscription} at broker {here}")
        elif isinstance(message, Detach):
            self._mark(client, "client", f"{client} leaves broker {here}")

    def _round(self, step: Step, call: Call) -> None:
        assert isinstance(call.given, RoundBegan) and isinstance(call.layer, Replay)
        again = [each.event for each in call.out if isinstance(each, Inward)]
        resent = any(isinstance(each, Received) and carries_event(each.message, self.event) for each in again)
        here, number = step.broker.position.broker, call.given.number
        publisher, sequence = self.event
        accepted = call.layer.accepted(publisher) >= sequence
        if resent or accepted:
            self._rounds.append(Round(step.now, here, (number.term, number.number), resent, accepted))

    def _take(self, step: Step, calls: Sequence[Call], to: tuple[Link, ...], *, came_in: bool) -> None:
        if len(self._taken) >= TAKEN_MAX:
            self._steps_skipped += 1
            return
        broker, received = step.broker, step.received
        here = broker.position.broker
        carriers: list[Events | None] = []
        source: Process = here
        if came_in:
            assert isinstance(received, Received)
            source = received.source
            carriers.append(_events_of(received.message))
        carriers += [_brought_by(each) for each in step.effects if carries_event_of(each, self.event)]
        last = next((each for each in reversed(carriers) if each is not None), None)
        home, ways, judged = self._where(here, to, calls)
        self._taken.append(
            Taken(
                step.now,
                here,
                broker.position.cluster,
                source,
                getattr(self._host(here), "incarnation", 0),
                (0, 0) if last is None else (last.round.term, last.round.number),
                last is not None and last.retransmitted,
                tuple(self._entries(broker, step, calls)),
                to,
                tuple(self._stops(calls)),
                self._router_to(step, calls, to),
                home,
                ways,
                len(ways) > 1 and self._cluster(ways[0]) == self._cluster(ways[1]) and _in_clusters(broker),
                judged,
                place_of(broker.router.handle),
                came_in,
            )
        )

    def _host(self, broker: BrokerId) -> Host | None:
        return None if self.network is None else self.network.hosts[broker]

    def _cluster(self, broker: BrokerId) -> int:
        host = self._host(broker)
        return -1 if host is None else host.cluster

    def _where(
        self, here: BrokerId, to: Sequence[Link], calls: Sequence[Call]
    ) -> tuple[BrokerId | None, tuple[BrokerId, ...], tuple[str, ...]]:
        """Return the subscriber's broker, the way there, and what the judge finds wrong if the event goes nowhere."""
        network = self.network
        session = None if network is None else network.sessions.get(self.subscriber)
        if network is None or session is None:
            return None, (), ()
        home, survey = session.home.id, survey_of(network)
        ways = way_between(here, home, survey)
        beyond = ways[1] if len(ways) > 1 else self.subscriber
        if beyond in to or GROUP in to or here not in survey:
            return home, ways, ()
        return home, ways, self._judged(network, here, beyond)

    def _judged(self, network: Simulation, here: BrokerId, beyond: Link) -> tuple[str, ...]:
        problems = structure_problems(network) or subscription_problems(network)
        near = re.compile(rf"\bbroker ({here}|{beyond})\b|\b{re.escape(str(beyond))}\b")
        return tuple([_cut(problem) for problem in problems if near.search(problem)][:JUDGED_MAX])

    def _entries(self, broker: Broker, step: Step, calls: Sequence[Call]) -> Iterable[Entry]:
        content = self._content(step, calls)
        if content is None:
            return
        found = 0
        for item, link, _ in broker.router.held():
            if item.holds(content) is True:
                yield Entry(link, _cut(str(item)))
                found += 1
                if found >= ENTRIES_MAX:
                    return

    def _content(self, step: Step, calls: Sequence[Call]) -> Mapping[str, Value] | None:
        for given in (step.received, *step.effects, *(call.given for call in calls)):
            batch = _batch_of(getattr(given, "message", None)) or getattr(given, "batch", None)
            if batch is not None and (row := row_of(batch, self.event)) is not None:
                return batch.events()[row]
        return None

    def _stops(self, calls: Sequence[Call]) -> Iterable[Stop]:
        """Return where a layer was given the event and did not pass it on."""
        for place, call in enumerate(calls):
            for link in links_of([call.given], self.event):
                if isinstance(link, str) and link != self.subscriber:
                    continue
                passed = links_of(call.out, self.event)
                if link not in passed and not (isinstance(call.given, Multicast) and passed):
                    yield stop_of(call, self.event, self.subscriber, link)
            given = call.given
            if isinstance(given, Received) and carries_event(given.message, self.event):
                inwards = any(
                    carries_event_of(each.event if isinstance(each, Inward) else each, self.event)
                    for each in call.out
                )
                # A layer with a pipeline inside has called it before it returns.
                deeper = isinstance(getattr(call.layer, "inside", None), Pipeline) and any(
                    carries_event_of(other.given, self.event) for other in calls[:place]
                )
                if not inwards and not deeper:
                    yield stop_of(call, self.event, self.subscriber, None)

    def _router_to(self, step: Step, calls: Sequence[Call], to: tuple[Link, ...]) -> tuple[Link, ...] | None:
        """Return where the layers sent the event, if the broker did otherwise."""
        if calls:
            said = links_of([each for call in calls for each in call.leaving], self.event)
        else:
            broker, received = step.broker, step.received
            if len(broker.pipeline.layers) != 1 or not isinstance(received, Received):
                return None
            given = received
            if broker.router.changed_by(given) or not carries_event(given.message, self.event):
                return None if carries_event(given.message, self.event) else ()
            said = links_of(broker.router.handle(given), self.event)
        return None if sorted(map(str, said)) == sorted(map(str, to)) else said

    # The result.

    def journey(self, trace: Trace) -> Journey:
        """Return what was seen, with what clients did and received."""
        network = self.network
        assert network is not None
        published = trace.publications().get(self.event)
        apart = network.clients.apart.get(self.subscriber)
        own = trace if apart is None else apart
        selectors = selectors_at(own, self.subscriber, self.event)
        content = None if published is None else published.event
        matching = () if content is None else matching_of(selectors, content)
        return Journey(
            event=self.event,
            subscriber=self.subscriber,
            content=content,
            published_at=None if published is None else published.at_seconds,
            selectors=selectors,
            matching=matching,
            taken=tuple(self._taken),
            copies=tuple(flight.copy() for flight in self._copies),
            rounds=tuple(self._rounds),
            marks=tuple(self._marks),
            past=tuple(self._past.steps),
            notified=notified_of(own, self.event, self.subscriber),
            reported_lost=reported_lost_of(own, self.event, self.subscriber),
            clusters={broker: host.cluster for broker, host in network.hosts.items()},
            names={broker: place.label for broker, place in network.positions.items()},
            heals=network.heals,
            left_out=tuple(self._left_out()),
        )

    def _left_out(self) -> Iterable[str]:
        if self._beats:
            yield f"{self._beats:,} heartbeats"
        if self._skipped:
            yield f"{self._skipped:,} messages about other events"
        if self._steps_skipped:
            yield f"{self._steps_skipped:,} steps with the event after the first {TAKEN_MAX:,}"


class _Flight:
    """A message on its way."""

    __slots__ = (
        "arrives_at", "carries", "held", "kind", "leaves", "lost", "received", "retransmitted", "source", "to", "wants"
    )  # fmt: skip

    def __init__(
        self, leaves: float, source: Process, to: Process, message: object, carries: bool, wants: bool
    ) -> None:
        message = message.message if isinstance(message, Numbered) else message
        self.leaves, self.source, self.to, self.kind = leaves, source, to, type(message).__name__
        self.carries, self.wants, self.lost = carries, wants, ""
        self.retransmitted = carries and _events_of(message).retransmitted
        self.arrives_at: float | None = None
        self.held: list[Connection] | None = None
        self.received: Received | None = None

    def copy(self) -> Copy:
        lost = self.lost
        if self.held is not None:
            lost = "the link was cut when it arrived" + (
                "" if self.held else ", and one of its ends died then"
            )
        return Copy(
            self.leaves, self.source, self.to, self.kind, self.arrives_at, lost, self.carries, self.wants,
            self.retransmitted,
        )  # fmt: skip


# Questions about messages and places.


def _events_of(message: object) -> Events:
    message = message.message if isinstance(message, Numbered) else message
    found = message.events if isinstance(message, Directed) else message
    assert isinstance(found, Events)
    return found


def _brought_by(effect: object) -> Events | None:
    """Return the message of an effect that carries events, or for a delivery the message that brought them."""
    if isinstance(effect, Deliver):
        return effect.brought_by
    assert isinstance(effect, Send | Multicast)
    return _events_of(effect.message)


def _batch_of(message: object) -> EventBatch | None:
    message = message.message if isinstance(message, Numbered) else message
    return message.batch if isinstance(message, Events | Directed) else None


def row_of(batch: EventBatch, event: EventId) -> int | None:
    """Return the row of an event in a batch; None if it is not in it."""
    publisher, sequence = event
    if publisher not in batch.publishers:
        return None
    rows = (batch.sequence == sequence) & (batch.publisher == batch.publishers.index(publisher))
    return int(rows.argmax()) if rows.any() else None


def carries_event(message: object, event: EventId) -> bool:
    """Return whether a message carries an event."""
    batch = _batch_of(message)
    return batch is not None and row_of(batch, event) is not None


def carries_event_of(given: object, event: EventId) -> bool:
    """Return whether an input, or an effect for a broker or a client, carries an event."""
    if isinstance(given, Received | Send | Multicast):
        return carries_event(given.message, event)
    return isinstance(given, Deliver) and bool(links_of([given], event))


def links_of(effects: Iterable[object], event: EventId) -> tuple[Link, ...]:
    """Return the links over which effects send an event, in order."""
    found: list[Link] = []
    for effect in effects:
        if isinstance(effect, Send) and carries_event(effect.message, event):
            found.append(effect.to)
        elif isinstance(effect, Multicast) and carries_event(effect.message, event):
            found.append(GROUP)
        elif isinstance(effect, Deliver) and (row := row_of(effect.batch, event)) is not None:
            starts = effect.starts.tolist()
            for place, client in enumerate(effect.clients):
                if (effect.rows[starts[place] : starts[place + 1]] == row).any():
                    found.append(client)
    return tuple(found)


def way_between(here: BrokerId, there: BrokerId, survey: Survey) -> tuple[BrokerId, ...]:
    """Return the brokers on the way from one to another, both included, in the tree as brokers report it; or ().

    In a network of views each broker reaches every other one: what is between them is not asked.
    """
    if here == there:
        return (here,)
    if here not in survey or there not in survey:
        return ()
    if in_views(survey):
        return here, there
    above = above_each(survey)
    up, down = _to_root(here, above), _to_root(there, above)
    meeting = next((broker for broker in up if broker in down), None)
    if meeting is None:
        return ()
    return (*up[: up.index(meeting) + 1], *reversed(down[: down.index(meeting)]))


def _to_root(broker: BrokerId, above: Mapping[BrokerId, BrokerId | None]) -> list[BrokerId]:
    path = [broker]
    while (up := above.get(path[-1])) is not None and up not in path:
        path.append(up)
    return path


def _in_clusters(broker: Broker) -> bool:
    return len(broker.router.position.members) > 1 and broker.router.position.view is None


def selectors_at(trace: Trace, subscriber: ClientId, event: EventId) -> dict[int, str]:
    """Return a subscriber's subscriptions when an event was published; at the end if it never was."""
    found: dict[int, str] = {}
    for op in trace:
        if isinstance(op, Published) and (op.publisher, op.sequence) == event:
            break
        if isinstance(op, Registered) and op.client == subscriber:
            found[op.number] = op.selector
        elif isinstance(op, Cancelled) and op.client == subscriber:
            found.pop(op.number, None)
    return found


def matching_of(selectors: Mapping[int, str], content: Mapping[str, object]) -> tuple[int, ...]:
    """Return the numbers of the selectors that match an event, by the reference interpreter."""
    return tuple(number for number, selector in selectors.items() if test_of(selector)(content) is True)


def notified_of(trace: Trace, event: EventId, subscriber: ClientId) -> tuple[float, ...]:
    """Return when a subscriber was notified of an event."""
    return tuple(
        op.at_seconds
        for op in trace
        if type(op) is Notified and op.client == subscriber and (op.publisher, op.sequence) == event
    )


def reported_lost_of(trace: Trace, event: EventId, subscriber: ClientId) -> tuple[float, ...]:
    """Return when an event was reported lost to a subscriber."""
    return tuple(
        op.at_seconds
        for op in trace
        if type(op) is LossTold and op.client in ("", subscriber) and (op.publisher, op.sequence) == event
    )


def _cut(text: str, characters: int = 160) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


__all__ = [
    "Recorder",
    "carries_event",
    "links_of",
    "matching_of",
    "notified_of",
    "reported_lost_of",
    "selectors_at",
    "way_between",
]
