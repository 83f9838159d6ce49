"""Judges a whole trace by :mod:`rayvous.faults.checker.conditions`, in one pass over its columns.

Rules
-----
* This file is outside the system. It reads a trace and evaluates every subscription on every event with the
  reference interpreter of predicates. It uses no normal forms, indexes, tables or routing.
* It counts exactly what the formulas count. Each function below names the rule that it evaluates, and a test
  compares the two on random traces. A violation is explained by the formula itself, on the small part of the
  trace about its subscriber and its event.

Source: paper 4, definitions 8 and 9; completeness and order are promises 2 and 3 of docs/spec.md.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

import numpy as np

from ...protocol.ids import EventId
from ...protocol.traces.trace import Cancelled, Life, LossTold, Trace
from .columns import NEVER, Bools, Columns, Ints, columns_of, when
from .conditions import RULES, Rule
from .verdict import EXAMPLES_MAX, Finding, Verdict, Violation


def judge(trace: Trace, progress: Callable[[int, int], None] | None = None) -> Verdict:
    """Judge a trace by the built-in conditions.

    Parameters
    ----------
    trace
        The trace, in order.
    progress
        Called with (subscribers judged, subscribers in total).

    Raises
    ------
    InputError
        If two events are published under one number, or a selector cannot be parsed.
    """
    return _Judge(trace, columns_of(trace)).run(progress)


def judge_by_formulas(trace: Trace, rules: Iterable[Rule] = tuple(RULES.values())) -> Verdict:
    """Judge a trace by rules, evaluated as they are written: for small traces, and for custom rules.

    `notifications_expected`, `losses` and `unexplained` are what :func:`judge` counts.
    """
    verdict = _Judge(trace, columns_of(trace)).run(None, explained=False)
    verdict.findings = {}
    for rule in rules:
        finding = verdict.findings[rule.name] = Finding()
        for elements, position, kept in rule.instances(trace):
            finding.checked += 1
            finding.violated += kept is False
            finding.indeterminate += kept is None
            if kept is False and len(finding.violations) < EXAMPLES_MAX:
                finding.violations.append(explain_violation(trace, rule, elements, position))
    return verdict


@dataclass(slots=True)
class _Found:
    """Instances of one rule for one subscriber: truths (0, 1, 2) at positions, and their events."""

    truths: Ints
    positions: Ints
    events: Ints
    others: Ints | None = None


@dataclass(slots=True, eq=False)
class _Notes:
    """One subscriber's notifications: positions, events, and where each event was published, if it was."""

    client: str
    at: Ints
    event: Ints
    known: Bools = field(init=False)
    published: Ints = field(init=False)

    def take(self, columns: Columns) -> None:
        """Look up the publications."""
        inside = self.event < columns.events
        self.published = np.where(inside, 0, np.int64(2**62))
        self.published[inside] = columns.published[self.event[inside]]
        self.known = self.published < self.at


