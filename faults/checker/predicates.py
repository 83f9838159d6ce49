"""The elements of conditions: the domains of a trace, and formulas about one of its positions.

Rules
-----
* A filter is evaluated on an event by the reference interpreter of predicates, never by an index or a normal
  form.
* Nothing is known of an event that was never published.

Source: paper 4, definitions 1, 2 and 5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache

from ...protocol.ids import EventId
from ...protocol.traces.trace import (
    Adv,
    Advertised,
    Life,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Trace,
    lives,
)
from ...protocol.ways import WAYS_MAX, Names, NestedEvent
from ...routing.language.questions import compile_predicate, to_filter, to_predicate
from ...routing.language.relations import names_of
from .ltl import Formula, Positions, Truths, constant, earlier, operation, since, state, until

# The domains of quantifiers.


def clients(trace: Trace) -> list[str]:
    """Return every subscriber of a trace."""
    return list(dict.fromkeys(op.client for op in trace if isinstance(op, Registered | Notified)))


def publishers(trace: Trace) -> list[str]:
    """Return every publisher of a trace."""
    return list(dict.fromkeys(op.publisher for op in trace if isinstance(op, Published | Advertised)))


def events(trace: Trace) -> list[EventId]:
    """Return every event that was published or notified."""
    return list(
        dict.fromkeys((op.publisher, op.sequence) for op in trace if isinstance(op, Published | Notified))
    )


def events_of(publisher: str) -> Callable[[Trace], list[EventId]]:
    """Return every event of one publisher."""
    return lambda trace: [event for event in events(trace) if event[0] == publisher]


def subscriptions(client: str) -> Callable[[Trace], list[Life]]:
    """Return every subscription that a client has had."""
    return lambda trace: [life for life in lives(trace) if life.client == client]


def notices(client: str) -> Callable[[Trace], list[Life]]:
    """Return every notice that a subscriber has given of what it intends to subscribe to."""
    return lambda trace: [life for life in lives(trace, Adv) if life.client == client]


def advertisements(publisher: str) -> Callable[[Trace], list[Life]]:
    """Return every advertisement of a publisher."""
    return lambda trace: [life for life in lives(trace, Advertised) if life.client == publisher]


# Formulas about one position.


def publish(event: EventId) -> Formula:
    """Return "the event is published here": Publish(P, E)."""
    return operation(lambda op: type(op) is Published and op[1:3] == event)


def notify(client: str, event: EventId) -> Formula:
    """Return "the client is notified of the event here": Notify(C, E)."""
    return operation(lambda op: type(op) is Notified and op[1:4] == (client, *event))


def lost(client: str, event: EventId) -> Formula:
    """Return "the event is reported here as lost for the client"."""
    return operation(lambda op: type(op) is LossTold and op[2:4] == event and op.client in (client, ""))


def quiet() -> Formula:
    """Return "no message is in flight here"."""
    return operation(lambda op: type(op) is Settled)


def register(life: Life) -> Formula:
    """Return "this subscription, or notice, is made here": Register(C, F), Adv(C, F)."""
    return _At(life.registered)


def begins(life: Life, publisher: str) -> Formula:
    """Return "the subscriber is told here that this subscription is in force for that publisher"."""
    return _At(*(position for position, of in life.terms if of is None or publisher in of))


def ends(life: Life, publisher: str) -> Formula:
    """Return "the subscriber is told here that it is in force for others, and not for that publisher"."""
    return _At(*(position for position, of in life.terms if of is not None and publisher not in of))


def cancel(life: Life) -> Formula:
    """Return "this subscription, or notice, is cancelled here": Cancel(C, F), UnAdv(C, F)."""
    return _At(*(() if life.cancelled is None else (life.cancelled,)))


class _At(Formula):
    """True at given positions: numbers are reused, so an operation alone does not identify its subscription."""

    def __init__(self, *positions: int) -> None:
        self.positions = positions

    def truths(self, trace: Trace) -> Truths:
        out = constant(False).truths(trace)
        out[list(self.positions)] = 2
        return out

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        return frozenset((at,)) if truth else frozenset()


# Formulas about the state (definition 2).


def in_pub_noti(event: EventId, publisher: str | None = None) -> Formula:
    """Return "the event is in PubNoti(P)", for its own publisher unless one is given."""
    owner = event[0] if publisher is None else publisher
    return state(lambda now: owner == event[0] and event[1] in now.pub_noti.get(owner, ()))


def in_act_sub(life: Life) -> Formula:
    """Return "the subscription is in ActSub(C)": registered and not cancelled; of a notice, that it is in ActAdv(C)."""
    return since(~cancel(life), register(life))


def in_sat_all(event: EventId, life: Life) -> Formula:
    """Return "the event is in SatAll(F)"; nothing is known of an event that was never published."""
    return _Satisfies(event, life.selector)


class _Satisfies(Formula):
    def __init__(self, event: EventId, selector: str) -> None:
        self.event = event
        self.selector = selector

    def truths(self, trace: Trace) -> Truths:
        found = next((op for op in trace if type(op) is Published and op[1:3] == self.event), None)
        satisfied = found is not None and test_of(self.selector)(found.event) is True
        return constant(satisfied).truths(trace)

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        return frozenset()


@lru_cache(maxsize=4096)
def test_of(selector: str) -> Callable[[Mapping[str, object]], bool | None]:
    """Return the cached reference test of a selector; only True is a match.

    An event with more ways than can be looked at one by one is tested by the clauses of the normal form instead.
    """
    predicate = to_predicate(selector)
    test, names = compile_predicate(predicate), Names(names_of(predicate))

    def of_event(event: Mapping[str, object]) -> bool | None:
        if isinstance(event, NestedEvent) and event.part(names).count() > WAYS_MAX:
            return to_filter(predicate).holds(event)
        return test(event)

    return of_event


def coming(life: Life) -> Formula:
    """Return "it is registered before the network settles"."""
    return until(~quiet(), register(life))


def going(life: Life) -> Formula:
    """Return "it is cancelled, and the network has not settled since"."""
    return since(~quiet(), cancel(life)) & earlier(register(life))
