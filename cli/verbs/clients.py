"""``rayvous subscribe``, ``unsubscribe`` and ``publish``: clients from a shell."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final
from uuid import uuid4

import typer

from ...protocol.errors import EventError, InputError
from .. import console
from ..interrupts import Interruptible
from ..joined import Address, NetworkName, joined
from ..options import AsJson, Types, column_types

if TYPE_CHECKING:
    from ...actors.clients.json_lines import JsonLines, Line
    from ...actors.clients.publisher import Publisher
    from ...actors.clients.subscriber import Subscriber
    from ...actors.network.network import Network
    from ...protocol.batch import EventBatch

DRAIN_MAX: Final = 1_000
"""Notifications that are printed, and then acknowledged, at once."""
READ_BYTES: Final = 1 << 16
PACE_SECONDS: Final = 0.05
"""With a rate, events are published in portions of this duration."""

Durable = Annotated[
    str | None,
    typer.Option(
        help="Name of a durable subscriber: subscription and position are kept for the next one of that name."
    ),
]


From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="TIME",
        help="Begin in the past: at a time such as 2026-11-25T10:00 (UTC), or at the oldest that is retained. A "
        "durable subscriber that returns is rewound.",
    ),
]

LastPer = Annotated[
    str | None,
    typer.Option(
        "--last-per",
        metavar="ATTRIBUTE",
        help="Begin with the last event of each value of an attribute, of all that is retained or is --from a time on.",
    ),
]


def subscribe(
    network: NetworkName,
    selector: Annotated[
        str | None,
        typer.Argument(help="The events wanted; a durable subscriber that returns already has its selector."),
    ] = None,
    durable: Durable = None,
    since: From = None,
    last_per: LastPer = None,
    form: Annotated[
        str, typer.Option("--format", help="json (one line per event), table or cloudevents.")
    ] = "json",
    limit: Annotated[int | None, typer.Option(min=1, help="End after this many events.")] = None,
    timeout: Annotated[
        float | None, typer.Option(min=0, max=1e9, help="End after this many seconds without an event.")
    ] = None,
    address: Address = None,
) -> None:
    """Subscribe and print events as they arrive, until Ctrl-C.

    Only events are printed on standard output; what is doubtful about the selector, on standard error. A durable
    subscriber acknowledges the events that it has printed; all others are delivered again. It persists when the command
    ends; rayvous unsubscribe ends it. When another process takes over its name, the command ends with exit status 2.

    Examples
    --------
      rayvous subscribe flights "origin = 'JFK' AND dep_delay > 60"
      rayvous subscribe flights "dep_delay > 60" --durable alice --format cloudevents
      rayvous subscribe flights "dep_delay IS NULL" --limit 10 --format table
      rayvous subscribe flights "origin = 'JFK'" --from 2026-11-25T10:00
      rayvous subscribe flights --durable alice --from oldest
      rayvous subscribe flights "origin = 'JFK'" --last-per flight
    """
    from ...clients.beginnings import asked_for
    from ...routing.language.questions import to_filter
    from ..event_lines import FORMATS, Format, printer

    chosen: Format | None = next((one for one in FORMATS if one == form), None)
    if chosen is None:
        raise InputError(f"--format {form}: it must be {', '.join(FORMATS[:-1])} or {FORMATS[-1]}")
    if selector is None and durable is None:
        raise InputError("a selector is missing: only a durable subscriber that returns already has one")
    if selector is not None:
        to_filter(selector)  # validate before connecting to Ray
    if since is not None:
        asked_for(since, time.time())
    interrupts = Interruptible()
    with joined(network, address) as net, interrupts.handled():
        subscriber = _attached(net, durable, since, last_per)
        try:
            _subscribe(net, subscriber, selector, durable, since, last_per)
            printed = _print_all(subscriber, printer(chosen, net.name), interrupts, limit, timeout)
        finally:
            _part(subscriber, durable)
    console.err.print(f"events: {printed:,}", markup=False)


def _attached(net: Network, durable: str | None, since: str | None, last_per: str | None) -> Subscriber:
    """Attach; what begins in the past is durable for as long as the command runs."""
    past = since is not None or last_per is not None
    if durable is not None and past and durable in [each.name for each in net.durable()]:
        if last_per is not None:
            raise InputError(
                f"--last-per {last_per}: durable subscriber {durable!r} has begun: take another name, or end it first "
                f"(rayvous unsubscribe {net.name} {durable})"
            )
        net.rewind(durable, str(since))
    name = durable or f"shell-{uuid4().hex[:8]}"
    lasts = durable is not None or past
    subscriber: Subscriber = net.subscriber(name, durable=True) if lasts else net.subscriber(name)
    return subscriber


def _subscribe(
    net: Network,
    subscriber: Subscriber,
    selector: str | None,
    durable: str | None,
    since: str | None,
    last_per: str | None,
) -> None:
    from ...routing.language.questions import doubts_to_tell, to_filter

    known = subscriber.subscriptions
    if not known:
        if selector is None:
            raise InputError(f"--durable {durable}: there is no such subscriber yet: give a selector")
        subscriber.subscribe(selector, at=since, last_per=last_per)
    elif selector is not None and to_filter(selector) not in known.values():
        there = " and ".join(str(filter) for filter in known.values())
        raise InputError(
            f"--durable {durable}: has subscribed to {there}: leave the selector out, or end it first "
            f"(rayvous unsubscribe {net.name} {durable})"
        )
    console.err.print(f"subscribed at broker {subscriber.broker}", markup=False)
    for doubt in () if selector is None else doubts_to_tell(selector):
        console.err.print(f"doubtful: {doubt}", markup=False, soft_wrap=True)


def _part(subscriber: Subscriber, durable: str | None) -> None:
    """Leave a durable subscriber as it is; one without a name of its own, which began in the past, is ended."""
    from ...actors.clients.durable import DurableSubscriber

    if durable is None and isinstance(subscriber, DurableSubscriber):
        subscriber.end()
    elif durable is not None:
        subscriber.close()


def _print_all(
    subscriber: Subscriber,
    line_of: Callable[[Any], str],
    interrupts: Interruptible,
    limit: int | None,
    timeout: float | None,
) -> int:
    """Print notifications until the limit, the timeout, a signal, or a closed pipe; return how many."""
    printed = 0
    with suppress(KeyboardInterrupt, BrokenPipeError):
        while limit is None or printed < limit:
            with interrupts.waiting():
                first = next(subscriber.notifications(timeout), None)
            if first is None:
                break
            room = DRAIN_MAX if limit is None else min(DRAIN_MAX, limit - printed)
            notes = [first]
            try:
                notes.extend(islice(subscriber.notifications(0), room - 1))
            finally:  # an error comes behind these
                console.out.file.write("".join(f"{line_of(note)}\n" for note in notes))
                console.out.file.flush()
            printed += len(notes)
            acknowledge = getattr(subscriber, "acknowledge", None)
            if acknowledge is not None:
                acknowledge()
    return printed


def unsubscribe(
    network: NetworkName,
    durable: Annotated[str, typer.Argument(metavar="NAME", help="Name of the durable subscriber.")],
    address: Address = None,
) -> None:
    """End a durable subscriber for good, and delete its subscriptions and position.

    Examples
    --------
      rayvous unsubscribe flights alice
    """
    with joined(network, address) as net:
        net.end_durable(durable)
    console.out.print(f"ended: {durable}", markup=False)


def durable(network: NetworkName, address: Address = None, as_json: AsJson = False) -> None:
    """List the durable subscribers: where each is, for how long it is away, and how far it is behind.

    Those come first whose events have waited longest. An event waits until it is acknowledged. rayvous unsubscribe
    ends a durable subscriber.

    Examples
    --------
      rayvous durable flights
      rayvous durable flights --json
    """
    with joined(network, address) as net:
        found = net.durable()
    if as_json:
        console.print_json({"network": network, "durables": [asdict(each) for each in found]})
        return
    from ..status_view import durables_view

    if found:
        console.out.print(durables_view(found))
    else:
        console.out.print(f"network {network} has no durable subscribers", markup=False)


def publish(
    network: NetworkName,
    source: Annotated[
        str,
        typer.Argument(
            metavar="FILE", help="A .jsonl, .csv or .parquet file, or - for JSON lines from standard input."
        ),
    ],
    name: Annotated[
        str | None, typer.Option("--as", help="Name of the publisher \\[a generated one].")
    ] = None,
    rate: Annotated[
        float | None,
        typer.Option(min=1e-6, max=1e9, help="Events per second \\[as fast as possible]."),
    ] = None,
    timestamp: Annotated[
        list[str] | None,
        typer.Option(help="Attribute of JSON lines that is an ISO 8601 time; may be repeated."),
    ] = None,
    advertise: Annotated[
        list[str] | None,
        typer.Option(
            help="Selector that covers the events to publish, for networks with admission; may be repeated."
        ),
    ] = None,
    types: Types = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Maximum number of events.")] = None,
    take_over: Annotated[
        bool, typer.Option("--take-over", help="With --as: take the name from a publisher that has it.")
    ] = False,
    ttl: Annotated[
        float | None,
        typer.Option(
            min=1e-6, max=1e9, help="Time to live: hand the events to nobody later than so many seconds."
        ),
    ] = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Publish events from a file or from standard input, line by line as they arrive.

    Ends when the network has accepted all events. An invalid line of JSON ends it, too: the message gives its number,
    and how many events before it were published. A table, CSV or Parquet, is checked before its first event is
    published; the message gives the column and the line or row.

    Examples
    --------
      rayvous publish flights events.jsonl
      rayvous publish flights events.csv --types zip=string,seen=timestamp
      rayvous publish flights events.parquet --rate 1000 --as faa
      tail -f log.jsonl | rayvous publish flights - --timestamp at
      rayvous publish prices ticks.jsonl --ttl 5
    """
    from ...actors.clients.csv_columns import kinds_of
    from ...actors.clients.event_files import TABLES, EventTable, check_file
    from ...actors.clients.json_lines import JsonLines
    from ...routing.language.questions import to_filter

    path = None if source == "-" else Path(source)
    kinds = column_types(types)
    table = None
    if path is not None:
        check_file(path)
        table = EventTable(path, kinds) if path.suffix.lower() in TABLES else None
    for each in advertise or ():
        to_filter(each)
    begun = time.monotonic()
    interrupts = Interruptible()
    with joined(network, address) as net, interrupts.handled():
        durable = net.inspect.heals and name is not None
        named = name or f"shell-{uuid4().hex[:8]}"
        publisher = net.publisher(named, durable=durable, take_over=take_over, ttl=ttl)
        for each in advertise or ():
            publisher.advertise(each)
        feed = _Feed(publisher, rate, limit, interrupts)
        try:
            with suppress(KeyboardInterrupt), console.steps() as steps:
                if table is not None:
                    feed.tables(
                        table.blocks(), source, lambda done: steps.show("published", done, max(done, 1))
                    )
                else:
                    feed.lines(_read(path, interrupts), JsonLines(source, timestamp or (), kinds_of(kinds)))
        except (InputError, EventError) as error:
            raise InputError(f"{error}; published before it: {feed.published:,}") from None
        publisher.flush()
    seconds = time.monotonic() - begun
    result = {
        "network": network,
        "publisher": publisher.name,
        "published": feed.published,
        "seconds": seconds,
    }
    if as_json:
        console.print_json(result)
    else:
        console.out.print(f"published: {feed.published:,} events as {publisher.name}", markup=False)


