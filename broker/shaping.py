"""The layer that enforces the advertised rates of publishers at the broker where they publish.

Rules
-----
* Every message with events from a publisher passes through here, and waits if it arrives too fast
  (`admission.quota`). So no layer inside, and no other broker, receives more of an advertisement than is reserved for
  it.
* Over a numbered interface, a waiting message is not acknowledged: the publisher retains it and retransmits it. So a
  message that waits here may be forgotten, and a message past the bounds is ignored.
* A publisher that moves to another broker takes along the events that were not accepted here, so its waiting events
  are forgotten. Without its advertisements no layer would take them, and the publisher would be told that they were
  let in.
* A broker that is told to leave lets nothing in any more: what it accepts now, nobody may pass on.
* Over other interfaces the publisher is told: `HeldBack`, later `LetIn`, or `OverQuota`. Nothing is accepted before
  it is let in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..admission.quota import AdvertisedRate, Quotas
from ..protocol.batch import EventBatch
from ..protocol.effects import Inform, Received, Ticked
from ..protocol.ids import ClientId, Link
from ..protocol.layers import Handler, Inward, Out
from ..protocol.messages.admission import MICRO, AdmissionConfig, HeldBack, LetIn, OverQuota
from ..protocol.messages.pubsub import Detach, Events, Numbered
from ..protocol.messages.recovery import RENDEZVOUS, LeaveNetwork
from ..protocol.queries import AcceptedOf, Answering, KeptOf, Publishers, WaitingOf
from ..protocol.snapshots import Restorable


class Shaping(Restorable):
    """Publisher quotas as a layer around all others.

    Parameters
    ----------
    advertised
        Returns the advertisements of a publisher at this broker, by number.
    config
        How much may wait.
    retransmission_seconds
        How long publishers retain events that they republish after a move.
    timed
        Whether a layer inside takes ticks.

    Attributes
    ----------
    refused
        How many events were refused, with a message to the publisher.
    """

    alters: Mapping[type, Handler] = {}

    def __init__(
        self,
        advertised: Callable[[ClientId], Mapping[int, AdvertisedRate]],
        config: AdmissionConfig,
        retransmission_seconds: float,
        *,
        timed: bool,
    ) -> None:
        self.refused = 0
        self._quotas: Quotas[Received] = Quotas(advertised, config, retransmission_seconds)
        self._advertised = advertised
        self._now = 0.0
        self._timed, self._leaving = timed, False
        self._passed: dict[ClientId, int] = {}  # the last number that passed over a numbered interface
        self.takes: Mapping[type, Handler] = {} if timed else {Ticked: self._on_tick}
        self.sees: Mapping[type, Handler] = {
            Events: self._on_events,
            Numbered: self._on_adv,
            Ticked: self._on_tick,
            Detach: self._on_detach,
            LeaveNetwork: self._on_leave,
        }

    def _on_events(self, event: Received[Link, Events]) -> list[Out]:
        source, message = event.source, event.message
        batch = message.batch
        if not isinstance(source, str) or not len(batch):
            return [Inward(event)]
        outcome = self._quotas.enter(source, batch, event, self._now, retransmitted=message.retransmitted)
        if outcome == "passes":
            return [Inward(event)]
        last = int(batch.sequence[-1])
        if outcome == "waits":
            return [Inform(source, HeldBack(last, self._quotas.wait_seconds(source, self._now)))]
        self.refused += len(batch)
        return [Inform(source, OverQuota(last, len(batch), self._reason(source)))]

    def _on_adv(self, event: Received) -> list[Out]:
        source, adv = event.source, event.message
        if (
            not isinstance(source, str)
            or not isinstance(adv, Numbered)
            or not isinstance(adv.message, Events)
        ):
            return [Inward(event)]
        if any(_number(each.what) == adv.number for each in self._quotas.waiting(source)):
            return []  # a retransmission of a message that waits already
        if adv.number > self._passed.get(source, 0):
            if self._quotas.enter(source, adv.message.batch, event, self._now) != "passes":
                return []
            self._passed[source] = adv.number
        return [Inward(event)]

    def _on_detach(self, event: Received) -> list[Out]:
        if isinstance(event.source, str):
            self._quotas.drop(event.source)
        return [Inward(event)]

    def _on_leave(self, event: Received) -> list[Out]:
        self._leaving = self._leaving or event.source == RENDEZVOUS
        return [Inward(event)]

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        out: list[Out] = [Inward(event)] if self._timed else []
        for publisher, waiting in () if self._leaving else self._quotas.release(event.now):
            out.append(Inward(waiting.what))
            if number := _number(waiting.what):
                self._passed[publisher] = number
            else:
                seconds = self._quotas.wait_seconds(publisher, self._now)
                out.append(Inform(publisher, LetIn(int(waiting.batch.sequence[-1]), seconds)))
        for publisher in [publisher for publisher in self._passed if not self._quotas.knows(publisher)]:
            del self._passed[publisher]  # if the publisher retransmits that number, it is charged again
        return out

    def _reason(self, publisher: ClientId) -> str:
        rates = [advert.rate / MICRO for advert in self._advertised(publisher).values()]
        waiting = sum(len(each.batch) for each in self._quotas.waiting(publisher))
        return (
            f"publisher {publisher!r} advertises {', '.join(f'{rate:g}' for rate in rates) or 'no'} events/s; "
            f"{waiting} of its events wait for that already"
        )

    @property
    def answers(self) -> Answering:
        """What hosts ask of it: what waits here is accepted, and retained, too."""
        return {
            Publishers: lambda query: frozenset(self._quotas.sources()),
            AcceptedOf: lambda query: max(
                (int(batch.sequence[-1]) for batch in self.waiting(query.publisher)), default=0
            ),
            KeptOf: lambda query: [(0.0, batch) for batch in self.waiting(query.publisher)],
            WaitingOf: lambda query: self.waiting(query.publisher),
        }

    def waiting(self, publisher: ClientId) -> list[EventBatch]:
        """Return the events of a publisher that are not let in yet, the oldest first."""
        return [each.batch for each in self._quotas.waiting(publisher)]

    def describe(self) -> Mapping[str, int]:
        """Return how many events wait, have waited, and were refused."""
        return {**self._quotas.describe(), "quota_refused": self.refused}

    def check(self) -> None:
        """Assert that nothing waits past the bounds; for tests."""
        self._quotas.check()


def _number(event: Received) -> int:
    """Return the number of a message over a numbered interface; 0 elsewhere."""
    return event.message.number if isinstance(event.message, Numbered) else 0
