"""What became of an event that a subscriber reads of the past: asked of which broker's history, and found or not.

Rules
-----
* A subscriber that begins in the past, or is rewound, reads the histories of brokers itself. So what is behind its
  beginning comes on another way than from broker to broker: the event was accepted at a broker, which kept it in its
  history, and that, or another one that had it, is asked for it.
* What concerns another event is left out, and so is what repeats the step before. At most :data:`STEPS_MAX` steps.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final

from ...protocol.ids import BrokerId, ClientId, EventId
from ...protocol.messages.pubsub import Lost
from ...protocol.traces.trace import Trace
from ...recovery.replay.history import History, Page, ReadHistory
from ...simulator.simulation import Simulation
from .finding import Finding
from .journey import BRINGS, BROUGHT, LOST, OLDER, PASSED, PRESENT, SILENT, WAITS, Journey, PastStep

STEPS_MAX: Final = 1_000
PAGES: Final = "recovery/replay/history.py: History.page"
"""Where the rule stands which events a page has."""
READS: Final = "clients/past.py: PastReader.known"
"""Where the rule stands of whom is asked what, and what is lost."""

_SAID: Final = re.compile(
    r"replay of (?P<client>\S+): .*?(?:got|told that|:) (?P<publisher>\S+) (?P<number>\d+)\b"
)


def violated_in(problems: Sequence[str]) -> list[tuple[ClientId, EventId, str]]:
    """Return which events of which subscribers the judge of replays names, and its sentence."""
    found = [(problem, _SAID.match(problem)) for problem in problems]
    return [
        (said["client"], (said["publisher"], int(said["number"])), problem) for problem, said in found if said
    ]


def with_record_apart(trace: Trace, apart: Trace) -> Trace:
    """Return a trace with the operations of a subscriber that is recorded apart."""
    both = [*trace.operations, *apart.operations]
    return Trace(sorted(both, key=lambda operation: operation.at_seconds))


class PastRecorder:
    """Notes how one subscriber reads one event of its past.

    Parameters
    ----------
    event
        (publisher, number).
    """

    def __init__(self, event: EventId) -> None:
        self.event = event
        self.steps: list[PastStep] = []

    def begins(self, now: float, todo: Mapping[ClientId, tuple[int, int]]) -> None:
        """Note that the subscriber begins to read: by publisher, behind which number, and up to which one."""
        publisher, number = self.event
        done, to = todo.get(publisher, (0, 0))
        if number > to:
            self._add(
                now, PRESENT, None, f"what it reads ends with {publisher}:{to}; later ones come by themselves"
            )
        elif number <= done:
            self._add(now, OLDER, None, f"it reads {publisher} from behind {publisher}:{done} on")
        else:
            self._add(now, WAITS, None, f"it is to read {publisher}:{done + 1} to {publisher}:{to}")

    def asked(self, now: float, broker: BrokerId, question: ReadHistory, page: Page | None) -> None:
        """Note a question to a broker about the event, and the answer."""
        publisher, number = self.event
        after, last = question.ranges.get(publisher, (0, 0))
        if not after < number <= last:
            return
        if page is None:
            self._add(now, SILENT, broker, f"broker {broker} does not answer")
            return
        upto = page.upto.get(publisher, 0)
        if not page.upto:
            self._add(now, SILENT, broker, f"broker {broker} has forgotten what it said it had")
        elif upto >= number:
            has = page.batch is not None and any(
                page.batch.identity(row) == self.event for row in range(len(page.batch))
            )
            went = f"broker {broker} answers up to {publisher}:{upto}"
            self._add(now, BROUGHT if has else PASSED, broker, f"{went}, {BRINGS if has else 'without it'}")

    def lost(self, network: Simulation, lost: Sequence[Lost], answered: Collection[BrokerId]) -> None:
        """Note what is given up because no broker has it that answers."""
        publisher, number = self.event
        if any(each.publisher == publisher and each.first <= number <= each.last for each in lost):
            silent = sorted(network.hosts.keys() - answered)
            has = [broker for broker in silent if _has(network, broker, self.event)]
            others = f"; broker {has[0]} has it, and does not answer" if has else ""
            asked = f"none of the {len(answered)} brokers that answer has it in its history{others}"
            self._add(network.now, LOST, None, asked)

    def _add(self, now: float, kind: str, broker: BrokerId | None, words: str) -> None:
        step = PastStep(now, kind, broker, words)
        if len(self.steps) < STEPS_MAX and (not self.steps or self.steps[-1][1:] != step[1:]):
            self.steps.append(step)


def _has(network: Simulation, broker: BrokerId, event: EventId) -> bool:
    """Return whether a broker that lives has an event in its history."""
    host = network.hosts[broker]
    history = network.broker(broker).layer(History) if host.alive else None
    return history is not None and event in history.identities()


def find_past(journey: Journey) -> Finding | None:
    """Return where the journey of an event of the past ended; None if it did not end there."""
    name, event = journey.subscriber, journey.id
    brought = [step for step in journey.past if step.kind == BROUGHT]
    if journey.notified:
        given = [step for step in brought if step.at <= journey.notified[0]]
        if not given or any(given[-1].at < step.at <= journey.notified[0] for step in journey.delivered):
            return None
        broker, at = given[-1].broker, journey.notified[0]
        was = f"{name} was notified of {event} at {at:.3f} s, which it had read from the history of broker {broker}"
        return Finding("delivered", at, broker, "", was, "nothing is missing", "")
    if not journey.past or journey.past[-1].kind == PRESENT:
        return None
    last = journey.past[-1]
    broker = last.broker
    if last.kind == OLDER:
        why = f"{event} is not behind the beginning: {last.words}"
        return Finding("not owed", last.at, None, "", f"in front of where {name} begins", why, "")
    if last.kind == BROUGHT:
        was = f"the way from the history of broker {broker} to {name}, at {last.at:.3f} s"
        why = f"{name} died before it had it, or dropped it"
        return Finding(
            "missing", last.at, broker, "", was, why, f"{name}, wherever it comes back, reads it again"
        )
    if last.kind == PASSED:
        was = f"the history of broker {broker}, which {name} read at {last.at:.3f} s"
        why = f"{last.words}: it was older than the time asked for, or is not wanted there"
        should = "a page has every event of its range that is wanted"
        return Finding("missing", last.at, broker, PAGES, was, why, should)
    was = f"{name}, which reads its past, at {last.at:.3f} s"
    should = "a broker that has it in its history has to answer"
    return Finding("missing", last.at, None, READS, was, last.words, should)


__all__ = ["PAGES", "READS", "PastRecorder", "find_past", "violated_in", "with_record_apart"]
