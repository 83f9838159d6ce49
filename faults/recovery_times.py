"""The timeline of a chaos run, and how long each fault had an effect.

Rules
-----
* Two times are measured for each fault, up to the next fault. *Structure*: until the clusters and the tree
  were sound, and stayed so. *Delivery*: until the last notification that was late by more than half a
  heartbeat had arrived.
* A fault is *alone* if it is the first one, no other fault happens for ten heartbeats, and the network was
  sound again before the next. Only these faults go into the figures by kind of fault.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from ..protocol.traces.trace import Trace
from .plans.plans import WORDS, Fault, HostLink

LINES_MAX: Final = 1000
ALONE_HEARTBEATS: Final = 10
"""A fault is alone if it is the first and no other fault happens for this long."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """How long a fault had an effect, in seconds; None if that did not end before the next fault.

    Attributes
    ----------
    kind
        The fault's word, or "heal".
    at_seconds
        When it happened.
    alone
        Whether it was the first, the next one came late, and the network was sound by then.
    structure_seconds
        The time until the structure was sound.
    delivery_seconds
        The time until the last late notification of an event published meanwhile; 0 if none was late.
    first_delivery_seconds
        The time until the first notification of an event that was published after it.
    """

    kind: str
    at_seconds: float
    alone: bool
    structure_seconds: float | None
    delivery_seconds: float | None
    first_delivery_seconds: float | None


class RecoveryTimes:
    """Collects what happens. A host's own timeline adds what it observes.

    Attributes
    ----------
    lines
        (time, what happened).
    faults
        (time, word) of each fault that was executed.
    sound
        (time, whether the structure was sound) of each check.
    """

    def __init__(self) -> None:
        self.lines: list[tuple[float, str]] = []
        self.faults: list[tuple[float, str]] = []
        self.sound: list[tuple[float, bool]] = []

    def say(self, now: float, what: str) -> None:
        """Add a line."""
        if len(self.lines) < LINES_MAX:
            self.lines.append((now, what))

    def harmed(self, now: float, fault: Fault | None, what: str) -> None:
        """Record a fault, or with None the healing, and its result."""
        self.faults.append((now, "heal" if fault is None else self.kind_of(fault)))
        self.say(now, f"fault: {what}" if fault is not None else what)

    def kind_of(self, fault: Fault) -> str:
        """Return the kind of fault under which its recovery is counted; for a host link, how it is bad."""
        word = WORDS[type(fault)]
        if isinstance(fault, HostLink):
            return f"{word}_{'lossy' if fault.drop else 'slow' if fault.carries else 'cut'}"
        return word

    def told(
        self, trace: Trace, late_seconds: float, end: float
    ) -> tuple[list[Recovered], list[tuple[float, str]]]:
        """Return the recoveries and, with them, the timeline in order; see `recoveries` for the parameters."""
        recoveries = self.recoveries(trace, late_seconds, end)
        for each in recoveries:
            if each.first_delivery_seconds is not None:
                when = each.at_seconds + each.first_delivery_seconds
                self.lines.append((when, f"first delivery after {each.kind} at {each.at_seconds:.3f} s"))
        return recoveries, sorted(self.lines, key=lambda line: line[0])

    # Durations.

    def recoveries(self, trace: Trace, late_seconds: float, end: float) -> list[Recovered]:
        """Return how long each fault had an effect, given what clients did and received.

        Parameters
        ----------
        trace
            What clients did and received.
        late_seconds
            The delay above which a notification is late: half a heartbeat.
        end
            When the run ended.
        """
        published = trace.publications()
        heard = sorted(
            (note.at_seconds, published[note.publisher, note.sequence].at_seconds)
            for note in trace.notifications()
            if (note.publisher, note.sequence) in published
        )
        late = [(when, published) for when, published in heard if when - published > late_seconds]
        moments = [when for when, _ in self.faults] + [end]
        out = []
        for place, (at, kind) in enumerate(self.faults):
            until = moments[place + 1]
            structure = self._structure(at, until)
            alone = place == 0 and structure is not None and until - at >= ALONE_HEARTBEATS * 2 * late_seconds
            held_up = [when for when, published in late if at <= published < until]
            first = next((when for when, published in heard if published >= at), None)
            out.append(
                Recovered(
                    kind,
                    at,
                    alone,
                    structure,
                    max(held_up, default=at) - at if structure is not None else None,
                    None if first is None else first - at,
                )
            )
        return out

    def _structure(self, at: float, until: float) -> float | None:
        begin = bisect_left(self.sound, (at, False))
        looks = [entry for entry in self.sound[begin:] if entry[0] < until]
        if not looks or not looks[-1][1]:
            return None
        bad = [place for place, (_, sound) in enumerate(looks) if not sound]
        return looks[bad[-1] + 1][0] - at if bad else 0.0


def by_kind(recoveries: Iterable[Recovered]) -> dict[str, dict[str, object]]:
    """Return count, median and maximum of the recovery times of faults that were alone, by kind."""
    times: dict[str, list[tuple[float, float]]] = {}
    for each in recoveries:
        if each.alone and each.structure_seconds is not None and each.delivery_seconds is not None:
            times.setdefault(each.kind, []).append((each.structure_seconds, each.delivery_seconds))
    out: dict[str, dict[str, object]] = {}
    for kind, pairs in sorted(times.items()):
        structure, delivery = (sorted(column) for column in zip(*pairs, strict=True))
        out[kind] = {
            "count": len(pairs),
            "structure_median_seconds": round(structure[len(pairs) // 2], 3),
            "structure_max_seconds": round(structure[-1], 3),
            "delivery_median_seconds": round(delivery[len(pairs) // 2], 3),
            "delivery_max_seconds": round(delivery[-1], 3),
        }
    return out
