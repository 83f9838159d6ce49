"""The conditions that a network must satisfy, in temporal logic: definitions 8 and 9 of paper 4, and ours.

Rules
-----
* A :class:`Rule` is ``for every element, always (when implies then)``. Each position at which `when` is True
  is one *instance*: it is kept, violated or indeterminate, as `then` is there. Conditions can therefore be
  counted.
* A subscription is *active* from its registration to its cancellation (ActSub). It is *going* from the
  cancellation until the network has settled. It is *surely in force* for an event if it was installed before
  the publication and stays active until the network has settled after it. A result that only a subscription
  or notice which is coming or going decides is indeterminate.
* A subscription that publishers at its own broker satisfy is in force for the events of those publishers that
  its subscriber was told of, and for no others, until it is confirmed that all brokers have it (paper 2,
  section 2.3(1)).
* A report that an event is lost counts only if a limit explains it (:mod:`.losses`).
* Definitions 8 and 9 say "eventually always": a network may start in any state and has to be right from some
  time on. For a finite trace that constrains the last position only. The rules say *always*, which is
  stronger.

Source: paper 4, definitions 8 and 9 as docs/conditions.md reads them; promises 1 to 3 of docs/spec.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final

from ...protocol.ids import EventId
from ...protocol.traces.trace import Adv, Advertised, Life, Trace
from .losses import explained
from .ltl import (
    Formula,
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
    surely,
    until,
    weak_next,
)
from .predicates import (
    advertisements,
    begins,
    cancel,
    clients,
    coming,
    ends,
    events,
    events_of,
    going,
    in_act_sub,
    in_pub_noti,
    in_sat_all,
    lost,
    notices,
    notify,
    publish,
    publishers,
    quiet,
    register,
    subscriptions,
)

# Definitions 8 and 9.


def safe() -> Formula:
    """Return what definition 8 requires at each position."""
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
    """Return what definition 9 adds: C gets no event that no notice in ActAdv(C) matched at publication."""
    return _never_notified(_noticed)


def never_unadvertised() -> Formula:
    """Return the version for publishers, which is ours: no event that its publisher had not advertised is notified."""
    return _never_notified(lambda client, event: _advertised(event))


def _never_notified(unless: Callable[[str, EventId], Formula]) -> Formula:
    """Return "C is never notified of an event at whose publication `unless` did not hold"."""
    return for_all(
        clients,
        lambda client: for_all(
            events,
            lambda event: (publish(event) & ~unless(client, event)) >> always(~notify(client, event)),
        ),
    )


def definition_8() -> Formula:
    """Return the reliability condition of a publish/subscribe system."""
    return eventually(always(safe()))


def definition_9() -> Formula:
    """Return the reliability condition of a publish/subscribe system with notices of its subscribers."""
    return eventually(always(safe() & never_unannounced()))


def _noticed(client: str, event: EventId) -> Formula:
    return exists(notices(client), lambda f: in_act_sub(f) & in_sat_all(event, f))


def _advertised(event: EventId) -> Formula:
    return exists(advertisements(event[0]), lambda f: in_act_sub(f) & in_sat_all(event, f))


def _since_any(kind: type[Adv] | type[Advertised]) -> Formula:
    """Return "there was one before this": a system without notices, or advertisements, is not held to them."""
    return earlier(operation(lambda op: type(op) is kind))


# The rules.


@dataclass(frozen=True, slots=True)
class Rule:
    """A condition that can be counted: for every element, always (`when` implies `then`).

    Attributes
    ----------
    name
        The name of the rule.
    says
        What it requires, as a sentence.
    over
        The domains of its elements: for each, a function from the trace to elements.
    when, then
        Formulas of the elements.
    """

    name: str
    says: str
    over: tuple[Callable[[Trace], Sequence[object]], ...]
    when: Callable[..., Formula]
    then: Callable[..., Formula]

    def formula(self) -> Formula:
        """Return the rule as one formula."""

        def over(rest: tuple[Callable[[Trace], Sequence[object]], ...], *bound: object) -> Formula:
            if not rest:
                return always(self.when(*bound) >> self.then(*bound))
            return for_all(rest[0], lambda element: over(rest[1:], *bound, element))

        return over(self.over)

    def instances(self, trace: Trace) -> Iterator[tuple[tuple[object, ...], int, bool | None]]:
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

    def piece(self, trace: Trace, elements: tuple[object, ...], position: int) -> Trace:
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


def _noticing(client: str, event: EventId) -> Formula:
    mine = notices(client)
    never = always(~notify(client, event))
    return never | perhaps(exists(mine, lambda f: (coming(f) | going(f)) & in_sat_all(event, f)))


def _overtaken(client: str, event: EventId) -> Formula:
    def by(other: EventId) -> Formula:
        later = constant(other[1] > event[1])
        return later & earlier(notify(client, other) & _has_reason(client, other))

    return exists(events_of(event[0]), by)


def _due(client: str, event: EventId) -> Formula:
    def in_force(f: Life) -> Formula:
        asked = in_act_sub(f) & in_sat_all(event, f)
        begun, ended = begins(f, event[0]), ends(f, event[0])
        return asked & since(~ended, begun) & until(~cancel(f) & ~ended, quiet())

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
            "noticed",
            "nobody is notified of an event that matched nothing of what it had given notice of",
            (clients, events),
            lambda client, event: publish(event) & _since_any(Adv) & ~_noticed(client, event),
            _noticing,
        ),
        Rule(
            "advertised",
            "nobody is notified of an event that its publisher had not advertised",
            (clients, events),
            lambda client, event: publish(event) & _since_any(Advertised) & ~_advertised(event),
            lambda client, event: always(~notify(client, event)),
        ),
        Rule(
            "within",
            "publishers publish only what they advertised",
            (events,),
            lambda event: publish(event) & _since_any(Advertised),
            _advertised,
        ),
        Rule(
            "complete",
            "whoever wants an event when it is published is notified of it, unless a limit explains its loss",
            (clients, events),
            lambda client, event: (
                publish(event) & exists(subscriptions(client), lambda f: in_act_sub(f) & in_sat_all(event, f))
            ),
            lambda client, event: (
                _due(client, event)
                >> eventually(notify(client, event) | (lost(client, event) & explained(client, event)))
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
