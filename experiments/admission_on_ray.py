"""Paper 3, section 5, on a small scale, on real actors that use real CPU time: none, full, 20 % and 40 %.

Rules
-----
* The brokers form a chain, each with an actor and a publisher. An event that a broker takes in costs it CPU
  time, of which it gets a share, like a container: so several brokers fit on few cores. An event older than
  the deadline is dropped and counted instead.
* First all brokers at once are overloaded, and the sampler of 4.1 measures the capacity of each: the capacity
  that the machine gives each of them while all are busy. A part of it is kept free. A publisher's rate is a
  part of the mean capacity.
* Each criterion gets a separate network with these capacities, and the same subscriptions in the same order,
  at the same brokers. Subscriptions stay. In each step further subscribers ask, one after the other, while
  nothing is published: so admission depends on the books alone. Then publishers publish, and the measurement
  is taken.
* The measurements depend on other load of the machine; the order of the criteria has to hold.

Publisher ``i`` publishes ``x`` from i to i + 1; a subscription is a random interval of `x`.

Source: paper 3, sections 4.1, 5.1 and 5.2.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any, Final

from ..actors.clients.publisher import Publisher
from ..actors.clients.subscriber import Subscriber
from ..actors.network.network import Network
from ..faults.real.burden import Burden
from ..protocol.configs import Limits
from ..protocol.errors import BrokerUnavailable, SubscriptionRejected
from ..protocol.ids import BrokerId
from ..protocol.messages.admission import AdmissionConfig, Capacity
from ..routing.topologies.cluster_trees import ClusterTree
from .admission import CRITERIA
from .rows import Rows

CALL_EVENTS: Final = 16
"""Events in one call: a broker does nothing else until it has processed them."""

CROWD: Final = 3
"""Publishers at a broker that is to be kept busy."""

PUBLISH_SECONDS: Final = 0.2
"""The time between two publications of one publisher."""

ENDLESS_RATE: Final = 1e6
"""The advertised rate while capacities are measured."""

UTILISATION_MAX: Final = 0.8
"""The limit of 4.1, as a share of a broker's CPU share."""


@dataclass(frozen=True, slots=True)
class RayPlan:
    """The parameters.

    Attributes
    ----------
    brokers
        The number of brokers, and of publishers.
    subscribers
        The number of subscribers that have asked by the end of each step.
    cpu_seconds_per_event
        The cost of an event, from the strongest broker to the weakest. With the share below they take in 100
        to 200 events a second at most, as the paper's do.
    cpu_share
        The share of a CPU that a broker gets.
    spare
        The share of the measured capacity that is kept free.
    rate
        A publisher's events per second, as a share of the mean capacity.
    width
        Range of a subscription's width.
    deadline_seconds
        Age at which an event is dropped.
    calibration_seconds, settle_seconds, measured_seconds
        How long capacities are sampled, how long the load of a step lasts before the measurement, and how
        long it lasts after.
    criteria
        A subset of ``none``, ``full``, ``20 %``, ``40 %``.
    seed
        The seed of the brokers' order and of the subscriptions. With the default, by the books alone, each
        criterion refuses a different number; with so few brokers 20 % is often the full guarantee.
    """

    brokers: int = 6
    subscribers: tuple[int, ...] = (6, 12)
    cpu_seconds_per_event: tuple[float, float] = (0.0005, 0.001)
    cpu_share: float = 0.1
    spare: float = 0.2
    rate: float = 0.25
    width: tuple[float, float] = (0.2, 3.5)
    deadline_seconds: float = 3.0
    calibration_seconds: float = 5.0
    settle_seconds: float = 5.0
    measured_seconds: float = 4.0
    criteria: tuple[str, ...] = ("none", "full", "20 %", "40 %")
    seed: int = 7


def run(plan: RayPlan, progress: Callable[[str, int, int], None] | None = None) -> dict[str, Any]:
    """Measure the capacities, run every criterion, and return the figures and whether they are ordered as published.

    Raises
    ------
    BrokerUnavailable
        If a broker got so little CPU that nothing could be measured.
    """
    total = 1 + len(plan.criteria)
    if progress is not None:
        progress("capacities", 0, total)
    capacities = calibrate(plan)
    rate = plan.rate * sum(capacities.values()) / plan.brokers
    rows: list[dict[str, Any]] = []
    for done, criterion in enumerate(plan.criteria, start=1):
        if progress is not None:
            progress(criterion, done, total)
        rows += run_criterion(plan, criterion, capacities, rate)
    return {
        "experiment": "admission on Ray",
        "plan": asdict(plan),
        "capacities": {broker: round(most, 1) for broker, most in capacities.items()},
        "rate": round(rate, 1),
        "rows": rows,
        "statements": compare(rows),
    }


def calibrate(plan: RayPlan) -> dict[BrokerId, float]:
    """Return each broker's capacity, in events per second, as sampled while all are busy."""
    config = AdmissionConfig(
        None, measure=True, utilisation_max=UTILISATION_MAX * plan.cpu_share, sample_seconds=1.0
    )
    with _network(plan, config) as net:
        with _Load(net, plan, rate=None).flowing():
            time.sleep(plan.calibration_seconds)
        measured = {broker: books["cpu"][1] for broker, books in net.inspect.admission().items()}
    for broker, most in measured.items():
        if most == float("inf"):
            raise BrokerUnavailable(
                f"broker {broker} had too little CPU for any sample: what else runs here?"
            )
    return {broker: most * (1 - plan.spare) for broker, most in measured.items()}


