"""Events as datasets of Ray Data: one bounded dataset, or micro-batches that are acknowledged when they are consumed.

Rules
-----
* Blocks are Arrow tables in Ray's object store. They are made of the columns that arrive, and no file is written.
* All blocks of a dataset have one schema: that of its last block, which only grew (`actors.clients.record_batches`).
* A stream acknowledges a micro-batch when the next one is asked for. A consumer that dies, or leaves its loop, is sent
  the batch that it had once more, under the same name.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from typing import TYPE_CHECKING, Final
from uuid import uuid4

import pyarrow as pa
import ray

from ...actors.clients.durable import DurableSubscriber
from ...actors.clients.record_batches import Layout
from ...actors.clients.subscriber import Subscriber
from ...actors.network.network import Network
from ...protocol import checks
from ...protocol.batch import EventBatch, concat
from ...protocol.errors import InputError
from ...protocol.extras import extra, require
from ...routing.filters.filter import Filter
from ...routing.language.questions import Predicate, to_filter

if TYPE_CHECKING:
    from ray import ObjectRef
    from ray.data import Dataset

BLOCK_EVENTS: Final = 32_768
"""How many events a block has at least, if so many have come: blocks are what Ray Data works on in parallel."""
BATCH_EVENTS: Final = 1_000_000


def read(
    net: Network,
    selector: Filter | Predicate | str,
    *,
    until: datetime.datetime | datetime.timedelta | float,
    events_max: int | None = None,
) -> Dataset:
    """Return the events of a selector from now on as one dataset, when they have come.

    Parameters
    ----------
    net, selector
        The network, and which events.
    until
        When the dataset is complete: a time (UTC if it has no zone), a duration, or a number of seconds from now.
    events_max
        End as soon as so many events have come.

    Raises
    ------
    InputError
        If an argument is wrong.
    MissingExtra
        If Ray Data is not installed.
    """
    checks.instance("net", net, Network, "a Network")
    seconds = _seconds_until(until)
    most = None if events_max is None else checks.whole_number("events_max", events_max, 1)
    wanted = to_filter(selector)
    require("data")
    subscriber = net.subscriber(f"read-{uuid4().hex[:8]}")
    with closing(subscriber):
        subscriber.subscribe(wanted)
        return _dataset(_Blocks(Layout()), _arriving(subscriber, time.monotonic() + seconds, most))


def stream(
    net: Network,
    selector: Filter | Predicate | str,
    *,
    batch_seconds: float = 5.0,
    batch_events: int = BATCH_EVENTS,
    name: str = "stream",
) -> Iterator[Dataset]:
    """Iterate over the events of a selector as datasets: micro-batches of a durable subscription.

    Asking for the next dataset acknowledges the last one. Each dataset has at least one event; the iteration waits
    while none comes, and ends only when its network is closed.

    Parameters
    ----------
    net, selector
        The network, which has to heal, and which events.
    batch_seconds, batch_events
        A dataset is complete so long after its first event, or when it has so many events; at most half of what a
        broker retains of unacknowledged events (`Recovery.durable_events_max`).
    name
        The name of the durable subscriber. The next stream of this name goes on after what was acknowledged.

    Raises
    ------
    InputError
        If an argument is wrong, the network does not heal, or the name has subscribed to something else. Raised by the
        call, not by the first iteration.
    MissingExtra
        If Ray Data is not installed.
    NameTaken
        If another process streams under this name; raised by the iteration.
    """
    checks.instance("net", net, Network, "a Network")
    checks.text("name", name)
    seconds = checks.seconds("batch_seconds", batch_seconds)
    most = checks.whole_number("batch_events", batch_events, 1)
    wanted = to_filter(selector)
    require("data")
    subscriber = net.subscriber(name, durable=True)
    try:
        subscribe_once(subscriber, wanted)
    except BaseException:
        subscriber.close()
        raise
    times = net.inspect.directory.features.times  # it heals, since its subscriber is durable
    return _batches(subscriber, seconds, min(most, max(1, times.durable_events_max // 2)))


def subscribe_once(subscriber: DurableSubscriber, wanted: Filter) -> None:
    """Subscribe, unless a durable subscriber that returns has subscribed to the same.

    Raises
    ------
    InputError
        If it has subscribed to something else.
    """
    known = subscriber.subscriptions
    if not known:
        subscriber.subscribe(wanted)
    elif wanted not in known.values():
        there = " and ".join(str(each) for each in known.values())
        raise InputError(
            f"{subscriber.name!r} has subscribed to {there}: end it first, or choose another name"
        )


def _batches(subscriber: DurableSubscriber, seconds: float, events_max: int) -> Iterator[Dataset]:
    layout = Layout()
    with closing(subscriber):
        while True:
            arriving = _micro_batch(subscriber, seconds, events_max)
            first = next(arriving, None)
            if first is None:  # it was closed meanwhile
                return
            yield _dataset(_Blocks(layout), chain([first], arriving))
            subscriber.acknowledge()


def _micro_batch(subscriber: Subscriber, seconds: float, events_max: int) -> Iterator[EventBatch]:
    first = next(subscriber.arrivals(), None)
    if first is None:  # it was closed meanwhile
        return
    yield first.batch.take(first.rows)
    if len(first.rows) < events_max:
        yield from _arriving(subscriber, time.monotonic() + seconds, events_max - len(first.rows))


def _arriving(subscriber: Subscriber, deadline: float, events_max: int | None) -> Iterator[EventBatch]:
    """Yield what arrives until a time on the monotonic clock, or until there are so many events."""
    events = 0
    while events_max is None or events < events_max:
        arrival = next(subscriber.arrivals(max(0.0, deadline - time.monotonic())), None)
        if arrival is None:
            return
        events += len(arrival.rows)
        yield arrival.batch.take(arrival.rows)


def _seconds_until(until: datetime.datetime | datetime.timedelta | float) -> float:
    if isinstance(until, datetime.datetime):
        zoned = until if until.tzinfo is not None else until.replace(tzinfo=datetime.UTC)
        return max(0.0, (zoned - datetime.datetime.now(datetime.UTC)).total_seconds())
    return checks.seconds("until", until.total_seconds() if isinstance(until, datetime.timedelta) else until)


class _Blocks:
    """Collects events into tables in the object store."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._waiting: list[EventBatch] = []
        self._events = 0
        self._made: list[tuple[ObjectRef, pa.Schema]] = []

    def add(self, batch: EventBatch) -> None:
        self._waiting.append(batch)
        self._events += len(batch)
        if self._events >= BLOCK_EVENTS:
            self._put()

    def _put(self) -> None:
        table = pa.Table.from_batches([self._layout.record_batch(concat(self._waiting))])
        self._made.append((ray.put(table), table.schema))
        self._waiting, self._events = [], 0

    def end(self) -> list[ObjectRef]:
        """Return the tables, all of the last one's schema."""
        if self._waiting:
            self._put()
        if not self._made:
            return [ray.put(pa.table({}))]
        last = self._made[-1][1]
        return [ref if schema.equals(last) else _widened.remote(ref, last) for ref, schema in self._made]


def widened(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a table in a later schema of its layout."""
    return pa.table(
        {
            field.name: table.column(field.name).cast(field.type)
            if field.name in table.column_names
            else pa.nulls(table.num_rows, field.type)
            for field in schema
        },
        schema=schema,
    )


_widened = ray.remote(num_cpus=0.1)(widened)


def _dataset(blocks: _Blocks, batches: Iterator[EventBatch]) -> Dataset:
    with extra("data"):
        from ray.data import from_arrow_refs
    for batch in batches:
        blocks.add(batch)
    return from_arrow_refs(blocks.end())
