"""Publishers exceed what they advertised: their broker enforces it and tells them (paper 3, section 3.1).

Reference: promises 1 to 3, 8 and 9.
"""

import pytest
from rayvous.broker.admission import Admitting
from rayvous.broker.shaping import Shaping
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.layers import Inward
from rayvous.protocol.messages.admission import MICRO, AdmissionConfig, Capacity, HeldBack, LetIn, OverQuota
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.queries import AcceptedOf, HasLeft, WaitingOf
from rayvous.protocol.stability import Stability
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation

TREE = ClusterTree(3, 2, degree=2).positions()
RATE, SECONDS = 10.0, 30


def heard(times: list[float]) -> list[int]:
    """Return how many events have arrived in each second."""
    return [sum(second <= when < second + 1 for when in times) for second in range(SECONDS)]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_who_publishes_too_fast_is_slowed_under_every_scheme_and_nothing_is_lost(scheme: str) -> None:
    net = Simulation(TREE, scheme, admission=AdmissionConfig())
    net.advertise("p", 5, "x >= 0", RATE)
    net.run()
    net.subscribe("s", 0, "x >= 0")
    net.run()
    started = net.now
    for x in range(20):
        net.publish("p", 5, [{"x": x}] * 5)
    net.run()
    notes = net.timed_notifications("s")
    assert [note.sequence for note in notes] == list(range(1, 101))
    counts = heard([note.time_seconds - started for note in notes])
    assert counts[0] <= 3 * RATE and all(count <= RATE + 5 for count in counts[1:])
    assert net.now - started == pytest.approx(100 / RATE - 2.0, abs=0.6)
    news = net.news("p")
    assert any(isinstance(each, HeldBack) and each.seconds > 0 for each in news)
    assert [each.number for each in news if isinstance(each, LetIn)][-1] == 100


def test_what_waits_of_a_publisher_that_goes_is_let_in_nowhere_but_where_it_goes() -> None:
    """It takes along what was not accepted; the broker it leaves neither accepts it nor says that it did."""
    net = Simulation(TREE, admission=AdmissionConfig(), recovery=Recovery())
    net.advertise("p", 5, "x >= 0", RATE)
    net.subscribe("s", 0, "x >= 0")
    net.advance(5.0)
    for x in range(20):
        net.publish("p", 5, [{"x": x}] * 5)
    net.advance(1.0)
    let_in = max(each.number for each in net.news("p") if isinstance(each, LetIn))
    assert let_in < 60 and net.broker(5).ask(WaitingOf("p"))
    assert net.move("p", 3)
    net.advance(1.0)
    assert not net.broker(5).ask(WaitingOf("p")) and net.broker(5).ask(AcceptedOf("p")) < 60 <= net.broker(
        3
    ).ask(AcceptedOf("p"))
    net.advance(30.0)
    assert [note.sequence for note in net.timed_notifications("s")] == list(range(1, 101))
    assert net.broker(5).describe()["unadvertised_events"] == 0, "nothing was let in and then dropped"


def test_what_is_past_the_bounds_is_refused_by_name_and_what_comes_later_is_not() -> None:
    net = Simulation(TREE, admission=AdmissionConfig(held_events_max=30))
    net.advertise("p", 5, "x >= 0", RATE)
    net.run()
    net.subscribe("s", 0, "x >= 0")
    net.run()
    for _ in range(12):
        net.publish("p", 5, [{"x": 1}] * 5)
    net.advance(1.0)
    net.broker(5).check()
    over = [each for each in net.news("p") if isinstance(each, OverQuota)]
    assert [(each.number, each.events) for each in over] == [(55, 5), (60, 5)]
    assert over[0].reason == "publisher 'p' advertises 10 events/s; 30 of its events wait for that already"
    assert net.broker(5).describe()["quota_refused"] == 10
    net.run()
    net.publish("p", 5, [{"x": 1}])
    net.run()
    assert [sequence for _, sequence in net.notifications("s")] == [*range(1, 51), 61]
    assert net.broker(5).describe()["quota_waiting"] == 0


