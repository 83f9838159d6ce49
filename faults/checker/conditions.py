"""The conditions that a network keeps, written in temporal logic: definitions 8 and 9 of paper 4, and ours.

Rules
-----
* A :class:`Rule` is ``for every element, always (when implies then)``. Each position at which `when` is True is one
  *instance*: it is kept, violated or indeterminate, as `then` is there. So conditions can be counted.
* A subscription is *active* from its registration to its cancellation (ActSub), *going* from there until the network
  has settled, and *surely in force* for an event when it was installed before the publication and stays active until
  the network has settled after it. What only a subscription that is coming or going decides is indeterminate.
* A filter says of an event what the reference interpreter of predicates says: never an index, never a normal form.
* Definitions 8 and 9 say "eventually always": a network may start in any state and has to be right from some moment on.
  Of a finite trace that asks for its last position only. The rules say *always*, which is stronger.

Source: paper 4, definitions 8 and 9 as docs/conditions.md reads them; promises 1 to 3 of docs/spec.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import product
from typing import Any, Final

from ...routing.language.questions import compile_predicate, to_predicate
from .ltl import (
    Formula,
    Positions,
    Truths,
    always,
    constant,
    earlier,
    eventually,
    exists,
    explain,
    for_all,
    operation,
    perhaps,
    since,
    state,
    surely,
    until,
    weak_next,
)
from .trace import (
    Adv,
    EventId,
    Life,
    LossTold,
    Notified,
    Published,
    Registered,
    Settled,
    Trace,
    lives,
)

# What quantifiers range over.


def clients(trace: Trace) -> list[str]:
    """Return every subscriber of a trace."""
    return list(dict.fromkeys(op.client for op in trace if isinstance(op, Registered | Notified)))


def publishers(trace: Trace) -> list[str]:
    """Return every publisher of a trace."""
    return list(dict.fromkeys(op.publisher for op in trace if isinstance(op, Published | Adv)))


def events(trace: Trace) -> list[EventId]:
    """Return every event that was published, or that somebody was notified of."""
    return list(
        dict.fromkeys((op.publisher, op.sequence) for op in trace if isinstance(op, Published | Notified))
    )


def events_of(publisher: str) -> Callable[[Trace], list[EventId]]:
    """Return every event of one publisher."""
    return lambda trace: [event for event in events(trace) if event[0] == publisher]


def subscriptions(client: str) -> Callable[[Trace], list[Life]]:
    """Return every subscription that a client has had."""
    return lambda trace: [life for life in lives(trace) if life.client == client]


def advertisements(publisher: str | None = None) -> Callable[[Trace], list[Life]]:
    """Return every advertisement of a publisher, or of all."""
    return lambda trace: [
        life for life in lives(trace, advertisements=True) if publisher in (None, life.client)
    ]


# What is true at one position.


def publish(event: EventId) -> Formula:
    """Return "the event is published here": Publish(P, E)."""
    return operation(lambda op: type(op) is Published and op[1:3] == event)


def notify(client: str, event: EventId) -> Formula:
    """Return "the client is notified of the event here": Notify(C, E)."""
    return operation(lambda op: type(op) is Notified and op[1:4] == (client, *event))


def lost(client: str, event: EventId) -> Formula:
    """Return "it is said here that the event is lost for the client"."""
    return operation(lambda op: type(op) is LossTold and op[2:4] == event and op.client in (client, ""))


def quiet() -> Formula:
    """Return "nothing is on its way here"."""
    return operation(lambda op: type(op) is Settled)


def register(life: Life) -> Formula:
    """Return "this subscription, or advertisement, is made here": Register(C, F), Adv(P, F)."""
    return _At(life.registered)


def installed(life: Life) -> Formula:
    """Return "this subscription is confirmed here, for the first time"."""
    return _At(life.installed)


def cancel(life: Life) -> Formula:
    """Return "this subscription, or advertisement, is taken back here": Cancel(C, F), UnAdv(P, F)."""
    return _At(life.cancelled)


class _At(Formula):
    """True at one position: numbers are used again, so that an operation alone does not say whose it is."""

    def __init__(self, position: int | None) -> None:
        self.position = position

    def truths(self, trace: Trace) -> Truths:
        out = constant(False).truths(trace)
        if self.position is not None:
            out[self.position] = 2
        return out

    def why(self, trace: Trace, at: int, truth: bool) -> Positions:
        return frozenset((at,)) if truth else frozenset()


# What is true of the state (definition 2).


def in_pub_noti(event: EventId, publisher: str | None = None) -> Formula:
    """Return "the event is in PubNoti(P)"; of its own publisher unless one is given."""
    owner = event[0] if publisher is None else publisher
    return state(lambda now: owner == event[0] and event[1] in now.pub_noti.get(owner, ()))


def in_act_sub(life: Life) -> Formula:
    """Return "the subscription is in ActSub(C)": registered and not cancelled; the same of ActAdv."""
    return since(~cancel(life), register(life))


def in_sat_all(event: EventId, life: Life) -> Formula:
    """Return "the event is in SatAll(F)"; nothing is known of one that was never published."""
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
def test_of(selector: str) -> Callable[[Mapping[str, Any]], bool | None]:
    """Return the reference test of a selector, made once; only True is a match."""
    return compile_predicate(to_predicate(selector))


def going(life: Life) -> Formula:
    """Return "cancelled, and the network has not settled since"."""
    return since(~quiet(), cancel(life)) & earlier(register(life))


# Definitions 8 and 9.


def safe() -> Formula:
    """Return what definition 8 asks for at each position."""
    return for_all(
        clients,
        lambda client: for_all(
            events,
            lambda event: (
                notify(client, event)
                >> (
                    weak_next(always(~notify(client, event)))
                    & exists(publishers, lambda publisher: in_pub_noti(event, publisher))
                    & exists(subscriptions(client), lambda f: in_act_sub(f) & in_sat_all(event, f))
                )
            ),
        ),
    )


def never_unannounced() -> Formula:
    """Return what definition 9 adds: what no active advertisement covers when it is published is never notified."""
    return for_all(
        clients,
        lambda client: for_all(
            events,
            lambda event: (publish(event) & ~_advertised(event)) >> always(~notify(client, event)),
        ),
    )


def definition_8() -> Formula:
    """Return the reliability condition of a publish/subscribe system."""
    return eventually(always(safe()))


def definition_9() -> Formula:
    """Return the reliability condition of a publish/subscribe system with advertisements."""
    return eventually(always(safe() & never_unannounced()))


def _advertised(event: EventId) -> Formula:
    return exists(advertisements(event[0]), lambda f: in_act_sub(f) & in_sat_all(event, f))


def _advertising() -> Formula:
    return earlier(
        operation(lambda op: type(op) is Adv)
    )  # a system in which nobody advertises is one without


# The rules.


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that can be counted: for every element, always (`when` implies `then`).

    Attributes
    ----------
    name
        What it is called.
    says
        What it asks for, as a sentence.
    over
        What it ranges over: for each, a function from the trace to elements.
    when, then
        Formulas of the elements.
    """

    name: str
    says: str
    over: tuple[Callable[[Trace], list[Any]], ...]
    when: Callable[..., Formula]
    then: Callable[..., Formula]

    def formula(self) -> Formula:
        """Return the rule as one formula."""

        def over(rest: tuple[Callable[[Trace], list[Any]], ...], *bound: Any) -> Formula:
            if not rest:
                return always(self.when(*bound) >> self.then(*bound))
            return for_all(rest[0], lambda element: over(rest[1:], *bound, element))

        return over(self.over)

    def instances(self, trace: Trace) -> Iterator[tuple[tuple[Any, ...], int, bool | None]]:
        """Yield (elements, position, whether it is kept there) of each instance; None is indeterminate."""
        if not len(trace):
            return
        for elements in product(*(domain(trace) for domain in self.over)):
            when = self.when(*elements).truths(trace)
            if not (when == 2).any():
                continue
            then = self.then(*elements).truths(trace)
            for position in range(len(trace)):
                if when[position] == 2:
                    yield elements, position, (False, None, True)[then[position]]

    def piece(self, trace: Trace, elements: tuple[Any, ...], position: int) -> Trace:
        """Return the shortest part of the trace that shows why an instance is violated."""
        return explain(self.when(*elements) >> self.then(*elements), trace, position)


