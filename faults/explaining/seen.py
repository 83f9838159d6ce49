"""The journey of an event as the telemetry of a network tells it: a run on Ray, or one in the simulator.

Rules
-----
* Exact is which broker took the event from its publisher (`published`), and which broker handed it to whom
  (`notified`), in a network that traces events. `transfers` has the messages between brokers without naming their
  events: a hop is the first message with events that went the right way after the event had arrived. How many there
  were is said.
* Times are on the clocks of hosts, which are aligned by the events that they exchanged (:mod:`.clocks`).
* On a wall clock times count from the whole second before the event was published, and it says which one that is; in
  virtual time they are as they are.
* The way is that of the network as it was launched; telemetry does not know of later moves.
* Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from itertools import pairwise
from math import isfinite
from typing import Final, NamedTuple, TypedDict

from ...protocol.ids import BrokerId, ClientId, EventId, Link
from .clocks import Alignment, align
from .explain import Explanation
from .finding import Finding
from .journey import Copy, Journey, Process, Taken

HOP_SECONDS_MAX: Final = 5.0
"""How long after its arrival a message with the event may leave a broker, if nothing tells when it came further on."""


WALL_CLOCK_SECONDS: Final = 1e9
"""From this time on a clock counts from 1970; no run in virtual time takes thirty years."""

CLOCKS_MAX: Final = 60
"""Of how many brokers the clocks are aligned; those of the event first."""


class BrokerRow(TypedDict):
    """A broker of a network."""

    broker: BrokerId
    label: str
    cluster: int


class NetworkRows(TypedDict, total=False):
    """The brokers and links of a network, as it was launched."""

    brokers: Sequence[BrokerRow]
    links: Sequence[tuple[BrokerId, BrokerId, str]]


class PublishedRow(NamedTuple):
    """A row of `published` about the event."""

    at: float
    broker: BrokerId


class NotifiedRow(NamedTuple):
    """A row of `notified` about the event."""

    at: float
    broker: BrokerId
    subscriber: ClientId


class TransferRow(NamedTuple):
    """A row of `transfers` with events: `peer` is -1 for the group."""

    at: float
    broker: BrokerId
    link_kind: str
    peer: int


class Seen(NamedTuple):
    """What telemetry has about one event and one subscriber.

    Attributes
    ----------
    event, subscriber
        The event and the subscriber.
    published, notified
        The rows about the event, of all subscribers.
    home
        The broker that handed the subscriber other events; None if it never was handed any.
    transfers
        The messages with events about that time.
    exchanged
        (sender, when, receiver, when) of other events, for the clocks.
    lost
        How many rows are missing in the telemetry.
    """

    event: EventId
    subscriber: ClientId
    published: Sequence[PublishedRow]
    notified: Sequence[NotifiedRow]
    home: BrokerId | None
    transfers: Sequence[TransferRow]
    exchanged: Sequence[tuple[BrokerId, float, BrokerId, float]]
    lost: int


def explain_seen(seen: Seen, network: NetworkRows, chosen: str = "") -> Explanation:
    """Explain an event by telemetry.

    Parameters
    ----------
    seen
        What there is about it.
    network
        Brokers and links as :func:`rayvous.actors.telemetry.files.network_of` gives them.
    chosen
        Why this event is explained.
    """
    seen, told = _from_the_event(seen)
    clusters = {row["broker"]: row["cluster"] for row in network.get("brokers", ())}
    names = {row["broker"]: row["label"] for row in network.get("brokers", ())}
    mine = [row for row in seen.notified if row.subscriber == seen.subscriber]
    home = mine[0].broker if mine else seen.home
    first = min(seen.published, default=None)
    way = () if first is None or home is None else way_in(network, first.broker, home)
    clocks = _clocks(seen, first, way)
    hops, candidates = _hops(seen, way, clocks, clusters)
    taken = _taken(seen, way, hops, clocks, clusters, home)
    told += [clocks.words] if clocks is not None else []
    if hops:
        told.append(
            f"telemetry names no events on links: each hop is the first of {candidates:,} messages with events that "
            "went that way then"
        )
    journey = Journey(
        event=seen.event,
        subscriber=seen.subscriber,
        published_at=None if first is None else first.at,
        taken=tuple(taken),
        copies=tuple(hops),
        notified=tuple(_time(clocks, row.broker, row.at) for row in mine),
        clusters=clusters,
        names=names,
        clocks="; ".join(told),
        left_out=(f"{seen.lost:,} rows that telemetry has lost",) if seen.lost else (),
    )
    return Explanation(journey, _find(journey, way, home), chosen)


def _from_the_event(seen: Seen) -> tuple[Seen, list[str]]:
    """Return what there is with times since the event, and a sentence that says when that was."""
    times = [*(row.at for row in seen.published), *(row.at for row in seen.notified)]
    zero = float(int(min(filter(isfinite, times), default=0.0)))
    if zero < WALL_CLOCK_SECONDS:
        return seen, []
    since = seen._replace(
        published=[row._replace(at=row.at - zero) for row in seen.published],
        notified=[row._replace(at=row.at - zero) for row in seen.notified],
        transfers=[row._replace(at=row.at - zero) for row in seen.transfers],
        exchanged=[(one, sent - zero, other, came - zero) for one, sent, other, came in seen.exchanged],
    )
    return since, [f"0.000 s is {datetime.fromtimestamp(zero, UTC):%Y-%m-%d %H:%M:%S} UTC"]


def way_in(network: NetworkRows, here: BrokerId, there: BrokerId) -> tuple[BrokerId, ...]:
    """Return the brokers on the shortest way between two, both included, over the links of a network; or ()."""
    beside: dict[BrokerId, list[BrokerId]] = {}
    for one, other, _ in network.get("links", ()):
        beside.setdefault(one, []).append(other)
        beside.setdefault(other, []).append(one)
    came: dict[BrokerId, BrokerId | None] = {here: None}
    edge = [here]
    while edge and there not in came:
        edge = [other for one in edge for other in beside.get(one, ()) if came.setdefault(other, one) == one]
    way: list[BrokerId] = []
    step: BrokerId | None = there if there in came else None
    while step is not None:
        way.insert(0, step)
        step = came[step]
    return tuple(way)


def _clocks(seen: Seen, first: PublishedRow | None, way: Sequence[BrokerId]) -> Alignment | None:
    if first is None:
        return None
    own = [(first.broker, first.at, row.broker, row.at) for row in seen.notified]
    clocks = dict.fromkeys([*way, *(row.broker for row in seen.notified)])
    clocks |= dict.fromkeys(int(broker) for row in seen.exchanged for broker in row[::2])
    return align([*seen.exchanged, *own], first.broker, list(clocks)[:CLOCKS_MAX])


def _time(clocks: Alignment | None, broker: BrokerId, at: float) -> float:
    return at if clocks is None else clocks.time(broker, at)


def _hops(
    seen: Seen, way: Sequence[BrokerId], clocks: Alignment | None, clusters: Mapping[BrokerId, int]
) -> tuple[list[Copy], int]:
    """Return the messages that may have carried the event along its way, and how many there were to choose from."""
    hops: list[Copy] = []
    candidates = 0
    at = seen.published[0].at if seen.published else 0.0
    came = {row.broker: _time(clocks, row.broker, row.at) for row in reversed(seen.notified)}
    until = max([*(came[broker] for broker in way if broker in came), at], default=at)
    until = until if way and way[-1] in came else at + HOP_SECONDS_MAX
    for here, onward in pairwise(way):
        found = sorted(
            time
            for row in seen.transfers
            if row.broker == here
            and _goes(row, onward, same=clusters.get(here) == clusters.get(onward))
            and at <= (time := _time(clocks, here, row.at)) <= until
        )
        if not found:
            break
        candidates += len(found)
        at = found[0]
        hops.append(Copy(at, here, onward, "Events", came.get(onward), carries=True))
    for place, hop in enumerate(hops):  # a broker that notified nobody had it when it sent it on
        if hop.arrives_at is None and place + 1 < len(hops):
            hops[place] = hop._replace(arrives_at=hops[place + 1].sent_at)
    return hops, candidates


def _goes(row: TransferRow, onward: BrokerId, *, same: bool) -> bool:
    if row.link_kind == "multicast":
        return same
    return row.link_kind in ("up", "down") and row.peer == onward


def _taken(
    seen: Seen,
    way: Sequence[BrokerId],
    hops: Sequence[Copy],
    clocks: Alignment | None,
    clusters: Mapping[BrokerId, int],
    home: BrokerId | None,
) -> Iterable[Taken]:
    """Return what is known of each broker that had the event, in order of time."""
    at: dict[BrokerId, tuple[float, Process]] = {
        row.broker: (row.at, seen.event[0]) for row in reversed(seen.published)
    }
    for hop in hops:
        if isinstance(hop.to, int) and hop.arrives_at is not None:
            at.setdefault(hop.to, (hop.arrives_at, hop.source))
    for row in seen.notified:
        at.setdefault(row.broker, (_time(clocks, row.broker, row.at), row.broker))
    onward = {hop.source: hop.to for hop in hops}
    steps = []
    for broker, (when, source) in at.items():
        to: list[Link] = [onward[broker]] if broker in onward else []
        to += [row.subscriber for row in seen.notified if row.broker == broker]
        rest = tuple(way[way.index(broker) :]) if broker in way else ()
        steps.append(
            Taken(when, broker, clusters.get(broker, -1), source, to=tuple(to), home=home, ways=rest)
        )
    return sorted(steps, key=lambda step: step.at)


def _find(journey: Journey, way: Sequence[BrokerId], home: BrokerId | None) -> Finding:
    name = journey.subscriber
    if journey.notified:
        at = journey.notified[0]
        was = f"{name} was notified of {journey.id} at {at:.3f} s by broker {home}"
        return Finding("delivered", at, home, "", was, "nothing is missing", "")
    if not journey.taken:
        why = "no broker took it from its publisher, or the network did not trace events (trace_events=True)"
        return Finding("missing", None, None, "", f"nobody saw {journey.id}", why, "")
    had = {step.broker: step for step in journey.taken}
    on_way = [broker for broker in way if broker in had]
    last = had[on_way[-1]] if on_way else journey.taken[-1]
    was = f"broker {last.broker}, at {last.at:.3f} s"
    if home is None:
        why = f"telemetry does not know where {name} was: no broker has handed it anything"
        return Finding("missing", last.at, last.broker, "", was, why, "")
    if last.broker == home:
        why = f"broker {home} did not hand it to {name}"
        should = f"if a subscription of {name} matches it, broker {home} had to hand it over"
        return Finding("missing", last.at, home, "", was, why, should)
    onward = way[way.index(last.broker) + 1] if last.broker in way else home
    sent = any(copy.source == last.broker and copy.to == onward for copy in journey.copies)
    why = (
        f"a message with events left it for broker {onward}, and nothing tells that it arrived there"
        if sent
        else f"no message with events left it for broker {onward} within {HOP_SECONDS_MAX:g} s"
    )
    should = f"if a subscription of {name} matches it, it had to go on to broker {onward}, on the way to broker {home}"
    return Finding("missing", last.at, last.broker, "", was, why, should)


__all__ = ["HOP_SECONDS_MAX", "NotifiedRow", "PublishedRow", "Seen", "TransferRow", "explain_seen", "way_in"]
