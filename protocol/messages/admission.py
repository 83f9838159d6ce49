"""What admission control says over the network, and what it is told at its start (paper 3).

Rules
-----
* A rate is in events per second. In books and on the wire between brokers it is a whole number of micro-events a
  second, so that what is added can be taken away again to the last digit.
* A broker answers an `Ask` with one `AskAnswer` that stands for everything behind it. An `Ask` with token 0 wants no
  answer: its subscription was admitted before, and the broker has to take it in.
* What was released, withdrawn or asked goes over the links of the tree only, each of which is first in, first out.

Source: paper 3, sections 3.1 (extended advertisements), 4.1 (resources), 4.2 and 4.3 (criteria).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from ..checks import flag, instance, number, one_of, whole_number, wrong
from ..errors import InputError
from ..ids import GROUP, BrokerId, ClientId
from .pubsub import Answers, Unanswered

if TYPE_CHECKING:
    from ...routing.filters.filter import Filter

MICRO: Final = 1_000_000
"""Micro-events in an event."""

CpuCounts: TypeAlias = Literal["events", "copies"]
ShareOf: TypeAlias = Literal["all", "way"]
Estimator: TypeAlias = Literal["paper", "printed", "tight"]
Resource: TypeAlias = Literal["cpu", "bandwidth", "memory"]


@dataclass(frozen=True, slots=True)
class Capacity:
    """What one broker can carry (paper 3, section 4.1).

    Attributes
    ----------
    events_per_second
        Events that it can take in.
    link_events_per_second
        Events that each of its links can carry in one direction.
    links
        The same for the links to some neighbours, where it differs.
    entries
        Advertisements and filters that it can keep.
    """

    events_per_second: float = math.inf
    link_events_per_second: float = math.inf
    links: Mapping[BrokerId, float] = field(default_factory=dict)
    entries: int = 1_000_000

    def link(self, to: BrokerId) -> float:
        """Return the events per second that the link to a neighbour can carry."""
        return self.links.get(to, self.link_events_per_second)

    def validate(self) -> Capacity:
        """Return the capacity itself.

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
        Of the brokers asked, the share that may refuse while the subscription still enters: 0 is the full guarantee,
        0.2 and 0.4 the paper's percentages; None admits everything and only keeps the books.
    estimator
        How the demand of a subscription is estimated: ``"paper"`` (3.4, with a bound that holds), ``"printed"``
        (formula 1 to the letter, under which more may come than was reserved) or ``"tight"``.
    capacity
        Of every broker that is not in `capacities`.
    capacities
        Of single brokers.
    default_rate
        Events per second of a publisher that gives no rate and has no history, if its broker has as many free.
    measure
        Whether hosts measure the CPU capacity of their brokers; then the measured one counts once there is one.
    utilisation_max
        Share of one CPU at which a broker counts as at its limit.
    sample_seconds
        Between two samples of the load (the paper's interval I).
    deadline_seconds
        Events that have waited longer at one broker, for it or for one of its links, are dropped there and counted (the
        paper's 5 s); None keeps all and slows publishers down instead.
    held_events_max, held_bytes_max
        How much of one publisher may wait at its broker because it publishes faster than it advertised; what comes past
        that is refused.
    share_of
        Who is asked where a share above 0 may refuse: ``"all"`` brokers, as in the paper (4.3), or those on the
        ``"way"`` to publishers that the filter meets.
    cpu_counts
        What a broker's events per second are spent on: the ``"events"`` that it takes in, as in the paper, or the
        ``"copies"`` of them that it sends to other brokers as well, one each.
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

    def of(self, broker: BrokerId) -> Capacity:
        """Return the capacity of one broker."""
        return self.capacities.get(broker, self.capacity)

    def validate(self) -> AdmissionConfig:
        """Return the configuration itself.

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
        one_of("share_of", self.share_of, get_args(ShareOf))
        one_of("estimator", self.estimator, get_args(Estimator))
        flag("measure", self.measure)
        for name in ("default_rate", "utilisation_max", "sample_seconds"):
            number(name, getattr(self, name), above=True)
        if self.deadline_seconds is not None:
            number("deadline_seconds", self.deadline_seconds, above=True)
        for name in ("held_events_max", "held_bytes_max"):
            whole_number(name, getattr(self, name), 1)
        instance("capacity", self.capacity, Capacity, "a Capacity()").validate()
        by_broker = instance("capacities", self.capacities, Mapping, "a mapping from broker to Capacity()")
        for broker, capacity in by_broker.items():
            instance(f"capacities[{broker!r}]", capacity, Capacity, "a Capacity()").validate()
        return self


def required(config: AdmissionConfig | None) -> AdmissionConfig:
    """Return what a network admits by, for what makes sense only with that.

    Raises
    ------
    InputError
        If it has no admission control.
    """
    if config is None:
        raise InputError("this network has no admission control: launch it with admission=AdmissionConfig()")
    return config


@dataclass(frozen=True, slots=True)
class Refusal:
    """A broker cannot carry a subscription: which resource, what was asked, and what was free.

    `asked` and `free` are events per second for ``"cpu"`` and ``"bandwidth"``, entries for ``"memory"``; `link` is the
    neighbour at the other end for ``"bandwidth"``, or `GROUP` for what is multicast.
    """

    broker: BrokerId
    resource: Resource
    asked: float
    free: float
    link: BrokerId | None = None

    def __str__(self) -> str:
        """Return it for people."""
        to = "its cluster" if self.link == GROUP else f"broker {self.link}"
        where = f"broker {self.broker}" + ("" if self.link is None else f" to {to}")
        unit = "entries" if self.resource == "memory" else "events/s"
        return f"{where}: {self.resource}: asked {self.asked:.6g} {unit}, free {self.free:.6g}"


# From clients.


@dataclass(frozen=True, slots=True)
class Advertise:
    """A publisher will publish events of this filter, at most `rate` micro-events a second.

    Said again at another broker it has a higher `version`: the last word counts. Without admission control no rate is
    looked at. One that is a `default`, since the publisher gave none, is cut to what its broker has free.
    """

    number: int
    filter: Filter
    rate: int
    version: int = 0
    default: bool = False


@dataclass(frozen=True, slots=True)
class Unadvertise:
    """A publisher withdraws an advertisement: as it was said up to a `version`, or, without one, whatever was said.

    One that has been said again since, by a publisher that is back, stays: what is late withdraws nothing newer.
    """

    number: int
    version: int | None = None


@dataclass(frozen=True, slots=True)
class WouldAdmit:
    """A client asks whether a subscription would be admitted, without subscribing."""

    number: int
    filter: Filter
    priority: int = 0


@dataclass(frozen=True, slots=True)
class CapacityMeasured:
    """How many events per second a broker can take in, as its host has measured; members tell who speaks for them."""

    events_per_second: float


# Between brokers.


@dataclass(frozen=True, slots=True)
class Advertised:
    """An advertisement on its way to every broker; `KnownBehind` with the token comes back when it is everywhere.

    `path` has the brokers that it came through, the publisher's first.
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
    """The answer to `Advertised`: everybody behind the sender knows it and has told what it wants."""

    token: int


@dataclass(frozen=True, slots=True)
class Unadvertised:
    """An advertisement is withdrawn."""

    publisher: ClientId
    number: int


@dataclass(frozen=True, slots=True)
class Ask:
    """The sender wants the events of a filter; may it? A dry one reserves nothing."""

    filter: Filter
    priority: int
    token: int
    dry: bool = False


@dataclass(frozen=True, slots=True)
class AskAnswer:
    """The answer to an `Ask`: how many brokers were asked, and who refuses, and why."""

    token: int
    asked: int
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Release:
    """The sender no longer wants the events of a filter."""

    filter: Filter


@dataclass(frozen=True, slots=True)
class Degraded:
    """A broker cannot carry a filter any more that it had taken in; without refusals, it can again."""

    filter: Filter
    broker: BrokerId
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Greeting:
    """All advertisements that the sender knows, over a link that is new; who is asked to answers with its own."""

    advertisements: tuple[Advertised, ...]
    answer: bool


AdmissionMessage: TypeAlias = (
    Advertised
    | KnownBehind
    | Unadvertised
    | Ask
    | AskAnswer
    | Release
    | Degraded
    | Greeting
    | CapacityMeasured
)
AdmissionRequest: TypeAlias = Advertise | Unadvertise | WouldAdmit | CapacityMeasured


# To clients.


@dataclass(frozen=True, slots=True)
class Judgement:
    """Whether a subscription was admitted, or would be; of how many brokers asked, and who refused."""

    number: int
    admitted: bool
    asked: int
    refusals: tuple[Refusal, ...]
    dry: bool = False


@dataclass(frozen=True, slots=True)
class Standing:
    """What keeps an admitted subscription from what it was promised; empty when nothing does any more."""

    number: int
    refusals: tuple[Refusal, ...]


@dataclass(frozen=True, slots=True)
class Everywhere:
    """An advertisement is known everywhere, and what is wanted of it is known to the publisher's broker."""

    number: int


@dataclass(frozen=True, slots=True)
class HeldBack:
    """Events of a publisher, up to that number, came faster than it advertised; the first pass in so many seconds."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class LetIn:
    """Events that were held back have passed, up to that number; the next, if any wait, pass after so many seconds."""

    number: int
    seconds: float


@dataclass(frozen=True, slots=True)
class OverQuota:
    """So many events of a publisher, up to that number, are refused: too much of it waits already."""

    number: int
    events: int
    reason: str


News: TypeAlias = Judgement | Standing | Everywhere | HeldBack | LetIn | OverQuota | Answers | Unanswered