def run_criterion(
    plan: RayPlan, criterion: str, capacities: Mapping[BrokerId, float], rate: float
) -> list[dict[str, object]]:
    """Run one criterion, and return a row for each step."""
    config = AdmissionConfig(
        CRITERIA[criterion].refusing_share_max,
        share_of=CRITERIA[criterion].share_of,
        capacities={broker: Capacity(most) for broker, most in capacities.items()},
        deadline_seconds=plan.deadline_seconds,
    )
    rows = []
    rng = random.Random(f"admission-on-ray/{plan.seed}")
    with _network(plan, config) as net:
        load = _Load(net, plan, rate)
        asked = refused = 0
        for subscribers in plan.subscribers:
            while asked < subscribers:
                refused += not _subscribe(net, plan, asked, rng)
                asked += 1
            with load.flowing():
                time.sleep(plan.settle_seconds)
                row = {"criterion": criterion, "subscribers": subscribers, "rejected": refused / asked}
                rows.append(row | _measure(net, plan, capacities))
    return rows


@contextmanager
def _network(plan: RayPlan, config: AdmissionConfig) -> Iterator[Network]:
    limits = Limits(call_events_max=CALL_EVENTS)
    with Network.launch(
        ClusterTree(plan.brokers, 1, degree=1), limits=limits, admission=config, progress=False
    ) as net:
        net.inject(Burden(_costs(plan), plan.cpu_share))
        yield net


def _costs(plan: RayPlan) -> dict[BrokerId, float]:
    """Return the cost of an event at each broker: evenly spread over the range, in random order."""
    low, high = plan.cpu_seconds_per_event
    costs = [low + (high - low) * place / max(1, plan.brokers - 1) for place in range(plan.brokers)]
    random.Random(f"brokers/{plan.seed}").shuffle(costs)
    return dict(enumerate(costs))


class _Load:
    """A publisher at every broker, at a rate; without a rate several, as fast as the broker accepts events."""

    def __init__(self, net: Network, plan: RayPlan, rate: float | None) -> None:
        self._rate = rate
        copies = CROWD if rate is None else 1  # one call is in flight while another is processed
        self._publishers = [
            (place, net.publisher(f"p{place}-{copy}", broker=place))
            for place in range(plan.brokers)
            for copy in range(copies)
        ]
        most = ENDLESS_RATE if rate is None else rate
        for place, publisher in self._publishers:
            publisher.advertise(f"x >= {place} AND x < {place + 1}", max_rate=most)

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Publish while the block runs."""
        stop = threading.Event()
        threads = [
            threading.Thread(target=self._publish, args=(publisher, place, stop), daemon=True)
            for place, publisher in self._publishers
        ]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    def _publish(self, publisher: Publisher, place: int, stop: threading.Event) -> None:
        rng = random.Random(place)
        last, owed = time.monotonic(), 0.0
        while not stop.is_set():
            if self._rate is None:
                count = CALL_EVENTS
            else:
                stop.wait(PUBLISH_SECONDS)
                now = time.monotonic()
                owed = min(self._rate, owed + self._rate * (now - last))  # catch up on at most one second
                last, count = now, int(owed)
                owed -= count
            if count:
                publisher.publish_batch([{"x": place + rng.random() * 0.999} for _ in range(count)])


def _subscribe(net: Network, plan: RayPlan, number: int, rng: random.Random) -> bool:
    """Add one subscriber; return whether it was admitted."""
    width = rng.uniform(*plan.width)
    low = rng.uniform(0.0, plan.brokers - width)
    subscriber: Subscriber = net.subscriber(f"s{number}", broker=rng.randrange(plan.brokers))
    try:
        subscriber.subscribe(f"x BETWEEN {low!r} AND {low + width!r}")
    except SubscriptionRejected:
        return False
    return True


def _measure(net: Network, plan: RayPlan, capacities: Mapping[BrokerId, float]) -> dict[str, object]:
    """Return the rates over a period: events dropped, CPU time used, events taken in over the capacity."""
    before = _counts(net)
    time.sleep(plan.measured_seconds)
    after = _counts(net)
    seconds = after["now"] - before["now"]
    dropped = (after["expired"] - before["expired"]) / seconds
    loads = [(after[broker] - before[broker]) / seconds / most for broker, most in capacities.items()]
    return {
        "discarded_per_second": dropped / plan.brokers,
        "discarded_in_all_per_second": dropped,
        "of_capacity": sum(loads) / len(loads),
        "of_capacity_max": max(loads),
        "cpu": (after["cpu_seconds"] - before["cpu_seconds"]) / seconds / plan.brokers,
    }


def _counts(net: Network) -> dict[object, float]:
    nodes = net.inspect.describe().nodes
    return {
        **{broker: nodes[broker]["events_in"] for broker in nodes},
        "expired": sum(node["expired_events"] for node in nodes.values()),
        "cpu_seconds": net.inspect.cpu_seconds(),
        "now": time.monotonic(),
    }


def compare(rows: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return whether the criteria are ordered as the paper says, over the means of all steps."""
    names = [
        name for name in ("full", "20 %", "40 %", "none") if any(row["criterion"] == name for row in rows)
    ]
    out = []
    for key, text, reverse in (
        ("discarded_in_all_per_second", "discards", False),
        ("rejected", "rejections", True),
        ("cpu", "CPU utilisation", False),
    ):
        means = {name: _mean(rows, name, key) for name in names}
        ordered = list(means.values())[::-1] if reverse else list(means.values())
        slack = 0.05 * max(ordered)
        sign = ">=" if reverse else "<="
        out.append(
            {
                "published": f"{text}: {f' {sign} '.join(names)}",
                "ours": {name: round(mean, 3) for name, mean in means.items()},
                "holds": all(later >= earlier - slack for earlier, later in pairwise(ordered)),
            }
        )
    return out


def _mean(rows: Rows, criterion: str, key: str) -> float:
    values = [row[key] for row in rows if row["criterion"] == criterion]
    return float(sum(values) / len(values))
