"""Chaos: the same seed draws the same case, sound networks pass, and every kind of sabotage is caught."""

import json
from dataclasses import replace

import pytest
from draws import seeds
from rayvous.broker import Broker
from rayvous.faults.checker.reliability import judge
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.plans.plans import Crash, FaultPlan, Restart
from rayvous.faults.recovery_times import Recovered, by_kind
from rayvous.faults.simulated.chaos import run_case, run_chaos, run_seeds
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.faults.simulated.timeline import Timeline
from rayvous.protocol.effects import Confirm, Deliver, Multicast, Received, Send
from rayvous.protocol.messages.pubsub import Announce, Cancel, Detach, Events, Installed, Register, Withdraw
from rayvous.protocol.messages.recovery import ClusterView, Recovery
from rayvous.protocol.queries import Survey
from rayvous.protocol.traces import trace as operations
from rayvous.routing.topologies.cluster_trees import topology_of
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey

QUIET = FaultPlan("nothing", heal_seconds=5.0)


def test_a_case_is_drawn_from_its_seed():
    assert draw_case(7) == draw_case(7)
    assert draw_case(7) != draw_case(8)
    sizes = {len(topology_of(draw_case(seed, brokers_max=20).topology).positions()) for seed in range(60)}
    assert min(sizes) <= 2 and max(sizes) == 20
    mine = draw_case(7, plan=QUIET, recovery=Recovery(degree=9))
    assert mine.plan == QUIET and mine.recovery.degree == 9
    assert draw_case(7, heals=False).recovery is None and not draw_case(7, heals=False).plan.faults


@pytest.mark.parametrize("heals", [False, True])
@pytest.mark.parametrize("seed", seeds(6, quick=2))
def test_without_faults_everything_holds(seed, heals):
    report = run_chaos(seed, brokers_max=30, plan=QUIET, heals=heals)
    assert report.holds, (report.problems, report.verdict)
    assert report.notifications >= report.verdict.notifications_expected > 0
    assert not [what for _, what in report.timeline if what.startswith(("fault", "suspicion", "takeover"))]


def test_the_same_seed_gives_the_same_report():
    one, other = run_chaos(11, brokers_max=20), run_chaos(11, brokers_max=20)
    assert json.dumps(one.to_dict()) == json.dumps(other.to_dict())
    plain = one.to_dict()
    assert next(iter(plain)) == "case" and plain["replay"] == "rayvous chaos --on sim --seed 11"
    assert FaultPlan.from_dict(plain["case"]["plan"]) == draw_case(11, brokers_max=20).plan


@pytest.mark.slow
def test_many_seeds_in_processes_of_their_own():
    done = []
    reports = run_seeds([5, 3, 4], processes=2, progress=done.append, heals=False, brokers_max=5, seconds=2.0)
    assert [report.seed for report in reports] == [5, 3, 4]
    assert sorted(report.seed for report in done) == [3, 4, 5]
    alone = run_seeds([5, 3, 4], processes=1, heals=False, brokers_max=5, seconds=2.0)
    assert [report.to_dict() for report in alone] == [report.to_dict() for report in reports]


# Sabotage: a broker that misbehaves in one way, in an otherwise sound network.


def saboteur(change):
    """Return a factory of brokers whose effects pass through `change(effects, event, counts)`."""

    def make(position, scheme, recovery, incarnation, seed):
        broker = Broker(position, scheme)
        inner, counts = broker.handle, {}
        broker.handle = lambda event: change(inner(event), event, counts)
        return broker

    return make


def every_fifth(counts, name):
    counts[name] = counts.get(name, 0) + 1
    return counts[name] % 5 == 0


def losing(effects, event, counts):
    return [item for item in effects if not (isinstance(item, Deliver) and every_fifth(counts, "deliver"))]


def doubling(effects, event, counts):
    return [
        copy
        for item in effects
        for copy in ([item, item] if isinstance(item, Deliver) and every_fifth(counts, "deliver") else [item])
    ]


def swapping(effects, event, counts):
    held = counts.setdefault("held", [])
    out = []
    for item in effects:
        if isinstance(item, Deliver) and not held and every_fifth(counts, "deliver"):
            held.append(item)
        else:
            out.append(item)
            if isinstance(item, Deliver) and held:
                out.append(held.pop())
    return out


def deaf(effects, event, counts):
    return [
        item
        for item in effects
        if not (isinstance(item, Send | Multicast) and isinstance(item.message, Announce))
    ]


def raising(effects, event, counts):
    if isinstance(event, Received) and isinstance(event.message, Events) and every_fifth(counts, "events"):
        raise KeyError("sabotage")
    return effects


