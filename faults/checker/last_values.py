"""The conditions of a subscriber that wants of its past the last event per key, from a record of what it got.

Conditions
----------
* **not older**, **in order**, **wanted**: as for every subscriber that begins in the past (`replays`).
* **keyed**: it gets no event without a key that all brokers have retained since before it began.
* **only the last**: of two events of one key that brokers had retained when it began, and have to the end, it does not
  get the earlier one if it gets the later one.
* **complete**: it gets every event that a broker has accepted, from its beginning to the end of the run, or it is told
  that the event may be lost; unless the event is of the past, and it got, or was told of, a later one of its key that
  is of the past, too. That may also be one with a time to live.

The past ends when the subscriptions are in force. If a broker did not answer then, what that broker has accepted later
is past, too; so no event counts as present then.

Which of two events is later is looked up here by what was published, and not by what the subscriber does.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from itertools import combinations

from ...protocol.groups import PUBLISHER_KEY
from ...protocol.ids import BrokerId, ClientId, EventId
from ...protocol.messages.pubsub import Lost
from ...protocol.traces.trace import Published
from .replays import ReplayRecord, got_wrongly, names


class LastRecord(ReplayRecord):
    """Where a subscriber has begun that wants the last event of each key.

    Attributes
    ----------
    last_per
        The attribute, or `PUBLISHER_KEY`.
    there
        The events that brokers which answered had retained when it began.
    """

    def __init__(
        self,
        marks: Mapping[ClientId, int],
        since: float,
        last_per: str,
        there: Collection[EventId],
    ) -> None:
        super().__init__(marks, since)
        self.last_per, self.there = last_per, frozenset(there)

    def key_of(self, published: Published) -> object:
        """Return the key of an event; None for none."""
        return published.publisher if self.last_per == PUBLISHER_KEY else published.event.get(self.last_per)


def _is_later(one: Published, other: Published) -> bool:
    if one.publisher == other.publisher:
        return one.sequence > other.sequence
    return (one.at_seconds, one.publisher) > (other.at_seconds, other.publisher)


def last_value_violations(
    record: LastRecord,
    got: Sequence[EventId],
    losses: Iterable[Lost],
    events: Mapping[EventId, Published],
    accepted_at: Mapping[EventId, Mapping[BrokerId, float]],
    wanted: Callable[[Mapping[str, object]], bool],
    living: Collection[BrokerId],
    retained: Collection[EventId],
    expires: Collection[EventId] = (),
) -> list[str]:
    """Return what was done against the conditions, in words; nothing if they were kept.

    Parameters
    ----------
    record
        Where it begins.
    got, losses
        What it got, in order, and what it was told.
    events, accepted_at
        What was published, and which brokers have accepted it, each when it first did.
    wanted
        Whether it wants an event.
    living, retained
        The brokers that live in the end, and what is in their histories then.
    expires
        What has a time to live: it need not come.
    """
    found = got_wrongly(record.marks, got, events, wanted)
    told = list(losses)
    lost = {event for event in events if any(names(each, event) for each in told)}
    certain = [event for event in got if event in record.there and event in retained]
    for event in certain:
        if record.key_of(events[event]) is None:
            found.append(f"keyed: got {event}, which has no {record.last_per}")
    for pair in combinations(certain, 2):
        one, other = (events[event] for event in pair)
        if record.key_of(one) == record.key_of(other) is not None and lost.isdisjoint(pair):
            found.append(f"only the last: got {pair[0]} and {pair[1]} of {record.key_of(one)!r}")
    had = set(got)
    replaces: dict[object, list[Published]] = {}
    for event in {*had, *lost, *expires} & events.keys():
        if wanted(events[event].event) and events[event].at_seconds < record.past_ends:
            replaces.setdefault(record.key_of(events[event]), []).append(events[event])
    for event, published in events.items():
        if event in had or event in lost or event in expires or not wanted(published.event):
            continue
        if not record.owes(*event, published.at_seconds) or not accepted_at.get(event):
            continue
        if event not in retained and set(accepted_at[event]).isdisjoint(living):
            continue  # nobody may know
        key, is_past = record.key_of(published), published.at_seconds < record.past_ends
        if is_past and (key is None or any(_is_later(each, published) for each in replaces.get(key, ()))):
            continue
        found.append(f"complete: {event} of {key!r} is missing, and it was not told")
    return found
