"""Writes the trace of a scenario while its steps are done, on whichever host.

Rules
-----
* What clients ask for is written down before it is done, what they are told after it: so the trace is never stricter
  than what happened.
* Notifications are taken in when the network has settled, each with its own time; the trace is put in order at the end.
"""

from __future__ import annotations

from ...protocol.scenarios.steps import Publish, Step, Subscribe, Unsubscribe
from .trace import Trace


class Recording:
    """The trace of a scenario's run.

    Attributes
    ----------
    trace
        What was written so far.
    """

    __slots__ = ("_sequences", "trace")

    def __init__(self) -> None:
        self.trace = Trace()
        self._sequences: dict[str, int] = {}

    def begin(self, now: float, step: Step) -> None:
        """Write down what a client is about to ask for."""
        match step:
            case Subscribe(client, _, number, selector):
                self.trace.subscribed(now, client, number, selector)
            case Unsubscribe(client, number):
                self.trace.cancelled(now, client, number)
            case Publish(client, _, events):
                first = self._sequences.get(client, 0) + 1
                self._sequences[client] = first + len(events) - 1
                self.trace.published(now, client, first, events)

    def confirm(self, now: float, step: Subscribe) -> None:
        """Write down that a subscription is installed."""
        self.trace.confirmed(now, step.client, step.number)

    def finish(self, now: float) -> Trace:
        """Return the whole trace in the order of time, settled at its end."""
        self.trace.settled(now)
        return self.trace.in_time()
