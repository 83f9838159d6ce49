"""What a scenario has to deliver, worked out by brute force from its steps.

Rules
-----
* An event that is published while a subscription is active, and satisfies it, must be delivered when the network
  settles before the subscription is cancelled; when it does not settle, it may be.
* One that was published before, and was still under way when the subscription was made, may be delivered.
* To subscribe under a number that is in use cancels what it stood for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from ..protocol.scenario import Scenario
from ..protocol.steps import Publish, Settle, Subscribe, Unsubscribe
from ..protocol.values import Value
from ..routing.language import to_predicate
from ..routing.predicates import Predicate
from .reliability import EventId, wanted


@dataclass(slots=True)
class Expectation:
    """What was published, and what each subscriber must and may be notified of."""

    published: dict[EventId, dict[str, Value]] = field(default_factory=dict)
    must: dict[str, dict[EventId, None]] = field(default_factory=dict)
    may: dict[str, set[EventId]] = field(default_factory=dict)


def expectation_of(scenario: Scenario) -> Expectation:
    """Return what a scenario with explicit steps has to deliver.

    Parameters
    ----------
    scenario
        As :meth:`Scenario.explicit` returns it.
    """
    expected = Expectation()
    active: dict[tuple[str, int], Predicate] = {}
    unsettled: dict[tuple[str, int], dict[EventId, None]] = {}
    under_way: dict[EventId, dict[str, Value]] = {}
    sequences: dict[str, int] = {}
    for step in scenario.steps:
        if isinstance(step, Subscribe):
            predicate = active[step.client, step.number] = to_predicate(step.selector)
            expected.must.setdefault(step.client, {})
            may = expected.may.setdefault(step.client, set())
            may.update(unsettled.pop((step.client, step.number), {}))
            may.update(wanted(under_way, [predicate]))
        elif isinstance(step, Unsubscribe):
            del active[step.client, step.number]
            expected.may[step.client].update(unsettled.pop((step.client, step.number), {}))
        elif isinstance(step, Settle):
            _settle(expected, unsettled)
            under_way.clear()
        elif isinstance(step, Publish):
            batch: dict[EventId, dict[str, Value]] = {}
            for event in step.events:
                sequences[step.client] = sequences.get(step.client, 0) + 1
                batch[step.client, sequences[step.client]] = dict(event)
            expected.published |= batch
            under_way |= batch
            for key, predicate in active.items():
                unsettled.setdefault(key, {}).update(wanted(batch, [predicate]))
    _settle(expected, unsettled)
    return expected


def _settle(expected: Expectation, unsettled: dict[tuple[str, int], dict[EventId, None]]) -> None:
    for (client, _), events in unsettled.items():
        expected.must[client].update(events)
    unsettled.clear()
