"""A subscription whose events would wait longer than it asks for is refused, and promises of a delay are kept.

Reference: paper 3, section 6 (admission by delay, further work).
"""

import random

import pytest
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity, Judgement
from rayvous.routing.schemes.registry import SCHEMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

PUBLISHERS, RATE, SUBSCRIBERS = 10, 10, 8
CAPACITY = Capacity(130, 130)


class Bursts:
    """Publishers that send a second's events at once, at any time of each second, and subscribers that come later."""

    def __init__(self, name: str, seed: int, *, asks: bool) -> None:
        self.rng, self.sent, self.asked = random.Random(seed), {}, {}
        self.homes: dict[int, int] = {}
        positions = scheme(name).positions(ClusterTree(3, 2).positions())
        brokers = [position.broker for position in positions]
        config = AdmissionConfig(0.0, capacity=CAPACITY, estimator="tight", delay_window_seconds=10.0)
        self.net = Simulation(positions, name, admission=config, queues=Queues(lambda broker: CAPACITY, 1e9))
        for number in range(PUBLISHERS):
            self.homes[number] = self.rng.choice(brokers)
            self.net.advertise(f"p{number}", self.homes[number], f"k = {number}", RATE)
        self.net.run()
        self.start = self.net.now
        for number in range(PUBLISHERS):
            self.net.at(self.start + self.rng.random(), self.publish, number)
        for number in range(SUBSCRIBERS):
            seconds = self.rng.choice([0.5, 1.0, 2.0]) / (4 if name == "point-to-point" else 1)
            wanted = ", ".join(map(str, self.rng.sample(range(PUBLISHERS), 3)))
            place = f"s{number}", self.rng.choice(brokers), f"k IN ({wanted})"
            self.asked[place[0]] = seconds
            self.net.at(
                self.start + 5 + number,
                lambda p=place, d=seconds: self.net.subscribe(*p, max_delay=d if asks else None),
            )
        self.net.advance_to(self.start + 5 + SUBSCRIBERS + 8)

    def publish(self, number: int) -> None:
        name = f"p{number}"
        for sequence in self.net.publish(name, self.homes[number], [{"k": number}] * RATE):
            self.sent[name, sequence] = self.net.now
        self.net.at(self.start + int(self.net.now - self.start) + 1 + self.rng.random(), self.publish, number)

    def judged(self) -> dict[str, Judgement]:
        return {
            client: news
            for client in self.asked
            for news in self.net.news(client)
            if isinstance(news, Judgement)
        }

    def late(self) -> tuple[int, int]:
        """Return how many events the admitted subscribers had, and how many of these later than they had asked for."""
        waits = [
            (note.time_seconds - self.sent[note.publisher, note.sequence], self.asked[client])
            for client, news in self.judged().items()
            if news.admitted
            for note in self.net.timed_notifications(client)
        ]
        return len(waits), sum(wait > most for wait, most in waits)


@pytest.mark.parametrize(
    "name", ["hybrid", *(pytest.param(each, marks=pytest.mark.slow) for each in SCHEMES if each != "hybrid")]
)
def test_the_delay_is_kept_if_it_was_asked_for_and_not_otherwise(name: str) -> None:
    asking, not_asking = Bursts(name, 1, asks=True), Bursts(name, 1, asks=False)
    had, late = asking.late()
    assert had > 100 and late == 0
    judged = asking.judged().values()
    refused = [news for news in judged if not news.admitted]
    assert refused and len(refused) < len(judged)
    for news in refused:
        reasons = [each for each in news.refusals if each.resource == "delay"]
        assert reasons and all(each.asked > each.free for each in reasons)
        assert all(each.broker in asking.net.hosts for each in reasons)
    had, late = not_asking.late()
    assert all(news.admitted for news in not_asking.judged().values())
    assert late > 0.005 * had, "the load would be kept without asking, so it shows nothing"
    for broker in asking.net.hosts:
        asking.net.broker(broker).check()


def test_a_promise_keeps_later_load_out_and_ends_with_the_subscription() -> None:
    net = two_brokers(AdmissionConfig(None, capacity=CAPACITY, delay_window_seconds=10.0))
    for number, rate in ((1, 39), (2, 100)):
        net.advertise(f"p{number}", 0, f"k = {number}", rate)
    net.run()
    net.advance(30)
    # A second's events of the first publisher take 0.3 s at broker 1, and 0.3 s on the link to it.
    assert refused(net, "a", "k = 1", 0.5) == [("broker 0 to broker 1", 0.3, 0.2)]
    assert refused(net, "b", "k = 1", 2.0) == []
    assert refused(net, "c", "k = 2") == [("broker 1", 139 / 130, 1.0)]
    net.unsubscribe("b", 1)
    net.run()
    assert refused(net, "c", "k = 2") == []
    assert refused(net, "a", "k = 1", 0.5)[0][0] == "broker 1"
    for broker in (0, 1):
        net.broker(broker).check()


def two_brokers(config: AdmissionConfig) -> Simulation:
    return Simulation(ClusterTree(2, 1).positions(), admission=config, queues=Queues(lambda broker: CAPACITY))


def refused(
    net: Simulation, client: str, wanted: str, max_delay: float | None = None
) -> list[tuple[str, float, float]]:
    """Subscribe at broker 1; return why that was refused: where, how long events wait, how long they may."""
    net.would_admit(client, 1, wanted, 99, max_delay=max_delay)
    net.subscribe(client, 1, wanted, max_delay=max_delay)
    net.run()
    dry, real = [news for news in net.news(client) if isinstance(news, Judgement)][-2:]
    assert (dry.refusals, dry.admitted) == (real.refusals, real.admitted)
    assert real.admitted is not bool(real.refusals)
    return [
        (str(each).split(": delay")[0], pytest.approx(each.asked), pytest.approx(each.free))
        for each in real.refusals
    ]


def test_what_waits_is_measured_and_forgotten_after_the_window() -> None:
    net = two_brokers(AdmissionConfig(None, capacity=CAPACITY, delay_window_seconds=10.0))
    net.advertise("p", 0, "k = 1", 65)
    net.subscribe("s", 1, "k = 1")
    net.run()
    net.advance(30)
    net.publish("p", 0, [{"k": 1}] * 65)  # half a second at each broker, and on the link
    net.run()
    assert refused(net, "a", "k = 1", 1.4) == [("broker 0 to broker 1", 1.0, 0.7)]
    net.advance(12)
    assert refused(net, "a", "k = 1", 0.01) == []


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "1", True])
def test_a_delay_that_is_none_is_an_error(wrong: object) -> None:
    net = two_brokers(AdmissionConfig(delay_window_seconds=10.0))
    with pytest.raises(InputError, match="max_delay"):
        net.subscribe("s", 1, "k = 1", max_delay=wrong)
    assert not net.sessions


def test_a_network_that_does_not_measure_says_what_to_do() -> None:
    with pytest.raises(InputError, match=r"AdmissionConfig\(delay_window_seconds=10\)"):
        two_brokers(AdmissionConfig()).subscribe("s", 1, "k = 1", max_delay=1)
    for seconds in (0, -1.0, float("nan")):
        with pytest.raises(InputError, match="delay_window_seconds"):
            AdmissionConfig(delay_window_seconds=seconds).validate()