def _reason(event: EventId) -> Callable[[Life], Formula]:
    return lambda f: in_sat_all(event, f) & (in_act_sub(f) | going(f))


def _has_reason(client: str, event: EventId) -> Formula:
    return in_pub_noti(event) & exists(subscriptions(client), _reason(event))


def _first(client: str, event: EventId) -> Formula:
    return notify(client, event) & ~earlier(notify(client, event))


def _wanted(client: str, event: EventId) -> Formula:
    mine = subscriptions(client)
    active = exists(mine, lambda f: in_act_sub(f) & in_sat_all(event, f))
    return active | perhaps(exists(mine, lambda f: going(f) & in_sat_all(event, f)))


def _fresh(client: str, event: EventId) -> Formula:
    def for_this(f: Life) -> Formula:
        before = earlier(publish(event) & earlier(register(f)))
        settled_between = earlier(register(f) & earlier(quiet() & earlier(publish(event))))
        return _reason(event)(f) & (before | perhaps(~settled_between))

    return exists(subscriptions(client), for_this)


def _overtaken(client: str, event: EventId) -> Formula:
    def by(other: EventId) -> Formula:
        later = constant(other[1] > event[1])
        return later & earlier(notify(client, other) & _has_reason(client, other))

    return exists(events_of(event[0]), by)


