"""The client side of payloads: cutting and sending one, and reading it where it has arrived.

Rules
-----
* ``distribute`` returns when every live broker with a subscriber for the payload has all of it.
* An event of the publisher describes the payload, with the attributes `topic`, `payload`, `payload_bytes` and
  `payload_md5`. Subscribers subscribe to it as to any event. It arrives when the payload is there, so it may be
  late among other events of the publisher.
* In a network that heals the event is published when the payload is there, like any other event and in its
  order.
* Every broker holds its own copy: a payload can be read after its publisher has ended.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import ray

from ...protocol.batch import EventBatch, batch_of
from ...protocol.checks import text, whole_number
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from ...protocol.messages.payloads import Outcome, Payload
from ..host.handle import HostHandle
from .bulk import GONE, SLICES_WAITING_MAX, bytes_of, next_targets


@dataclass(frozen=True, slots=True)
class Distribution:
    """The result of distributing a payload.

    Attributes
    ----------
    payload
        Its name; subscribers find it in their event.
    nbytes, slices, md5
        Its size, in bytes and in slices, and its checksum.
    brokers
        The other brokers that have it.
    sent
        The bytes that each broker has sent to others, as reported by the live ones. If none died, that is as
        many copies in all as there are other brokers (paper 5, section 4.3).
    gone
        Brokers that wanted it and died.
    rounds
        1, plus one for each time that a broker died during the transfer.
    seconds
        The duration.
    """

    payload: str
    nbytes: int
    slices: int
    md5: str
    brokers: tuple[BrokerId, ...]
    sent: Mapping[BrokerId, int]
    gone: tuple[BrokerId, ...]
    rounds: int
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        """The bytes that arrived at all brokers together, per second."""
        return self.nbytes * len(self.brokers) / self.seconds


class CutPayload:
    """A payload that is cut into slices and ready to send.

    Parameters
    ----------
    given
        Bytes, or any object with a buffer of bytes.
    topic
        The topic of the payload.
    slice_bytes
        The number of bytes in a slice.

    Raises
    ------
    InputError
        If it has no bytes, or the topic is not a string.
    """

    def __init__(self, given: Any, topic: str, slice_bytes: int) -> None:
        text("topic", topic)
        self.whole = bytes_of(given)
        self.slice_bytes = whole_number("slice_bytes", slice_bytes, 1)
        self.name = uuid.uuid4().hex
        self.nbytes = len(self.whole)
        self.md5 = hashlib.md5(self.whole.data, usedforsecurity=False).hexdigest()
        self.event = {
            "topic": topic,
            "payload": self.name,
            "payload_bytes": self.nbytes,
            "payload_md5": self.md5,
        }

    def batch(self) -> EventBatch:
        """Return the event that describes the payload, not stamped yet."""
        return batch_of((self.event,))

    def send(
        self,
        host: Any,
        broker: BrokerId,
        numbered: Callable[[], EventBatch],
        answer: Callable[[Any], Any],
        *,
        notifies: bool = True,
    ) -> Distribution:
        """Send the payload to all brokers that want it, round by round.

        Parameters
        ----------
        host, broker
            The publisher's broker, and its host.
        numbered
            Returns the event that describes the payload with its number, or without one if the brokers do not notify.
            It is called once the broker has said who wants the payload: one that is refused takes no number.
        answer
            Waits for the answer to a call.
        notifies
            Whether the brokers that have it notify their clients.
        """
        started = time.monotonic()
        wanted = targets = answer(HostHandle(host).bulk_targets(broker, self.batch()))
        outcome = Outcome()
        gone: set[BrokerId] = set()
        payload = Payload(
            self.name, numbered(), broker, targets, self.nbytes, self.slice_bytes, self.md5, notifies
        )
        rounds = 0
        while rounds == 0 or targets:
            came = self._round(host, replace(payload, targets=targets), answer)
            rounds += 1
            gone |= {target for target, why in came.missing.items() if why == GONE}
            outcome.add(came)
            targets = next_targets(came.missing, targets)
        return Distribution(
            self.name,
            self.nbytes,
            payload.slices,
            self.md5,
            tuple(target for target in wanted if target not in gone),
            {sender: nbytes for sender, nbytes in sorted(outcome.sent.items()) if nbytes},
            tuple(sorted(gone)),
            rounds,
            time.monotonic() - started,
        )

    def _round(self, host: Any, payload: Payload, answer: Callable[[Any], Any]) -> Outcome:
        """Send what the broker lacks, and return the outcome."""
        broker = payload.origin
        has = answer(HostHandle(host).bulk_begin(broker, payload))
        for first in range(has, payload.slices, SLICES_WAITING_MAX):
            part = self.whole[first * self.slice_bytes : (first + SLICES_WAITING_MAX) * self.slice_bytes]
            answer(HostHandle(host).bulk_slices(broker, self.name, first, part))
        outcome: Outcome = answer(HostHandle(host).bulk_end(broker, self.name))
        return outcome


def read_payload(host: Any, broker: BrokerId, event: Mapping[str, Any], seconds: float) -> bytes:
    """Return the payload that an event describes, from the broker of a subscriber.

    Parameters
    ----------
    seconds
        How long to wait for each part of it.

    Raises
    ------
    InputError
        If the event describes none, or the broker no longer has it.
    """
    name = event.get("payload")
    if not isinstance(name, str):
        raise InputError("this event describes no payload: it has no attribute 'payload'")
    out = bytearray()
    while True:
        nbytes, part = ray.get(HostHandle(host).payload(broker, name, len(out)), timeout=seconds)
        out += part.data
        if len(out) >= nbytes:
            return bytes(out)
