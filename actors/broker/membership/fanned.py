"""A broker that heals, in a cluster whose members hand events on to each other (`actors.broker.fanout`).

Rules
-----
* Plans are those of a ballot. So every change of members begins another: whoever leads begins anew, as after a
  succession, members tell again what they want, and a round sends again what was on its way over plans that are over.
* Who has not reached a fellow asks for another ballot, until there is one: what went to others by way of that fellow
  they lack as well, and only under the next ballot all comes to them in order.

Source: docs/decisions/0022-fan-out-that-heals.md.
"""

from __future__ import annotations

from ....protocol.effects import Renew
from ....protocol.ids import BrokerId
from ....protocol.layers import Out
from .tree import HealingBroker


class HealingFanned(HealingBroker):
    """One broker of a tree of clusters that fan out; the parameters are those of :class:`HealingBroker`."""

    def _change_members(self, joined: tuple[BrokerId, ...], left: tuple[BrokerId, ...]) -> list[Out]:
        return self._absorb(self.succession.begin_anew()) + super()._change_members(joined, left)

    def _mend_group(self) -> list[Out]:
        if self.designated:
            return super()._mend_group()
        if self._missed.keys().isdisjoint(self.view.members):
            return []
        self._mend_at = self.now + self.recovery.heartbeat_seconds
        return self._absorb(self.succession.ask_anew())

    def _follow(self) -> list[Out]:
        renewed: list[Out] = []
        if self.view.ballot != self._seen_view.ballot:
            for since in self._missed.values():
                self.rounds.doubt_from(since)
            renewed = [Renew(member, True) for member in self._missed]
            self._missed.clear()
        return renewed + super()._follow()
