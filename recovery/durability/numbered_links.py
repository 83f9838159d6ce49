"""Lets a broker recover its state after a crash: numbers, acknowledgements, a recovery database (paper 4, section 3).

Rules
-----
* **Algorithm 1, ADV.** Every message of an interface has a number. A duplicate is acknowledged again. The
  next message in order is applied, and its changes are made stable in one commit: the router's state, the
  message number (``hr``), and the messages to forward (``adv_out``) under their numbers (``hs``). Then the
  message is acknowledged and forwarded. A message that is ahead of the order is ignored: its sender
  retransmits from the first unacknowledged message on.
* **Algorithm 2, ACK.** A message that all receivers have acknowledged is no longer retained. Its row is
  deleted with the next commit or the next tick, and the last number is kept in its place. If the row outlives
  a crash, the message is retransmitted once and acknowledged again.
* **Algorithm 3, BACK.** A neighbour that has returned is sent everything that it has not acknowledged.
* **Algorithm 4, FROM_FAILURE.** Its body is missing in the printed paper. Here the broker reads the recovery
  database at the start, which restores router and numbers. With the first tick of the new incarnation it retransmits
  the unacknowledged messages, and sends BACK to its neighbours so that they do the same.
* Subscriptions, withdrawals, answers and events all use these links, which may lose, duplicate and reorder
  messages.
* Publishers and subscribers are interfaces too. What they send is acknowledged when it is stable. What they
  are sent is retained until they acknowledge it (`unacknowledged`). A client that connects sends BACK.
* Every queue is bounded. While an interface is full, the broker ignores messages that could add to it: all
  but those from that interface itself. On a tree such waits point away from the source of a message and
  cannot form a cycle. They end at the publishers, whose events are not acknowledged. On a mesh or a cube,
  full queues may wait for each other.

This layer is around all others, whichever they are, in a network whose brokers do not move. Pure: it reads
the store once, when it is created, and requests changes by `Write`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

from ...protocol.configs import Position
from ...protocol.effects import (
    Acknowledge,
    Confirm,
    Deliver,
    Effect,
    Inform,
    Multicast,
    Received,
    Send,
    Ticked,
    Write,
)
from ...protocol.errors import StorageFailed
from ...protocol.ids import GROUP, ClientId, Link
from ...protocol.layers import Handler, Inward, Out
from ...protocol.messages.admission import Judgement
from ...protocol.messages.pubsub import Ack, Back, BrokerMessage, Detach, Events, Numbered
from ...protocol.queries import Answering, HeardFrom, Owed, OwedToBrokers
from ...protocol.stability import Stability
from .journal import Journal, RecordedMachine
from .outgoing import Outgoing
from .stores import Store
from .unacknowledged import SHED, Unacknowledged
from .unacknowledged import TABLE as DELIVERIES

Interface: TypeAlias = tuple[str, int | str]
"""What has its own numbers: ("link" | "group", broker) or ("events" | "subscriptions", client)."""


class CrashRecover:
    """Numbered links and a recovery database around the layers of one broker.

    Parameters
    ----------
    position
        The broker's position in the network, which never changes.
    kind
        A word for the layers inside, for the record: the scheme and the other features.
    inside
        The layers inside, which have not handled anything yet. They are restored here.
    store
        The recovery database (``Rec``).
    stability
        Timeouts and limits.

    Attributes
    ----------
    refused
        The number of messages that were ignored because a queue was full.
    strays
        The number of messages that make no sense from their source.

    Raises
    ------
    StorageFailed
        If the store cannot be read, or belongs to a broker at another position.
    """

    def __init__(
        self,
        position: Position,
        kind: str,
        inside: RecordedMachine,
        store: Store,
        stability: Stability,
    ) -> None:
        self.position = position
        self.refused = self.strays = 0
        self._late: list[Write] = []  # written with the next commit or the next tick
        self._restored = self._check_place(store, kind)
        self._begun = False
        self._other_members = frozenset(position.members) - {position.broker}
        self.inside = inside
        self._journal = Journal(inside, store, stability.inputs_max)
        self._heard: dict[Interface, int] = {
            (str(key[0]), key[1]): number for key, number in store.rows("heard")
        }
        self._out = {other: Outgoing((other,), False, stability) for other in position.neighbours}
        if self._other_members:
            self._out[GROUP] = Outgoing(sorted(self._other_members), True, stability)
        self._unacknowledged = Unacknowledged(stability.notifications_max)
        self._restore_queues(store)
        self.takes: Mapping[type, Handler] = {
            Numbered: self._on_adv, Ack: self._on_ack, Back: self._on_back, Ticked: self._on_tick
        }  # fmt: skip
        self.sees: Mapping[type, Handler] = dict.fromkeys(inside.takes, self._on_unnumbered)
        self.alters: Mapping[type, Handler] = {
            Send: self._send, Multicast: self._send, Deliver: self._notify, Confirm: self._notify, Inform: self._inform
        }  # fmt: skip

    def _check_place(self, store: Store, kind: str) -> bool:
        """Return whether the store contains an earlier incarnation of this broker."""
        here = (kind, self.position)
        rows = dict(store.rows("place"))
        if not rows:
            self._late.append(Write("place", ("here",), here))
            return False
        if rows["here",] != here:
            scheme, there = rows["here",]
            raise StorageFailed(
                f"broker {self.position.broker}: its store was written by broker {there.broker} of another network "
                f"({scheme}, cluster {there.cluster} of {len(there.members)}): name another directory"
            )
        return True

    def _restore_queues(self, store: Store) -> None:
        frames: dict[Link, dict[int, BrokerMessage]] = {link: {} for link in self._out}
        for key, message in store.rows("out"):
            frames[int(key[0])][int(key[1])] = message
        sent = {key[0]: number for key, number in store.rows("sent")}
        for link, out in self._out.items():
            out.restore(max(sent.get(link, 0), *frames[link], 0), dict(sorted(frames[link].items())))
        self._unacknowledged.restore(sent.get("clients", 0), store.rows(DELIVERIES), store.rows(SHED))

    def _on_unnumbered(self, event: Received) -> list[Out]:
        """Process what the host itself says, in its own name or a client's. Other brokers number their messages."""
        if isinstance(event.source, str) or event.source == self.position.broker:
            return self._apply(event)
        return self._stray()

    def _stray(self) -> list[Out]:
        """Count a message that makes no sense from its source."""
        self.strays += 1
        return []

    def heard_from(self, client: ClientId, about: str) -> int:
        """Return the number of a client's last processed message; `about` is "events" or "subscriptions"."""
        return self._heard.get((about, client), 0)

    @property
    def answers(self) -> Answering:
        """What hosts ask of it."""
        return {
            HeardFrom: lambda query: self.heard_from(query.client, query.about),
            OwedToBrokers: lambda query: self.unacknowledged,
            Owed: lambda query: self.unacknowledged + len(self._unacknowledged),
        }

    # The four events of paper 4, figure 2.

    def _on_adv(self, event: Received[Link, Numbered]) -> list[Out]:
        """Run algorithm 1."""
        source = event.source
        adv = event.message
        interface = self._interface(source, adv)
        if interface is None:
            return self._stray()
        heard = self._heard.get(interface, 0)
        if adv.number <= heard:
            return [self._ack(interface, heard)]
        if adv.before != heard:
            return []  # a gap: the missing messages are retransmitted, and this one after them
        for link, out in self._out.items():
            if out.full and not self._towards(link, source):
                self.refused += 1
                return []
        self._heard[interface] = adv.number
        heard_now = Write("heard", interface, adv.number)
        return self._apply(Received(source, adv.message), heard_now, self._ack(interface, adv.number))

    def _on_ack(self, event: Received[Link, Ack]) -> list[Out]:
        """Run algorithm 2."""
        source = event.source
        ack = event.message
        if isinstance(source, str):
            self._late += self._unacknowledged.acknowledged(source, ack.number)
            return []
        out = self._acknowledged(source, ack.number, ack.group)
        return [] if out is None else [*out.pump()]

    def _on_back(self, event: Received[Link, Back]) -> list[Out]:
        """Run algorithm 3."""
        source = event.source
        back = event.message
        if isinstance(source, str):
            writes, lacking = self._unacknowledged.back(source, back.number)
            self._late += writes
            return list(lacking)
        out = self._acknowledged(source, back.number, back.group)
        if out is None:
            return []
        effects: list[Out] = [*out.retransmit(source), *out.pump()]
        interface: Interface = ("group" if back.group else "link", source)
        if interface in self._heard:
            effects.append(self._ack(interface, self._heard[interface]))
        return effects

    def _from_failure(self) -> list[Out]:
        """Run the part of algorithm 4 that follows the reading of the store."""
        effects: list[Out] = []
        for link, out in self._out.items():
            effects += out.pump()
            if link != GROUP:
                effects.append(Send(link, Back(self._heard.get(("link", link), 0))))
        for other in sorted(self._other_members):
            effects.append(Send(other, Back(self._heard.get(("group", other), 0), group=True)))
        return effects

    def _on_tick(self, event: Ticked) -> list[Out]:
        effects: list[Out] = [*self._late]
        self._late = []
        if not self._begun:
            self._begun = True
            return effects + (self._from_failure() if self._restored else [])
        for out in self._out.values():
            effects += out.ticked(event.now)
        return effects

    # Common steps.

    def _apply(self, event: Received, *acknowledged: Out) -> list[Out]:
        """Pass a message to the layers inside, after it is recorded and acknowledged."""
        out: list[Out] = [*self._late, *self._journal.enter(event), *acknowledged, Inward(event)]
        self._late.clear()
        if type(event.message) is Detach and isinstance(event.source, str):
            out[:0] = self._unacknowledged.forget(event.source)
        return out

    def _send(self, effect: Send | Multicast) -> list[Out]:
        """Retain a message to forward under the next number; send what the window allows."""
        link = effect.to if isinstance(effect, Send) else GROUP
        out = self._out.get(link)
        if out is None:  # a cluster of one has no group
            return []
        sent = out.put(effect.message)  # type: ignore[arg-type]  # layers inside send no recovery messages
        return [Write("out", (link, sent), effect.message), *out.pump()]

    def _notify(self, effect: Deliver | Confirm | Inform) -> list[Out]:
        """Retain a message for a client until the client has acknowledged it; send it if the client is connected."""
        writes, now = self._unacknowledged.put(effect)
        return [*writes, *now]

    def _inform(self, effect: Inform) -> list[Out]:
        """Retain a message for a client, except for an answer without effect: a client that lacks it asks again."""
        dry = isinstance(effect.news, Judgement) and effect.news.dry
        return [effect] if dry else self._notify(effect)

    def _acknowledged(self, source: int, number: int, group: bool) -> Outgoing | None:
        out = self._out.get(GROUP if group else source)
        if out is None or (group and source not in self._other_members):
            self._stray()
            return None
        if number > out.last:
            raise StorageFailed(
                f"broker {self.position.broker}: broker {source} has its message {number}, and its store ends at "
                f"{out.last}: the store is an old copy or was deleted; restore the newest one"
            )
        link = GROUP if group else source
        done = out.acknowledged(source, number)
        if done:  # while there are rows, the last number is that of the last row
            self._late += [Write("out", (link, gone), None) for gone in done]
            self._late.append(Write("sent", (link,), out.last))
        return out

    def _interface(self, source: Link, adv: Numbered) -> Interface | None:
        if isinstance(source, str):
            return "events" if isinstance(adv.message, Events) else "subscriptions", source
        if source not in (self._other_members if adv.group else self._out):
            return None
        return "group" if adv.group else "link", source

    def _towards(self, link: Link, source: Link) -> bool:
        """Return whether a message from `source` adds only to interfaces to which this link belongs."""
        if source in self._other_members:
            return link == GROUP or link in self._other_members
        return link == source

    @staticmethod
    def _ack(interface: Interface, number: int) -> Effect:
        kind, source = interface
        if isinstance(source, str):
            return Acknowledge(source, kind, number)
        return Send(source, Ack(number, group=kind == "group"))

    # Inspection.

    @property
    def unacknowledged(self) -> int:
        """The number of messages to other brokers that are retained until they are acknowledged."""
        return sum(map(len, self._out.values()))

    def check(self) -> None:
        """Assert that no interface retains more messages than it has sent; for tests."""
        for out in self._out.values():
            assert len(out) <= out.last

    def describe(self) -> dict[str, int]:
        """Return the sizes and counters of the links."""
        return {
            "unacknowledged": self.unacknowledged,
            "deliveries_unacknowledged": len(self._unacknowledged),
            "resent": sum(out.resent for out in self._out.values()),
            "refused": self.refused,
            "shed_by_limit": sum(self._unacknowledged.shed.values()),
        }
