"""What a host reports about its brokers on request.

Rule: a query changes nothing.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from ...broker import Broker, routes_of
from ...broker import books_of as seen_books
from ...broker.books import SeenBooks
from ...broker.routes import SeenRoutes
from ...protocol.configs import Position
from ...protocol.durables import SHOWN_MAX, DurableStatus, furthest_behind
from ...protocol.expiry import PAST_TTL
from ...protocol.ids import GROUP, BrokerLink, ClientId
from ...protocol.queries import (
    AcceptedOf,
    AnswersOf,
    BookSizes,
    KeptOf,
    LacksOf,
    Publishers,
    Said,
    Survey,
)
from ...recovery.durability.durable_clients import Backlogs, Letters
from ...recovery.durability.durable_cursor import DeadLetter
from ...recovery.membership.structure import current_position
from .hosted_broker import HostedBroker
from .requests import Accepted, Lacking, WhoAnswers


class Seen(NamedTuple):
    """A broker as checks of the whole network see it: its routes, and its books if it keeps any."""

    routes: SeenRoutes | None
    books: SeenBooks | None


class Look(NamedTuple):
    """A broker as `Network.status` shows it.

    Attributes
    ----------
    sizes
        Sizes of its state and counts of its work so far, by name.
    sent
        How many events it has sent to each neighbour so far; `GROUP` is its whole cluster at once.
    latencies
        Histogram of the latency of its notifications in the last minute (`telemetry.latency`).
    books
        What is reserved and what is available, by resource; None without admission control.
    store_seconds
        How long its store has not answered; 0 if nothing waits for it.
    durables
        The durable subscribers that are furthest behind.
    """

    sizes: dict[str, int]
    sent: dict[BrokerLink, int]
    latencies: dict[int, int]
    books: dict[str, Any] | None
    store_seconds: float = 0.0
    durables: tuple[DurableStatus, ...] = ()


def look_at(hosted: HostedBroker, links: Mapping[str, int]) -> Look:
    """Return the status of a broker; `links` is what its host adds to the sizes."""
    sent: dict[BrokerLink, int] = {to: box.sent_events for to, box in hosted.links.items()}
    if hosted.group is not None:
        sent[GROUP] = hosted.group.sent_events
    sizes, latencies = {**sizes_of(hosted), **links}, hosted.latencies.counts(time.time())
    seconds = 0.0 if hosted.commits is None else hosted.commits.seconds
    return Look(
        sizes,
        sent,
        latencies,
        books_of(hosted.broker),
        seconds,
        furthest_behind(durables_of(hosted, SHOWN_MAX)),
    )


def seen_of(broker: Broker) -> Seen:
    """Return what checks of the whole network need of a broker."""
    return Seen(routes_of(broker), seen_books(broker))


def survey_of(hosted: HostedBroker) -> Said | None:
    """Return a broker's place in the network; None in a network that does not heal."""
    return hosted.broker.ask(Survey())


def place_of(hosted: HostedBroker) -> Position:
    """Return a broker's current place, also in a network that does not heal."""
    position, here = hosted.broker.position, survey_of(hosted)
    return position if here is None else current_position(position, {position.broker: here})


def sizes_of(hosted: HostedBroker) -> dict[str, int]:
    """Return the sizes of a broker's state, its queues included."""
    boxes = hosted.boxes()
    return {
        **hosted.broker.describe(),
        "subscribers": len(hosted.owners),
        "outbox_events": sum(box.events for box in boxes),
        "lost_events": sum(box.lost_events for box in boxes),
        "shed_notifications": hosted.tally.shed,
        "telemetry_rows_dropped": sum(hosted.telemetry.dropped_rows.values()),
        "expired_events": hosted.expired_events + sum(box.expired_events for box in boxes),
        PAST_TTL: hosted.past_ttl + sum(box.past_ttl for box in boxes),
        "resting": int(hosted.rests_until is not None),
        "events_in": hosted.events_in,
        "events_out": hosted.events_out,
        "notifications": hosted.notifications,
        **({} if hosted.commits is None else {"commits": hosted.commits.made}),
    }


def books_of(broker: Broker) -> dict[str, Any] | None:
    """Return the books of a broker; None without admission control."""
    return broker.ask(BookSizes())


def accepted_here(brokers: Iterable[Broker], publishers: Collection[ClientId]) -> dict[ClientId, int]:
    """Return the last sequence that any of these brokers accepted from each publisher, or from all that they know."""
    each = (
        {name: broker.ask(AcceptedOf(name)) for name in publishers or broker.ask(Publishers())}
        for broker in brokers
    )
    return highest(dict.fromkeys(publishers, 0), *each)


def highest(*numbers: Mapping[ClientId, int]) -> dict[ClientId, int]:
    """Return the highest number of each client in any of these."""
    found: dict[ClientId, int] = {}
    for some in numbers:
        for client, number in some.items():
            found[client] = max(number, found.get(client, number))
    return found


def answer(broker: Broker, client: ClientId, question: Accepted | Lacking | WhoAnswers) -> Any:
    """Return a broker's answer to a client's question."""
    match question:
        case Accepted():
            return broker.ask(AcceptedOf(client)), list(broker.ask(KeptOf(client)))
        case Lacking():
            return broker.ask(LacksOf(client))
        case WhoAnswers():
            return broker.ask(AnswersOf(client))


def durables_of(hosted: HostedBroker, most: int | None = None) -> list[DurableStatus]:
    """Return the durable subscribers of a broker, or at most so many that are furthest behind."""
    now, broker = time.monotonic(), hosted.broker.position.broker
    found = []
    for each in hosted.broker.ask(Backlogs(most)):
        owner = hosted.owners.get(each.name)
        attached = owner is not None and not owner.gone(now)
        if owner is None:
            away = hosted.absent.away_seconds(each.name, now)
        else:
            away = 0.0 if attached else owner.silent_seconds(now)
        figures = each.events, each.bytes, each.seconds, each.selectors
        found.append(DurableStatus(each.name, broker, attached, away, *figures))
    return found


def dead_letters(broker: Broker) -> Sequence[DeadLetter]:
    """Return the dead letters of a broker's durable subscribers, oldest first."""
    return broker.ask(Letters())
