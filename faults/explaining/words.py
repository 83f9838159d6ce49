"""Tells a journey in words: one line for each step, the earliest first, and at the end where it stopped.

Rules
-----
* What leads nowhere is left out: members of a cluster that were sent the event and have no use for it.
* Once the subscriber has the event, later rounds are told in one line each.
* At most :data:`LINES_MAX` lines.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...protocol.ids import GROUP
from .finding import Finding
from .journey import BROUGHT, LOST, OLDER, PASSED, PRESENT, SILENT, WAITS, Journey, Taken
from .rules import link_words

LINES_MAX: Final = 80
NAMES_MAX: Final = 6


def told(journey: Journey, finding: Finding, problems: tuple[str, ...] = ()) -> list[str]:
    """Return the lines that tell a journey."""
    lines = [f"{journey.id} and {journey.subscriber}: {finding.outcome}"]
    lines += [f"  ! {problem}" for problem in problems[:3]]
    if journey.content is not None:
        lines.append(f"  the event: {_short(journey.content)}")
    for number in journey.matching or sorted(journey.selectors):
        verb = "matches" if number in journey.matching else "does not match"
        lines.append(f"  subscription #{number} {verb}: {_cut(journey.selectors[number])}")
        if len(lines) > LINES_MAX // 2:
            break
    body = [line for _, line in sorted(_story(journey), key=lambda row: row[0])]
    if len(body) > LINES_MAX:
        left = len(body) - LINES_MAX
        half = LINES_MAX // 2
        body = [*body[:half], f"  {'...':>10}    {left:,} more steps", *body[-half:]]
    lines += body
    if journey.clocks:
        lines.append(f"  clocks: {journey.clocks}")
    if journey.left_out:
        lines.append(f"  not shown: {'; '.join(journey.left_out)}")
    lines += _ending(finding)
    return lines


def _ending(finding: Finding) -> list[str]:
    if finding.outcome == "delivered":
        return [f"{finding.was}."]
    lines = [f"Last seen: {finding.was}.", f"Why: {finding.why}."]
    if finding.should:
        lines.append(f"What should have happened: {finding.should}.")
    if finding.place:
        lines.append(f"The rule stands in: {finding.place}")
    return lines


def _story(journey: Journey) -> Iterator[tuple[float, str]]:
    if journey.published_at is not None:
        yield _line(journey.published_at, f"{journey.event[0]} publishes #{journey.event[1]}")
    begin, end = _span(journey)
    for mark in journey.marks:
        during = begin <= mark.at <= end and mark.kind != "other"
        if during or (mark.process == journey.subscriber and mark.at < begin):
            yield _line(mark.at, mark.what)
    have_it = min(journey.notified, default=float("inf"))
    afterwards: dict[tuple[int, int], Taken] = {}
    for step in journey.taken:
        if step.at > have_it and step.retransmitted:
            afterwards.setdefault(step.round, step)
            continue
        if _matters(journey, step):
            yield _line(step.at, _of_step(journey, step))
            for stop in step.stops:
                if stop.toward in (None, journey.subscriber, step.next_link):
                    yield _line(
                        step.at, f"  {stop.layer} keeps it from {link_words(stop.toward)}: {stop.why}"
                    )
    for number, step in afterwards.items():
        yield _line(
            step.at, f"sent again in round {number[0]}.{number[1]}, which {journey.subscriber} does not need"
        )
    for copy in journey.copies:
        if copy.carries and copy.lost and copy.sent_at <= have_it:
            yield _line(copy.sent_at, f"  lost between {_who(copy.source)} and {_who(copy.to)}: {copy.lost}")
    for read in journey.past:
        yield _line(read.at, f"{_PAST.get(read.kind, '{}').format(journey.subscriber)}: {read.words}")
    for when in journey.notified:
        yield _line(when, f"{journey.subscriber} is notified")
    for when in journey.reported_lost:
        yield _line(when, f"{journey.subscriber} is told that it is lost")


_PAST: Final = {
    PRESENT: "{} reads its past, which ends before it",
    OLDER: "{} reads its past, which begins behind it",
    WAITS: "{} reads its past",
    SILENT: "{} asks for it in vain",
    BROUGHT: "{} reads it",
    PASSED: "{} does not find it",
    LOST: "{} gives it up",
}
"""What a subscriber does that reads its past."""


def _span(journey: Journey) -> tuple[float, float]:
    times = [step.at for step in journey.taken] + [*journey.notified, *journey.reported_lost]
    if journey.published_at is not None:
        times.append(journey.published_at)
    if not times:
        times = [mark.at for mark in journey.marks] or [0.0]
    until = min(journey.notified, default=max(times))
    return min(times), until


def _matters(journey: Journey, step: Taken) -> bool:
    if step.to or step.broker == step.home or isinstance(step.source, str):
        return True
    return any(stop.toward is None and not stop.layer.startswith("Healing") for stop in step.stops) or (
        step.broker in journey.taken[0].ways
    )


def _of_step(journey: Journey, step: Taken) -> str:
    name = f"broker {step.broker}"
    if label := journey.names.get(step.broker):
        name += f" ({label})"
    if step.source == step.broker:
        how = f"{name} sends it again" if step.retransmitted else f"{name} lets it go on"
    else:
        how = f"{name} takes it from {_who(step.source)}"
    if step.retransmitted:
        how += f", round {step.round[0]}.{step.round[1]}"
    shown = [_to(step, link) for link in dict.fromkeys(step.to)]
    if len(shown) > NAMES_MAX:
        shown = [*shown[:NAMES_MAX], f"{len(shown) - NAMES_MAX} more"]
    return f"{how}; to {', '.join(shown)}" if shown else f"{how}; to nobody"


def _to(step: Taken, link: object) -> str:
    entry = next((each for each in step.entries if each.link == link), None)
    name = "its cluster" if link == GROUP else link_words(link)  # type: ignore[arg-type]
    return f"{name} (wants {_cut(entry.filter, 60)!r})" if entry is not None else name


def _who(process: object) -> str:
    return f"broker {process}" if isinstance(process, int) else str(process)


def _line(at: float, what: str) -> tuple[float, str]:
    return at, f"  {at:10.3f} s  {what}"


def _short(content: object) -> str:
    return _cut(str(dict(content) if hasattr(content, "items") else content))  # type: ignore[call-overload]


def _cut(text: str, characters: int = 120) -> str:
    return text if len(text) <= characters else f"{text[: characters - 1]}…"


__all__ = ["told"]
