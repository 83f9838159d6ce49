"""The layer that holds publishers to what they advertise, where they come in.

Rules
-----
* Every message of a publisher with events goes by here, and waits where it comes too fast (`admission.quota`). So no
  layer inside, and no other broker, takes in more of an advertisement than is reserved for it.
* Over a numbered interface what waits is not acknowledged: the publisher keeps it and sends it again, so what waits
  here may be forgotten, and what is past the bounds is left alone.
* A publisher that goes to another broker takes along what was not accepted here, so what waits of it is forgotten: with
  its advertisements gone nobody would take it, and it would be told that it was let in.
* Elsewhere the publisher is told: `HeldBack`, later `LetIn`, or `OverQuota`. Nothing is accepted before it is let in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping

from ...admission.quota import AdvertisedRate, Quotas
from ...protocol.batch import EventBatch
from ...protocol.effects import Inform, Received, Ticked
from ...protocol.ids import ClientId, Link
from ...protocol.layers import Handler, Inward, Out
from ...protocol.messages.admission import MICRO, AdmissionConfig, HeldBack, LetIn, OverQuota
from ...protocol.messages.pubsub import Detach, Events, Numbered
from ...protocol.snapshots import Restorable


class Shaping(Restorable):
    """Quotas of publishers as a layer around all others.

    Parameters
    ----------
    advertised
        Returns what a publisher advertises at this broker, by number.
    config
        How much may wait.
    again_seconds
        For how long publishers keep what they publish again after a move.
    timed
        Whether a layer inside wants to be told the time.

    Attributes
    ----------
    refused
        Events that were refused by name.
    """

    alters: Mapping[type, Handler] = {}

    def __init__(
        self,
        advertised: Callable[[ClientId], Mapping[int, AdvertisedRate]],
        config: AdmissionConfig,
        again_seconds: float,
        *,
        timed: bool,
    ) -> None:
        self.refused = 0
        self._quotas: Quotas[Received] = Quotas(advertised, config, again_seconds)
        self._advertised = advertised
        self._now = 0.0
        self._timed = timed
        self._passed: dict[ClientId, int] = {}  # the last number over a numbered interface
        self.takes: Mapping[type, Handler] = {} if timed else {Ticked: self._on_tick}
        self.sees: Mapping[type, Handler] = {
            Events: self._on_events,
            Numbered: self._on_adv,
            Ticked: self._on_tick,
            Detach: self._on_detach,
        }

    def _on_events(self, event: Received[Link, Events]) -> list[Out]:
        source, message = event.source, event.message
        batch = message.batch
        if not isinstance(source, str) or not len(batch):
            return [Inward(event)]
        outcome = self._quotas.enter(source, batch, event, self._now, again=message.again)
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
            return []  # it is said again
        if adv.number > self._passed.get(source, 0):
            if self._quotas.enter(source, adv.message.batch, event, self._now) != "passes":
                return []
            self._passed[source] = adv.number
        return [Inward(event)]

    def _on_detach(self, event: Received) -> list[Out]:
        if isinstance(event.source, str):
            self._quotas.drop(event.source)
        return [Inward(event)]

    def _on_tick(self, event: Ticked) -> list[Out]:
        self._now = event.now
        out: list[Out] = [Inward(event)] if self._timed else []
        for publisher, waiting in self._quotas.release(event.now):
            out.append(Inward(waiting.what))
            if number := _number(waiting.what):
                self._passed[publisher] = number
            else:
                seconds = self._quotas.wait_seconds(publisher, self._now)
                out.append(Inform(publisher, LetIn(int(waiting.batch.sequence[-1]), seconds)))
        for publisher in [publisher for publisher in self._passed if not self._quotas.knows(publisher)]:
            del self._passed[publisher]  # should it say that number again, it pays again
        return out

    def _reason(self, publisher: ClientId) -> str:
        rates = [advert.rate / MICRO for advert in self._advertised(publisher).values()]
        waiting = sum(len(each.batch) for each in self._quotas.waiting(publisher))
        return (
            f"publisher {publisher!r} advertises {', '.join(f'{rate:g}' for rate in rates) or 'no'} events/s; "
            f"{waiting} of its events wait for that already"
        )

    def publishers(self) -> Collection[ClientId]:
        """Return the publishers of which events are not let in yet."""
        return self._quotas.sources()

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
