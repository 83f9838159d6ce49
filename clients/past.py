"""Reading the past of a durable subscriber: from which broker which events come next, and what is lost.

Rules
-----
* The past of a subscriber is, per publisher, the events from behind a number up to another one. All of them were
  accepted before they are asked for, so the histories of all brokers together have what is left of them.
* The present is not concerned: what is behind these numbers arrives as it does for every subscriber, and waits until
  the past is read.
* All brokers say which numbers they have. The next range of each publisher is read in pages from a broker that has it;
  that may be another one from number to number, as publishers move.
* A broker that did not answer when the subscriptions came into force may have accepted something before. What it has
  when it answers is past, too. It is waited for as long as events are retained for retransmission. If it has left
  meanwhile, what the others have then is past: one of them has taken over from it.
* Where the last event per key is wanted only, nothing is handed on before everything is read. A later process reads it
  all again, since the other publishers decide, too, and hands on what is not acknowledged.
* Numbers that no broker has are lost, and are told by name, once that has been so for as long as a failure goes
  unnoticed; or as long as events are retained for retransmission, if a broker does not answer. A broker may be
  back by then, or a publisher may retransmit at another one.

Pure: a host asks the brokers and gives their answers.
Source: docs/decisions/0181-replay.md and 0190-last-value.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from ..protocol.batch import EventBatch
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.pubsub import Lost
from ..protocol.messages.recovery import Recovery
from ..recovery.replay.history import Page, ReadHistory, Span
from .beginnings import last_of
from .last_values import LastValues
from .subscriber import SubscriberMachine

PUBLISHERS_MAX: Final = 1_024
"""Of how many publishers one question asks."""

LAST_EVENTS: Final = 1_024
"""How many events that are the last of their keys are handed on at once, where nothing else is said."""

NOBODY: Final = -1


class PastReader:
    """Reads the past of one subscriber.

    Parameters
    ----------
    machine
        The subscriber, in whose record its past is.
    times
        How long what is missing is waited for.
    now
        The time.
    part_events
        How many events that are the last of their keys are handed on at once.
    """

    def __init__(
        self, machine: SubscriberMachine, times: Recovery, now: float, part_events: int = LAST_EVENTS
    ) -> None:
        self._machine, self._times, self._began = machine, times, now
        self._part_events = part_events
        self._ranges: dict[BrokerId, dict[ClientId, tuple[int, int]]] = {}
        # Since when numbers, from this one on, are at no broker.
        self._missing: dict[tuple[ClientId, int], float] = {}
        self._last: LastValues | None = None  # where only these are wanted, until they are handed on
        self._chosen: deque[EventBatch] | None = None
        self._read: dict[ClientId, int] = {}  # up to where they are found
        if machine.past is not None and "last_per" in machine.past:
            self._last, self._read = LastValues(machine.past["last_per"]), dict(machine.past["begins"])

    @property
    def _marks(self) -> dict[ClientId, int]:
        """Per publisher, up to where the past is read."""
        return self._machine.marks if self._last is None else self._read

    def _left(self) -> dict[ClientId, tuple[int, int]]:
        """By publisher, up to where it is read, and its last number."""
        past, marks = self._machine.past, self._marks
        if past is None or not self._machine.past_filters():
            return {}
        again = self._last is not None
        ends = {
            name: (marks.get(name, done) if again else max(done, marks.get(name, 0)), to)
            for name, (done, to) in past["todo"].items()
        }
        return {name: (read, to) for name, (read, to) in ends.items() if read < to}

    def finished(self, now: float) -> bool:
        """Whether everything is read, from all brokers that are waited for, and handed on."""
        return self._is_read(now) and not self._values()

    def last_values(self, now: float) -> EventBatch | None:
        """Return the next events of those that are the last of their keys, once everything is read; None for none."""
        if not self._is_read(now) or not (values := self._values()):
            return None
        batch = values.popleft()
        self._machine.past_read(dict(map(batch.identity, range(len(batch)))), batch)
        self._values()
        return batch

    def _values(self) -> deque[EventBatch]:
        """Return the last events that are to be handed on; when there are none, the whole past was read."""
        machine, past = self._machine, self._machine.past
        if self._last is None or past is None:
            return deque()
        if self._chosen is None:
            wanted = bool(machine.past_filters())
            self._chosen = deque(self._last.chosen(machine.acknowledged, self._part_events) if wanted else ())
        if not self._chosen:
            self._last = None
            machine.past_read({name: to for name, (_, to) in past["todo"].items()})
        return self._chosen

    def _is_read(self, now: float) -> bool:
        if self._left():
            return False
        past = self._machine.past
        awaits = () if past is None or not self._machine.past_filters() else past["awaits"]
        return not awaits or now - self._began >= self._times.retention_seconds

    def questions(self) -> list[tuple[BrokerId, ReadHistory]]:
        """Return which pages to ask for next, of which brokers; none if all brokers are to be asked what they have."""
        past = self._machine.past
        if past is None:
            return []
        filters, since = self._machine.past_filters(), past["since"]
        return [
            (broker, ReadHistory(filters, since, dict(list(ranges.items())[:PUBLISHERS_MAX])))
            for broker, ranges in self._ranges.items()
        ]

    def known(
        self, answers: Mapping[BrokerId, Mapping[ClientId, Span]], brokers: Collection[BrokerId], now: float
    ) -> list[Lost]:
        """Take what brokers have, of all `brokers` that there are; return what is lost by now."""
        machine, times = self._machine, self._times
        for broker, spans in answers.items():
            machine.past_answered(broker, {name: span.last for name, span in spans.items()})
        for broker in () if machine.past is None else machine.past["awaits"]:
            if broker not in brokers:  # it has left for good, and its trustee answers for it
                machine.past_answered(broker, last_of(answers.values()))
        everyone = answers.keys() >= set(brokers)
        patience = times.unnoticed_seconds if everyone else times.retention_seconds
        before, self._missing, self._ranges, lost = self._missing, {}, {}, list[Lost]()
        for name, (done, to) in self._left().items():
            there = sorted(
                (first, last, broker)
                for broker, spans in answers.items()
                if name in spans
                for first, last in spans[name].ranges
                if last > done and first <= to
            )
            at, goes_on = done, True  # whether nothing is missing, or to be read, in front
            for first, last, broker in [*there, (to + 1, to + 1, NOBODY)]:
                if last <= at:
                    continue
                if first > at + 1:
                    since = self._missing[name, at + 1] = before.get((name, at + 1), now)
                    goes_on = goes_on and now - since >= patience
                    if goes_on:
                        lost += self._lost(name, at + 1, first - 1)
                if goes_on and broker != NOBODY:
                    self._ranges.setdefault(broker, {})[name] = max(at, first - 1), min(last, to)
                    goes_on = False
                at = last
        return lost

    def _lost(self, name: ClientId, first: int, last: int) -> list[Lost]:
        """Go on behind what no broker has; return it, without what is acknowledged and was only to be read again."""
        self._found({name: last})
        past = self._machine.past
        done, _ = (0, 0) if past is None else past["todo"][name]
        return [Lost(name, max(first, done + 1), last)] if last > done else []

    def _found(self, upto: Mapping[ClientId, int], batch: EventBatch | None = None) -> None:
        """Note up to where the past is read, and what was found."""
        if self._last is None:
            self._machine.past_read(upto, batch)
            return
        self._read |= upto
        if batch is not None:
            self._last.add(batch)

    def took(self, broker: BrokerId, question: ReadHistory, page: Page | None) -> EventBatch | None:
        """Take the answer to a question, None for none; return the events that are to be handed on, in order.

        Raises
        ------
        TooManyKeys
            If there are too many keys to keep the last event of each.
        """
        batch, upto = page or Page(None, {})
        mine, read = self._ranges.get(broker, {}), self._marks
        if not upto:  # what it had it has forgotten, or it does not answer: ask everybody again
            self._ranges.pop(broker, None)
            return None
        if batch is not None:
            had = np.array([read.get(name, 0) for name in batch.publishers])
            batch = batch.take(np.flatnonzero(batch.sequence > had[batch.publisher]))
        self._found({name: max(number, read.get(name, 0)) for name, number in upto.items()}, batch)
        for name, number in upto.items():
            _, last = mine.pop(name, (0, 0))
            if number < last:
                mine[name] = number, last
        if not mine:
            self._ranges.pop(broker, None)
        return batch if batch is not None and len(batch) and self._last is None else None
