"""Damage to the state of a broker: a fault of paper 4, which changes the state and not the behaviour.

Rules
-----
* This module reaches into the private state of a broker's machines. Nothing else may do that.
* Damaged state holds values of the right types, like memory in which other numbers stand. The values are drawn at
  random, and all values of a kind are damaged at once. The error of a number is drawn too, up to :data:`FAR`.
* A broker's clients and the rendezvous point are not damaged, because they define what is correct. Table and book
  entries of a broker's own clients are not damaged either.

Source: paper 4, section 2 and definition 8; docs/decisions/0028-damaged-tables.md, 0043-damaged-state.md and
0052-damaged-stores-books-and-positions.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ..admission.advertisements import LOCAL
from ..broker.admission import Admitting, Controller
from ..broker.broker import Broker
from ..protocol.effects import Write
from ..protocol.ids import RoundNumber
from ..protocol.messages.recovery import ClusterView
from ..protocol.messages.views import MembershipView
from ..recovery.durability.durable_clients import DurableClients
from ..recovery.durability.stores import Store
from ..recovery.durability.summed import SUMS, SummedStore
from ..recovery.membership.copies import CopiedTables
from ..recovery.membership.tree import HealingBroker
from ..recovery.membership.views import HealingViews
from ..recovery.replay.replay import Replay
from ..routing.language.questions import to_filter
from ..routing.schemes.flooding_graph import GraphFlooding
from ..routing.schemes.lbdd import Lbdd
from ..routing.schemes.viewed import ViewedRouter

if TYPE_CHECKING:
    from random import Random

FAR: Final = 1_000
"""The largest error of a damaged number."""


def damage(broker: Broker, what: str, rng: Random) -> int:
    """Damage one kind of a broker's state; return how many values were changed."""
    return _KINDS[what](broker, rng)


def _tables(broker: Broker, rng: Random) -> int:
    """Damage half of the table entries of other brokers: remove each, or add a filter that was never announced.

    At normal brokers, half of the copies of such tables is removed too.
    """
    router: Any = broker.router
    tables = [router.table, *([router.others] if isinstance(router, ViewedRouter) else [])]
    changed = 0
    for table in tables:
        entries = [
            (entry.filter, link, holder)
            for entry in table
            for link, holders in entry.links.items()
            for holder in holders
        ]
        for item, link, holder in entries:
            if isinstance(link, str) or rng.random() < 0.5:
                continue
            changed += 1
            if rng.random() < 0.5:
                table.remove(item, link, holder)
            else:
                table.add(to_filter(f"damaged = {changed}"), link, holder)
    copies: Any = broker.ask(CopiedTables())
    for items in () if copies is None else copies.values():
        for item in [item for item in items if rng.random() < 0.5]:
            changed += 1
            del items[item]
    return changed


def _membership_of(broker: Broker) -> HealingBroker | HealingViews:
    in_views = isinstance(broker.router, ViewedRouter)
    return broker.layer(HealingViews) if in_views else broker.layer(HealingBroker)


def _off(value: Any, rng: Random) -> Any:
    """Return a number, or a value that holds one, with a different number that is not negative."""
    if isinstance(value, RoundNumber):
        return value._replace(number=_off(value.number, rng))
    if isinstance(value, ClusterView):
        return replace(value, epoch=_off(value.epoch, rng))
    if value is None:
        return None
    return max(0, value + rng.choice((-1, 1)) * rng.randint(1, FAR))


def _numbers(broker: Broker, rng: Random) -> int:
    """Change some of the numbers: of publishers' events, rounds, terms, epochs, view versions, streams."""
    replay, healing = broker.layer(Replay), _membership_of(broker)
    rounds = replay.rounds
    numbers: list[tuple[Any, Any]] = [
        *((replay._accepted, publisher) for publisher in replay._accepted),
        (rounds, "current"),
        *((entry, "open_from") for entry in rounds._links.values()),
        *((entry, "ready_after") for entry in rounds._links.values()),
    ]
    if isinstance(healing, HealingBroker):
        place = healing.place
        numbers += [(healing.tree_rounds, "known"), (place, "term")]
        numbers += [(place.succession, "_epoch_seen"), (place.succession, "view")]
    else:
        router: Any = healing.router
        numbers += [(router, "_number"), *((router._have, other) for other in router._have)]
        if isinstance(router, Lbdd):
            numbers += [(router._numbers._last, other) for other in router._numbers._last]
            numbers += [(order, "_next") for order in router._incoming.values()]
        if isinstance(router, GraphFlooding):
            numbers += [(router, "_sent"), *((router._had, origin) for origin in router._had)]
    chosen = rng.sample(numbers, rng.randint(1, len(numbers)))
    for owner, name in chosen:
        if isinstance(owner, dict):
            owner[name] = _off(owner[name], rng)
        else:
            setattr(owner, name, _off(getattr(owner, name), rng))
    return len(chosen)


