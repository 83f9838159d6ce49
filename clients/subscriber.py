"""The state that lets a subscriber continue at another broker when its broker dies, or after its own process has died.

Rules
-----
* A subscriber retains its subscriptions and, per publisher, the last sequence that it was given. At a new
  broker it first sends these marks, and then registers everything again. An event at or below a mark is a
  duplicate and is dropped.
* A durable subscriber also retains its *position*: what it has acknowledged. The position, the subscriptions
  and the incarnation number outlive the process (`record`). When it recovers or moves, it sends its position,
  because it may need events again that it was given and has not acknowledged.
* It also retains where each subscription begins, as the broker that confirmed it first has said: per publisher, the
  last sequence that it is not owed. Wherever it goes, the subscription begins there.
* A subscriber that begins in the past, or is rewound, has a *past*, up to a number of each publisher. It is read from
  the histories of brokers (`past`), before anything later is handed on, and acknowledged apart from the position, which
  no broker needs to know. When the past of a publisher is acknowledged, the position is behind it. A past of which only
  the last event per key is wanted stays until all of it is acknowledged.
* Before it comes to a broker, a subscriber asks what the clock there reads (`approach`), and then says how old its
  subscriptions are. So the broker counts back from a moment of its own clock, however long that was under way.
* What is lost of the past, whoever reads it says. What its broker reports to be lost is what is no longer sent again,
  and of that the past may still be in a history. So reports wait until the past is read, and count behind it.
* A subscription is in force from when a broker has first confirmed it, or has said that local publishers
  satisfy it. A subscription that is in force goes along to another broker. One that is not is requested there
  anew, by whoever waits for it (`request`). A subscription that was admitted says so, and is not judged again.

Pure: a host tells this machine what happens and sends what it returns, over one connection, in order.
`publisher` has the same for publishers, and `link` numbers the messages where brokers do.
Source: docs/decisions/0011-recovery.md, 0015-exactly-once.md and 0218-a-moving-subscriber-reads-the-clock.md.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import replace
from typing import NotRequired, TypedDict

from ..protocol.batch import EventBatch, Rows
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.admission import GuaranteeStatus, Judgement, Refusal
from ..protocol.messages.pubsub import (
    Answers,
    Cancel,
    ClientMessage,
    Consumed,
    HasConsumed,
    HasHad,
    Lost,
    ReadClock,
    Register,
    Resume,
    Unanswered,
)
from ..recovery.replay.rising import rising
from ..routing.filters.filter import Filter


class SubscriberRecord(TypedDict):
    """What outlives the process of a durable subscriber; records of earlier versions lack some of it."""

    life: int  # its incarnation
    position: dict[ClientId, int]
    subscriptions: dict[int, Filter]
    since: float | None
    priorities: NotRequired[dict[int, int]]
    local_first: NotRequired[list[int]]
    begun: NotRequired[dict[int, float]]
    begins: NotRequired[dict[int, Mapping[ClientId, int]]]
    past: NotRequired[Past]


class Past(TypedDict):
    """What a subscriber that begins in the past has not acknowledged of it; the present is in its position.

    `numbers` are the subscriptions that it is of, and nothing is wanted that was published before `since`. `todo` has,
    by publisher, the number up to which it is acknowledged, and its last number; `awaits` the brokers that have not
    said yet what they had when the subscriptions were in force.

    With `last_per`, an attribute, only the last event of each of its values is wanted. Which that is depends on all
    publishers, so a later process reads everything behind `begins` again, and hands on what is not acknowledged.
    """

    numbers: list[int]
    since: float
    todo: dict[ClientId, tuple[int, int]]
    awaits: list[BrokerId]
    last_per: NotRequired[str]
    begins: NotRequired[dict[ClientId, int]]


class SubscriberMachine:
    """One subscriber.

    Parameters
    ----------
    durable
        Whether the broker retains what the subscriber has not acknowledged, also while it is disconnected.

    Attributes
    ----------
    incarnation
        For a durable subscriber, how often it has come to a broker; 0 for one that is not durable.
    marks
        Per publisher, the last sequence that the subscriber was given.
    position
        Per publisher, the last sequence that the subscriber has acknowledged.
    past
        What it has not acknowledged of its past; None if it has begun in the present.
    awaits_past
        Whether its subscriptions are to begin in the past once they are in force (`begin_past`).
    reads_past
        Whether its past has not been read to its end.
    losses
        The losses that were reported to it.
    unconfirmed
        The subscriptions that the present broker has not confirmed.
    last_number
        The highest number that was used for a subscription.
    admitted
        The subscriptions that are known to have been admitted. They are not judged again.
    lacking
        What each subscription lacks at the present broker, as far as it was reported.
    answers
        The publishers that may satisfy each subscription, as reported by the present broker.
    """

    __slots__ = (
        "_begins",
        "_begun",
        "_early_losses",
        "_local_first",
        "_max_delays",
        "_of_past",
        "_past_ends",
        "_past_given",
        "_priorities",
        "_since",
        "_subscriptions",
        "admitted",
        "answers",
        "awaits_past",
        "durable",
        "incarnation",
        "lacking",
        "last_number",
        "losses",
        "marks",
        "past",
        "position",
        "reads_past",
        "unconfirmed",
    )

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.last_number = 0
        self.admitted: set[int] = set()
        self.lacking: dict[int, tuple[Refusal, ...]] = {}
        self.answers: dict[int, Answers] = {}
        self._priorities: dict[int, int] = {}
        self._max_delays: dict[int, float] = {}
        self._local_first: set[int] = set()
        self.incarnation = 0
        self.marks: dict[ClientId, int] = {}
        self.position: dict[ClientId, int] = {}
        self.past: Past | None = None
        self.awaits_past = False
        self._of_past: set[int] = set()  # the subscriptions that begin in the past, or are rewound
        self.reads_past = False
        self._past_ends: dict[ClientId, int] = {}
        self._early_losses: list[Lost] = []  # reported before the past is read
        self._past_given: dict[ClientId, int] = {}  # the last event of each publisher that was found
        self.losses: list[Lost] = []
        self.unconfirmed: set[int] = set()
        self._since: float | None = None
        self._subscriptions: dict[int, Filter] = {}
        self._begun: dict[int, float] = {}
        self._begins: dict[int, Mapping[ClientId, int]] = {}  # of those that were confirmed somewhere

    # Subscriptions.

    def subscribe(
        self,
        number: int,
        wanted: Filter,
        now: float,
        priority: int = 0,
        *,
        local_first: bool = False,
        max_delay: float | None = None,
    ) -> list[ClientMessage]:
        """Return the messages for a new subscription."""
        self._since = now if self._since is None else self._since
        if self._subscriptions.get(number) != wanted:
            self._begun[number] = now
            self._begins.pop(number, None)
        self._subscriptions[number] = wanted
        self.last_number = max(self.last_number, number)
        self.unconfirmed.add(number)
        if priority:
            self._priorities[number] = priority
        if max_delay is not None:
            self._max_delays[number] = max_delay
        if self.awaits_past:
            self._of_past.add(number)
        if local_first:
            self._local_first.add(number)
        else:
            self._local_first.discard(number)
        return [self._register(number, wanted)]

    def set_local_first(self, number: int, local_first: bool) -> list[ClientMessage]:
        """Return the messages that make publishers at its own broker suffice for a subscription, or no longer.

        It keeps its number and what it has had. Turned to every publisher, it is in force for those elsewhere when it
        is confirmed (paper 2, 2.3(1): what local publishers do not satisfy is broadcast). Until then the same call
        asks again. Its broker, which knows it, does not judge it again.
        """
        if number not in self._subscriptions:
            return []
        if (number in self._local_first) == local_first and number not in self.unconfirmed:
            return []
        if local_first:
            self._local_first.add(number)
        else:
            self._local_first.discard(number)
        self.unconfirmed.add(number)
        return self.request([number], awaited=True)

    def cancel(self, number: int) -> list[ClientMessage]:
        """Return the messages for the cancellation of a subscription."""
        if self._subscriptions.pop(number, None) is None:
            return []
        for known in (self.unconfirmed, self.admitted, self._local_first, self._of_past):
            known.discard(number)
        for told in (self._priorities, self._max_delays, self.lacking, self.answers):
            told.pop(number, None)
        self._begun.pop(number, None)
        self._begins.pop(number, None)
        return [Cancel(number)]

    def request(self, numbers: Iterable[int] | None = None, *, awaited: bool = False) -> list[ClientMessage]:
        """Return the messages that repeat requests: for these subscriptions, or all that are not in force.

        With `awaited` they do not say that they were admitted, because a host answers then without waiting.
        """
        wanted = self._subscriptions
        if numbers is None:
            numbers = [number for number in wanted if number not in self._begins]
        registers = [self._register(number, wanted[number]) for number in numbers if number in wanted]
        return [replace(each, admitted=False) for each in registers] if awaited else [*registers]

    def confirmed(self, number: int, begins: Mapping[ClientId, int] | None = None) -> None:
        """Record that a subscription is in force, and was therefore admitted, and where it begins."""
        self.unconfirmed.discard(number)
        if number in self._subscriptions:
            self.admitted.add(number)
            self._begins.setdefault(number, begins or {})

    def answered(self, news: Answers | Unanswered) -> bool:
        """Record which publishers may satisfy a subscription, or that no local one does; return whether it exists.

        A subscription that local publishers satisfy is in force. One that they no longer satisfy is not in
        force until it is confirmed.
        """
        if news.number not in self._subscriptions:
            return False
        if isinstance(news, Answers):
            self.answers[news.number] = news
            if news.here:
                self.confirmed(news.number, news.begins)
        else:
            self.answers.pop(news.number, None)
            self.unconfirmed.add(news.number)
        return True

    @property
    def subscriptions(self) -> dict[int, Filter]:
        """The wanted filters, by number."""
        return dict(self._subscriptions)

    @property
    def in_force(self) -> dict[int, Filter]:
        """The wanted filters that were confirmed at some broker, by number."""
        return {number: wanted for number, wanted in self._subscriptions.items() if number in self._begins}

    # Admission control.

    def judged(self, news: Judgement) -> bool:
        """Record whether a subscription was admitted; return whether it is gone because it was refused."""
        if news.number not in self._subscriptions:
            return False
        if news.admitted:
            self.admitted.add(news.number)
        else:
            self.cancel(news.number)
        return not news.admitted

    def guarantee_changed(self, news: GuaranteeStatus) -> None:
        """Record what a subscription lacks; no refusals mean that it lacks nothing any more."""
        if news.refusals and news.number in self._subscriptions:
            self.lacking[news.number] = news.refusals
        else:
            self.lacking.pop(news.number, None)

    # Notifications.

    def admit(self, batch: EventBatch, rows: Rows) -> Rows:
        """Return those of the rising rows that are new to this subscriber, and record them as given."""
        return rising(batch, rows, self.marks)

    def lost(self, losses: Iterable[Lost], *, of_past: bool = False) -> list[Lost]:
        """Record reported losses; return those that were not known before, with those that had to wait.

        Parameters
        ----------
        losses
            What is lost.
        of_past
            Whether whoever reads the past says so, and not its broker.
        """
        found = list(losses)
        if not of_past:
            found, self._early_losses = [*self._early_losses, *found], []
            if self.awaits_past or self.reads_past:
                self._early_losses = found
                return []
            found = [present for each in found for present in self._of_present(each)]
        news = [each for each in dict.fromkeys(found) if each not in self.losses]
        self.losses += news
        return news

    def _of_present(self, lost: Lost) -> list[Lost]:
        """Return a loss without what is of the past."""
        first = max(lost.first, self._past_ends.get(lost.publisher, 0) + 1)
        return [replace(lost, first=first)] if first <= lost.last else []

    def acknowledge(self, marks: Mapping[ClientId, int] | None = None) -> list[ClientMessage]:
        """Advance the position to `marks`, or to everything given if None; return the messages for the broker."""
        given = self._acknowledge_past(self.marks if marks is None else marks)
        news = {name: mark for name, mark in given.items() if mark > self.position.get(name, 0)}
        if not news:
            return []
        self.position |= news
        return [Consumed(news, self.incarnation)]

    # The past.

    def begin_past(
        self,
        numbers: Iterable[int],
        since: float,
        begins: Mapping[ClientId, int],
        last: Mapping[ClientId, int],
        awaits: Iterable[BrokerId] = (),
        last_per: str | None = None,
    ) -> list[ClientMessage]:
        """Begin subscriptions that are in force in the past; return the messages for the broker.

        Parameters
        ----------
        numbers
            The subscriptions.
        since, begins
            Nothing is wanted that was published before, or has one of these numbers or a lower one.
        last
            The last number of each publisher that any broker knows, asked for since they are in force. So what has a
            higher number arrives by itself.
        awaits
            The brokers that have not said so.
        last_per
            Only the last event of each value of this attribute is wanted; None for all events.
        """
        ends = dict(begins) | {name: max(to, begins.get(name, 0)) for name, to in last.items()}
        for number in numbers:
            for name, known in self._begins.get(number, {}).items():
                ends[name] = max(known, ends.get(name, 0))
        todo = {name: (begins.get(name, 0), to) for name, to in ends.items()}
        self.past = Past(numbers=list(numbers), since=since, todo=todo, awaits=list(awaits))
        self.awaits_past, self.reads_past = False, True
        self._past_ends = dict(ends)
        self._of_past.update(self.past["numbers"])
        if last_per is not None:
            self.past |= {"last_per": last_per, "begins": {name: done for name, (done, _) in todo.items()}}
        self.marks |= {name: done for name, (done, _) in todo.items()}
        return self.acknowledge({name: to for name, (done, to) in todo.items() if done == to})

    def rewind(self, since: float, begins: Mapping[ClientId, int]) -> None:
        """Go back to these numbers where they are lower than what is acknowledged; for the record of a subscriber.

        Every event behind them is wanted then, whatever was wanted of its past before.
        """
        past = self.past or Past(numbers=[], since=since, todo={}, awaits=[])
        todo = {name: (done, to) for name, (done, to) in past["todo"].items() if done < to}
        for name, number in begins.items():
            known = [marks.get(name, 0) for marks in self._begins.values()]
            mark = self.position.get(name, 0)
            last = max([mark, *known])
            if name in todo:
                todo[name] = min(number, todo[name][0]), todo[name][1]
            elif (
                number < last
            ):  # from `mark` on at the latest: what is behind it may still come, and would be too old
                todo[name] = min(number, max(mark, min(known, default=0))), last
        since = min(since, past["since"])
        self.past = Past(numbers=list(self._subscriptions), since=since, todo=todo, awaits=past["awaits"])
        self._of_past.update(self._subscriptions)
        self._expect_past()
        self.marks = self.acknowledged

    def _expect_past(self) -> None:
        """Note up to where the past is to be read, by this process."""
        past = self.past
        self.reads_past = past is not None
        self._past_ends = {} if past is None else {name: to for name, (_, to) in past["todo"].items()}

    def past_answered(self, broker: BrokerId, last: Mapping[ClientId, int]) -> None:
        """Note what a broker has, that was awaited: what it has accepted by now is past."""
        if self.past is None or broker not in self.past["awaits"]:
            return
        todo, begins = dict(self.past["todo"]), dict(self.past.get("begins", {}))
        for name, number in last.items():
            done, to = todo.get(name, (self.position.get(name, 0),) * 2)
            if number > to:
                if name not in todo:
                    begins[name] = done
                todo[name] = done, number
                self._past_ends[name] = number
                self.marks.setdefault(name, done)
        self.past |= {"todo": todo, "awaits": [each for each in self.past["awaits"] if each != broker]}
        if "begins" in self.past:
            self.past |= {"begins": begins}

    def past_read(self, upto: Mapping[ClientId, int], batch: EventBatch | None = None) -> None:
        """Note up to where the past is read, and what was found and is handed on."""
        self.marks |= upto
        if batch is not None:
            for code, name in enumerate(batch.publishers):
                numbers = batch.sequence[batch.publisher == code]
                if len(numbers):
                    self._past_given[name] = int(numbers[-1])

    def acknowledge_past(self) -> list[ClientMessage]:
        """Acknowledge what had nothing that was wanted, or nothing that is not acknowledged, as all is read."""
        self.reads_past = False
        return self.acknowledge({} if self.past is None else dict.fromkeys(self.past["todo"], 0))

    @property
    def acknowledged(self) -> dict[ClientId, int]:
        """Per publisher, the last number that it has acknowledged, in the past or in the present."""
        todo = {} if self.past is None else self.past["todo"]
        return self.position | {name: done for name, (done, to) in todo.items() if done < to}

    def past_filters(self) -> tuple[Filter, ...]:
        """Return the filters of the past, of those subscriptions that were not cancelled."""
        numbers = () if self.past is None else self.past["numbers"]
        return tuple(self._subscriptions[number] for number in numbers if number in self._subscriptions)

    def _acknowledge_past(self, marks: Mapping[ClientId, int]) -> Mapping[ClientId, int]:
        """Note what is acknowledged of the past; return the marks that are for the position."""
        if self.past is None or not self.past["todo"]:
            return marks
        todo, beyond = dict(self.past["todo"]), dict[ClientId, int]()
        for name, mark in marks.items():
            if name not in todo:
                beyond[name] = mark
                continue
            done, to = todo[name]
            if mark >= self._past_given.get(name, 0) or done >= self._past_given.get(name, 0):
                mark = max(mark, min(self.marks.get(name, 0), to))  # nothing that was found is behind it
            todo[name] = min(max(mark, done), to), to
            if mark >= to:
                self._past_given.pop(name, None)
                beyond[name] = mark
        left = {name: (done, to) for name, (done, to) in todo.items() if done < to}
        # Which events are the last ones depends on all publishers: what is left of some has to be read with the others.
        self.past |= {"todo": todo if left and "last_per" in self.past else left}
        return beyond

    def has_had(self) -> HasHad | HasConsumed:
        """Return what the subscriber was given, or if durable what it has acknowledged, for the broker to compare."""
        return (
            HasConsumed(dict(self.position), self.incarnation) if self.durable else HasHad(dict(self.marks))
        )

    # Moves and restarts.

    def approach(self) -> list[ClientMessage]:
        """Return what to ask a broker before the subscriber comes to it: what its clock reads (`ClockReads`).

        Return nothing if none of its subscriptions is in force anywhere: then it can come at once.
        """
        self.unconfirmed = set(self._subscriptions)
        return [ReadClock()] if self._begins else []

    def arrive(
        self,
        now: float,
        away_seconds: float = 0.0,
        incarnation: int = 0,
        clock: float | None = None,
    ) -> list[ClientMessage]:
        """Return the messages for a broker to which the subscriber comes: what it has had, and what is in force.

        Parameters
        ----------
        now
            The time, on the clock that was used for the first subscription.
        away_seconds
            The longest time for which the subscriber may not have heard from its broker.
        incarnation
            The number of its incarnation there, if it is durable.
        clock
            What the broker has answered to `approach`; None if it was not asked.
        """
        self.incarnation = incarnation
        self.unconfirmed = set(self._subscriptions)
        self.lacking.clear()
        self.answers.clear()
        numbers = tuple(self.in_force)
        return [replace(self._resume(now, away_seconds, numbers), clock=clock), *self.request(numbers)]

    def _resume(self, now: float, away_seconds: float, numbers: tuple[int, ...]) -> Resume:
        since = float("inf") if self._since is None else now - self._since
        begun = {number: self._begun.get(number, self._since) for number in numbers}
        ages = {number: float("inf") if at is None else now - at for number, at in begun.items()}
        begins = {number: self._begins[number] for number in numbers}
        if not self.durable:
            return Resume(dict(self.marks), since, away_seconds, ages_seconds=ages, begins=begins)
        return Resume(dict(self.position), since, away_seconds, self.incarnation, numbers, ages, begins)

    def _register(self, number: int, wanted: Filter) -> Register:
        priority, admitted = self._priorities.get(number, 0), number in self.admitted
        local_first, max_delay = number in self._local_first, self._max_delays.get(number)
        return Register(number, wanted, priority, admitted, local_first, max_delay, number in self._of_past)

    def record(self, without: Container[int] = ()) -> SubscriberRecord:
        """Return what must outlive the process of a durable subscriber: what is in force, except for some of it."""
        wanted = {number: item for number, item in self.in_force.items() if number not in without}
        record: SubscriberRecord = {
            "life": self.incarnation,
            "position": dict(self.position),
            "subscriptions": wanted,
            "priorities": {number: self._priorities.get(number, 0) for number in wanted},
            "local_first": [number for number in wanted if number in self._local_first],
            "since": self._since,
            "begun": {number: at for number, at in self._begun.items() if number in wanted},
            "begins": {number: dict(marks) for number, marks in self._begins.items() if number in wanted},
        }
        if self.past is not None:
            record["past"] = self.past
        return record

    def restore(self, record: SubscriberRecord) -> None:
        """Restore what `record` returned."""
        self.incarnation, self._since = record["life"], record["since"]
        self.position, self._subscriptions = dict(record["position"]), dict(record["subscriptions"])
        # Records of earlier versions lack these.
        self._begun = dict(record.get("begun", {}))
        begins = record.get("begins", {})
        self._begins = {number: begins.get(number, {}) for number in self._subscriptions}
        self._priorities = dict(record.get("priorities", {}))
        self._local_first = set(record.get("local_first", ()))
        self.admitted = set(self._subscriptions)  # a subscription is recorded when it is in force
        self.last_number = max(self._subscriptions, default=0)
        self.past = record.get("past")
        self._of_past = set() if self.past is None else self._subscriptions.keys() & self.past["numbers"]
        self._expect_past()
        self.marks = self.acknowledged
