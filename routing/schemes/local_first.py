"""Routing in which publishers at a subscriber's own broker are asked first (paper 2, section 2.3).

Rules
-----
* A subscription is in force at its own broker immediately, for everything that is published there.
* A subscription that asks local publishers first (`Register.local_first`) is *served here* as long as the
  advertisement of one of them overlaps it (`interest.local_first`): its subscriber is told of these publishers,
  and no other broker is told of the subscription.
* Other brokers are told of any other subscription, and of this one as soon as no local publisher satisfies it. The
  covering DAG has exactly the filters that others must know of.
* Before a subscription is confirmed, its subscriber is told which publishers, here and elsewhere, may have what
  it asks for, as far as they are known.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...protocol.configs import Position
from ...protocol.effects import Effect, Inform, Plain
from ...protocol.ids import ClientId, Link
from ...protocol.messages.admission import Advertise, Unadvertise
from ...protocol.messages.pubsub import Answers, Cancel, Detach, Register, Unanswered
from ...protocol.queries import Answering, AnswersOf
from ..filters.filter import Filter
from ..interest.announcer import Waiter
from ..interest.local_first import LocalFirst, Subscription
from .tree import TreeRouter


def answers_by(router: object) -> Answering:
    """Return what a layer can answer with this router inside: which publishers it knows, if its scheme asks them."""
    if not isinstance(router, LocalFirstRouter):
        return {}
    return {AnswersOf: lambda query: router.answers_of(query.client)}


class LocalFirstRouter(TreeRouter):
    """A broker that tells others only of subscriptions that its own publishers do not satisfy.

    Parameters
    ----------
    position
        The broker's place.

    Attributes
    ----------
    local
        The advertisements of local publishers, and the subscriptions that they satisfy.
    """

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.local = LocalFirst(position.broker)

    # Local publishers, and the subscriptions that they satisfy.

    def _on_advertise(self, source: Link, message: Advertise) -> list[Effect]:
        known = super()._on_advertise(source, message)
        if not isinstance(source, str):
            return known
        item = message.filter
        return [*known, *self._turn(self.local.advertise(source, message.number, item, message.version))]

    def _on_unadvertise(self, source: Link, message: Unadvertise) -> list[Effect]:
        if not isinstance(source, str):
            return self._stray()
        return self._turn(self.local.unadvertise(source, message.number, message.version))

    def _on_detach(self, source: Link, message: Detach) -> list[Effect]:
        effects = super()._on_detach(source, message)
        return [*effects, *self._turn(self.local.forget(source))] if isinstance(source, str) else effects

    # Subscriptions.

    def _on_register(self, source: Link, message: Register) -> list[Effect]:
        if not isinstance(source, str):
            return self._stray()
        key, item = (source, message.subscription), message.filter
        effects: list[Effect] = []
        if self._subscriptions.get(source, {}).get(message.subscription, item) != item:
            effects += self._on_cancel(source, Cancel(message.subscription))
        if not message.local_first:
            was_served = self.local.drop(key)
            effects += [Inform(source, Unanswered(message.subscription))] if was_served else []
            return effects + super()._on_register(source, message)
        self.local.permitted[key] = item
        if not self.local.here(item).known:
            return effects + super()._on_register(source, message)
        self._subscriptions.setdefault(source, {})[message.subscription] = item
        self.table.add(item, source, message.subscription)
        self.local.served.pop(key, None)  # a repeated registration is answered again
        return effects + self._settle(key)

    def _on_cancel(self, source: Link, message: Cancel) -> list[Effect]:
        if isinstance(source, str):
            self.local.drop((source, message.subscription))
        return super()._on_cancel(source, message)

    def _turn(self, news: Iterable[Filter]) -> list[Effect]:
        """Update the subscriptions that a change of the local advertisements affects."""
        return [effect for key in self.local.touched(news) for effect in self._settle(key)]

    def _settle(self, key: Subscription) -> list[Effect]:
        """Serve a subscription here if local publishers satisfy it; otherwise tell all other brokers of it."""
        (client, number), item = key, self.local.permitted[key]
        before, reply = self.local.served.get(key), self.local.here(item)
        if reply.known:
            self.local.served[key] = reply
            news = [] if reply == before else [Inform(client, Answers(number, *reply, here=True))]
            return [*news, *(self._keep_here(key, item) if before is None else [])]
        if before is None:
            return []
        del self.local.served[key]
        return [Inform(client, Unanswered(number)), *self._hold(item, client, number, key)]

    def _keep_here(self, key: Subscription, item: Filter) -> list[Effect]:
        """Withdraw a subscription from all other brokers, if they were told of it."""
        self._forget(key, item)
        return self._carry_out(self.announcer.release(item)) if self._announced_in_vain(item) else []

    def kept(self) -> Iterable[Filter]:
        """Return the filters all of whose holders are served here."""
        served, holders = self.local.served, self.table.holders
        return [item for item in super()._to_announce() if all(holder in served for holder in holders(item))]

    def _announced_in_vain(self, item: Filter) -> bool:
        """Return whether others know of a filter although all of its holders are served here."""
        return item in self.dag and all(holder in self.local.served for holder in self.table.holders(item))

    def _to_announce(self) -> list[Filter]:
        kept = frozenset(self.kept())
        return [item for item in super()._to_announce() if item not in kept]

    def _hold(self, item: Filter, link: Link, holder: Link, waiter: Waiter) -> list[Effect]:
        self.table.add(item, link, holder)
        effects: list[Effect] = []
        if item not in self.dag:
            effects = self._carry_out(self.announcer.hold(item, self.table.slot(item)))
        return effects + self._carry_out(self.announcer.wait(waiter, item))

    def _release(self, item: Filter, link: Link, holder: Link) -> list[Effect]:
        nobody = self.table.remove(item, link, holder)
        effects = self._carry_out(self.announcer.release(item)) if self._announced_in_vain(item) else []
        if nobody:
            self.table.drop(item)
        return effects

    def answers_of(self, client: ClientId) -> dict[int, Answers]:
        """Return the known publishers that may have what a client's subscriptions ask for, by subscription number."""
        found: dict[int, Answers] = {}
        for number, item in self._subscriptions.get(client, {}).items():
            here = self.local.served.get((client, number))
            reply = self.local.reply(item, self.dag.root_above(item)) if here is None else here
            found[number] = Answers(number, *reply, here=here is not None)
        return found

    def _answers(self, client: ClientId, number: int) -> list[Effect]:
        """Return the effect that tells a subscriber of matching publishers, after all others have been told."""
        item = self._subscriptions[client][number]
        reply = self.local.reply(item, self.dag.root_above(item))
        return [Inform(client, Answers(number, *reply))] if reply.known else []

    # Snapshots.

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, for `restore`."""
        return {**super().snapshot(), "local": self.local.snapshot()}

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled."""
        super().restore(plain)
        self.local.restore(plain["local"])

    def describe(self) -> dict[str, int]:
        """Return the sizes of its tables; `served_here` counts the subscriptions that no other broker is told of."""
        return {**super().describe(), "served_here": len(self.local.served)}

    def check(self) -> None:
        """Assert that tables, DAG and locally served subscriptions agree; for tests."""
        super().check()
        self.local.check()
