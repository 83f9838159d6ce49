"""Draws a journey: which processes have lanes, which messages are arrows, and which of them are the way of the event.

Rules
-----
* Brokers have lanes if the event was at them or should have been, at most :data:`LANES_MAX`; they stand by cluster, the
  publisher on the left and the subscriber on the right.
* The way of the event is what led to the place where its journey ended, from the publisher on.
* Drawn is the time of the journey, with what happened shortly before and after.
* Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...actors.pictures.spacetime import Arrow, Diagram, Dot, Lane, Span
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import RENDEZVOUS
from .finding import Finding
from .journey import BROUGHT, LOST, MARKS, Copy, Journey, Mark, Process, Taken
from .rules import link_words

LANES_MAX: Final = 28
AROUND_SECONDS: Final = 1.0
SPAN_SECONDS_MAX: Final = 60.0

EVENT_KIND: Final = "the event"
RETRANSMITTED_KIND: Final = "the event, sent again"
WANTS_KIND: Final = "the subscription"
CONTROL_KIND: Final = "other messages"
KEPT_BACK_KIND: Final = "kept back by a rule"
CLIENTS_KIND: Final = "from and to clients"
PAST_KIND: Final = "reading the past"


def diagram_of(journey: Journey, finding: Finding, later: Journey | None = None) -> Diagram:
    """Return the space-time diagram of a journey, with the way of the later event that overtook it, if one did."""
    begin, end = _window(journey, finding)
    copies = [copy for copy in journey.copies if begin <= copy.sent_at <= end]
    brokers = _brokers(journey, finding)
    way = {id(copy) for copy in way_of(journey, finding)}
    arrows = [
        *_clients(journey),
        *_readings(journey),
        *_later(later),
        *(_arrow(copy, on_way=id(copy) in way) for copy in copies),
    ]
    marks = [mark for mark in journey.marks if begin <= mark.at <= end]
    return Diagram(
        title=f"{journey.id} and {journey.subscriber}: {finding.outcome}",
        lanes=tuple(_lanes(journey, brokers, copies)),
        arrows=tuple(arrows),
        dots=(*_stops(journey, finding), *_given_up(journey), *map(_dot, marks), *_ending(finding)),
        spans=tuple(_dead(journey, begin, end)),
        left_out=journey.left_out,
    )


def _window(journey: Journey, finding: Finding) -> tuple[float, float]:
    times = [step.at for step in journey.taken] + [*journey.notified, *journey.reported_lost]
    times += [each for each in (journey.published_at, finding.at) if each is not None]
    if not journey.taken:
        times += [mark.at for mark in journey.marks if mark.process == journey.subscriber]
    begin, end = min(times, default=0.0), max(times, default=0.0)
    if journey.notified:
        end = min(end, max(*journey.notified, finding.at or 0.0))
    end = (
        min(end, begin + SPAN_SECONDS_MAX)
        if finding.at is None
        else max(finding.at, min(end, begin + SPAN_SECONDS_MAX))
    )
    return begin - AROUND_SECONDS, end + AROUND_SECONDS


def _brokers(journey: Journey, finding: Finding) -> list[BrokerId]:
    """Return the brokers that have lanes, in the order of their clusters."""
    found: dict[BrokerId, None] = {}

    def add(*processes: Process | None) -> None:
        found.update({each: None for each in processes if isinstance(each, int) and each != RENDEZVOUS})

    for copy in way_of(journey, finding):
        add(copy.source, copy.to)
    add(finding.broker)
    for step in journey.taken:
        if step.broker == finding.broker:
            add(*step.ways)
    for step in journey.taken[:1]:
        add(*step.ways)
    for read in journey.past:
        add(read.broker)
    for step in journey.taken:
        add(step.broker)
    for copy in journey.copies:
        if copy.carries or copy.wants:
            add(copy.source, copy.to)
    for copy in journey.copies[: LANES_MAX if not found else 0]:
        add(copy.source, copy.to)
    chosen = list(found)[:LANES_MAX]
    return sorted(chosen, key=lambda broker: (journey.clusters.get(broker, 0), broker))


def _lanes(journey: Journey, brokers: list[BrokerId], copies: list[Copy]) -> Iterator[Lane]:
    publisher, _ = journey.event
    if publisher:
        yield Lane(key_of(publisher), publisher)
    for broker in brokers:
        cluster = journey.clusters.get(broker)
        group = "" if cluster is None else f"cluster {cluster}"
        label = journey.names.get(broker)
        yield Lane(key_of(broker), f"{broker} {label}" if label else f"broker {broker}", group)
    if any(RENDEZVOUS in (copy.source, copy.to) for copy in copies):
        yield Lane(key_of(RENDEZVOUS), "RP")
    if journey.subscriber != publisher:
        yield Lane(key_of(journey.subscriber), journey.subscriber)


def key_of(process: Process) -> str:
    """Return the key of the lane of a process: without spaces, and not the same for a broker and a client."""
    return (
        f"b{process}"
        if isinstance(process, int)
        else "c" + "-".join(f"{byte:x}" for byte in process.encode())
    )


def _arrow(copy: Copy, *, on_way: bool) -> Arrow:
    kind, style = CONTROL_KIND, "other"
    if copy.carries:
        kind, style = (
            (RETRANSMITTED_KIND if copy.retransmitted else EVENT_KIND),
            ("path" if on_way else "event"),
        )
    elif copy.wants:
        kind, style = WANTS_KIND, "wants"
    text = f"{copy.kind} from {_who(copy.source)} to {_who(copy.to)}, sent at {copy.sent_at:.4f} s"
    if copy.lost:
        text += f"; lost: {copy.lost}"
    elif copy.arrives_at is None:
        text += "; had not arrived when the run ended"
    else:
        text += f", arrived {1000 * (copy.arrives_at - copy.sent_at):.1f} ms later"
    return Arrow(copy.sent_at, key_of(copy.source), key_of(copy.to), copy.arrives_at, kind, text, style)


def _who(process: Process) -> str:
    if process == RENDEZVOUS:
        return "the rendezvous point"
    return f"broker {process}" if isinstance(process, int) else process


def way_of(journey: Journey, finding: Finding) -> list[Copy]:
    """Return the copies that led to where the journey ended, the first one first."""
    step = _last_step(journey, finding)
    carrying = [copy for copy in journey.copies if copy.carries]
    found: list[Copy] = []
    if step is not None:
        found += [
            copy for copy in carrying if copy.lost and (copy.source, copy.to) == (step.broker, _onward(step))
        ]
        found = [copy for copy in found if copy.sent_at >= step.at][:1]
    while step is not None and isinstance(step.source, int) and step.source != step.broker:
        came = [
            copy
            for copy in carrying
            if (copy.source, copy.to) == (step.source, step.broker)
            and copy.arrives_at is not None
            and copy.arrives_at <= step.at
        ]
        if not came:
            break
        found.insert(0, came[-1])
        sent_at, source = came[-1].sent_at, step.source
        before = [each for each in journey.taken if each.broker == source and each.at <= sent_at]
        step = before[-1] if before else None
        if len(found) > len(journey.taken):
            break
    return found


def _onward(step: Taken) -> Process | None:
    return step.ways[1] if len(step.ways) > 1 else None


def _last_step(journey: Journey, finding: Finding) -> Taken | None:
    at_broker = [step for step in journey.taken if step.broker == finding.broker]
    if finding.outcome == "delivered":
        return next(iter(journey.delivered), at_broker[-1] if at_broker else None)
    there = [step for step in at_broker if finding.at is not None and step.at <= finding.at]
    found = there or at_broker
    return found[-1] if found else None


def _later(later: Journey | None) -> Iterator[Arrow]:
    """Yield the way of the later event to the subscriber."""
    if later is None or not later.delivered:
        return
    step = later.delivered[0]
    there = Finding("delivered", step.at, step.broker, "", "", "", "")
    kind = f"the later event {later.id}"
    for copy in way_of(later, there):
        yield _arrow(copy, on_way=True)._replace(kind=kind, style="later")
    came = next((when for when in later.notified if when >= step.at), None)
    text = f"broker {step.broker} hands {later.id} to {later.subscriber}, {step.at:.4f} s"
    yield Arrow(step.at, key_of(step.broker), key_of(later.subscriber), came, kind, text, "later")


def _clients(journey: Journey) -> Iterator[Arrow]:
    """Yield the messages from the publisher and to the subscriber."""
    publisher, subscriber = key_of(journey.event[0]), key_of(journey.subscriber)
    for step in journey.taken:
        if isinstance(step.source, str):
            left = journey.published_at if journey.published_at is not None else step.at
            sent = left if step.at - left < AROUND_SECONDS else step.at
            text = f"{step.source} publishes {journey.id} at broker {step.broker}, {step.at:.4f} s"
            yield Arrow(sent, publisher, key_of(step.broker), step.at, CLIENTS_KIND, text, "path")
        if journey.subscriber in step.to:
            came = next((when for when in journey.notified if when >= step.at), None)
            text = f"broker {step.broker} hands {journey.id} to {journey.subscriber}, {step.at:.4f} s"
            text += "" if came is not None else "; it was not there any more"
            yield Arrow(step.at, key_of(step.broker), subscriber, came, CLIENTS_KIND, text, "path")


def _readings(journey: Journey) -> Iterator[Arrow]:
    """Yield the questions of a subscriber that reads its past, and the answer that brings the event."""
    subscriber = key_of(journey.subscriber)
    for step in journey.past:
        if step.broker is None:
            continue
        broker, text = (
            key_of(step.broker),
            f"{journey.subscriber} asks for the past, {step.at:.4f} s: {step.words}",
        )
        if step.kind == BROUGHT:
            came = next((when for when in journey.notified if when >= step.at), step.at)
            yield Arrow(step.at, broker, subscriber, came, PAST_KIND, text, "path")
        else:
            yield Arrow(step.at, subscriber, broker, step.at, PAST_KIND, text, "wants")


def _given_up(journey: Journey) -> Iterator[Dot]:
    """Yield what a subscriber that reads its past does without asking one broker."""
    for step in journey.past:
        if step.broker is None:
            sign = "cross" if step.kind == LOST else "flag"
            text = f"{step.at:.3f} s: {journey.subscriber}: {step.words}"
            yield Dot(step.at, key_of(journey.subscriber), PAST_KIND, text, sign)


def _stops(journey: Journey, finding: Finding) -> Iterator[Dot]:
    """Yield what kept the event back; that nobody beyond a broker wants it is told only where its journey ended."""
    for step in journey.taken:
        wanted = {None, journey.subscriber, step.next_link}
        for stop in step.stops:
            nobody = stop.toward is None and not stop.mends and step.broker != finding.broker
            if stop.toward in wanted and not nobody:
                text = f"layer {stop.layer} of broker {step.broker} keeps it from {link_words(stop.toward)}: {stop.why}"
                yield Dot(step.at, key_of(step.broker), KEPT_BACK_KIND, text, "cross")


def _dot(mark: Mark) -> Dot:
    lane = "" if mark.process is None else key_of(mark.process)
    sign = {"death": "cross", "client": "flag"}.get(mark.kind, "dot")
    return Dot(mark.at, lane, MARKS.get(mark.kind, mark.kind), f"{mark.at:.3f} s: {mark.what}", sign)


def _ending(finding: Finding) -> Iterator[Dot]:
    if finding.at is not None and finding.broker is not None:
        text = f"{finding.was}: {finding.why}" + (f". {finding.should}" if finding.should else "")
        yield Dot(finding.at, key_of(finding.broker), "where it ended", text, "ring", strong=True)


def _dead(journey: Journey, begin: float, end: float) -> Iterator[Span]:
    since: dict[Process, float] = {}
    for mark in journey.marks:
        if mark.kind != "death" or mark.process is None:
            continue
        if mark.what.endswith("dies"):
            since[mark.process] = mark.at
        elif mark.process in since:
            yield from _span(mark.process, since.pop(mark.process), mark.at, begin, end)
    for process, at in since.items():
        yield from _span(process, at, end, begin, end)


def _span(process: Process, died: float, back: float, begin: float, end: float) -> Iterator[Span]:
    if died <= end and back >= begin:
        yield Span(key_of(process), max(died, begin), min(back, end))


__all__ = ["diagram_of", "key_of", "way_of"]
