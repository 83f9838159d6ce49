"""The subscribers of a simulated chaos run that begin in the past: what is done with them, and the judgement."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import cache

import numpy as np

from ...clients.beginnings import OLDEST, At
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId, ClientId, EventId
from ...protocol.traces.trace import Registered, Trace
from ...recovery.replay.history import History, HistoryAt
from ...routing.language.questions import compile_predicate, to_predicate
from ...simulator.sessions import ACKNOWLEDGE_SECONDS, subscriber
from ...simulator.simulation import Simulation
from ..checker.columns import Columns, Ints, columns_of
from ..checker.last_values import LastRecord, last_value_violations
from ..checker.replays import ReplayRecord, replay_violations
from ..plans.cases import Case
from ..plans.replay_cases import Beginning as Drawn
from ..plans.replay_cases import Replayed, last_values_of, replays_of


class Replaying:
    """The subscribers of a case that begin in the past.

    Parameters
    ----------
    network, case
        Where, and what is drawn.
    """

    def __init__(self, network: Simulation, case: Case) -> None:
        self._network, self._case = network, case
        self._drawn = (*replays_of(case), *last_values_of(case))
        self._records: dict[ClientId, ReplayRecord] = {}
        self._start: float | None = None

    def begin(self) -> None:
        """Schedule everything, counted from now; nothing more if it has begun."""
        network = self._network
        if self._start is not None:
            return
        self._start = network.now
        for drawn in self._drawn:
            network.at(self._start + drawn.begins.at_seconds, self._subscribe, drawn)
            for rewind in drawn.rewinds:
                network.at(self._start + rewind.at_seconds, self._rewind, drawn.client, rewind)
            for at, seconds in drawn.deaths:
                network.at(self._start + at, self._stop, drawn.client, seconds)

    def _subscribe(self, drawn: Replayed) -> None:
        network, client = self._network, drawn.client
        staying = network.staying()
        if not staying:
            return
        broker = drawn.broker if drawn.broker in staying else staying[0]
        at, last_per = self._at(drawn.begins), drawn.last_per
        beginning = network.subscribe_at(client, broker, drawn.selectors, at, last_per)
        if last_per is None:
            self._records[client] = ReplayRecord(*beginning)
        else:
            answering = [broker for broker in network.living() if not network.hosts[broker].paused]
            there = [event for broker in answering for event in self._history(broker).identities()]
            self._records[client] = LastRecord(*beginning, last_per, there)

    def _history(self, broker: BrokerId) -> History:
        return self._network.broker(broker).layer(History)

    def _rewind(self, client: ClientId, drawn: Drawn) -> None:
        if client in self._records and self._is_in_force(client):
            self._records[client].rewound(*self._network.rewind(client, self._at(drawn)))

    def _stop(self, client: ClientId, seconds: float) -> None:
        network = self._network
        if client in self._records and self._is_in_force(client) and network.stop(client):
            network.at(network.now + seconds, network.start, client)

    def _is_in_force(self, client: ClientId) -> bool:
        machine = self._network.sessions[client].subscriber
        return machine is not None and bool(machine.in_force) and machine.in_force == machine.subscriptions

    def _admitted(self, client: ClientId) -> Collection[int]:
        """Return the numbers of its subscriptions, without those that were refused: they are owed nothing."""
        return subscriber(self._network.sessions[client]).subscriptions

    def _at(self, drawn: Drawn) -> At:
        """Return where a subscriber begins; the oldest if what was drawn is refused."""
        network = self._network
        at: At = OLDEST
        if drawn.where == "time":
            start = self._start or 0.0
            at = start + drawn.share * (network.now - start)
        elif drawn.where == "position":
            spans = (network.hosts[broker].machine.ask(HistoryAt()) or {} for broker in network.living())
            last = {name: span.last for each in spans for name, span in each.items()}
            at = {name: int(drawn.share * number) for name, number in last.items()}
        try:
            network.beginning(at)
        except InputError:
            return OLDEST
        return at

    def finish(self) -> None:
        """Let everybody read the past to its end, which may wait for brokers that are dead."""
        network, times = self._network, self._case.features.usual_times
        until = network.now + 3 * times.retention_seconds
        while network.now < until and any(
            network.sessions[client].behind is not None and self._is_in_force(client)
            for client in self._records
        ):
            network.advance(times.heartbeat_seconds)
        if self._records:
            network.advance(2 * ACKNOWLEDGE_SECONDS)

    def violations(self) -> list[str]:
        """Return what was done against the conditions of replays, in words."""
        if not self._records:
            return []
        network, found = self._network, list[str]()
        living = network.living()
        retained: dict[EventId, list[BrokerId]] = {}
        for broker in living:
            for event in self._history(broker).identities():
                retained.setdefault(event, []).append(broker)
        for drawn in self._drawn:
            client, record = drawn.client, self._records.get(drawn.client)
            if record is None or not self._is_in_force(client):
                continue
            wanted = _wants([drawn.selectors[number - 1] for number in self._admitted(client)])
            expires, silent = network.account.expires, network.clients.silent.get(client, ())
            given = (
                network.notifications(client),
                network.clients.apart[client].losses.get(client, ()),
                network.account.publications(),
                network.account.accepted_at,
                wanted,
                living,
            )
            record.past_ends = network.clients.past_ends.get(client, math.inf)
            if isinstance(record, LastRecord):
                problems = last_value_violations(record, *given, retained.keys(), expires)
            else:
                record.in_force_at = network.clients.in_force_at.get(client, -math.inf)
                explained = self._explained(client)
                problems = replay_violations(record, *given, retained, silent, expires, explained)
            found += (f"replay of {client}: {each}" for each in problems)
        return found

    def _explained(self, client: ClientId) -> Callable[[EventId], bool]:
        """Return the question whether a limit explains that an event is lost for a subscriber with a record apart."""

        @cache
        def columns() -> tuple[Columns, dict[EventId, int], Ints]:
            both = [*self._network.account.operations, *self._network.clients.apart[client].operations]
            trace = columns_of(Trace(sorted(both, key=lambda operation: operation.at_seconds)))
            matched = np.zeros(trace.events, np.bool_)
            for operation in both:
                if isinstance(operation, Registered) and operation.client == client:
                    matched |= trace.matches(operation.selector)
            return (
                trace,
                {event: code for code, event in enumerate(trace.identities)},
                trace.published[matched],
            )

        def explained(event: EventId) -> bool:
            trace, codes, wanted = columns()
            return bool(trace.explained(client, codes[event], lambda: wanted))

        return explained


def _wants(selectors: Collection[str]) -> Callable[[Mapping[str, object]], bool]:
    tests = [compile_predicate(to_predicate(selector)) for selector in selectors]
    return lambda event: any(test(event) is True for test in tests)
