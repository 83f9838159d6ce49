"""Where the journey of an event ended, which rule decided that, and what should have happened there.

Rules
-----
* Of a missing event the last attempt counts: the last round under which it was under way. In it the broker that is
  nearest to the subscriber's, by the tree as it was then, is the last place where the event was.
* There the reasons are looked for in this order: the message to the next broker was lost; a layer kept it back; the
  table has no entry for the next link; the table has one, and the broker sent nothing.
* What a later round has to mend (a closed link, a lost message) is the reason only if no such round began. If one did
  and the publisher's broker did not send the event again, that broker is the place.
* Of an event that came and should not have, it is the broker that handed it over, and the rule that should have kept
  it back.
* Pure: a function of a :class:`~.journey.Journey` and the violated condition.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from ...protocol.ids import BrokerId
from .journey import OUTSIDE, Copy, Journey, Taken
from .rules import link_words

DELIVERS: Final = "recovery/replay/replay.py: Replay._on_deliver"
"""Where the rule stands that nobody is given an event twice, too late, or from before its subscription."""

CLOSES: Final = "recovery/replay/rounds.py: Rounds.close, Rounds.passes"
"""Where the rule stands that nothing passes a link behind which something is missing, until a round brings that."""

RESENDS: Final = "recovery/replay/replay.py: Replay._on_round_began"
"""Where the rule stands that what is retained is sent again in every round."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Where it ended, and why.

    Attributes
    ----------
    outcome
        ``delivered``, ``missing``, or the name of the violated condition.
    at
        When; None if nothing was seen.
    broker
        The broker at which the rule applied, or should have; None if no broker had the event.
    place
        The file and method of that rule.
    was
        The last place of the event, as a sentence.
    why
        Why it went no further, or came although it should not have.
    should
        What should have happened there.
    """

    outcome: str
    at: float | None
    broker: BrokerId | None
    place: str
    was: str
    why: str
    should: str


def find(journey: Journey, condition: str = "", later: Journey | None = None) -> Finding:
    """Return where a journey ended.

    Parameters
    ----------
    journey
        What was seen.
    condition
        The violated condition; "" for none: then it is missing or delivered.
    later
        The journey of the later event that overtook it, if one did.
    """
    judge = _CONDITIONS.get(condition)
    if judge is not None and (found := judge(journey)) is not None:
        return found
    if journey.notified:
        return _delivered(journey)
    if later is not None and (overtaken := _overtaken(journey, later)) is not None:
        return overtaken
    return _missing(journey)


def _delivered(journey: Journey) -> Finding:
    steps = journey.delivered
    step = steps[0] if steps else None
    return Finding(
        "delivered",
        journey.notified[0],
        None if step is None else step.broker,
        "",
        f"{journey.subscriber} was notified of {journey.id} at {journey.notified[0]:.3f} s",
        "nothing is missing",
        "",
    )


# Missing.


def _missing(journey: Journey) -> Finding:
    if not journey.taken:
        return _nowhere(journey)
    late = last_attempt(journey)
    step = min(late, key=lambda each: (_distance(each), -each.at))
    found = _at(journey, step)
    number = step.round
    if found.mends:
        rounds = [each for each in journey.rounds if each.number > number and each.kept and not each.resent]
        if rounds:
            missed = rounds[-1]
            return Finding(
                "missing",
                missed.at,
                missed.broker,
                RESENDS,
                f"broker {missed.broker}, which accepted it, when round {_dotted(missed.number)} began",
                "the round did not send it again"
                f" (before, in round {_dotted(number)}, {found.why} at broker {step.broker})",
                f"broker {missed.broker} had to send again, ahead of newer events, everything that it retains, "
                f"{journey.id} among it",
            )
    why = found.why + ("; and no round has brought it since" if found.mends and journey.heals else "")
    return Finding("missing", step.at, step.broker, found.place, found.was, why, found.should)


def passed_over(journey: Journey) -> bool:
    """Return whether the subscriber was taken to have had the event, because it had a later one."""
    return not journey.notified and any(
        stop.layer == "Replay" and stop.toward == journey.subscriber and not stop.mends
        for step in journey.taken
        for stop in step.stops
    )


def _overtaken(journey: Journey, later: Journey) -> Finding | None:
    """Return where a later event went on and this one had not been, before the subscriber had the later one."""
    if not later.notified or not journey.taken:
        return None
    until = later.notified[0]
    before = [step for step in journey.taken if step.at < until]
    if not before:
        return None
    number = max(step.round for step in before)
    step = min(
        (each for each in before if each.round == number), key=lambda each: (_distance(each), -each.at)
    )
    reason = _at(journey, step)
    been = {
        each.broker for each in before if not any(stop.toward is None and stop.mends for stop in each.stops)
    }
    way = _way_of(later)
    if not way:
        return None
    beyond = next((each for each in way if each.broker not in been), way[-1])
    name = journey.subscriber
    return Finding(
        "missing",
        beyond.at,
        beyond.broker,
        CLOSES,
        reason.was,
        f"{reason.why}. Then the later event {later.id} went on over broker {beyond.broker}, where {journey.id} had "
        f"not been handled for {name}, and {name} was given it at {until:.3f} s: {journey.id}, when a round brought "
        "it, was taken for one that it had had",
        f"broker {beyond.broker} had to keep its links towards {name} closed for later events, until a round had "
        f"brought {journey.id}",
    )


def _way_of(journey: Journey) -> list[Taken]:
    """Return the steps by which an event came to the subscriber, the first one first."""
    way = journey.delivered[:1]
    while way and isinstance(way[0].source, int) and way[0].source != way[0].broker:
        came = [each for each in journey.taken if each.broker == way[0].source and each.at <= way[0].at]
        if not came or len(way) > len(journey.taken):
            break
        way.insert(0, came[-1])
    return way


def last_attempt(journey: Journey) -> list[Taken]:
    """Return the steps of the last round under which the event was under way."""
    last = max(step.round for step in journey.taken)
    return [step for step in journey.taken if step.round == last]


def _distance(step: Taken) -> int:
    return len(step.ways) if step.ways else 1_000


@dataclass(frozen=True, slots=True)
class _Reason:
    place: str
    was: str
    why: str
    should: str
    mends: bool = False


def _nowhere(journey: Journey) -> Finding:
    publisher, number = journey.event
    if journey.published_at is None:
        was, should = f"nobody published {journey.id}", "a subscriber is notified of published events only"
        return Finding("missing", None, None, "", was, "there is no such event", should)
    lost = next((copy for copy in journey.copies if copy.carries and copy.lost), None)
    why = lost.lost if lost is not None else "no broker has handled a message with it"
    return Finding(
        "missing",
        journey.published_at,
        None,
        "clients/publisher.py: PublisherMachine",
        f"publisher {publisher}, at {journey.published_at:.3f} s",
        why,
        f"{publisher} keeps #{number} until a broker has accepted it, and publishes it again where it moves to",
    )


def _at(journey: Journey, step: Taken) -> _Reason:
    """Return why the event went no further than this step."""
    here = f"broker {step.broker}, at {step.at:.3f} s"
    if step.home is None:
        return _Reason("", here, f"{journey.subscriber} was at no broker", "", mends=True)
    if step.home == step.broker:
        return _at_home(journey, step, here)
    if not step.ways:
        return _stopped(journey, step, here) or _Reason(
            "",
            here,
            f"there was no way from broker {step.broker} to broker {step.home}, where {journey.subscriber} was: the "
            "tree was in parts, or one of them was dead",
            "after the tree is one again, a round brings what was missed",
            mends=True,
        )
    onward = step.ways[1]
    should = f"it had to go on to broker {onward}, on the way to broker {step.home}, where {journey.subscriber} was"
    if step.goes_on:
        return _on_the_link(journey, step, onward, f"{should}; {_mending(journey)}")
    stopped = _stopped(journey, step, here)
    if stopped is not None:
        return stopped
    return _unsent(step, here, should, onward)


def _mending(journey: Journey) -> str:
    if journey.heals:
        return "a later round has to bring it"
    return "nothing sends it again, because this network does not heal"


def _on_the_link(journey: Journey, step: Taken, onward: BrokerId, should: str) -> _Reason:
    sent = [
        copy
        for copy in journey.copies
        if copy.carries and (copy.source, copy.to) == (step.broker, onward) and copy.sent_at >= step.at
    ]
    was = f"the link from broker {step.broker} to broker {onward}, at {step.at:.3f} s"
    lost = next((copy for copy in sent if copy.lost), None)
    if lost is not None:
        return _Reason("", was, f"it was lost there: {lost.lost}", should, True)
    if sent and sent[0].arrives_at is not None:
        came = sent[0].arrives_at
        why = f"it arrived at broker {onward} at {came:.3f} s, which died, or stood still, before it took it"
        return _Reason("", was, why, should, True)
    return _Reason("", was, "it never arrived", should, True)


def _stopped(journey: Journey, step: Taken, here: str) -> _Reason | None:
    """Return the rule that kept the event back on its way to the subscriber."""
    wanted = {None, step.next_link, journey.subscriber, *step.ways[1:2]}
    stop = next((each for each in step.stops if each.toward in wanted), None)
    if stop is None:
        return None
    whom = journey.subscriber if step.home == step.broker else link_words(stop.toward)
    should = f"the event was for {whom} by the table of broker {step.broker}"
    if stop.mends:
        should += f"; {_mending(journey)}"
    return _Reason(stop.place, here, f"layer {stop.layer} kept it back: {stop.why}", should, stop.mends)


def _at_home(journey: Journey, step: Taken, here: str) -> _Reason:
    name = journey.subscriber
    if name in step.to:
        return _Reason(
            "",
            f"the way from broker {step.broker} to {name}, at {step.at:.3f} s",
            f"broker {step.broker} handed it over, and {name} was not there any more, or died before it had it",
            f"{name}, wherever it comes back, is owed everything that it has not had",
            mends=True,
        )
    stopped = _stopped(journey, step, here)
    if stopped is not None:
        return stopped
    should = f"it had to be handed to {name}, whose subscription {_numbers(journey)} matches it"
    return _unsent(step, here, should, name)


def _unsent(step: Taken, here: str, should: str, onward: BrokerId | str) -> _Reason:
    links = {onward, step.next_link} - {None}
    entry = next((each for each in step.entries if each.link in links), None)
    if step.router_to is not None and links & set(step.router_to):
        return _Reason(OUTSIDE, here, "the layers of the broker sent it on, and the broker did not", should)
    if entry is not None:
        why = f"its table has the entry {entry.filter!r} for {link_words(onward)}, and it was not sent"
        return _Reason(step.router, here, why, should)
    told = f"; the judge of routes found: {'; '.join(step.judged)}" if step.judged else ""
    why = f"the table of broker {step.broker} has no entry for {link_words(onward)} that matches the event{told}"
    return _Reason(step.router, here, why, should)


def _numbers(journey: Journey) -> str:
    return ", ".join(f"#{number}" for number in journey.matching) or "(none)"


# What came and should not have.


def _twice(journey: Journey) -> Finding | None:
    steps = journey.delivered
    if len(steps) < 2:
        return None
    first, again = steps[0], steps[1]
    was = f"{journey.subscriber} was given {journey.id} at {first.at:.3f} s by broker {first.broker}"
    was += f", and at {again.at:.3f} s by broker {again.broker}"
    copies = _doubled(journey)
    if copies is not None and not journey.heals:
        return Finding(
            "once",
            copies.sent_at,
            copies.source if isinstance(copies.source, int) else None,
            _place_of_copy(journey, copies),
            was,
            f"broker {copies.source} sent it twice to broker {copies.to}",
            "an event crosses a link once (promise 4)",
        )
    if again.router_to is not None or not journey.heals:
        place = OUTSIDE if again.router_to is not None else again.router
        why = f"broker {again.broker} handed it over more often than its table says"
        return Finding("once", again.at, again.broker, place, was, why, "a subscriber is given an event once")
    return Finding(
        "once",
        again.at,
        again.broker,
        DELIVERS,
        was,
        f"broker {again.broker} did not recognise it as a duplicate",
        f"broker {again.broker} had to know, from what it had given {journey.subscriber} or from the marks that "
        f"{journey.subscriber} brought along, that it had had #{journey.event[1]}",
    )


def _doubled(journey: Journey) -> Copy | None:
    seen: set[tuple[float, object, object]] = set()
    for copy in journey.copies:
        key = copy.sent_at, copy.source, copy.to
        if copy.carries and key in seen:
            return copy
        seen.add(key)
    return None


def _place_of_copy(journey: Journey, copy: Copy) -> str:
    step = next(
        (each for each in journey.taken if (each.at, each.broker) == (copy.sent_at, copy.source)), None
    )
    if step is None:
        return ""
    return OUTSIDE if step.router_to is not None else step.router


def _unwanted(journey: Journey) -> Finding | None:
    step = next(iter(journey.delivered), None)
    if step is None:
        return None
    name = journey.subscriber
    was = f"broker {step.broker} gave {journey.id} to {name} at {step.at:.3f} s"
    entry = next((each for each in step.entries if each.link == name), None)
    if entry is not None:
        why = (
            f"its table still has the entry {entry.filter!r} of {name}, who has no such subscription any more"
        )
        return Finding(
            "wanted", step.at, step.broker, step.router, was, why, "the entry had to go with the subscription"
        )
    place = OUTSIDE if step.router_to is not None else step.router
    why = f"no entry of {name} in its table matches the event"
    return Finding("wanted", step.at, step.broker, place, was, why, f"it was not for {name}")


def _unpublished(journey: Journey) -> Finding | None:
    step = next((each for each in journey.taken if not each.came_in and each.to), None)
    if step is None or journey.published_at is not None:
        return None
    place = OUTSIDE if step.router_to is not None else step.router
    was = f"{journey.id} came out of broker {step.broker} at {step.at:.3f} s, which had not been given it"
    why = "nobody has published an event of that number"
    return Finding(
        "published", step.at, step.broker, place, was, why, "a broker invents and renumbers no event"
    )


def _late(journey: Journey) -> Finding | None:
    step = journey.delivered[-1] if journey.delivered else None
    if step is None:
        return None
    name = journey.subscriber
    was = f"broker {step.broker} gave {journey.id} to {name} at {step.at:.3f} s, after a later event of its publisher"
    arrived = next((each for each in journey.taken if each.broker == step.broker), step)
    outside = step.router_to is not None or not step.came_in or not journey.heals
    why = f"broker {step.broker} had had it since {arrived.at:.3f} s"
    should = "events of one publisher are handed over in the order of their numbers; what comes too late is dropped"
    return Finding("ordered", step.at, step.broker, OUTSIDE if outside else DELIVERS, was, why, should)


def _stale(journey: Journey) -> Finding | None:
    step = next(iter(journey.delivered), None)
    if step is None:
        return None
    was = f"broker {step.broker} gave {journey.id} to {journey.subscriber} at {step.at:.3f} s"
    why = "everything had settled before the subscription was made"
    should = "a retransmitted event from before the position of a subscription is not for it"
    return Finding("fresh", step.at, step.broker, DELIVERS, was, why, should)


_CONDITIONS: Final[dict[str, Callable[[Journey], Finding | None]]] = {
    "once": _twice,
    "wanted": _unwanted,
    "published": _unpublished,
    "ordered": _late,
    "fresh": _stale,
}


def _dotted(number: Sequence[int]) -> str:
    return ".".join(map(str, number))


__all__ = ["CLOSES", "DELIVERS", "RESENDS", "Finding", "find", "last_attempt", "passed_over"]
