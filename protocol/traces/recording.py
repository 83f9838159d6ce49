"""Records the trace of a scenario while its steps are executed, on any host.

Rules
-----
* A client's requests are recorded before they are executed, and what it is told is recorded afterwards. The
  trace is therefore never stricter than what happened.
* Notifications are added when the network has settled, each with its own time. The trace is sorted at the
  end.
"""

from __future__ import annotations

from ..scenarios.steps import Publish, Step, Subscribe, Unsubscribe
from .trace import Trace


class Recording:
    """The trace of a scenario's run.

    Attributes
    ----------
    trace
        The operations recorded so far.
    """

    __slots__ = ("_sequences", "trace")

    def __init__(self) -> None:
        self.trace = Trace()
        self._sequences: dict[str, int] = {}

    def begin(self, now: float, step: Step) -> None:
        """Record what a client is about to request."""
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
        """Record that a subscription is installed."""
        self.trace.confirmed(now, step.client, step.number)

    def finish(self, now: float) -> Trace:
        """Return the complete trace in the order of time, settled at its end."""
        self.trace.settled(now)
        return self.trace.in_time()
