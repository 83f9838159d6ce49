"""A model of paper 3's network for its experiment: a graph of brokers with a spanning tree for each publisher's broker.

It is **no scheme** of this project, and no broker machine runs in it. Under every scheme with admission control the
link of arrival decides where an event may go on (decision 0023), which trees that differ by source do not allow. So
this model has the paper's rules alone, with the demand of `admission.demand` and the deadline of `admission.waiting`.
Where the graph is a tree its verdicts are those of the simulator, which a test compares.

Rules
-----
* An advertisement follows the tree of shortest paths from its publisher's broker, and so do its events, as far as
  somebody wants them (3.2, 3.3). A subscription is asked for along these trees in the opposite direction.
* What was admitted is reserved once for each advertisement (``"union"``), or once for each subscription that meets it,
  as 4.2 adds rates (``"sum"``). The use of a broker is the sum over all trees.
* Who judges (0033 leaves both open): all brokers, each by its whole advertisement tree, in which it does not see
  whether it is on the way (3.4, 4.2), beside what leads over it already; or those on the way by what would come.
* A request is diffused to all brokers, and each keeps an entry for what was admitted (3.4, 4.3).
* Announcements and verdicts take no time. A broker takes in the events of one step of a publisher one after the other,
  and a link sends them so; what would wait longer than the deadline is dropped. What an event is wanted by is decided
  when it is published.

Source: paper 3, sections 3.2 to 3.4, 4.2, 4.3 and 5.1.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..admission.advertisements import AdvertisementDag
from ..admission.columns import FilterColumns
from ..admission.demand import demand
from ..admission.waiting import too_long
from ..protocol.ids import BrokerId, ClientId
from ..protocol.messages.admission import MICRO, AdmissionConfig, Judgement
from ..routing.filters.covering import covers
from ..routing.filters.filter import Filter
from ..routing.language.questions import to_filter
from ..routing.topologies.random_graph import RandomGraph

Mask: TypeAlias = npt.NDArray[np.bool_]
Numbers: TypeAlias = npt.NDArray[np.int64]
Free: TypeAlias = npt.NDArray[np.float64]

NOWHERE: Final = -1


class Paths:
    """The paths of shortest length from each broker to each other one, as arrays.

    Parameters
    ----------
    graph
        The brokers, numbered from 0, and their links.

    Attributes
    ----------
    links
        The directed links, in rising order.
    over
        ``[source, to, broker]``: the number of the link over which a broker sends on; `NOWHERE` off the path, and
        ``len(links)`` at its end.
    """

    def __init__(self, graph: RandomGraph) -> None:
        size = len(graph.links)
        self.links = [(one, other) for one in range(size) for other in graph.beside(one)]
        number = {link: place for place, link in enumerate(self.links)}
        self.over: Numbers = np.full((size, size, size), NOWHERE, np.int64)
        for source in range(size):
            tree = graph.tree(source)
            self.over[source, source, source] = len(self.links)
            todo = [source]
            for here in todo:
                for each in tree[here]:
                    self.over[source, each] = self.over[source, here]
                    self.over[source, each, here] = number[here, each]
                    self.over[source, each, each] = len(self.links)
                    todo.append(each)

    def tree(self, source: BrokerId, wanting: Sequence[BrokerId]) -> dict[BrokerId, list[int]]:
        """Return the links over which each broker sends an event on, by broker."""
        out: dict[BrokerId, list[int]] = {}
        for here, link in zip(*np.nonzero(self._used(source, wanting)), strict=True):
            out.setdefault(int(here), []).append(int(link))
        return out

    def _used(self, source: BrokerId, wanting: Sequence[BrokerId]) -> Mask:
        used = np.zeros((len(self.over), len(self.links)), np.bool_)
        for to in wanting:
            over = self.over[source, to]
            here = np.flatnonzero((over != NOWHERE) & (over < len(self.links)))
            used[here, over[here]] = True
        return used


@dataclass(slots=True)
class _Advert:
    """An advertisement, and how many subscriptions that meet it lead its events over each broker and link."""

    filter: Filter
    rate: int
    home: BrokerId
    slot: int
    through: Numbers
    across: Numbers


@dataclass(slots=True)
class _Wanted:
    """An admitted subscription."""

    filter: Filter
    home: BrokerId


class _Batch(NamedTuple):
    """Equal events on their way, and the clients that each broker notifies of them."""

    events: int
    onward: Mapping[BrokerId, Sequence[int]]
    clients: Counter[BrokerId]


class GraphNetwork:
    """The brokers of a graph, their queues, and the verdicts of admission control.

    Parameters
    ----------
    graph
        The brokers, numbered from 0, and their links.
    config
        The criterion and the capacities; `refusing_share_max`, `share_of`, `books`, `estimator` and `cpu_counts` count.
    deadline_seconds
        How long events may wait at one place.

    Attributes
    ----------
    now, notified
        The time in seconds, and the notifications so far.
    dropped, worked, sent
        As of `simulator.overload.Queues`.
    """

    def __init__(
        self,
        graph: RandomGraph,
        config: AdmissionConfig,
        deadline_seconds: float,
    ) -> None:
        self.now, self.notified = 0.0, 0
        self.dropped: dict[str, Counter[BrokerId]] = {"cpu": Counter(), "bandwidth": Counter()}
        self.worked: Counter[BrokerId] = Counter()
        self.sent: Counter[tuple[BrokerId, BrokerId]] = Counter()
        self.paths = Paths(graph)
        self._config, self._deadline = config, deadline_seconds
        self._cpu = np.array([config.of(broker).events_per_second for broker in range(len(graph.links))])
        self._bandwidth = np.array([config.of(one).link(other) for one, other in self.paths.links])
        self._entries = np.array([config.of(broker).entries for broker in range(len(graph.links))])
        self._dag = AdvertisementDag()
        self._adverts: dict[tuple[ClientId, int], _Advert] = {}
        self._wanted: dict[tuple[ClientId, int], _Wanted] = {}
        self._columns, self._users = FilterColumns(), Counter[Filter]()
        self._news: dict[ClientId, list[Judgement]] = {}
        self._numbers = count(1)
        self._onward: dict[tuple[BrokerId, tuple[object, ...]], _Batch] = {}
        self._due: list[tuple[float, int, bool, BrokerId, _Batch]] = []
        self._cpu_free_at = np.zeros(len(self._cpu)).tolist()
        self._link_free_at = np.zeros(len(self._bandwidth)).tolist()

    # Clients.

    def advertise(self, client: ClientId, home: BrokerId, item: Filter, rate: float, number: int) -> None:
        """Make an advertisement known to all brokers."""
        micros = round(rate * MICRO)
        slot, _ = self._dag.add(item, home, micros)
        advert = _Advert(
            item,
            micros,
            home,
            slot,
            np.zeros(len(self._cpu), np.int64),
            np.zeros(len(self._bandwidth) + 1, np.int64),
        )
        self._adverts[client, number] = advert
        meets = self._columns.relations(item).meets
        for wanted in self._wanted.values():
            if meets[self._columns.slot(wanted.filter)]:
                self._lead(advert, wanted, 1)

    def unadvertise(self, client: ClientId, number: int) -> None:
        """Withdraw an advertisement."""
        advert = self._adverts.pop((client, number))
        self._dag.remove(advert.filter, advert.home, advert.rate)

    def publish(self, client: ClientId, home: BrokerId, events: Sequence[Mapping[str, object]]) -> None:
        """Publish events that are equal to each other."""
        key = home, tuple(events[0].items())
        if key not in self._onward:
            matching = Counter(each.home for each in self._wanted.values() if each.filter.matches(events[0]))
            self._onward[key] = _Batch(0, self.paths.tree(home, list(matching)), matching)
        self._at(self.now, home, self._onward[key]._replace(events=len(events)), served=False)

    def subscribe(self, client: ClientId, home: BrokerId, given: Filter) -> int:
        """Judge a subscription, and return its number; the verdict is among the client's `news`."""
        number, item = next(self._numbers), to_filter(given)
        share = self._config.refusing_share_max
        asked, refusing = self._judged(item, home)
        admitted = share is None or refusing <= share * asked
        if admitted:
            self._wanted[client, number] = wanted = _Wanted(item, home)
            self._users[item] += 1
            if self._users[item] == 1:
                self._columns.insert(item)
            self._led(wanted, 1)
        self._news.setdefault(client, []).append(Judgement(number, admitted, asked, ()))
        return number

    def unsubscribe(self, client: ClientId, number: int) -> None:
        """Cancel an admitted subscription."""
        wanted = self._wanted.pop((client, number))
        self._users[wanted.filter] -= 1
        if not self._users[wanted.filter]:
            del self._users[wanted.filter]
            self._columns.remove(wanted.filter)
        self._led(wanted, -1)

    def news(self, client: ClientId) -> list[Judgement]:
        """Return the verdicts on a client's subscriptions, the oldest first."""
        return self._news.get(client, [])

    # Admission control.

    def _led(self, wanted: _Wanted, change: int) -> None:
        self._onward.clear()
        for advert in self._adverts.values():
            if self._meets(advert, wanted.filter):
                self._lead(advert, wanted, change)

    def _meets(self, advert: _Advert, item: Filter) -> bool:
        return bool(self._dag.relations(item).meets[advert.slot])

    def _lead(self, advert: _Advert, wanted: _Wanted, change: int) -> None:
        """Count a subscription along the path from an advertisement that it meets."""
        over = self.paths.over[advert.home, wanted.home]
        advert.through[over != NOWHERE] += change
        advert.across[over[over != NOWHERE]] += change

    def reserved(self) -> tuple[Numbers, Numbers]:
        """Return what is reserved at each broker, and on each link, in micro-events a second."""
        cpu = np.zeros(len(self._cpu), np.int64)
        bandwidth = np.zeros(len(self._bandwidth), np.int64)
        for advert in self._adverts.values():
            through, across = advert.through, advert.across[:-1]
            if self._config.books == "union":
                through, across = np.minimum(through, 1), np.minimum(across, 1)
                through[advert.home] = 1  # its publisher's events come, wanted or not
            cpu += advert.rate * through
            bandwidth += advert.rate * across
        return cpu, bandwidth

    def _judged(self, item: Filter, home: BrokerId) -> tuple[int, int]:
        """Return how many brokers are asked for a filter, and how many of them refuse."""
        judges = self._config.refusing_share_max is not None
        cpu, bandwidth = self.reserved()
        free = np.maximum(0, self._cpu * MICRO - cpu), np.maximum(0, self._bandwidth * MICRO - bandwidth)
        if judges and self._config.share_of == "all":
            refusing = self._all_refusing(item, *free)
            return len(cpu), int(refusing.sum())
        met = sorted({advert.home for advert in self._adverts.values() if self._meets(advert, item)})
        way = (self.paths.over[met, home] != NOWHERE).any(axis=0)
        way[home] = True
        asked = np.flatnonzero(way).tolist()
        return len(asked), sum(judges and self._refuses(broker, item, home, *free) for broker in asked)

    def _all_refusing(self, item: Filter, cpu: Free, bandwidth: Free) -> Mask:
        """Return which brokers refuse a filter, if each compares its whole advertisement tree with what it has free."""
        most = demand(self._dag, item, self._config.estimator).rate_max
        refusing: Mask = most > cpu
        for link in np.flatnonzero(most > bandwidth).tolist():
            refusing[self.paths.links[link][0]] = True
        return refusing

    def _refuses(self, broker: BrokerId, item: Filter, home: BrokerId, cpu: Free, bandwidth: Free) -> bool:
        """Return whether a broker on the way refuses a filter, by the advertisements that lead over it."""
        homes = sorted({advert.home for advert in self._adverts.values()})
        over = self.paths.over[homes, home, broker]
        if self._covered(item, home, homes, broker):
            return False
        union = self._config.books == "union"  # where a publisher's events are taken in anyway
        coming = [
            each
            for each, link in zip(homes, over, strict=True)
            if link != NOWHERE and not (union and each == broker)
        ]
        if self._demand(item, homes, coming) > cpu[broker]:
            return True
        for link in sorted(set(over.tolist()) - {NOWHERE, len(bandwidth)}):
            leaving = [each for each, taken in zip(homes, over, strict=True) if taken == link]
            if self._demand(item, homes, leaving) > bandwidth[link]:
                return True
        return False

    def _demand(self, item: Filter, homes: Sequence[BrokerId], of: Sequence[BrokerId]) -> int:
        without = set(homes) - set(of)
        return demand(self._dag, item, self._config.estimator, without).rate_max

    def _covered(self, item: Filter, home: BrokerId, homes: Sequence[BrokerId], broker: BrokerId) -> bool:
        """Return whether all that a filter wants of a broker goes the same way already, for one that covers it."""
        mine = self.paths.over[homes, home, broker]
        return self._config.books == "union" and any(
            bool(((mine == NOWHERE) | (mine == self.paths.over[homes, other.home, broker])).all())
            for other in self._wanted.values()
            if covers(other.filter, item)
        )

    def used_entries(self) -> float:
        """Return the mean share of their entries that brokers use."""
        return float(((len(self._adverts) + len(self._wanted)) / self._entries).mean())

    # Events.

    def advance(self, seconds: float) -> None:
        """Let time pass."""
        end = self.now + seconds
        while self._due and self._due[0][0] <= end:
            self.now, _, served, broker, batch = heapq.heappop(self._due)
            (self._send_on if served else self._take_in)(broker, batch)
        self.now = end

    def _at(self, time: float, broker: BrokerId, batch: _Batch, *, served: bool) -> None:
        heapq.heappush(self._due, (time, next(self._numbers), served, broker, batch))

    def _take_in(self, broker: BrokerId, batch: _Batch) -> None:
        start = max(self.now, self._cpu_free_at[broker])
        if too_long(self.now, start, self._deadline):
            self.dropped["cpu"][broker] += batch.events
            return
        self._cpu_free_at[broker] = done = start + batch.events / self._cpu[broker]
        self._at(done, broker, batch, served=True)

    def _send_on(self, broker: BrokerId, batch: _Batch) -> None:
        self.worked[broker] += batch.events
        self.notified += batch.events * batch.clients[broker]
        for link in batch.onward.get(broker, ()):
            start = max(self.now, self._link_free_at[link])
            if too_long(self.now, start, self._deadline):
                self.dropped["bandwidth"][broker] += batch.events
                continue
            self._link_free_at[link] = done = start + batch.events / self._bandwidth[link]
            self.sent[self.paths.links[link]] += batch.events
            if self._config.cpu_counts == "copies":
                self.worked[broker] += batch.events
                busy = max(self.now, self._cpu_free_at[broker])
                self._cpu_free_at[broker] = busy + batch.events / self._cpu[broker]
            self._at(done, self.paths.links[link][1], batch, served=False)

    def dropped_events(self) -> dict[str, int]:
        """Return how many events were dropped so far, by the resource that they waited for."""
        return {resource: counts.total() for resource, counts in self.dropped.items()}
