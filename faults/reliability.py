"""The judge: what was delivered, beside what had to be, by brute force.

Rule: this file stands outside the system. It reads what was published, who subscribed to what and who was notified of
what; it evaluates every subscription on every event with the reference interpreter of predicates, and knows nothing of
normal forms, indexes, tables or routing.

Source: paper 4, definition 8 (no notification twice, none of what was not published, none without a subscription that
the event satisfies); completeness and order are promises 2 and 3 of docs/spec.md.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Sized
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeAlias

from ..routing.predicates import Predicate, compile_predicate

EventId: TypeAlias = tuple[str, int]
"""(publisher, sequence)."""

EXAMPLES_MAX: Final = 5


@dataclass(slots=True)
class Verdict:
    """How what was delivered compares with what had to be.

    Attributes
    ----------
    events_published, notifications_expected, notifications_delivered
        Counts; a notification is one event to one subscriber.
    missing
        Expected and never delivered (promise 2).
    duplicates
        Delivered again (promise 1).
    spurious
        Delivered without having been published, or without a subscription that it satisfies (promise 1).
    disordered
        Delivered after a later event of the same publisher (promise 3).
    examples
        A few of each, as sentences.
    """

    events_published: int = 0
    notifications_expected: int = 0
    notifications_delivered: int = 0
    missing: int = 0
    duplicates: int = 0
    spurious: int = 0
    disordered: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def holds(self) -> bool:
        """Whether every promise was kept."""
        return not (self.missing or self.duplicates or self.spurious or self.disordered)

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, and `verdict`: "holds" or "violated"."""
        return {**asdict(self), "verdict": "holds" if self.holds else "violated"}


def judge(
    published: Mapping[EventId, Mapping[str, Any]],
    subscriptions: Mapping[str, Sequence[Predicate]],
    notified: Mapping[str, Sequence[EventId]],
    progress: Callable[[int, int], None] | None = None,
) -> Verdict:
    """Compare what every subscriber was notified of with what it had to be.

    Parameters
    ----------
    published
        Every event, after all subscriptions were installed and before any was cancelled.
    subscriptions
        Each subscriber's predicates.
    notified
        What each subscriber was notified of, in its order.
    progress
        Called with (subscribers judged, subscribers in all).
    """
    must: dict[str, dict[EventId, None]] = {}
    for done, (subscriber, predicates) in enumerate(subscriptions.items(), 1):
        must[subscriber] = wanted(published, predicates)
        if progress is not None:
            progress(done, len(subscriptions))
    return compare(published, must, {}, notified)


def wanted(
    published: Mapping[EventId, Mapping[str, Any]], predicates: Sequence[Predicate]
) -> dict[EventId, None]:
    """Return which of the events satisfy one of the predicates."""
    tests = [compile_predicate(predicate) for predicate in predicates]
    return {
        identity: None for identity, event in published.items() if any(test(event) is True for test in tests)
    }


def compare(
    published: Container[EventId],
    must: Mapping[str, Mapping[EventId, None]],
    may: Mapping[str, Container[EventId]],
    notified: Mapping[str, Sequence[EventId]],
) -> Verdict:
    """Compare what subscribers were notified of with what they had to be and what they could be.

    Parameters
    ----------
    published
        The identities of all events.
    must
        What each subscriber had to be notified of.
    may
        What each could be notified of and need not: events on their way while its subscription was going.
    notified
        What each was notified of, in its order.
    """
    verdict = Verdict(events_published=len(published) if isinstance(published, Sized) else 0)
    for subscriber in dict.fromkeys([*must, *notified]):
        _judge_one(
            verdict,
            subscriber,
            must.get(subscriber, {}),
            may.get(subscriber, ()),
            notified.get(subscriber, ()),
            published,
        )
    return verdict


def _judge_one(
    verdict: Verdict,
    subscriber: str,
    must: Mapping[EventId, None],
    may: Container[EventId],
    notified: Sequence[EventId],
    published: Container[EventId],
) -> None:
    seen: set[EventId] = set()
    last: dict[str, int] = {}
    for identity in notified:
        publisher, sequence = identity
        if identity in seen:
            verdict.duplicates += 1
            _say(verdict, f"{subscriber} was notified again of {publisher} #{sequence}")
        elif identity not in must and identity not in may:
            verdict.spurious += 1
            why = "matches no subscription of it" if identity in published else "was never published"
            _say(verdict, f"{subscriber} was notified of {publisher} #{sequence}, which {why}")
        elif sequence < last.get(publisher, 0):
            verdict.disordered += 1
            _say(verdict, f"{subscriber} was notified of {publisher} #{sequence} after #{last[publisher]}")
        else:
            last[publisher] = (
                sequence  # only of what it had to get: a phantom does not put the rest in disorder
            )
        seen.add(identity)
    missing = [identity for identity in must if identity not in seen]
    for publisher, sequence in missing[:1]:
        _say(verdict, f"{subscriber} was never notified of {publisher} #{sequence}")
    verdict.missing += len(missing)
    verdict.notifications_expected += len(must)
    verdict.notifications_delivered += len(notified)


def _say(verdict: Verdict, sentence: str) -> None:
    if len(verdict.examples) < EXAMPLES_MAX:
        verdict.examples.append(sentence)
