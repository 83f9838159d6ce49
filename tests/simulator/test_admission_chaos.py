"""Chaos with admission control: random networks with too little capacity."""

import math

import pytest
from draws import KINDS, slow, thorough
from rayvous.admission.advertisements import LOCAL
from rayvous.broker.admission import Admitting
from rayvous.faults.checker.verdict import VIOLATED
from rayvous.faults.plans.admission_cases import with_admission
from rayvous.faults.plans.case_files import case_from_dict
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.simulated.chaos import run_case, run_chaos
from rayvous.faults.simulated.judging import books_problems, clients_of
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity, Refusal
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.schemes.registry import NAMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation


@pytest.mark.slow
@pytest.mark.parametrize("seed", [7, 28])
def test_who_has_published_nothing_that_is_advertised_does_not_move(seed):
    """A publisher none of whose events are advertised has never attached to a broker."""
    report = run_chaos(seed, admission=True, brokers_max=12)
    assert report.holds, report.problems


@pytest.mark.parametrize("seed", [1, thorough(13), thorough(25)])
def test_books_balance_and_nothing_is_lost_whatever_fails(seed):
    """Regression, seed 13: a degradation that was over was reported, and 25 events were not sent upwards."""
    report = run_chaos(seed, admission=True, brokers_max=20 if seed < 10 else 60)
    assert report.holds, (report.problems, report.verdict.counts())
    assert report.admission["admitted"] > 10


@pytest.mark.slow
def test_some_are_refused_and_some_degraded():
    """The drawn cases include refusals and degradations, so that the other tests can find errors in them."""
    report = run_chaos(6, admission=True, brokers_max=20, late=False)
    assert report.admission == {"admitted": 25, "refused": 9, "degraded": 2}


def test_a_case_with_admission_is_the_same_case_but_for_what_is_not_advertised():
    plain, case = draw_case(5), with_admission(draw_case(5))
    assert (case.topology, case.plan, case.links) == (plain.topology, plain.plan, plain.links)
    assert case == with_admission(draw_case(5))
    wanted = [action for action in plain.actions if action.do != "publish"]
    assert [action for action in case.actions if action.do != "publish"] == wanted
    assert case.admission is not None and set(case.adverts) <= {action.client for action in plain.opening}


def settled_network():
    net = Simulation(
        ClusterTree(3, 2).positions(),
        recovery=Recovery.for_simulator(degree=4),
        admission=AdmissionConfig(0.0, capacity=Capacity(100, 60)),
    )
    net.advertise("p1", 0, "x > 0", 50.0)
    net.advertise("p2", 0, "x < 0", 40.0)
    net.publish("p1", 0, [{"x": 1}])
    net.publish("p2", 0, [{"x": -1}])
    net.advance(5.0)
    net.subscribe("s1", 5, "x > 1", 1, priority=1)
    net.advance(5.0)
    net.subscribe("s2", 5, "x < -1", 1)
    net.advance(5.0)
    return net


def test_who_is_refused_is_told_and_counts_as_cancelled():
    net = settled_network()
    assert net.clients.admitted == {("s1", 1)} and net.clients.refused == 1
    assert not net.unconfirmed() and net.sessions["s2"].machine.subscriptions == {}
    assert books_problems(net) == []


@pytest.mark.parametrize("fault", ["held", "advert", "told"])
def test_books_that_are_wrong_are_found(fault):
    net = settled_network()
    admission = net.broker(0).layer(Admitting).admission
    if fault == "held":
        link, item = next((link, item) for link, items in admission.books.held.items() for item in items)
        admission.books.drop(item, link)
        words = "do not balance"  # the filters wanted above are a separate list
    elif fault == "advert":
        admission.books.unadvertise(("p1", 1))
        words = "do not balance"  # what clients are told of it is a separate list
    else:
        net.sessions["s1"].subscriber.lacking[1] = (Refusal(0, "cpu", 1.0, 0.0),)
        words = "s1 #1 was told that it lacks"
    assert any(words in problem for problem in books_problems(net)), books_problems(net)


def network_that_lost_a_broker(scheme, dead):
    """Return a healing network with admission control in which a broker has crashed.

    When it crashed, its advertisements were known and a filter was admitted.
    """
    net = Simulation(
        ClusterTree(4, 2, degree=2).positions(),
        scheme,
        recovery=Recovery.for_simulator(degree=4),
        admission=AdmissionConfig(0.0, capacity=Capacity(1000, 1000)),
    )
    net.advertise("before", 6, "x > 0", 10.0)
    net.subscribe("s", 1, "x > 0", 1)
    net.advance(5.0)
    net.publish("before", 6, [{"x": 1}])
    net.advance(5.0)
    net.crash(dead)
    net.advance(20.0)
    return net


@pytest.mark.parametrize(
    ("scheme", "dead"),
    [
        thorough(scheme, dead)
        if at % 3 != number
        else (scheme, dead)
        if scheme in KINDS
        else slow(scheme, dead)
        for at, scheme in enumerate(NAMES)
        for number, dead in enumerate((0, 2, 4))
    ],
)
def test_who_advertises_after_a_death_is_heard_of_by_all_that_live(scheme, dead):
    net = network_that_lost_a_broker(scheme, dead)
    net.advertise("after", 7, "x > 0", 10.0)
    net.publish("after", 7, [{"x": 2}])
    net.advance(10.0)
    net.publish("before", 6, [{"x": 3}])
    net.advance(10.0)
    got = [(note.publisher, note.sequence) for note in net.account.notifications()]
    assert got == [("before", 1), ("after", 1), ("before", 2)]
    net.restart(dead)
    net.advance(20.0)
    net.publish("after", 7, [{"x": 4}])
    net.advance(10.0)
    got = [(note.publisher, note.sequence) for note in net.account.notifications()]
    assert got[3:] == [("after", 2)]
    for broker in net.living():
        admission = net.broker(broker).layer(Admitting).admission
        assert (
            dead not in admission.neighbours
            or broker in net.broker(dead).layer(Admitting).admission.neighbours
        )
        assert len(admission.books.adverts) == 2
        net.broker(broker).check()


