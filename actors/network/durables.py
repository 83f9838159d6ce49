"""The durable subscribers of a network: where they are, how far they are behind, and how one is ended.

Rules
-----
* Brokers say how far the subscribers are behind that they hold. The rendezvous point knows the others: those whose
  broker has died, until they return, and since when nobody was heard in a name.
* What a broker has released, and another one holds, is that one's: a subscriber counts where more is known of it.
"""

from __future__ import annotations

import time
from dataclasses import replace
from itertools import chain
from typing import Final

import ray

from ...clients.beginnings import At, asked_for, beginning_of, require_history
from ...protocol import checks
from ...protocol.durables import DurableStatus, by_backlog
from ...protocol.errors import InputError
from ...protocol.groups import subscriber_of
from ...protocol.ids import ClientId
from ...recovery.replay.history import HistoryAt
from ..clients.attaching import Attaching
from ..clients.durable import DurableSubscriber
from ..host.errors import broker_errors
from .groups import Groups
from .hosts import Hosts

ASK_SECONDS: Final = 60.0


class Durables:
    """The durable subscribers of one network, as this process lists and ends them."""

    def __init__(self, hosts: Hosts, attached: Attaching, groups: Groups) -> None:
        self._hosts = hosts
        self._groups = groups
        self._attached = attached

    def durable(self) -> list[DurableStatus]:
        """Return the durable subscribers, those first whose events have waited longest.

        Returns
        -------
        durables
            One for each name that is attached or has subscriptions: its broker, whether a process is attached in its
            name or for how long none was, and the events, bytes and seconds that it is behind. None in a network that
            does not heal.

        Raises
        ------
        BrokerUnavailable
            If a broker does not answer and is not known to be dead, or the rendezvous point does not answer.
        """
        self._hosts.require_open()
        if not self._hosts.features.heals:
            return []
        self._hosts.find_reborn()
        answers = self._hosts.ask("durables", timeout_seconds=ASK_SECONDS, all_living=True)
        held: dict[ClientId, DurableStatus] = {}
        for each in chain.from_iterable(answers):
            if not each.attached and not each.selectors:
                continue  # it never subscribed
            other = held.get(each.name)
            if other is None or (each.attached, -_away(each)) > (other.attached, -_away(other)):
                held[each.name] = each
        unknown = [name for name, each in held.items() if each.away_seconds is None]
        with broker_errors(f"durable subscribers of {self._hosts.name!r}", "the rendezvous point"):
            call = self._hosts.rendezvous.durables_seen.remote(list(held), unknown)
            seen: dict[ClientId, float] = ray.get(call, timeout=ASK_SECONDS)
        now = time.time()
        for name, at in seen.items():
            known = held.get(name, DurableStatus(name, None, False, None))
            held[name] = replace(known, away_seconds=max(0.0, now - at))
        return by_backlog(held.values())

    def end_durable(self, name: ClientId) -> None:
        """End a durable subscriber for good: its subscriptions are cancelled, and its position is deleted.

        A process that is attached in its name is told that the name was taken over.

        Raises
        ------
        InputError
            If there is no durable subscriber of that name.
        BrokerUnavailable
            As `durable`.
        """
        checks.text("name", name)
        known = [each.name for each in self.durable()]
        if name not in known:
            others = f": there is {', '.join(map(repr, sorted(known)[:10]))}" if known else ", and no other"
            raise InputError(f"network {self._hosts.name!r} has no durable subscriber {name!r}{others}")
        if name.startswith(subscriber_of("")) and self._groups.end(name.removeprefix(subscriber_of(""))):
            return
        subscriber = self._attached.subscriber(name, durable=True)
        assert isinstance(subscriber, DurableSubscriber)
        subscriber.end()
        self._attached.forget(subscriber)

    def rewind(self, name: ClientId, at: At) -> None:
        """Move a durable subscriber back into the past: the next process of its name is given everything since again.

        A process that is attached in its name is refused from now on, and told when the next one comes.

        Parameters
        ----------
        name
            The subscriber.
        at
            Where it begins again, as in :meth:`Subscriber.subscribe`. Nothing changes for a publisher of which it has
            not acknowledged so much, or that a position does not name.

        Raises
        ------
        InputError
            If it cannot begin there; if there is no such durable subscriber, or it is that of a group.
        BrokerUnavailable
            As `durable`.
        """
        hosts = self._hosts
        hosts.require_open()
        require_history(hosts.features)
        asked = asked_for(at, time.time())
        if checks.text("name", name).startswith(subscriber_of("")):
            raise InputError(f"{name}: a group is not rewound: end it, and let another one begin there")
        answers = hosts.ask("history", HistoryAt(asked.moment), timeout_seconds=ASK_SECONDS, all_living=True)
        beginning = beginning_of(asked, [spans for answer in answers for spans in answer.values()])
        with broker_errors(f"rewinding {name!r} in {hosts.name!r}", "the rendezvous point"):
            if not ray.get(hosts.rendezvous.rewind.remote(name, beginning), timeout=ASK_SECONDS):
                raise InputError(
                    f"network {hosts.name!r} has no durable subscriber {name!r} with a subscription"
                )


def _away(one: DurableStatus) -> float:
    return float("inf") if one.away_seconds is None else one.away_seconds
