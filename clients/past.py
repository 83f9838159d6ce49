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
* Numbers that no broker has are lost, and are told by name, once that has been so for as long as a failure goes
  unnoticed; or as long as events are retained for retransmission, if a broker does not answer. A broker may be
  back by then, or a publisher may retransmit at another one.

Pure: a host asks the brokers and gives their answers.
Source: docs/decisions/0181-replay.md.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

import numpy as np

from ..protocol.batch import EventBatch
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.pubsub import Lost
from ..protocol.messages.recovery import Recovery
from ..recovery.replay.history import Page, ReadHistory, Span
from .beginnings import last_of
from .subscriber import SubscriberMachine

PUBLISHERS_MAX: Final = 1_024
"""Of how many publishers one question asks."""

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
    """

    def __init__(self, machine: SubscriberMachine, times: Recovery, now: float) -> None:
        self._machine, self._times, self._began = machine, times, now
        self._ranges: dict[BrokerId, dict[ClientId, tuple[int, int]]] = {}
        # Since when numbers, from this one on, are at no broker.
        self._missing: dict[tuple[ClientId, int], float] = {}
        self._asked = False  # whether brokers have said what they have

    def _left(self) -> dict[ClientId, tuple[int, int]]:
        """By publisher, up to where it is read, and its last number."""
        past, marks = self._machine.past, self._machine.marks
        if past is None or not self._machine.past_filters():
            return {}
        ends = {name: (max(done, marks.get(name, 0)), to) for name, (done, to) in past["todo"].items()}
        return {name: (read, to) for name, (read, to) in ends.items() if read < to}

    def finished(self, now: float) -> bool:
        """Whether everything is read, from all brokers that are waited for."""
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
                        lost.append(Lost(name, at + 1, first - 1))
                        machine.past_read({name: first - 1})
                if goes_on and broker != NOBODY:
                    self._ranges.setdefault(broker, {})[name] = max(at, first - 1), min(last, to)
                    goes_on = False
                at = last
        return lost

    def took(self, broker: BrokerId, question: ReadHistory, page: Page | None) -> EventBatch | None:
        """Take the answer to a question, None for none; return the events that are to be handed on, in order."""
        batch, upto = page or Page(None, {})
        mine, read = self._ranges.get(broker, {}), self._machine.marks
        if not upto:  # what it had it has forgotten, or it does not answer: ask everybody again
            self._ranges.pop(broker, None)
            return None
        if batch is not None:
            had = np.array([read.get(name, 0) for name in batch.publishers])
            batch = batch.take(np.flatnonzero(batch.sequence > had[batch.publisher]))
        self._machine.past_read(
            {name: max(number, read.get(name, 0)) for name, number in upto.items()}, batch
        )
        for name, number in upto.items():
            _, last = mine.pop(name, (0, 0))
            if number < last:
                mine[name] = number, last
        if not mine:
            self._ranges.pop(broker, None)
        return batch if batch is not None and len(batch) else None