class _Judge:
    def __init__(self, trace: Trace, columns: Columns) -> None:
        self.trace = trace
        self.columns = columns
        self.verdict = Verdict(events_published=columns.events)
        self.verdict.findings = {name: Finding() for name in RULES}
        self.explained = True
        notices = (life.registered for lives in columns.notices.values() for life in lives)
        self.noticed_since = min(notices, default=NEVER)

    def run(self, progress: Callable[[int, int], None] | None, *, explained: bool = True) -> Verdict:
        self.explained = explained
        uncovered = self._uncovered()
        for done, client in enumerate(self.columns.clients, 1):
            at, event = self.columns.notified[client]
            notes = _Notes(client, at, event)
            notes.take(self.columns)
            lives = self.columns.subscriptions.get(client, [])
            self._note("once", client, self._once(notes))
            self._note("published", client, _Found(2 * notes.known, at, event))
            self._reasons(notes, lives)
            self._note("noticed", client, self._noticed(notes))
            self._note("advertised", client, self._unadvertised(notes, uncovered))
            self._complete(notes, lives)
            self.verdict.notifications_delivered += len(at)
            if progress is not None:
                progress(done, len(self.columns.clients))
        return self.verdict

    # Notices and advertisements.

    def _noticed(self, notes: _Notes) -> _Found:
        """Evaluate `noticed`: an event that no notice of the subscriber matched at publication is never notified."""
        columns, published = self.columns, self.columns.published
        matched, perhaps = np.zeros((2, columns.events), np.bool_)
        settled = columns.quiet_after(published)
        for life in columns.notices.get(notes.client, ()):
            ended = when(life.cancelled)
            over = columns.quiet_after(np.array([ended]))[0]
            matches = columns.matches(life.selector)
            matched |= matches & (life.registered < published) & (published < ended)
            going = (ended < published) & (published < over)
            coming = (published < life.registered) & (life.registered < settled)
            perhaps |= matches & (going | coming)
        asked = np.flatnonzero((published > self.noticed_since) & ~matched)
        told = self._last_notified(notes)[asked] > published[asked]
        truths = np.where(told, np.where(perhaps[asked], 1, 0), 2)
        return _Found(truths, published[asked], asked)

    def _uncovered(self) -> Ints:
        """Return the events that their publisher had not advertised when it published them (rule `within`)."""
        columns = self.columns
        if not columns.advertisements:
            return np.zeros(0, np.int64)
        covered = np.zeros(columns.events, np.bool_)
        for publisher, lives in columns.advertisements.items():
            for life in lives:
                active = (columns.published > life.registered) & (columns.published < when(life.cancelled))
                mine = columns.publisher[: columns.events] == columns.publishers.get(publisher, -1)
                covered |= mine & active & columns.matches(life.selector)
        begun = min(life.registered for lives in columns.advertisements.values() for life in lives)
        asked = np.flatnonzero(columns.published > begun)
        self._note("within", "", _Found(2 * covered[asked], columns.published[asked], asked))
        return asked[~covered[asked]]

    def _unadvertised(self, notes: _Notes, uncovered: Ints) -> _Found:
        """Evaluate `advertised`: an event that was not covered when it was published is never notified."""
        published = self.columns.published[uncovered]
        broken = self._last_notified(notes)[uncovered] > published
        return _Found(np.where(broken, 0, 2), published, uncovered)

    def _last_notified(self, notes: _Notes) -> Ints:
        last = np.full(self.columns.events, -1, np.int64)
        inside = notes.event < self.columns.events
        np.maximum.at(last, notes.event[inside], notes.at[inside])
        return last

    # Notifications.

    def _once(self, notes: _Notes) -> _Found:
        """Evaluate `once`: each notification but the last of the same event is violated by the next one."""
        truths = np.zeros(len(notes.at), np.int64)
        _, last = np.unique(notes.event[::-1], return_index=True)
        truths[len(truths) - 1 - last] = 2
        return _Found(truths, notes.at, notes.event)

    def _reasons(self, notes: _Notes, lives: list[Life]) -> None:
        """Evaluate `wanted`, `fresh` and `ordered`: whether each notification has a reason."""
        known = np.flatnonzero(notes.known)
        at, event, published = notes.at[known], notes.event[known], notes.published[known]
        wanted = np.zeros(len(known), np.int64)
        fresh = np.zeros(len(known), np.int64)
        settled = self.columns.quiet_after(published)
        for life in lives:
            ended = when(life.cancelled)
            over = self.columns.quiet_after(np.array([ended]))[0]
            active = (life.registered < at) & (at < ended)
            going = (ended < at) & (at < over)
            reason = self.columns.matches(life.selector)[event] & (active | going)
            np.maximum(wanted, np.where(active, 2, 1), out=wanted, where=reason)
            new = np.where(life.registered < published, 2, np.where(settled < life.registered, 0, 1))
            np.maximum(fresh, new, out=fresh, where=reason)
        self._note("wanted", notes.client, _Found(wanted, at, event))
        reason = wanted > 0
        self._note("fresh", notes.client, _Found(fresh[reason], at[reason], event[reason]))
        self._note("ordered", notes.client, self._ordered(notes, known[reason]))

    def _ordered(self, notes: _Notes, good: Ints) -> _Found:
        """Evaluate `ordered`, for notifications with a reason: no later event of the publisher came before."""
        publisher = self.columns.publisher[notes.event[good]]
        sequence = self.columns.sequence[notes.event[good]]
        order = np.argsort(publisher, kind="stable")
        overtaken, by = np.zeros(len(good), np.bool_), np.full(len(good), -1, np.int64)
        for rows in np.split(order, np.flatnonzero(np.diff(publisher[order])) + 1):
            if len(rows):
                numbers = sequence[rows]
                highest = np.maximum.accumulate(numbers)
                overtaken[rows[1:]] = numbers[1:] < highest[:-1]
                leader = np.maximum.accumulate(np.where(numbers == highest, np.arange(len(rows)), 0))
                by[rows] = notes.event[good][rows[leader]]
        _, first = np.unique(notes.event, return_index=True)
        firsts = np.zeros(len(notes.event), np.bool_)
        firsts[first] = True
        asked = firsts[good]
        truths = np.where(overtaken, 0, 2)[asked]
        return _Found(truths, notes.at[good][asked], notes.event[good][asked], by[asked])

    # Expected notifications.

    def _complete(self, notes: _Notes, lives: list[Life]) -> None:
        """Evaluate `complete`: an event that is published under a subscription is notified, or is lost by a limit."""
        columns, verdict = self.columns, self.verdict
        published = columns.published
        settled = columns.quiet_after(published)
        asked, due = np.zeros((2, columns.events), np.bool_)
        for life in lives:
            ended = when(life.cancelled)
            mine = (published > life.registered) & (published < ended)
            mine &= columns.matches(life.selector)
            asked |= mine
            due |= mine & self._in_force(life, published, settled)
        came = self._last_notified(notes) > published
        lost, claimed = np.zeros((2, columns.events), np.bool_)
        for code in np.flatnonzero(asked & ~came).tolist() if columns.lost else ():
            limit = columns.explained(notes.client, code, lambda: self._ever_wanted(lives))
            claimed[code], lost[code] = limit is not None, bool(limit)
            if limit and due[code]:
                verdict.losses[limit] = verdict.losses.get(limit, 0) + 1
        verdict.unexplained += int((due & claimed & ~lost).sum())
        verdict.notifications_expected += int((due & ~lost).sum())
        truths = np.where(came | lost, 2, np.where(due, 0, 1))
        rows = np.flatnonzero(asked)
        passing = rows.copy()
        for place in np.flatnonzero(truths[rows] == 0)[:EXAMPLES_MAX].tolist():
            passed = columns.passed(notes.client, int(rows[place]))
            passing[place] = rows[place] if passed is None else passed[1]
        self._note("complete", notes.client, _Found(truths[rows], published[rows], rows, passing))

    def _in_force(self, life: Life, published: Ints, settled: Ints) -> Bools:
        """Return for which events a subscription is in force from the publication until the network has settled."""
        columns = self.columns
        found, others = np.zeros((2, columns.events), np.bool_)
        others[:] = True
        for name in (*sorted(life.named), None):
            mine = others
            if name is not None:
                mine = columns.publisher[: columns.events] == columns.publishers.get(name, -1)
                others = others & ~mine
            for begin, end in life.spans(name):
                found |= mine & (published > begin) & (settled < when(end))
        return found

    def _ever_wanted(self, lives: list[Life]) -> Ints:
        """Return when each event was published that matches one of these subscriptions."""
        matched = np.zeros(self.columns.events, np.bool_)
        for life in lives:
            matched |= self.columns.matches(life.selector)
        return self.columns.published[matched]

    # Counting and explaining.

    def _note(self, name: str, client: str, found: _Found) -> None:
        finding = self.verdict.findings[name]
        finding.checked += len(found.truths)
        finding.indeterminate += int((found.truths == 1).sum())
        broken = np.flatnonzero(found.truths == 0)
        finding.violated += len(broken)
        if not self.explained:
            return
        for row in broken[: EXAMPLES_MAX - len(finding.violations)].tolist():
            event = self.columns.identities[int(found.events[row])]
            about = {event}
            if found.others is not None:
                about.add(self.columns.identities[int(found.others[row])])
            elements = (client, event) if client else (event,)
            places = self.trace.about(client, about)
            part = Trace(self.trace.operations[place] for place in places)
            position = bisect_left(places, int(found.positions[row]))
            finding.violations.append(explain_violation(part, RULES[name], elements, position))


