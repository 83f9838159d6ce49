"""Messages and configuration of admission control (paper 3).

Rules
-----
* A rate is in events per second. In the books and on the wire between brokers it is a whole number of micro-events
  per second, so that additions can be undone exactly.
* A broker answers an `Ask` with one `AskAnswer` for all brokers behind it. An `Ask` with token 0 needs no answer: its
  subscription was admitted before, and the broker must accept it.
* Releases, withdrawals and requests travel only over the links of the tree, each of which is first in, first out.

Source: paper 3, sections 3.1 (extended advertisements), 4.1 (resources), 4.2 and 4.3 (criteria).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from ..batch import EventBatch
from ..checks import flag, instance, number, one_of, whole_number, wrong
from ..errors import InputError
from ..ids import GROUP, BrokerId, ClientId
from .pubsub import Answers, Cancel, ClockReads, Detach, Register, Unanswered

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter

MICRO: Final = 1_000_000
"""The number of micro-events in an event."""

Adds: TypeAlias = Literal["union", "sum"]
CpuCounts: TypeAlias = Literal["events", "copies"]
UntilMeasured: TypeAlias = Literal["configured", "zero"]
ShareOf: TypeAlias = Literal["all", "way"]
Estimator: TypeAlias = Literal["paper", "printed", "tight", "measured"]
Resource: TypeAlias = Literal["cpu", "bandwidth", "memory", "delay"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one broker can carry (paper 3, section 4.1).

    Attributes
    ----------
    events_per_second
        The events per second that it can receive.
    link_events_per_second
        The events per second that each of its links can carry in one direction.
    links
        The same for the links to certain neighbours, where it differs.
    entries
        The advertisements and filters that it can store.
    """

    events_per_second: float = math.inf
    link_events_per_second: float = math.inf
    links: Mapping[BrokerId, float] = field(default_factory=dict)
    entries: int = 1_000_000

    def link(self, to: BrokerId) -> float:
        """Return the events per second that the link to a neighbour can carry."""
        return self.links.get(to, self.link_events_per_second)

    def validate(self) -> Capacity:
        """Validate the capacity and return it.

        Raises
        ------
        InputError
            If a value is no number above 0.
        """
        for name in ("events_per_second", "link_events_per_second"):
            number(f"capacity {name}", getattr(self, name), above=True, infinite=True)
        for broker, rate in instance(
            "capacity links", self.links, Mapping, "a mapping from broker to rate"
        ).items():
            number(f"capacity links[{broker!r}]", rate, above=True, infinite=True)
        whole_number("capacity entries", self.entries, 1)
        return self


