"""The messages of a subscription that were sent and are not yet acknowledged.

Rules
-----
* In mode ``client`` an answer covers all messages sent before, too; in ``client-individual`` it covers one.
* Open messages are bounded, in number and in bytes: the rest waits in the gateway's stream, and then at the
  broker.
* Of an open message only its sent bytes are kept, not the rest of the batch that it came in.

Reference: STOMP 1.2, "SUBSCRIBE ack Header", "ACK", "NACK".
"""

from __future__ import annotations

from itertools import takewhile
from typing import NamedTuple

from ..deliveries import Delivery
from ..positions import identity


class Sent(NamedTuple):
    """A message that waits for an answer.

    Attributes
    ----------
    publisher, sequence
        Identify its event.
    id
        Identifies its delivery in the stream.
    part
        The encoded event, as in its messages.
    """

    publisher: str
    sequence: int
    id: str
    part: bytes


class Unacknowledged:
    """The messages of one subscription that wait for an ACK or a NACK, in the order in which they were sent.

    Parameters
    ----------
    cumulative
        Whether an answer covers all messages sent before, too.
    messages_max, bytes_max
        The limits from which there is no room for more.
    """

    def __init__(self, cumulative: bool, messages_max: int, bytes_max: int) -> None:
        self.cumulative = cumulative
        self._messages_max, self._bytes_max = messages_max, bytes_max
        self._bytes = 0
        self._sent: dict[int, Sent] = {}

    def __len__(self) -> int:
        return len(self._sent)

    def __contains__(self, number: int) -> bool:
        return number in self._sent

    @property
    def room(self) -> bool:
        """Whether one more message may be sent."""
        return len(self._sent) < self._messages_max and self._bytes < self._bytes_max

    def sent(self, number: int, delivery: Delivery, part: bytes) -> None:
        """Record a message sent under that number, which is the highest so far."""
        self._sent[number] = Sent(delivery.publisher, delivery.sequence, delivery.id, part)
        self._bytes += len(part)

    def number_of(self, message: str) -> int:
        """Return the number of an open message, by its message-id; 0 if it is not open."""
        for number, sent in self._sent.items():
            if identity(sent.publisher, sent.sequence) == message:
                return number
        return 0

    def meant(self, number: int) -> dict[int, Sent]:
        """Return the messages that an answer to a number covers, by number, oldest first."""
        if not self.cumulative:
            return {number: self._sent[number]} if number in self._sent else {}
        numbers = takewhile(lambda each: each <= number, self._sent)
        return {each: self._sent[each] for each in numbers}

    def settle(self, number: int) -> list[Sent]:
        """Remove the messages that an answer to a number covers, and return them."""
        settled = self.meant(number)
        for each in settled:
            self._bytes -= len(self._sent.pop(each).part)
        return list(settled.values())
