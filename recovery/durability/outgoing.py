"""The outgoing side of one interface: messages are numbered, retained until acknowledged, and retransmitted.

Rules (paper 4, section 3: ``adv_out`` and ``hs``; algorithms 1 to 3, the sender's part)
----------------------------------------------------------------------------------------
* Messages are numbered from 1 without gaps. A message is retained until every receiver has acknowledged it.
  An acknowledgement covers all numbers up to its own.
* At most a window of messages is in flight. Acknowledgements release the next ones.
* Messages that are not acknowledged in time are retransmitted, from the first such message on, since a
  receiver takes messages in order only. The timeout then doubles, and so on, as the receiver may be dead.
* A group is one interface with several receivers. A message is multicast once, and retransmitted to those
  that lack it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from ...protocol.effects import Effect, Multicast, Send
from ...protocol.ids import BrokerId
from ...protocol.messages.pubsub import BrokerMessage, Events, Numbered
from ...protocol.stability import Stability


class Outgoing:
    """The messages of one interface that not all receivers have acknowledged.

    Parameters
    ----------
    receivers
        One neighbour, or the other members of the group.
    group
        Whether the receivers are a group.
    stability
        Timeouts and limits.

    Attributes
    ----------
    last
        The number of the last message (``hs``).
    events
        The number of retained events, and messages of other kinds.
    resent
        The number of retransmissions.
    """

    __slots__ = (
        "_acked", "_due", "_frames", "_group", "_handed", "_stability", "_wait", "events", "last", "resent",
    )  # fmt: skip

    def __init__(self, receivers: Iterable[BrokerId], group: bool, stability: Stability) -> None:
        self.last = self.events = self.resent = 0
        self._group = group
        self._stability = stability
        self._acked = dict.fromkeys(receivers, 0)
        self._frames: dict[int, BrokerMessage] = {}
        self._handed = 0  # the last message that was sent in this incarnation
        self._due: float | None = None
        self._wait = stability.retransmit_seconds

    def __len__(self) -> int:
        """Return the number of retained messages."""
        return len(self._frames)

    @property
    def full(self) -> bool:
        """Whether the interface should not take more messages."""
        return self.events > self._stability.queue_events_max

    def restore(self, last: int, frames: Mapping[int, BrokerMessage]) -> None:
        """Restore the state in which these messages were retained."""
        self.last = last
        self._frames.update(frames)
        self.events = sum(map(_size, frames.values()))
        self._handed = next(iter(frames), last + 1) - 1
        self._acked = dict.fromkeys(self._acked, self._handed)

    def put(self, message: BrokerMessage) -> int:
        """Retain a message and return its number; `pump` sends it."""
        self.last += 1
        self._frames[self.last] = message
        self.events += _size(message)
        return self.last

    def pump(self) -> list[Effect]:
        """Return the messages that the window allows to send."""
        effects: list[Effect] = []
        if self._handed == self.last:
            return effects
        end = min(self.last, min(self._acked.values()) + self._stability.window_messages)
        for number in range(self._handed + 1, end + 1):
            adv = self._adv(number)
            effects.append(Multicast(adv) if self._group else Send(next(iter(self._acked)), adv))
            self._handed = number
        return effects

    def acknowledged(self, receiver: BrokerId, number: int) -> list[int]:
        """Process an acknowledgement; return the numbers that all receivers have, which are no longer retained."""
        if number <= self._acked.get(receiver, number):
            return []
        self._acked[receiver] = number
        self._due, self._wait = None, self._stability.retransmit_seconds
        # In an earlier incarnation of this broker, the receiver may have got more than was sent in this one.
        self._handed = max(self._handed, min(self._acked.values()))
        done = []
        for kept in range(next(iter(self._frames), 1), min(self._acked.values()) + 1):
            self.events -= _size(self._frames.pop(kept))
            done.append(kept)
        return done

    def retransmit(self, receiver: BrokerId) -> list[Effect]:
        """Return the retransmission of everything sent that this receiver has not acknowledged."""
        missing = range(self._acked[receiver] + 1, self._handed + 1)
        self.resent += len(missing)
        return [Send(receiver, self._adv(number)) for number in missing]

    def ticked(self, now: float) -> list[Effect]:
        """Return the retransmissions whose timeout has expired."""
        if min(self._acked.values()) >= self._handed:
            self._due = None
            return []
        if self._due is None:
            self._due = now + self._wait
        if now < self._due:
            return []
        self._wait = min(2 * self._wait, self._stability.retransmit_seconds_max)
        self._due = now + self._wait
        return [effect for receiver in self._acked for effect in self.retransmit(receiver)]

    def _adv(self, number: int) -> Numbered:
        return Numbered(number, number - 1, self._frames[number], self._group)


def _size(message: BrokerMessage) -> int:
    return len(message.batch) if isinstance(message, Events) else 1