def explain_violation(part: Trace, rule: Rule, elements: tuple[object, ...], position: int) -> Violation:
    """Return a violation with the part of the trace that shows it.

    Parameters
    ----------
    part
        The trace, or the part of it about these elements.
    rule, elements, position
        The violated rule, the elements that violate it, and where.
    """
    client = next((element for element in elements if isinstance(element, str)), "")
    event = next((element for element in elements if isinstance(element, tuple)), ("", 0))
    piece = rule.piece(part, elements, position)
    here = part.operations[position].at_seconds
    at_seconds = max((note.at_seconds for note in piece.notifications()), default=here)
    return Violation(rule.name, client, event, at_seconds, _sentence(rule, client, event, part, piece), piece)


def _sentence(rule: Rule, client: str, event: EventId, part: Trace, piece: Trace) -> str:
    publisher, sequence = event
    got = f"{client} was notified of {publisher} #{sequence}"
    match rule.name:
        case "once":
            return f"{client} was notified again of {publisher} #{sequence}"
        case "published":
            later = event in part.publications()
            return f"{got}, which was {'not yet' if later else 'never'} published"
        case "wanted":
            had = any(type(op) is Cancelled for op in piece)
            return f"{got}, which matches no subscription {'that it still had' if had else 'of it'}"
        case "noticed":
            return f"{got}, which matched nothing that it had given notice of when it was published"
        case "advertised":
            return f"{got}, which {publisher} had not advertised"
        case "within":
            return f"{publisher} published #{sequence}, which it had not advertised"
        case "complete":
            claimed = any(type(op) is LossTold and op[2:4] == event for op in part)
            excuse = ", which is said to be lost, and no limit explains that" if claimed else ""
            return f"{client} was never notified of {publisher} #{sequence}{excuse}"
        case "ordered":
            other = next(op.sequence for op in piece.notifications() if op.sequence != sequence)
            return f"{got} after #{other}"
        case "fresh":
            return f"{got}, which had settled before it subscribed"
    return f"{rule.says}: not so of {', '.join(map(str, filter(None, (client, event))))}"
