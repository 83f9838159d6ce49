"""Brokers and links of limited capacity, in virtual time; events that wait too long are dropped and counted.

Rules
-----
* A broker takes in events one after the other, at its rate; a link sends them one after the other, at its own rate.
  Other events wait, first in, first out. Announcements and replies cost nothing, but for samples: one takes the time
  of its events. Where brokers heal they wait behind the events before them, because links there are first in, first
  out.
* Where brokers measure how long events wait, they are told so before what concerns their books: the time until the
  last event of a message is taken in, or has left.
* An event that would wait longer than the deadline at one place is dropped there (`admission.waiting`) and counted:
  "cpu" at a broker, "bandwidth" at a link.

Source: paper 3, section 5.1 (the processing and link rates, and the 5 s after which a node drops an event).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ..admission.meters import DelayMeter
from ..admission.waiting import too_long
from ..protocol.batch import EventBatch
from ..protocol.effects import Drained, Effect, Missed, Multicast, Received, Send
from ..protocol.ids import GROUP, BrokerId
from ..protocol.messages.admission import CONCERNS_ADMISSION, Capacity, CpuCounts, DelaysMeasured, Sample
from ..protocol.messages.pubsub import Directed, Events, Numbered
from .hosts import Host
from .parts import Whole


class Queues:
    """The queues in front of the brokers of one network, and of their links.

    Parameters
    ----------
    capacity_of
        Returns the capacity of a broker and of its outgoing links.
    deadline_seconds
        How long an event may wait at one place.
    cpu_counts
        Whether a broker spends CPU time only on events that it takes in, or also, equally long each, on copies that
        it sends.

    Attributes
    ----------
    dropped
        How many events were dropped so far, by resource and broker.
    mourn
        Called with dropped events, how long they would have waited, and how long they may.
    offered
        How many events have come to each broker, and to each directed link, dropped ones and those of samples too.
    taken_in, sent, worked
        How many events each broker has taken in, each directed link has carried, and each broker has spent CPU time
        on: those taken in and, where copies count, those sent.
    """

    def __init__(
        self,
        capacity_of: Callable[[BrokerId], Capacity],
        deadline_seconds: float = 5.0,
        cpu_counts: CpuCounts = "events",
    ) -> None:
        self._capacity_of = capacity_of
        self._copies = cpu_counts == "copies"
        self._deadline = deadline_seconds
        self._network: Whole
        self._cpu_free_at: dict[tuple[BrokerId, int], float] = {}  # by broker and its incarnation
        self._link_free_at: dict[tuple[BrokerId, BrokerId], float] = {}
        self._waits: dict[tuple[BrokerId, int], dict[BrokerId | None, DelayMeter]] = {}
        self.dropped: dict[str, Counter[BrokerId]] = {"cpu": Counter(), "bandwidth": Counter()}
        self.mourn: Callable[[EventBatch, float, float], None] | None = None
        self.offered: Counter[BrokerId | tuple[BrokerId, BrokerId]] = Counter()
        self.taken_in: Counter[BrokerId] = Counter()
        self.sent: Counter[tuple[BrokerId, BrokerId]] = Counter()
        self.worked: Counter[BrokerId] = Counter()

    def join(self, network: Whole) -> None:
        """Attach the queues to the brokers and links of this network."""
        self._network = network

    def pass_on(self, host: Host, given: Received | Drained | Missed) -> bool:
        """Return whether a broker may take an input at once; otherwise queue or drop the input."""
        network, now = self._network, self._network.now
        start = max(now, self._cpu_free_at.get((host.id, host.incarnation), 0.0))
        batch = _events(given.message) if isinstance(given, Received) else None
        if batch is None:
            if isinstance(given, Received):
                self._sampled(host, given.message, start)
            if start == now or not network.heals:
                self._tell_waits(host, given)
                return True
            network.at(start, self._served, host, host.incarnation, given, 0)
            return False
        self.offered[host.id] += len(batch)
        if too_long(now, start, self._deadline):
            self._drop("cpu", host, batch, start - now)
        else:
            done = start + len(batch) / self._capacity_of(host.id).events_per_second
            self._cpu_free_at[host.id, host.incarnation] = done
            self._waited(host, None, done - now)
            network.at(done, self._served, host, host.incarnation, given, len(batch))
        return False

    def _sampled(self, host: Host, message: object, start: float) -> None:
        """Spend CPU time on the events of a sample, if a message is one."""
        events = _events_of_sample(message)
        if events:
            self.offered[host.id] += events
            seconds = events / self._capacity_of(host.id).events_per_second
            self._cpu_free_at[host.id, host.incarnation] = start + seconds

    def _served(self, host: Host, incarnation: int, given: Received | Drained | Missed, events: int) -> None:
        if host.alive and host.incarnation == incarnation:
            self.taken_in[host.id] += events
            self.worked[host.id] += events
            self._tell_waits(host, given)
            self._network.serve(host, given)

    def _waited(self, host: Host, to: BrokerId | None, seconds: float) -> None:
        """Record how long events wait for a broker, or for its link to another one."""
        window = self._network.features.delay_window_seconds
        if window is not None:
            meters = self._waits.setdefault((host.id, host.incarnation), {})
            meters.setdefault(to, DelayMeter(window)).saw(seconds, self._network.now)

    def _tell_waits(self, host: Host, given: Received | Drained | Missed) -> None:
        """Tell a broker how long events have waited there, before what concerns its books."""
        message = given.message if isinstance(given, Received) else None
        message = message.message if isinstance(message, Numbered) else message
        if self._network.features.delay_window_seconds is None or not isinstance(message, CONCERNS_ADMISSION):
            return
        now, meters = self._network.now, self._waits.get((host.id, host.incarnation), {})
        waits = {to: meter.highest(now) for to, meter in meters.items()}
        here = waits.pop(None, 0.0)
        told = DelaysMeasured(now, here, {to: wait for to, wait in waits.items() if to is not None})
        self._network.serve(host, Received(host.id, told))

    def leave(self, host: Host, effect: Effect) -> float | None:
        """Return when an effect's message leaves; None if it would wait too long and is dropped."""
        now = self._network.now
        batch = _events(effect.message) if isinstance(effect, Send | Multicast) else None
        sampled = _events_of_sample(effect.message) if isinstance(effect, Send | Multicast) else 0
        if batch is None and not sampled and not self._network.heals:
            return now
        to = effect.to if isinstance(effect, Send) else GROUP
        link = host.id, to
        start = max(now, self._link_free_at.get(link, 0.0))
        if batch is None:
            if sampled:
                self.offered[link] += sampled
                self._link_free_at[link] = start + sampled / self._capacity_of(host.id).link(to)
            return start if self._network.heals else now
        self.offered[link] += len(batch)
        if too_long(now, start, self._deadline):
            self._drop("bandwidth", host, batch, start - now)
            return None
        done = self._link_free_at[link] = start + len(batch) / self._capacity_of(host.id).link(to)
        self._waited(host, to, done - now)
        self.sent[link] += len(batch)
        if self._copies:
            self.worked[host.id] += len(batch)
            busy = max(now, self._cpu_free_at.get((host.id, host.incarnation), 0.0))
            seconds = len(batch) / self._capacity_of(host.id).events_per_second
            self._cpu_free_at[host.id, host.incarnation] = busy + seconds
        return done

    def _drop(self, resource: str, host: Host, batch: EventBatch, waits: float) -> None:
        self.dropped[resource][host.id] += len(batch)
        if self.mourn is not None:
            self.mourn(batch, waits, self._deadline)

    def dropped_events(self) -> dict[str, int]:
        """Return how many events were dropped so far, by the resource that they waited for."""
        return {resource: counts.total() for resource, counts in self.dropped.items()}


def _events(message: object) -> EventBatch | None:
    """Return the events in a message, also in a numbered one; None if there are none."""
    inner = message.message if isinstance(message, Numbered) else message
    return inner.batch if isinstance(inner, Events | Directed) else None


def _events_of_sample(message: object) -> int:
    """Return how many events a message tells as a sample."""
    inner = message.message if isinstance(message, Numbered) else message
    return len(inner.events) if isinstance(inner, Sample) else 0