def hostile() -> Simulation:
    """Return a healing network with a publisher that publishes four times as fast as it advertised."""
    net = Simulation(TREE, recovery=Recovery.for_simulator(degree=4), admission=AdmissionConfig())
    net.advertise("p", 5, "x >= 0", RATE)
    net.subscribe("s", 0, "x >= 0", 1)
    net.advance(5.0)
    for second in range(SECONDS // 3):
        for _ in range(4):
            net.at(net.now + second, net.publish, "p", 5, [{"x": 1}] * int(RATE))
    return net


def most_in_a_stretch(times: list[float], seconds: float) -> int:
    return max(sum(start <= when <= start + seconds for when in times) for start in times)


def test_in_a_network_that_heals_too() -> None:
    net = hostile()
    net.advance(SECONDS + 25.0)
    times = [note.at_seconds for note in net.account.notifications()]
    assert len(times) == 4 * RATE * (SECONDS // 3) and most_in_a_stretch(times, 10.0) <= 10 * RATE + 4 * RATE
    net.account.settled(net.now)
    assert judge(net.account).holds


@pytest.mark.parametrize("after", [6.0, 9.5, 13.0])
def test_a_broker_that_dies_takes_what_waits_along_and_its_publisher_brings_it_again(after: float) -> None:
    net = hostile()
    net.advance(after)
    assert net.broker(5).layer(Shaping).waiting("p")
    assert not net.account.accepted_at.keys() >= net.account.publications().keys(), (
        "what waits is not accepted"
    )
    net.crash(5)
    net.advance(SECONDS + 40.0)
    assert net.sessions["p"].home.id != 5
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds and not verdict.lost, verdict.examples
    assert len(net.account.notifications()) == 4 * RATE * (SECONDS // 3)


@pytest.mark.parametrize("scheme", ["hybrid", "lbdd"])
def test_a_broker_that_leaves_lets_nothing_in_that_waits_of_a_dead_publisher(scheme: str) -> None:
    """It could neither pass it on nor hand it over; the publisher was told of nothing, and uses the numbers again."""
    net = Simulation(TREE, scheme, recovery=Recovery.for_simulator(degree=4), admission=AdmissionConfig())
    net.advertise("p", 5, "x >= 0", 1.0)
    net.subscribe("s", 0, "x >= 0", 1)
    net.advance(5.0)
    for _ in range(60):
        net.publish("p", 5, [{"x": 1}])
    net.advance(2.0)
    net.stop("p")
    operations = SimulatedOperations(net)
    assert operations.remove_broker(5)
    net.advance(0.1)
    accepted = len(net.account.accepted_at)
    assert net.broker(5).layer(Shaping).waiting("p") and not net.broker(5).ask(HasLeft())
    net.advance(30.0)
    assert operations.left == {5} and len(net.account.accepted_at) == accepted
    assert net.start("p") and net.publish("p", 5, [{"x": 2}]) == range(accepted + 1, accepted + 2)
    net.advance(20.0)
    assert net.notifications("s") == [("p", number) for number in range(1, accepted + 2)]
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples


@pytest.mark.parametrize("after", [6.0, 13.0])
def test_a_publisher_that_dies_uses_no_number_again_that_waits(after: float) -> None:
    net = hostile()
    net.advance(after)
    assert net.broker(5).layer(Shaping).waiting("p")
    net.stop("p")
    net.advance(0.2)
    assert net.start("p")
    net.publish("p", 5, [{"x": 2}])
    net.advance(SECONDS + 40.0)
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples


@pytest.mark.parametrize("scheme", ["hybrid", "lbdd"])
def test_over_numbered_links_what_comes_too_fast_is_acknowledged_later_and_survives_crashes(
    scheme: str,
) -> None:
    net = Simulation(
        TREE,
        scheme,
        store=in_memory,
        stability=Stability(retransmit_seconds=0.1),
        admission=AdmissionConfig(),
    )
    net.advertise("p", 5, "x >= 0", RATE)
    assert net.settle()
    net.subscribe("s", 0, "x >= 0", 1)
    assert net.settle()
    started = net.now
    for _ in range(20):
        net.publish("p", 5, [{"x": 1}] * 10)
    for _ in range(3):
        net.advance(2.0)
        assert net.broker(5).layer(Shaping).waiting("p")
        net.crash(5)
        net.restart(5)
    assert net.settle()
    net.account.settled(net.now)
    verdict = judge(net.account)
    assert verdict.holds and not verdict.lost, verdict.examples
    times = [note.at_seconds for note in net.account.notifications()]
    assert len(times) == 200
    assert most_in_a_stretch(times, 2.0) <= 7 * RATE, (
        "of an incarnation of the broker: the burst, and what the time brings"
    )
    assert max(times) - started > 200 / RATE - 4 * 2.0 - 1.0


def test_without_the_layer_publishers_are_as_fast_as_they_like(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Shaping, "_on_events", lambda self, event: [Inward(event)])
    with pytest.raises(AssertionError):
        test_in_a_network_that_heals_too()


@pytest.mark.parametrize(
    ("events_per_second", "published", "allowed"),
    [
        (1000.0, 0, 30.0),  # no history: the network's default
        (1000.0, 40, 40.0),  # the busiest second so far
        (25.0, 40, 25.0),  # but no more than the broker has free
        (25.0, 0, 25.0),
    ],
)
def test_a_rate_that_is_not_given_comes_from_history_and_resources(
    events_per_second: float, published: int, allowed: float
) -> None:
    """The broker enforces that rate too. Reference: paper 3, section 3.1."""
    capacity = Capacity(events_per_second)
    net = Simulation(TREE, admission=AdmissionConfig(default_rate=30.0, capacity=capacity))
    if published:
        net.advertise("p", 5, "x >= 0", 100.0)
        net.run()
        net.publish("p", 5, [{"x": 1}] * published)
        net.advance(5.0)
        net.unadvertise("p")
        net.run()
    net.advertise("p", 5, "x >= 0", number=2)
    net.run()
    books = net.broker(5).layer(Admitting).admission.books
    assert books.reserved()["cpu", None] == allowed * MICRO
    net.subscribe("s", 5, "x >= 0")
    net.run()
    started = net.now
    for _ in range(6):
        net.publish("p", 5, [{"x": 1}] * int(allowed))
    net.run()
    assert net.now - started == pytest.approx(4.0, abs=0.3), (
        "six seconds' worth, of which two may come at once"
    )


def test_a_broker_with_nothing_free_leaves_a_publisher_without_a_rate_an_event_a_second() -> None:
    net = Simulation(TREE, admission=AdmissionConfig(capacity=Capacity(20.0)))
    net.advertise("p", 5, "x >= 0", 20.0)
    net.run()
    net.advertise("q", 5, "x >= 0")
    net.run()
    reserved = net.broker(5).layer(Admitting).admission.books.reserved()
    assert reserved["cpu", None] == 21 * MICRO