def network_with_a_durable_subscriber():
    net = Simulation(
        ClusterTree(3, 2).positions(),
        recovery=Recovery.for_simulator(degree=4),
        admission=AdmissionConfig(0.0, capacity=Capacity(100, 60)),
        store=in_memory,
    )
    net.advertise("p", 0, "x > 0", 50.0)
    net.publish("p", 0, [{"x": 1}])
    net.advance(5.0)
    net.subscribe("s", 5, "x > 1", 1, priority=2, durable=True)
    net.advance(5.0)
    net.stop("s")
    net.crash(5)
    return net


def held_for_clients(net, broker):
    held = net.broker(broker).layer(Admitting).admission.books.held[LOCAL]
    return [(str(item), entry.priority) for item, entry in held.items()]


def test_a_broker_that_comes_back_knows_what_its_durable_subscribers_want_before_they_are_there():
    net = network_with_a_durable_subscriber()
    net.restart(5)
    net.advance(20.0)
    assert books_problems(net) == [] and held_for_clients(net, 5) == [("x > 1", 2)]
    net.start("s")
    net.advance(10.0)
    assert (
        books_problems(net) == [] and net.clients.refused == 0 and held_for_clients(net, 5) == [("x > 1", 2)]
    )


def test_it_lets_go_of_those_that_are_elsewhere_by_now():
    net = network_with_a_durable_subscriber()
    net.start("s")
    net.advance(20.0)
    assert clients_of(net).homes["s"] != 5
    net.restart(5)
    net.advance(30.0)
    assert books_problems(net) == [] and held_for_clients(net, 5) == []


@pytest.mark.parametrize("news", ["held", "released"])
def test_without_that_news_the_books_are_found_wrong(monkeypatch, news):
    monkeypatch.setattr(Admitting, f"_on_{news}", lambda self, told: [])
    with pytest.raises(AssertionError, match="holds for"):
        if news == "held":
            test_a_broker_that_comes_back_knows_what_its_durable_subscribers_want_before_they_are_there()
        else:
            test_it_lets_go_of_those_that_are_elsewhere_by_now()


@pytest.mark.parametrize("seed", [2, 11])
def test_stores_admission_and_operations_at_once(seed):
    report = run_chaos(seed, stable=True, admission=True, operations=True, brokers_max=12)
    assert report.holds, (report.problems, report.verdict.counts())


@pytest.mark.parametrize(
    ("seed", "scheme"),
    [
        slow(780, "hybrid"),
        *(thorough(seed, "hybrid") for seed in (1152, 1231, 330, 10372)),
        thorough(10137, "lbdd"),
        thorough(65, "flooding"),
        thorough(43, "hypercube"),
        thorough(182, "match-first"),
    ],
)
def test_what_once_failed_with_everything_on_holds(seed, scheme):
    report = run_chaos(seed, scheme=scheme, stable=True, admission=True, operations=True)
    assert report.holds, (report.problems, report.verdict.counts())


@pytest.fixture
def nothing_lingers(monkeypatch):
    """Stop asking the parent for filters as soon as nobody wants them, without a grace period."""
    expire = Admitting._expire
    monkeypatch.setattr(Admitting, "_expire", lambda layer, now: expire(layer, math.inf))


@pytest.mark.slow
@pytest.mark.usefixtures("nothing_lingers")
def test_without_sending_all_up_after_a_greeting_a_later_event_comes_before_an_earlier_one(monkeypatch):
    """Seed 1231: a designated broker comes back as a normal one and stops asking on behalf of the others."""
    monkeypatch.setattr("rayvous.broker.admission.Greeting", type(None))
    report = run_chaos(1231, stable=True, admission=True, operations=True)
    assert report.verdict.findings["complete"].violated == 1


LEFT = {
    "rayvous_chaos_case": 1,
    "seed": 1000,
    "topology": {"parents": {"REB": None, "D1": "REB", "D2": "REB"}},
    "recovery": {"degree": 3},
    "links": {},
    "opening": [],
    "actions": [
        {
            "at_seconds": 1.0,
            "do": "subscribe",
            "client": "s",
            "broker": 2,
            "number": 1,
            "selector": "u IS NOT NULL",
        }
    ],
    "closing": [],
    "plan": {"name": "nothing", "faults": [], "heal_seconds": 1.0, "stay_dead": []},
    "admission": {
        "estimator": "tight",
        "capacity": {"events_per_second": 100.0, "link_events_per_second": 100.0},
    },
    "adverts": {"p": {"selector": "TRUE", "rate": 20.0}},
    "priorities": {"s": 1},
    "late": {
        "before": False,
        "publications": [{"at_seconds": 0.0, "do": "publish", "client": "p", "broker": 1, "events": [{}]}],
        "subscriptions": [
            {"at_seconds": 0.0, "do": "subscribe", "client": "late", "number": 1, "selector": "TRUE"}
        ],
        "kills": [0.73],
    },
}


def test_what_a_publisher_has_published_that_nobody_wanted_is_known_when_it_has_left():
    """Its broker is asked nothing any more, and nobody else had taken the event in. Reference: decision 0107."""
    report = run_case(case_from_dict(LEFT))
    assert report.outcome != VIOLATED and not report.problems, report.verdict.examples
    assert report.verdict.notifications_delivered == 0, "what had settled comes to nobody"