def _due(client: str, event: EventId) -> Formula:
    def in_force(f: Life) -> Formula:
        asked = in_act_sub(f) & in_sat_all(event, f)
        return asked & earlier(installed(f)) & until(~cancel(f), quiet())

    return surely(exists(subscriptions(client), in_force))


RULES: Final[dict[str, Rule]] = {
    rule.name: rule
    for rule in (
        Rule(
            "once",
            "nobody is notified of an event twice",
            (clients, events),
            notify,
            lambda client, event: weak_next(always(~notify(client, event))),
        ),
        Rule(
            "published",
            "nobody is notified of an event before it was published",
            (clients, events),
            notify,
            lambda client, event: in_pub_noti(event),
        ),
        Rule(
            "wanted",
            "nobody is notified of an event that no active subscription of it matches",
            (clients, events),
            lambda client, event: notify(client, event) & in_pub_noti(event),
            _wanted,
        ),
        Rule(
            "advertised",
            "nobody is notified of an event that its publisher had not advertised",
            (clients, events),
            lambda client, event: publish(event) & _advertising() & ~_advertised(event),
            lambda client, event: always(~notify(client, event)),
        ),
        Rule(
            "within",
            "publishers publish only what they advertised",
            (events,),
            lambda event: publish(event) & _advertising(),
            _advertised,
        ),
        Rule(
            "complete",
            "whoever wants an event when it is published is notified of it",
            (clients, events),
            lambda client, event: (
                publish(event) & exists(subscriptions(client), lambda f: in_act_sub(f) & in_sat_all(event, f))
            ),
            lambda client, event: (
                _due(client, event) >> eventually(notify(client, event) | lost(client, event))
            ),
        ),
        Rule(
            "ordered",
            "a subscriber is notified of one publisher's events in the order of publication",
            (clients, events),
            lambda client, event: _first(client, event) & _has_reason(client, event),
            lambda client, event: ~_overtaken(client, event),
        ),
        Rule(
            "fresh",
            "nobody is notified of an event that had settled before it was asked for",
            (clients, events),
            lambda client, event: notify(client, event) & _has_reason(client, event),
            _fresh,
        ),
    )
}
"""The built-in conditions by name."""