@dataclass(frozen=True, slots=True)
class AdmissionConfig:
    """How a network admits subscriptions.

    Attributes
    ----------
    refusing_share_max
        The share of the asked brokers that may refuse a subscription that is still admitted. 0 is the full
        guarantee, 0.2 and 0.4 are the paper's percentages; None admits everything and only keeps the books.
    estimator
        How the demand of a subscription is estimated: ``"paper"`` (3.4, with a correct upper bound),
        ``"printed"`` (formula 1 to the letter, under which more events may arrive than were reserved),
        ``"tight"``, or ``"measured"``: of what publishers advertise, the part that a sample of their events shows to
        be wanted, and everything until there is one.
    capacity
        The capacity of every broker that is not in `capacities`.
    capacities
        The capacities of single brokers.
    default_rate
        The rate, in events per second, of a publisher that gives no rate and has no history, if its broker has
        that much free.
    measure
        Whether hosts measure the CPU capacity of their brokers. If so, a measured capacity replaces the configured
        one.
    utilisation_max
        The share of one CPU at which a broker counts as at its limit.
    sample_seconds
        The time between two samples of the load (the paper's interval I).
    deadline_seconds
        Events that have waited longer at one broker, for the broker or for one of its links, are dropped there
        and counted (the paper's 5 s). None drops nothing and slows publishers down instead.
    held_events_max, held_bytes_max
        How much of one publisher may wait at its broker because the publisher exceeds its advertised rate; events
        past this limit are refused.
    share_of
        Which brokers are asked where a share above 0 may refuse: ``"all"`` brokers, as in the paper (4.3), or
        those on the ``"way"`` to publishers whose advertisements overlap the filter.
    cpu_counts
        What a broker's events per second count: the ``"events"`` that it receives, as in the paper, or also the
        ``"copies"`` that it sends to other brokers, one each.
    books
        How reservations add up: ``"union"`` reserves an advertisement once on a link, however many filters meet it, as
        events are sent once; ``"sum"`` reserves it for each of them, as 4.2 is printed.
    until_measured
        The CPU capacity of a broker until it is measured: as ``"configured"``, or ``"zero"``, the paper's initial value
        (4.1).
    delay_window_seconds
        For how long a broker remembers how long events have waited there, so that it can refuse a subscription whose
        events may not wait so long (`max_delay`). None: waits are not measured.
    priority_shares
        Up to which share of each capacity subscriptions of a priority, and of those up to the next one named, are
        admitted: ``{0: 0.6, 5: 1.0}`` keeps two fifths free for priorities from 5 on. Those below the lowest named
        have its share. Empty: priorities decide nothing here.
    """

    refusing_share_max: float | None = 0.0
    estimator: Estimator = "paper"
    capacity: Capacity = Capacity()
    capacities: Mapping[BrokerId, Capacity] = field(default_factory=dict)
    default_rate: float = 100.0
    measure: bool = False
    utilisation_max: float = 0.8
    sample_seconds: float = 1.0
    deadline_seconds: float | None = None
    held_events_max: int = 10_000
    held_bytes_max: int = 16 * 2**20
    share_of: ShareOf = "all"
    cpu_counts: CpuCounts = "events"
    books: Adds = "union"
    until_measured: UntilMeasured = "configured"
    delay_window_seconds: float | None = None
    priority_shares: Mapping[int, float] = field(default_factory=dict)

    def share_for(self, priority: int) -> float:
        """Return up to which share of a capacity subscriptions of a priority are admitted."""
        named = sorted(self.priority_shares)
        if not named:
            return 1.0
        return self.priority_shares[max((each for each in named if each <= priority), default=named[0])]

    def of(self, broker: BrokerId) -> Capacity:
        """Return the capacity of one broker, as long as it is not measured."""
        capacity = self.capacities.get(broker, self.capacity)
        return replace(capacity, events_per_second=0.0) if self.until_measured == "zero" else capacity

    def validate(self) -> AdmissionConfig:
        """Validate the configuration and return it.

        Raises
        ------
        InputError
            If a value is out of range.
        """
        if (
            self.refusing_share_max is not None
            and not number("refusing_share_max", self.refusing_share_max) < 1
        ):
            raise wrong("refusing_share_max", self.refusing_share_max, "from 0 to below 1, or None")
        one_of("cpu_counts", self.cpu_counts, get_args(CpuCounts))
        one_of("books", self.books, get_args(Adds))
        one_of("share_of", self.share_of, get_args(ShareOf))
        one_of("until_measured", self.until_measured, get_args(UntilMeasured))
        if self.until_measured == "zero" and not self.measure:
            raise InputError("until_measured 'zero' needs measure=True: nothing else would ever raise it")
        one_of("estimator", self.estimator, get_args(Estimator))
        flag("measure", self.measure)
        for name in ("default_rate", "utilisation_max", "sample_seconds"):
            number(name, getattr(self, name), above=True)
        for name in ("deadline_seconds", "delay_window_seconds"):
            if getattr(self, name) is not None:
                number(name, getattr(self, name), above=True)
        for name in ("held_events_max", "held_bytes_max"):
            whole_number(name, getattr(self, name), 1)
        self._check_priority_shares()
        instance("capacity", self.capacity, Capacity, "a Capacity()").validate()
        by_broker = instance("capacities", self.capacities, Mapping, "a mapping from broker to Capacity()")
        for broker, capacity in by_broker.items():
            instance(f"capacities[{broker!r}]", capacity, Capacity, "a Capacity()").validate()
        return self

    def _check_priority_shares(self) -> None:
        shares = instance(
            "priority_shares",
            self.priority_shares,
            Mapping,
            "a mapping from priority to share, {0: 0.6, 5: 1.0}",
        )
        before = 0.0
        for priority in sorted(whole_number("a priority of priority_shares", each) for each in shares):
            share = number(f"priority_shares[{priority}]", shares[priority], above=True)
            if share > 1 or share < before:
                raise wrong(
                    f"priority_shares[{priority}]",
                    share,
                    "at most 1, and no less than that of a lower priority",
                )
            before = share