def _read(path: Path | None, interrupts: Interruptible) -> Iterator[bytes]:
    """Yield available bytes as soon as there are any."""
    descriptor = sys.stdin.fileno() if path is None else os.open(path, os.O_RDONLY)
    try:
        while True:
            with interrupts.waiting():
                data = os.read(descriptor, READ_BYTES)
            if not data:
                return
            yield data
    except OSError as error:
        raise InputError(f"{path or '-'}: {error.strerror}") from None
    finally:
        if path is not None:
            os.close(descriptor)


class _Feed:
    """Publishes events at a rate, up to a limit, and counts them."""

    def __init__(
        self, publisher: Publisher, rate: float | None, limit: int | None, interrupts: Interruptible
    ) -> None:
        self._publisher = publisher
        self._rate = rate
        self._limit = limit
        self._interrupts = interrupts
        self._begun = time.monotonic()
        self.published = 0

    @property
    def _full(self) -> bool:
        return self._limit is not None and self.published >= self._limit

    def _portion(self, waiting: int) -> int:
        """Return how many of the waiting events to publish at once."""
        most = waiting if self._rate is None else max(1, int(self._rate * PACE_SECONDS))
        return min(waiting, most if self._limit is None else min(most, self._limit - self.published))

    def _pace(self) -> None:
        """Wait until the published events are due."""
        if self._rate is not None:
            early = self._begun + self.published / self._rate - time.monotonic()
            with self._interrupts.waiting():
                time.sleep(max(0.0, early))  # enforces the rate

    def lines(self, data: Iterable[bytes], reader: JsonLines) -> None:
        """Publish JSON lines; the lines before an invalid one are published."""
        for piece in data:
            self._whole(reader.feed(piece))
            if self._full:
                return
        self._whole(reader.end())

    def _whole(self, lines: Iterator[Line]) -> None:
        waiting: list[Line] = []
        try:
            waiting.extend(lines)
        finally:
            self._publish_lines(waiting)

    def _publish_lines(self, waiting: list[Line]) -> None:
        while waiting and not self._full:
            portion = self._portion(len(waiting))
            now, waiting = waiting[:portion], waiting[portion:]
            try:
                self._publisher.publish_batch([line.event for line in now])
                self.published += len(now)
            except EventError:  # nothing was published: publish one by one, to find the invalid event
                for number, event in now:
                    try:
                        self._publisher.publish(event)
                    except EventError as error:
                        raise InputError(f"line {number}: {error}") from None
                    self.published += 1
            self._pace()

    def tables(self, batches: Iterator[EventBatch], source: str, tell: Callable[[int], None]) -> None:
        """Publish rows of tables."""
        import numpy as np

        for batch in batches:
            start = 0
            while start < len(batch) and not self._full:
                portion = self._portion(len(batch) - start)
                try:
                    self._publisher.publish_batch(batch.take(np.arange(start, start + portion)))
                except EventError as error:
                    raise InputError(f"{source}: {error}") from None
                start += portion
                self.published += portion
                tell(self.published)
                self._pace()
            if self._full:
                return