@pytest.mark.parametrize(
    ("change", "found"),
    [
        (losing, lambda report: report.verdict.missing),
        (doubling, lambda report: report.verdict.duplicates),
        (swapping, lambda report: report.verdict.disordered),
        (deaf, lambda report: "not confirmed" in report.problems[0]),
        (raising, lambda report: "KeyError: 'sabotage' (test_chaos.py" in report.problems[0]),
    ],
)
def test_sabotage_is_caught(change, found):
    case = replace(draw_case(3, heals=False, seconds=8.0))
    assert run_case(case).holds
    report = run_case(case, broker=saboteur(change))
    assert not report.holds
    assert found(report), report.to_dict()["verdict"]


def test_brokers_that_do_not_heal_are_found_out():
    case = draw_case(3, recovery=Recovery(), plan=FaultPlan("x", (Crash(1.0, 0), Restart(2.0, 0)), 4.0))

    def make(position, scheme, recovery, incarnation, seed):
        broker = Broker(position, scheme)
        inner = broker.handle
        known = Register, Cancel, Detach, Events, Announce, Withdraw, Installed
        broker.handle = lambda event: (
            inner(event) if isinstance(event, Received) and isinstance(event.message, known) else []
        )
        return broker

    assert run_case(replace(case, plan=QUIET), broker=make, rendezvous=None).holds
    report = run_case(case, broker=make, rendezvous=None)
    assert not report.holds and report.verdict.missing and not report.verdict.duplicates


# The survey.


class Empty:
    """A router that has no entries, and has announced so to every other broker."""

    relays = False

    def held(self):
        return ()

    def announced(self):
        return {(broker, broker): () for broker in range(4)}

    def kept(self):
        return ()


class Puppet:
    """A broker that does nothing and reports what the test wants it to report."""

    def __init__(self, position, scheme, recovery, incarnation, seed):
        self.position = position
        self.router = Empty()
        self.said = None

    def ask(self, query):
        return self.said if isinstance(query, Survey) else query.otherwise

    def handle(self, event):
        return []


@pytest.fixture
def puppets():
    tree = topology_of({"parents": {"A": None, "B": "A", "C": "B"}, "members": {"B": ["b"]}})
    network = Simulation(tree.positions(), recovery=Recovery(), broker=Puppet)  # A 0, b 1, B 2, C 3
    for broker in network.hosts:
        network.broker(broker).said = dict(survey(network, broker))
    return network


def alter(network, broker, **changes):
    network.broker(broker).said |= changes


def test_a_sound_network_has_no_problems(puppets):
    assert structure_problems(puppets, degree=1) == []
    assert subscription_problems(puppets) == []


B = ClusterView(1, 0, 2, (1, 2))
C = ClusterView(2, 0, 3, (3,))


@pytest.mark.parametrize(
    ("broker", "changes", "problem"),
    [
        (1, {"designated": True}, r"cluster 1 has designated brokers \[1, 2\]"),
        (2, {"designated": False}, r"cluster 1 has designated brokers \[\]"),
        (1, {"view": ClusterView(1, 0, 1, (1, 2))}, "broker 1 follows 1, not 2"),
        (2, {"view": ClusterView(1, 0, 2, (2,))}, r"broker 2 sees members \(2,\)"),
        (2, {"root": True}, r"roots: \[0, 1\]"),
        (0, {"root": False}, r"roots: \[\]"),
        (0, {"children": (B, C)}, "cluster 0 has 2 children, the degree is 1"),
        (0, {"children": ()}, "cluster 1 hangs below 0, which does not know it"),
        (1, {}, None),
        (3, {"parent": None}, "cluster 2 has no living parent"),
        (3, {"parent": ClusterView(1, 0, 1, (1, 2))}, "cluster 2 takes 1 for the speaker of its parent 1"),
        (2, {"children": (replace(C, designated=9),)}, "cluster 1 takes 9 for the speaker of its child 2"),
        (2, {"parent": C}, "cluster 1 stands in a ring"),
        (3, {"path": (0, 2)}, r"cluster 2 says its path is \(0, 2\), it is \(0, 1, 2\)"),
        (3, {"term": 4}, "cluster 2 is in term 4, the root in 1"),
    ],
)
def test_every_flaw_of_the_structure_is_named(puppets, broker, changes, problem):
    alter(puppets, broker, **changes)
    found = "\n".join(structure_problems(puppets, degree=1))
    if problem is None:
        assert not found
    else:
        with pytest.raises(AssertionError, match=problem):
            assert not found, found


def test_the_dead_and_the_paused_are_not_members(puppets):
    puppets.crash(1)
    assert any(
        "sees members (1, 2) in cluster 1, alive are (2,)" in each for each in structure_problems(puppets)
    )
    alter(puppets, 2, view=ClusterView(1, 0, 2, (2,)))
    assert structure_problems(puppets) == []
    puppets.pause(3)
    assert structure_problems(puppets) == ["cluster 1 has child 2, which does not hang there"]