def _marks(broker: Broker, rng: Random) -> int:
    """Change how much of each publisher non-durable subscribers seem to have received."""
    changed = 0
    for client, marks in broker.layer(Replay).deduplicator._marks.items():
        for publisher in () if client in broker.layer(DurableClients).entries else marks:
            marks[publisher] = _off(marks[publisher], rng)
            changed += 1
    return changed


def _positions(broker: Broker, rng: Random) -> int:
    """Change how much of each publisher durable subscribers seem to have acknowledged."""
    changed = 0
    for entry in broker.layer(DurableClients).entries.values():
        for publisher in entry.marks:
            entry.marks[publisher] = _off(entry.marks[publisher], rng)
            changed += 1
    return changed


def _books(broker: Broker, rng: Random) -> int:
    """Damage half of the book entries of other brokers: remove or replace filters, and change advertised rates.

    One of the counters in the books may be changed as well.
    """
    if broker.ask(Controller()) is None:
        return 0
    admission = broker.layer(Admitting).admission
    books, changed = admission.books, 0
    for link in [link for link in books.held if link != LOCAL]:
        for item in [item for item in books.held[link] if rng.random() < 0.5]:
            changed += 1
            books.drop(item, link)
            if rng.random() < 0.5:
                books.hold(to_filter(f"damaged = {changed}"), link, 0)
    for key, offers in admission.spreading.offers.items():
        for link in [link for link in offers if link != LOCAL and rng.random() < 0.5]:
            changed += 1
            before = link, offers[link]
            offers[link] = replace(offers[link], rate=_off(offers[link].rate, rng))
            if admission.spreading.chosen[key] == before:
                admission.spreading.chosen[key] = link, offers[link]
                books.advertise(key, offers[link].filter, offers[link].rate, link)
    broker.layer(Admitting)._follow()
    if rng.random() < 0.5:
        counts = books._met.whole
        place = rng.randrange(counts.size)
        counts.flat[place] = _off(int(counts.flat[place]), rng)
        changed += 1
    return changed


def damage_store(store: Store, rng: Random) -> int:
    """Delete or replace a third of the rows of a store with checksums, at least one; return how many."""
    if not isinstance(store, SummedStore):
        return 0
    tables = [SUMS, *sorted(store._sums)]
    rows = [(table, key, data) for table in tables for key, data in store.inner.rows(table)]
    writes = []
    for table, key, data in rows:
        if rng.random() < 1 / 3:
            other = rng.choice(rows)[2]
            writes.append(Write(table, key, None if rng.random() < 0.5 or other == data else other))
    if rows and not writes:
        table, key, _ = rng.choice(rows)
        writes.append(Write(table, key, None))
    store.inner.commit(writes)
    return len(writes)


def _membership(broker: Broker, rng: Random) -> int:
    """Change a broker's place: another view, another parent, other children, designated or not."""
    healing = _membership_of(broker)
    if isinstance(healing, HealingViews):
        return _view(healing, rng)
    place, group = healing.place, healing.group
    known = [*place.children.values(), place.view, *([place.parent] if place.parent else [])]
    draws: list[Callable[[], object]] = [
        lambda: setattr(place, "parent", rng.choice((None, *known))),
        lambda: place.children.pop(rng.choice([-1, *place.children]), None),
        lambda: place.children.update({each.cluster: each for each in known}),
        lambda: setattr(place, "path", tuple(each.cluster for each in known if rng.random() < 0.5)),
        lambda: setattr(place, "root", not place.root),
        lambda: setattr(place.succession, "view", _other_members(place.view, known, rng)),
        lambda: setattr(place, "other_members", {each for each in place.other_members if rng.random() < 0.5}),
        lambda: setattr(place.router, "attached", not place.router.attached),
        lambda: setattr(group, "dropped", not group.dropped),
    ]
    chosen = rng.sample(draws, rng.randint(1, 3))
    for change in chosen:
        change()
    return len(chosen)


def _view(healing: HealingViews, rng: Random) -> int:
    router, view = healing.router, healing.router.view
    if view is None:
        return 0
    labels = [member.label for member in view.members]
    rng.shuffle(labels)
    members = tuple(member._replace(label=label) for member, label in zip(view.members, labels, strict=True))
    gone = rng.choice(members).broker
    if rng.random() < 0.5 and gone != healing.home.broker:
        members = tuple(member for member in members if member.broker != gone)
    version = _off(view.version, rng) if rng.random() < 0.5 else view.version
    router.enter(
        MembershipView(version, view.dimensions, view.cluster_max, members, view.repair_window_seconds)
    )
    return 2


def _other_members(view: ClusterView, known: Sequence[ClusterView], rng: Random) -> ClusterView:
    strangers = {each.designated for each in known}
    members = tuple(sorted({*view.members, *strangers} - {rng.choice(view.members)})) or view.members
    return replace(view, members=members, designated=rng.choice(members))


_KINDS: Final[Mapping[str, Callable[[Broker, Random], int]]] = MappingProxyType(
    {
        "tables": _tables,
        "numbers": _numbers,
        "membership": _membership,
        "deduplicator": _marks,
        "positions": _positions,
        "books": _books,
    }
)
