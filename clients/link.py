"""A client's side of the interface to a broker that recovers: message numbers, and unacknowledged messages.

Rules
-----
* Each message of a client is numbered and retained until the broker has made it stable. After a break in the
  connection the client sends BACK, and then retransmits the messages that are not acknowledged.
* The number of a publication is the sequence of its last event, so that a publisher's numbers go on where its
  sequence does.
* Messages are retransmitted in their original order, over both interfaces together. A withdrawn advertisement
  therefore stays behind the events that were published under it.
* Messages to the client have rising numbers. A message whose number is not above the last is a duplicate.

Paper 4, section 3: publishers and subscribers as the ends of the chain of interfaces.
"""

from __future__ import annotations

import heapq

from ..protocol.messages.admission import Advertise, Unadvertise
from ..protocol.messages.pubsub import Ack, Back, ClientMessage, Events, Numbered


class ClientLink:
    """One interface of a publisher or subscriber.

    Attributes
    ----------
    sent
        The number of the last message to the broker.
    had
        The number of the last delivery or confirmation from it.
    """

    __slots__ = ("_kept", "had", "sent")

    def __init__(self) -> None:
        self.sent = self.had = 0
        self._kept: dict[int, tuple[int, Numbered]] = {}

    def __len__(self) -> int:
        """Return the number of unacknowledged messages."""
        return len(self._kept)

    def send(
        self, message: ClientMessage | Advertise | Unadvertise, number: int | None = None, turn: int = 0
    ) -> Numbered:
        """Assign a number to a message: the next one if None.

        `turn` is the position of the message among those of both interfaces of a client.
        """
        adv = Numbered(self.sent + 1 if number is None else number, self.sent, message)
        self.sent = adv.number
        self._kept[self.sent] = turn, adv
        return adv

    def acknowledged(self, number: int) -> None:
        """Record that the broker has made everything up to a number stable."""
        while self._kept and next(iter(self._kept)) <= number:
            del self._kept[next(iter(self._kept))]

    def take(self, number: int) -> tuple[bool, Ack]:
        """Record a delivery or confirmation; return whether it is new, and the acknowledgement."""
        new = number > self.had
        self.had = max(self.had, number)
        return new, Ack(self.had)

    def kept(self) -> list[tuple[int, Numbered]]:
        """Return the unacknowledged messages, in order, each with its turn."""
        return list(self._kept.values())


class ClientLinks:
    """Both interfaces of one client.

    Attributes
    ----------
    events, subscriptions
        Its events are numbered apart from its subscriptions, its advertisements, and what it is told.
    """

    __slots__ = ("_turn", "events", "subscriptions")

    def __init__(self) -> None:
        self.subscriptions, self.events = ClientLink(), ClientLink()
        self._turn = 0

    def __len__(self) -> int:
        """Return the number of unacknowledged messages."""
        return len(self.subscriptions) + len(self.events)

    def send(self, message: ClientMessage | Advertise | Unadvertise) -> Numbered:
        """Assign a number to a message."""
        self._turn += 1
        if isinstance(message, Events):
            return self.events.send(message, int(message.batch.sequence[-1]), self._turn)
        return self.subscriptions.send(message, turn=self._turn)

    def acknowledged(self, about: str, number: int) -> None:
        """Record that the broker has made all "events" or "subscriptions" up to a number stable."""
        (self.events if about == "events" else self.subscriptions).acknowledged(number)

    def take(self, number: int) -> tuple[bool, Ack]:
        """Record a message of the broker; return whether it is new, and the acknowledgement."""
        return self.subscriptions.take(number)

    def kept(self) -> list[Numbered]:
        """Return the unacknowledged messages, in order."""
        kept = heapq.merge(self.subscriptions.kept(), self.events.kept(), key=lambda each: each[0])
        return [adv for _, adv in kept]

    def back(self) -> list[Back | Numbered]:
        """Return the messages to send over a new connection."""
        return [Back(self.subscriptions.had), *self.kept()]