def test_closed_and_unsettled_brokers_are_named(puppets):
    alter(puppets, 2, closed=[3], settled=False)
    assert subscription_problems(puppets) == [
        "broker 2 has closed links: [3]",
        "broker 2 waits for subscriptions to be installed",
    ]


def test_a_subscription_that_is_missing_on_the_way_is_named():
    tree = topology_of({"parents": {"A": None, "B": "A"}, "members": {"B": ["b"]}})
    network = Simulation(tree.positions())
    network.subscribe("s", 1, "a = 1", 1)
    assert subscription_problems(network) == ["s #1 is not confirmed at broker 1"]
    network.run()
    assert subscription_problems(network) == []
    network.subscribe("s", 1, "a = 1 AND b = 1", 2)
    network.run()
    assert subscription_problems(network) == [], "it is covered"
    for entry in network.broker(0).router.table:
        entry.links.clear()
    assert subscription_problems(network)[0].startswith(
        "broker 0 holds for broker 2: too much [], missing ['a = 1']"
    )


# Recovery times.


def test_recovery_times():
    network = Simulation(topology_of({"parents": {"A": None}}).positions())
    timeline = Timeline(network)
    timeline.faults = [(10.0, "crash"), (20.0, "cut"), (25.0, "pause"), (30.0, "heal")]
    timeline.sound = [(9.0, True), (11.0, False), (12.0, True), (13.0, False), (14.0, True)]
    timeline.sound += [(21.0, True), (26.0, False), (29.0, False), (31.0, False), (32.0, True)]
    account = operations.Trace()
    account.subscribed(0.0, "s", 1, "TRUE")
    for number, (when, heard) in enumerate([(10.5, 10.6), (11.0, 14.5), (12.0, 12.4), (21.0, 21.1)], 1):
        account.published(when, "p", number, [{}])
        account.notified(heard, "s", "p", number)
    crash, cut, pause, heal = timeline.recoveries(account, late_seconds=0.5, end=40.0)
    assert crash == Recovered("crash", 10.0, True, 4.0, 4.5, pytest.approx(0.6))
    assert cut == Recovered("cut", 20.0, False, 0.0, 0.0, pytest.approx(1.1))
    assert pause == Recovered("pause", 25.0, False, None, None, None)
    assert heal == Recovered("heal", 30.0, False, 2.0, 0.0, None)
    assert by_kind([crash, cut, pause, heal, crash]) == {
        "crash": {
            "count": 2,
            "structure_median_seconds": 4.0,
            "structure_max_seconds": 4.0,
            "delivery_median_seconds": 4.5,
            "delivery_max_seconds": 4.5,
        },
    }


def test_a_delivery_that_a_broker_drops_is_no_loss_of_retention():
    """Whatever the retention: no loss was reported, and nothing was past retention at the end."""
    recovery = Recovery(retention_seconds=3.0)
    case = draw_case(9, recovery=recovery, plan=FaultPlan("x", (Crash(1.0, 0),), 20.0))
    report = run_case(case, broker=saboteur_that_heals(case.seed))
    assert report.verdict.violated == ["complete"] and not report.lost_by_retention


def test_losses_by_number_are_explained_by_what_each_broker_took():
    """Promise 2, with a retention of ten events: the trace tells which events could not be retained."""
    little = Recovery.for_simulator(retention_events_max=10)
    options = {"recovery": little, "stable": True, "late": False, "expiring": False}
    report = run_chaos(0, brokers_max=6, seconds=10.0, keep_trace=True, **options)
    assert report.holds and report.lost_by_retention == report.verdict.lost > 10
    without = operations.Trace(op for op in report.trace if not isinstance(op, operations.Kept))
    assert judge(without).unexplained == report.lost_by_retention
    free = run_chaos(0, brokers_max=6, seconds=10.0, recovery=little, stable=True, lossless=True)
    assert free.holds and not free.verdict.losses, "the same run loses nothing where all is retained"


def saboteur_that_heals(seed):
    """Return a factory of brokers that drop every fifth delivery and heal otherwise."""

    def make(position, scheme, recovery, incarnation, _):
        broker = Broker(position, scheme, recovery=recovery, incarnation=incarnation, seed=seed)
        inner, counts = broker.handle, {}
        broker.handle = lambda event: losing(inner(event), event, counts)
        return broker

    return make


def test_confirmations_are_those_of_the_present_broker():
    network = Simulation(
        topology_of({"parents": {"A": None, "B": "A"}}).positions(),
        record=lambda step: confirmed.extend(item for item in step.effects if isinstance(item, Confirm)),
    )
    confirmed = []
    network.subscribe("s", 1, "a = 1", 1)
    network.run()
    assert len(confirmed) == 1 and network.unconfirmed() == []
    (told,) = [op for op in network.account if isinstance(op, operations.Confirmed)]
    assert told.at_seconds == pytest.approx(network.now)