def required(config: AdmissionConfig | None) -> AdmissionConfig:
    """Return the admission configuration of a network, for features that require it.

    Raises
    ------
    InputError
        If the network has no admission control.
    """
    if config is None:
        raise InputError("this network has no admission control: launch it with admission=AdmissionConfig()")
    return config


def delay_asked(config: AdmissionConfig | None, max_delay: object) -> float | None:
    """Return how long the events of a subscription may wait, in seconds; None for any time.

    Raises
    ------
    InputError
        If it is no number from 0, or the network does not measure delays.
    """
    if max_delay is None:
        return None
    seconds = number("max_delay", max_delay)
    if config is None or config.delay_window_seconds is None:
        raise InputError(
            "max_delay needs brokers that measure how long events wait: launch the network with "
            "admission=AdmissionConfig(delay_window_seconds=10)"
        )
    return seconds


@dataclass(frozen=True, slots=True)
class Refusal:
    """A broker cannot carry a subscription: the resource, the amount requested, and the amount free.

    `asked` and `free` are events per second for ``"cpu"`` and ``"bandwidth"``, entries for ``"memory"``; `link`
    is the neighbour at the other end for ``"bandwidth"``, or `GROUP` for multicasts. For ``"delay"`` they are the
    seconds that events wait there, on their way to `link` if that is not None, and those that they may still wait.
    """

    broker: BrokerId
    resource: Resource
    asked: float
    free: float
    link: BrokerId | None = None

    def __str__(self) -> str:
        """Return a human-readable description."""
        to = "its cluster" if self.link == GROUP else f"broker {self.link}"
        where = f"broker {self.broker}" + ("" if self.link is None else f" to {to}")
        if self.resource == "delay":
            return f"{where}: delay: events wait {self.asked:.3g} s, and may wait {self.free:.3g} s"
        unit = "entries" if self.resource == "memory" else "events/s"
        return f"{where}: {self.resource}: asked {self.asked:.6g} {unit}, free {self.free:.6g}"


# From clients.


@dataclass(frozen=True, slots=True)
class Advertise:
    """A publisher will publish events of this filter, at most `rate` micro-events per second.

    Repeated at another broker, it has a higher `version`; the highest version counts. Without admission control
    the rate is ignored. A `default` rate, used when the publisher gave none, is reduced to what its broker has
    free.
    """

    number: int
    filter: Filter
    rate: int
    version: int = 0
    default: bool = False


@dataclass(frozen=True, slots=True)
class Unadvertise:
    """A publisher withdraws an advertisement up to a `version`, or, without one, in any version.

    An advertisement that a returning publisher has since repeated stays: a late withdrawal removes nothing newer.
    """

    number: int
    version: int | None = None


@dataclass(frozen=True, slots=True)
class WouldAdmit:
    """A client asks whether a subscription would be admitted, without subscribing."""

    number: int
    filter: Filter
    priority: int = 0
    max_delay: float | None = None


@dataclass(frozen=True, slots=True)
class DelaysMeasured:
    """How long events have waited lately, in seconds: for this broker, and for each of its links (`GROUP` for one).

    A host tells its broker before each message of admission control; `at` is when, by any clock.
    """

    at: float
    here: float
    links: Mapping[BrokerId, float] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class CapacityMeasured:
    """The measured events per second that a broker can receive; members send it to the designated broker."""

    events_per_second: float


