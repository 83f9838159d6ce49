"""The client's side of payloads: cutting one up and sending it, and reading it where it has arrived.

Rules
-----
* ``distribute`` returns when every broker that lives and has a subscriber for it has the whole payload.
* A payload is described by an event of its publisher, with the attributes `topic`, `payload`, `payload_bytes` and
  `payload_md5`; subscribers subscribe to it as to any event. It comes when the payload is there, so among other
  events of the publisher it may come late.
* In a network that heals the event is published when the payload is there, like any other event and in its order.
* The slices belong to the publisher's process: a payload can be read as long as that lives.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import ray

from ...protocol.batch import EventBatch, batch_of
from ...protocol.checks import text
from ...protocol.errors import InputError
from ...protocol.ids import BrokerId
from .bulk import GONE, SLICES_WAITING_MAX, Bytes, Missing, Payload, next_targets, slices_of


@dataclass(frozen=True, slots=True)
class Distribution:
    """What came of a payload.

    Attributes
    ----------
    payload
        Its name; subscribers find it in their event.
    nbytes, slices, md5
        How much it was.
    brokers
        The other brokers that have it: as many copies were sent, unless some were gone.
    gone
        Brokers that wanted it and died.
    rounds
        1, and one more for each time that a broker was gone on the way.
    seconds
        How long it took.
    """

    payload: str
    nbytes: int
    slices: int
    md5: str
    brokers: tuple[BrokerId, ...]
    gone: tuple[BrokerId, ...]
    rounds: int
    seconds: float

    @property
    def bytes_per_second(self) -> float:
        """Bytes that arrived at all brokers together, in a second."""
        return self.nbytes * len(self.brokers) / self.seconds


class CutPayload:
    """A payload that is cut up and ready to go.

    Parameters
    ----------
    given
        Bytes, or anything with a buffer of them.
    topic
        What it is about.
    slice_bytes
        Bytes in a slice.

    Raises
    ------
    InputError
        If it has no bytes, or the topic is no string.
    """

    def __init__(self, given: Any, topic: str, slice_bytes: int) -> None:
        text("topic", topic)
        self.pieces: list[Bytes] = slices_of(given, slice_bytes)
        self.name = uuid.uuid4().hex
        self.nbytes = sum(map(len, self.pieces))
        digest = hashlib.md5(usedforsecurity=False)
        for piece in self.pieces:
            digest.update(piece.data)
        self.md5 = digest.hexdigest()
        self.event = {
            "topic": topic,
            "payload": self.name,
            "payload_bytes": self.nbytes,
            "payload_md5": self.md5,
        }

    def batch(self) -> EventBatch:
        """Return the event that describes it, not stamped yet."""
        return batch_of((self.event,))

    def send(
        self,
        host: Any,
        broker: BrokerId,
        batch: EventBatch,
        answer: Callable[[Any], Any],
        *,
        notifies: bool = True,
    ) -> Distribution:
        """Bring it to all who want it, round by round.

        Parameters
        ----------
        host, broker
            Where it begins.
        batch
            The event that describes it.
        answer
            Waits for the answer to a call.
        notifies
            Whether the brokers that have it notify their clients.
        """
        started = time.monotonic()
        wanted = targets = answer(host.bulk_targets.remote(broker, batch))
        slices: list[Any] = []
        gone: set[BrokerId] = set()
        payload = Payload(
            self.name, batch, broker, targets, len(self.pieces), self.nbytes, self.md5, notifies
        )
        rounds = 0
        while rounds == 0 or targets:
            missing = self._round(host, replace(payload, targets=targets), slices, answer)
            rounds += 1
            gone |= {target for target, why in missing.items() if why == GONE}
            targets = next_targets(missing, targets)
        return Distribution(
            self.name,
            self.nbytes,
            len(self.pieces),
            self.md5,
            tuple(target for target in wanted if target not in gone),
            tuple(sorted(gone)),
            rounds,
            time.monotonic() - started,
        )

    def _round(self, host: Any, payload: Payload, slices: list[Any], answer: Callable[[Any], Any]) -> Missing:
        broker = payload.origin
        answer(host.bulk_begin.remote(broker, payload))
        for start in range(0, len(self.pieces), SLICES_WAITING_MAX):
            if len(slices) <= start:  # in later rounds they are in the store already
                slices += [ray.put(piece) for piece in self.pieces[start : start + SLICES_WAITING_MAX]]
            load = slices[start : start + SLICES_WAITING_MAX]
            answer(host.bulk_slices.remote(broker, self.name, load))
        missing: Missing = answer(host.bulk_end.remote(broker, self.name))
        return missing


def read_payload(host: Any, broker: BrokerId, event: Mapping[str, Any], seconds: float) -> bytes:
    """Return the payload that an event describes, from the broker of a subscriber.

    Raises
    ------
    InputError
        If the event describes none, or the broker has it no more.
    """
    name = event.get("payload")
    if not isinstance(name, str):
        raise InputError("this event describes no payload: it has no attribute 'payload'")
    slices: Sequence[Any] = ray.get(host.payload.remote(broker, name), timeout=seconds)
    return b"".join(piece.tobytes() for piece in ray.get(list(slices), timeout=seconds))
