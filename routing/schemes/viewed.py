"""Routing in views: membership is decided in one place, and each broker tells all others what it wants.

Rules
-----
* **Local answer first** (paper 2, 2.3(1)): a subscription is in force at its own broker immediately, for everything
  that is published there, and local publishers may suffice for it (`local_first`). All other brokers are told of any
  other subscription, unless an earlier one that they were told covers it.
* A broker that records a change adds to its echo those of its publishers whose advertisements overlap the filter
  (2.3(2)). So the subscriber learns these publishers and their brokers (2.3(4)).
* Every broker records what every other broker wants. A change is passed on as defined by the scheme. Its echo returns
  along the same path: each broker sends the echo once it and all brokers behind it have recorded the change. When the
  echo has returned to the origin, the subscription is installed everywhere.
* The changes of a broker are numbered, and each number is applied once.
* Routes belong to a *view*, and a message is for brokers that have its view. Under the next view, every change
  without an echo is sent again. Two brokers one of which is new to the other send each other all that they want;
  until then a broker is *missing* the other, and must not be given events.

The routes are defined by `hypercube` (paper 2) and `mesh` (paper 5).

Source: docs/decisions/0017-hypercube.md.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ...protocol.configs import Placed, Position
from ...protocol.effects import Confirm, Effect, Plain, Send
from ...protocol.ids import BrokerId, Link
from ...protocol.messages.pubsub import Announce, Echo, Spread, Withdraw
from ...protocol.messages.rounds import Forgotten, Marker
from ...protocol.messages.views import MembershipView, ToAll, ViewWants
from ..filters.filter import Filter
from ..interest.announcer import Announcer, AnnouncerSteps
from ..interest.local_first import NO_REPLY, Reply, gathered
from ..matching.table import RoutingTable
from .claims import Membership
from .local_first import LocalFirstRouter


@dataclass(frozen=True, slots=True)
class _Broadcast:
    """A change that was spread and has no echo yet, with the tokens of the announcements that its echo installs."""

    number: int
    change: Announce | Withdraw | None
    tokens: tuple[int, ...]


@dataclass(slots=True)
class _Awaited:
    """The echoes that a broker awaits before it sends its own: from which brokers, the receiver, and the reply."""

    back: BrokerId | None
    behind: set[BrokerId]
    taken_in: bool
    reply: Reply = NO_REPLY


class ViewedRouter(LocalFirstRouter):
    """A broker that knows the members of its network, and what each of them wants.

    Parameters
    ----------
    position
        With the first view; without a view when the broker must join first.

    Attributes
    ----------
    view
        The current view; None before the first.
    others
        The filters of the other brokers; each link is a broker.
    missing
        The brokers of the view that have not yet sent what they want.
    lacking
        Whether something that would be due by now was discarded under this view.
    """

    membership: ClassVar[Membership] = Membership.VIEWS
    lacking = False
    relays: ClassVar[bool] = False

    def __init__(self, position: Position) -> None:
        super().__init__(position)
        self.announcer = Announcer(self.dag, top=False)
        self.me = position.broker
        self.view: MembershipView | None = None
        self.others = RoutingTable()
        self.missing: set[BrokerId] = set()
        self._number = 0
        self._broadcasts: deque[_Broadcast] = deque()
        self._awaited: dict[tuple[BrokerId, int], _Awaited] = {}
        self._too_early: dict[BrokerId, list[Spread]] = {}  # changes of missing brokers
        self._handlers |= {Spread: self._on_spread, Echo: self._on_echo, ToAll: self._on_to_all}
        born = {} if position.view is None else position.view.born
        self._have = {other: 0 for other in born if other != self.me}  # the last change of each broker
        if position.view is not None:
            self.enter(position.view)

    # The points in which schemes differ.

    def enter(self, view: MembershipView) -> None:
        """Make another view the current one."""
        self.view = view

    def onwards(self, source: BrokerId | None) -> Sequence[BrokerId]:
        """Return the brokers to which this one passes on a change from `source`; None means a change of its own."""
        raise NotImplementedError

    def neighbours(self) -> list[BrokerId]:
        """Return the brokers to which it sends events; none before the first view."""
        raise NotImplementedError

    def behind(self, origin: BrokerId) -> Sequence[BrokerId]:
        """Return the brokers to which this one passes on a broadcast of `origin`, along the routes of its events."""
        raise NotImplementedError

    def placed(self) -> Placed:
        """Return the place in the current view; without neighbours before the first view."""
        return Placed(tuple(self.neighbours()))

    # Broadcasts, behind the events of their origin.

    def to_all(self, message: Forgotten | Marker) -> list[Effect]:
        """Return the effects that broadcast a message to the view, behind the events that this broker has sent."""
        assert self.view is not None
        return self.pass_to_all(ToAll(self.view.version, self.me, message))

    def pass_to_all(self, message: ToAll) -> list[Effect]:
        """Return the effects that pass on a broadcast."""
        return [Send(way, message) for way in self.behind(message.origin)]

    def _on_to_all(self, source: Link, message: ToAll) -> list[Any]:
        """Pass on a broadcast; when its turn has come it is also returned, for the layers around the router."""
        return [*self.pass_to_all(message), message]

    # What this broker wants, sent to all others.

    def _carry_out(self, steps: AnnouncerSteps) -> list[Effect]:
        effects: list[Effect] = []
        for message in steps.up:
            item = message.filter
            self.local.elsewhere.pop(item, None)
            self._number += 1
            tokens = (message.token,) if isinstance(message, Announce) else ()
            self._broadcasts.append(_Broadcast(self._number, message, tokens))
            effects += self._tell(self._broadcasts[-1])
        for source, number in steps.ready:
            assert isinstance(source, str)
            effects += [*self._answers(source, number), Confirm(source, number)]
        return effects

    def _tell(self, broadcast: _Broadcast) -> list[Effect]:
        if self.view is None:
            return []
        ways = self.onwards(None)
        if not ways:
            return self._installed_to(broadcast.number)
        self._awaited[self.me, broadcast.number] = _Awaited(None, set(ways), True)
        message = Spread(self.view.version, self.me, broadcast.number, broadcast.change)
        return [Send(way, message) for way in ways]

    def _installed_to(self, number: int) -> list[Effect]:
        """Note that all brokers have applied all changes up to a number."""
        effects: list[Effect] = []
        while self._broadcasts and self._broadcasts[0].number <= number:
            for token in self._broadcasts.popleft().tokens:
                effects += self._carry_out(self.announcer.installed(token))
        return effects

    def settled(self) -> bool:
        """Return whether everything that was announced is installed everywhere."""
        return self.announcer.all_installed()

    # What others want.

    def _on_spread(self, source: Link, message: Spread) -> list[Effect]:
        if not self._is_of_this_view(source, message):
            return self._stray()
        assert isinstance(source, int)
        ways = self.onwards(source)
        key = message.origin, message.number
        self._awaited[key] = _Awaited(source, set(ways), False)
        effects: list[Effect] = [Send(way, message) for way in ways]
        if message.origin in self.missing:
            self._too_early.setdefault(message.origin, []).append(message)
            return effects
        return effects + self._take_in(message)

    def _take_in(self, message: Spread) -> list[Effect]:
        origin, change = message.origin, message.change
        if message.number > self._have[origin]:
            self._have[origin] = message.number
            if isinstance(change, Announce):
                self.others.add(change.filter, origin, origin)
            elif change is not None:
                self._forget_filter(origin, change.filter)
        awaited = self._awaited[origin, message.number]
        awaited.taken_in = True
        if isinstance(change, Announce):
            awaited.reply = gathered(awaited.reply, self.local.here(change.filter))
        return self._echo(origin, message.number)

    def _forget_filter(self, origin: BrokerId, item: Filter) -> None:
        if self.others.remove(item, origin, origin):
            self.others.drop(item)

    def _on_echo(self, source: Link, message: Echo) -> list[Effect]:
        awaited = self._awaited.get((message.origin, message.number))
        if awaited is None or not self._is_of_this_view(source, message):
            return self._stray()
        awaited.behind.discard(source)
        awaited.reply = gathered(awaited.reply, Reply(message.answers, message.more))
        return self._echo(message.origin, message.number)

    def _echo(self, origin: BrokerId, number: int) -> list[Effect]:
        """Send the echo of a broadcast once it was applied here and at all brokers behind."""
        awaited = self._awaited[origin, number]
        if awaited.behind or not awaited.taken_in:
            return []
        del self._awaited[origin, number]
        if awaited.back is None:
            self._note_answer(number, awaited.reply)
            return self._installed_to(number)
        assert self.view is not None
        return [Send(awaited.back, Echo(self.view.version, origin, number, *awaited.reply))]

    def _note_answer(self, number: int, reply: Reply) -> None:
        """Note the answers of all others to a change of this broker, if it still wants the filter."""
        change = next(
            (broadcast.change for broadcast in self._broadcasts if broadcast.number == number), None
        )
        if isinstance(change, Announce) and change.filter in self.dag:
            self.local.elsewhere[change.filter] = reply

    def _is_of_this_view(self, source: Link, message: Spread | Echo) -> bool:
        view = self.view
        return view is not None and message.version == view.version and source in view.born

    def _is_below(self, source: Link) -> bool:
        return False

    # Another view.

    def install(self, view: MembershipView, resend_to: Iterable[BrokerId] = ()) -> list[Effect]:
        """Switch to a view that includes this broker; return the messages to send under it.

        Parameters
        ----------
        view
            The next view.
        resend_to
            The brokers to which all filters are sent again, because earlier messages may not have arrived.
        """
        before = {} if self.view is None else self.view.born
        anew = before.get(self.me) != view.born[self.me]
        for origin in sorted({*self._have, *self.missing}):
            if anew or view.born.get(origin) != before.get(origin):
                self._forget_broker(origin)
        fresh = [
            other
            for other, born in view.born.items()
            if other != self.me and (anew or born != before.get(other))
        ]
        self.missing.update(fresh)
        self.enter(view)
        self._awaited.clear()
        self._too_early.clear()
        if anew:
            self._begin_anew()
        wants = tuple(self.announcer.announced())
        effects: list[Effect] = [
            Send(other, self._wants(view, other, wants))
            for other in dict.fromkeys((*fresh, *resend_to))
            if other in view.born
        ]
        for broadcast in list(self._broadcasts):
            effects += self._tell(broadcast)
        return effects

    def _wants(self, view: MembershipView, other: BrokerId, wants: tuple[Filter, ...]) -> ViewWants:
        lacks = other in self.missing
        return ViewWants(view.born[self.me], view.born[other], self._number, wants, lacks=lacks)

    def _begin_anew(self) -> None:
        """Start again after joining anew: nobody knows this broker's filters, so none counts as installed."""
        self.announcer.renew(top=False)
        self._number += 1
        self._broadcasts.clear()
        tokens = tuple(token for _, token in self.announcer.tokens())
        self._broadcasts.append(_Broadcast(self._number, None, tokens))

    def _forget_broker(self, origin: BrokerId) -> None:
        self._have.pop(origin, None)
        self.missing.discard(origin)
        for item in self.others.held_by(origin, origin):
            self._forget_filter(origin, item)

    def adopt(self, source: BrokerId, wants: ViewWants) -> list[Effect]:
        """Record all that a missing broker wants; tell one that lacks what this one wants, and should not.

        That one's view had lost this broker by damage, until a later view mended it: only one of the two joined anew.
        """
        assert self.view is not None
        runs = wants.mine, wants.yours
        if runs != (self.view.born.get(source), self.view.born[self.me]):
            return []
        if source not in self.missing:
            mine = tuple(self.announcer.announced())
            return [Send(source, self._wants(self.view, source, mine))] if wants.lacks else []
        self.missing.discard(source)
        self._have[source] = wants.number
        for item in wants.filters:
            self.others.add(item, source, source)
        effects: list[Effect] = []
        for message in self._too_early.pop(source, []):
            effects += self._take_in(message)
        return effects

    # Introspection.

    def held(self) -> Iterator[tuple[Filter, Link, Hashable]]:
        """Iterate over (filter, link, holder): the filters of its clients and of every other broker."""
        yield from super().held()
        for entry in self.others:
            for other in entry.links:
                yield entry.filter, other, other

    def announced(self) -> dict[tuple[Link, BrokerId], tuple[Filter, ...]]:
        """Return the filters that were announced to all others."""
        wanted = tuple(self.announcer.announced())
        others = () if self.view is None else self.view.born
        return {(other, other): wanted for other in others if other != self.me}

    def streams(self) -> Mapping[BrokerId, Hashable]:
        """Return, for each other broker, the event numbers between the two, which must be the same at both."""
        return {}

    # Snapshots.

    def snapshot(self) -> dict[str, Plain]:
        """Return the whole state of the router, for `restore`."""
        return {
            **super().snapshot(),
            "view": self.view,
            "others": self.others.snapshot(),
            "missing": sorted(self.missing),
            "number": self._number,
            "told": [
                (broadcast.number, broadcast.change, broadcast.tokens) for broadcast in self._broadcasts
            ],
            "awaited": [
                (key, awaited.back, sorted(awaited.behind), awaited.taken_in, tuple(awaited.reply))
                for key, awaited in self._awaited.items()
            ],
            "too_early": {origin: list(early) for origin, early in self._too_early.items()},
            "have": dict(self._have),
        }

    def restore(self, plain: dict[str, Plain]) -> None:
        """Restore the state from a snapshot of this broker's router; only before anything was handled."""
        super().restore(plain)
        if plain["view"] is not None:
            self.enter(plain["view"])
        self.others.restore(plain["others"])
        self.missing = set(plain["missing"])
        self._number = plain["number"]
        self._broadcasts.extend(_Broadcast(*broadcast) for broadcast in plain["told"])
        self._awaited.update(
            (key, _Awaited(back, set(behind), taken, Reply(*reply)))
            for key, back, behind, taken, reply in plain["awaited"]
        )
        self._too_early.update((origin, list(early)) for origin, early in plain["too_early"].items())
        self._have = dict(plain["have"])

    def describe(self) -> dict[str, int]:
        """Return the sizes of the router's tables; `recorded` counts the filters of other brokers."""
        sizes = {
            "recorded": len(self.others),
            "unannounced": len(self._broadcasts),
            "served_here": len(self.local.served),
        }
        return {**super().describe(), **sizes}

    def check(self) -> None:
        """Assert that tables, DAG and announcements agree; for tests."""
        super().check()
        self.others.check()
        if self.view is not None:
            assert {*self._have, *self.missing} == self.view.born.keys() - {self.me}
        numbers = [broadcast.number for broadcast in self._broadcasts]
        assert numbers == sorted(numbers) and (not numbers or numbers[-1] <= self._number)
        waiting = {token for broadcast in self._broadcasts for token in broadcast.tokens}
        assert all(entry.installed or entry.token in waiting for entry in self.announcer._announced.values())