# Between brokers.


@dataclass(frozen=True, slots=True)
class Advertised:
    """An advertisement in transit to every broker; `KnownBehind` with the token returns when all brokers have it.

    `path` has the brokers that it passed through, the publisher's broker first.
    """

    publisher: ClientId
    number: int
    filter: Filter
    rate: int
    token: int
    path: tuple[BrokerId, ...]
    version: int = 0


@dataclass(frozen=True, slots=True)
class KnownBehind:
    """The answer to `Advertised`: every broker behind the sender has it and has reported what it wants."""

    token: int


@dataclass(frozen=True, slots=True)
class Unadvertised:
    """An advertisement is withdrawn.

    `high_water` is as in `Installed`: nobody below is asked any more because of this publisher.
    """

    publisher: ClientId
    number: int
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Sample:
    """A sample of the events of an advertisement, on the same paths as the advertisement.

    `path` has the brokers that it passed through, the publisher's broker first.
    """

    publisher: ClientId
    number: int
    events: EventBatch
    path: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class Ask:
    """Ask whether the sender may receive the events of a filter; a dry request reserves nothing.

    With `max_delay` it asks something else: whether these events wait no longer than so many seconds until the sender
    has them, and, unless it is dry, that they go on to.
    """

    filter: Filter
    priority: int
    token: int
    dry: bool = False
    max_delay: float | None = None


@dataclass(frozen=True, slots=True)
class AskAnswer:
    """The answer to an `Ask`: the number of brokers asked, and the refusals with their reasons.

    `high_water` is as in `Installed`.
    """

    token: int
    asked: int
    refusals: tuple[Refusal, ...]
    high_water: Mapping[ClientId, int] = field(default_factory=dict, hash=False)


@dataclass(frozen=True, slots=True)
class Release:
    """The sender no longer wants the events of a filter."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Degraded:
    """A broker can no longer carry a filter that it had accepted; without refusals, it can again."""

    filter: Filter
    broker: BrokerId
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Greeting:
    """All advertisements that the sender knows, over a new link; with `answer` the receiver replies with its own."""

    advertisements: tuple[Advertised, ...]
    answer: bool


AdmissionMessage: TypeAlias = (
    Advertised
    | KnownBehind
    | Sample
    | Unadvertised
    | Ask
    | AskAnswer
    | Release
    | Degraded
    | Greeting
    | CapacityMeasured
    | DelaysMeasured
)
AdmissionRequest: TypeAlias = Advertise | Unadvertise | WouldAdmit | CapacityMeasured


CONCERNS_ADMISSION: Final = (
    Register,
    Cancel,
    Detach,
    *get_args(AdmissionMessage),
    *get_args(AdmissionRequest),
)
"""What may change the books of a broker, or asks for them."""


# To clients.


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a subscription was, or would be, admitted; the number of brokers asked, and the refusals."""

    number: int
    admitted: bool
    asked: int
    refusals: tuple[Refusal, ...]
    dry: bool = False


@dataclass(frozen=True, slots=True)
class GuaranteeStatus:
    """The refusals that keep an admitted subscription from its guarantee; empty when the guarantee holds again."""

    number: int
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """Every broker knows an advertisement, and the publisher's broker knows which of its events are wanted."""

    number: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Events of a publisher, up to this number, exceed its advertised rate; the first pass after `seconds`."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LetIn:
    """Events that were held back have passed, up to this number; the next, if any wait, pass after `seconds`."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class OverQuota:
    """Refuse so many events of a publisher, up to this number: too many of its events already wait."""

    number: int
    events: int
    reason: str


News: TypeAlias = (
    Judgement
    | GuaranteeStatus
    | Everywhere
    | HeldBack
    | LetIn
    | OverQuota
    | Answers
    | Unanswered
    | ClockReads
)
