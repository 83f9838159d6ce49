"""What explain says of runs whose outcome is known: each kind of drop, and brokers with a rule switched off."""

from pathlib import Path

import pytest
from broken_brokers import mutants, sabotage
from draws import slow
from rayvous.broker import Broker
from rayvous.faults.checker.reliability import judge
from rayvous.faults.explaining import finding as findings
from rayvous.faults.explaining import rules, subscriptions
from rayvous.faults.explaining.explain import Ran, event_of, explain
from rayvous.faults.explaining.journey import OUTSIDE
from rayvous.faults.explaining.recorder import Recorder
from rayvous.faults.plans.cases import draw_case
from rayvous.faults.report import ChaosReport
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.effects import Deliver, Received, Send
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.pubsub import Announce, Events
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

ROOT = Path(rules.__file__).parents[2]


def only_at(broker, change):
    """Return what makes right brokers, but for one, to whose `handle` a change is applied."""

    def make(position, *arguments, **options):
        made = Broker(position, *arguments, **options)
        if position.broker == broker:
            change(made)
        return made

    return make


def small(make=Broker, after=lambda simulation: None, *, published=(0,), **options):
    """Return a run: three clusters of two; alice at broker 0 wants what bob at broker 5 publishes."""

    def run(recorder):
        given = options | ({"broker": make} if recorder is None else recorder.options(make))
        simulation = Simulation(ClusterTree(clusters=3, brokers_per_cluster=2), **given)
        if recorder is not None:
            recorder.attend(simulation)
        number = simulation.subscribe("alice", 0, "price > 10")
        simulation.run_until_installed("alice", number)
        after(simulation)
        simulation.publish("bob", 5, [{"price": 12 + more} for more in published])
        simulation.advance(30.0)
        simulation.account.settled(simulation.now)
        return Ran(simulation.account, judge(simulation.account), [], [])

    return run


def place_is_there(place):
    path, _, names = place.partition(": ")
    text = (ROOT / path).read_text(encoding="utf-8")
    for name in names.split(", "):
        owner, _, method = name.partition(".")
        assert f"class {owner}" in text, place
        assert not method or f"def {method}(" in text, place


def test_every_place_that_is_named_is_there():
    for place in (
        findings.CLOSES,
        findings.DELIVERS,
        findings.RESENDS,
        subscriptions.TELLS,
        *rules._PLACES.values(),
    ):
        place_is_there(place)
    place_is_there("clients/publisher.py: PublisherMachine")


def test_what_holds_is_told_from_the_publisher_to_the_subscriber():
    found = explain(small())
    assert found.finding.outcome == "delivered" and found.finding.broker == 0 and "all holds" in found.chosen
    journey = found.journey
    assert journey.matching == (1,) and journey.content == {"price": 12}
    way = [step.broker for step in journey.taken if step.ways and step.goes_on]
    assert way[0] == 5 and journey.delivered[0].broker == 0
    text = str(found)
    assert "bob publishes #1" in text and "takes it from bob" in text and "alice is notified" in text
    assert "to alice (wants 'price > 10')" in text


def test_a_message_to_a_dead_broker_is_lost_on_that_link():
    found = explain(small(after=lambda simulation: simulation.crash(1))).finding
    assert found.outcome == "missing"
    assert "from broker" in found.was and "to broker 1" in found.was
    assert "broker 1 is dead" in found.why


def test_a_broker_that_never_heard_of_the_subscription_has_no_entry():
    def deaf(broker):
        inner = broker.handle
        broker.handle = lambda event: (
            [] if isinstance(event, Received) and isinstance(event.message, Announce) else inner(event)
        )

    run = small(only_at(1, deaf))
    assert "nothing had to come for certain" in explain(run).chosen
    asked = explain(run, "alice", "bob:1").finding
    assert asked.outcome == "missing" and asked.broker == 1
    assert "has no entry for" in asked.why and "the judge of routes found" in asked.why
    assert asked.place == "routing/schemes/hybrid.py: Hybrid.handle"


def losing_deliveries(broker):
    inner = broker.handle
    broker.handle = lambda event: [each for each in inner(event) if not isinstance(each, Deliver)]


def losing_events(broker):
    inner = broker.handle
    broker.handle = lambda event: [
        each for each in inner(event) if not (isinstance(each, Send) and isinstance(each.message, Events))
    ]


@pytest.mark.parametrize(("change", "at"), [(losing_deliveries, 0), (losing_events, 5)])
def test_what_a_broker_does_beside_its_layers_is_its_fault(change, at):
    found = explain(small(only_at(at, change))).finding
    assert (found.outcome, found.broker, found.place) == ("missing", at, OUTSIDE)
    assert "the layers of the broker sent it on" in found.why


def twice(broker):
    inner = broker.handle
    broker.handle = lambda event: [
        copy for each in inner(event) for copy in [each] * (1 + isinstance(each, Send))
    ]


def test_an_event_that_came_twice_was_sent_twice_by_one_broker():
    found = explain(small(only_at(5, twice))).finding
    assert (found.outcome, found.broker, found.place) == ("once", 5, OUTSIDE)
    assert "sent it twice" in found.why


CHAOS = [
    ("skip_dedup", True, 0, "once", findings.DELIVERS),
    ("send_nothing_again", True, 0, "missing", findings.RESENDS),
    slow("send_twice", False, 0, "once", OUTSIDE),
    ("deliver_to_everybody", False, 0, "wanted", OUTSIDE),
    slow("renumber", False, 0, "published", OUTSIDE),
    slow("deliver_backwards", False, 0, "ordered", OUTSIDE),
    pytest.param(
        "forget_what_a_moved_client_has_had", True, 1, "once", findings.DELIVERS, marks=pytest.mark.slow
    ),
    pytest.param("pass_closed_links", True, 14, "missing", findings.CLOSES, marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("name", "heals", "seed", "outcome", "place"), CHAOS)
def test_the_rule_that_is_switched_off_is_named(name, heals, seed, outcome, place):
    make = mutants.made(getattr(mutants, name))
    report = run_case(draw_case(seed, heals=heals, **mutants.SMALL), broker=make)
    found = report.explain()
    assert report.outcome == "violated"
    assert (found.finding.outcome, found.finding.place) == (outcome, place)
    assert found.finding.broker in found.journey.clusters
    assert found.lines[-1] == f"The rule stands in: {place}"
    assert run_case(draw_case(seed, heals=heals, **mutants.SMALL)).outcome != "violated", (
        "a right broker passes"
    )


def test_a_rule_that_is_off_at_one_broker_is_named_there():
    """Only one broker takes nothing for a duplicate: of all brokers it is named."""
    case = draw_case(0, heals=True, **mutants.SMALL)
    named = {}
    for broker in (0, 1):
        report = run_case(case, broker=only_at(broker, mutants.skip_dedup))
        if report.outcome == "violated":
            named[broker] = report.explain().finding
    assert named, "the rule matters somewhere"
    for broker, found in named.items():
        assert (found.broker, found.place) == (broker, findings.DELIVERS)


@pytest.mark.parametrize("name", ["losing", "doubling", "deaf"])
def test_saboteurs_are_named(name):
    make = sabotage.saboteur(getattr(sabotage, name))
    found = run_case(draw_case(3, heals=False, seconds=8.0), broker=make).explain().finding
    expected = {"losing": "missing", "doubling": "once", "deaf": "not confirmed"}
    assert found.outcome == expected[name] and found.broker is not None
    assert found.place == (subscriptions.TELLS if name == "deaf" else OUTSIDE)


def test_recording_changes_nothing():
    case = draw_sim_case(7, brokers_max=8, seconds=6.0, late=False)
    plain = run_case(case, keep_trace=True)
    note = plain.trace.notifications()[0]
    found = plain.explain(note.client, (note.publisher, note.sequence))
    assert found.journey.notified and found.journey.delivered
    assert found.journey.notified[0] == note.at_seconds
    seen = []

    class Counting(Recorder):
        def attend(self, network):
            super().attend(network)
            seen.append(network)

    from rayvous.faults.chaos_run import ChaosRun
    from rayvous.faults.simulated.on_simulator import OnSimulator

    recorder = Counting((note.publisher, note.sequence), note.client)
    system = OnSimulator(case, **recorder.options())
    recorder.attend(system.network)
    report = ChaosRun(case, system, ChaosReport("sim", case.describe())).run()
    assert (report.steps, report.messages, report.notifications) == (
        plain.steps, plain.messages, plain.notifications
    )  # fmt: skip


def test_in_a_network_that_heals_a_later_round_has_to_bring_what_a_dead_broker_missed():
    """The publisher's broker is alive, the one between is dead, and the run ends before anybody has noticed."""

    def run(recorder):
        given = {"recovery": Recovery()} | ({} if recorder is None else recorder.options())
        simulation = Simulation(ClusterTree(clusters=3, brokers_per_cluster=2), **given)
        if recorder is not None:
            recorder.attend(simulation)
        simulation.subscribe("alice", 0, "price > 10")
        simulation.advance(5.0)
        simulation.crash(1)
        simulation.publish("bob", 5, [{"price": 12}])
        simulation.advance(0.5)
        return Ran(simulation.account, judge(simulation.account), [], [])

    found = explain(run, "alice", "bob:1")
    assert found.finding.outcome == "missing" and found.journey.heals
    assert "no round has brought it since" in found.finding.why
    assert any(mark.kind == "death" and mark.process == 1 for mark in found.journey.marks)
    assert any(span.lane == "b1" for span in found.diagram.spans)


@pytest.mark.parametrize(
    ("subscriber", "event", "words"),
    [
        ("zoe", None, "there is no subscriber 'zoe'; there are alice"),
        (None, "bob:9", "nobody published bob:9; there are bob:1 to bob:1"),
        (None, "bob", "event is 'bob': it must be publisher:number, such as faa:17"),
        (None, ("bob", "1"), "it must be publisher:number"),
        (None, ":3", "it must be publisher:number"),
    ],
)
def test_what_is_not_there_is_refused(subscriber, event, words):
    with pytest.raises(InputError, match=words):
        explain(small(), subscriber, event)


@pytest.mark.parametrize("number", ["9" * 5_000, "9223372036854775808", "٣" * 30])
def test_a_number_that_no_table_can_contain_is_refused(number):
    with pytest.raises(InputError, match="it must be publisher:number") as said:
        event_of(f"faa:{number}")
    assert len(str(said.value)) < 400
    with pytest.raises(InputError, match="it must be publisher:number"):
        event_of(("faa", 2**63))
    assert event_of("faa:9223372036854775807") == ("faa", 2**63 - 1)


def test_names_of_publishers_may_have_colons():
    assert event_of("urn:faa:17") == ("urn:faa", 17)


def test_a_report_without_a_run_says_what_it_needs():
    with pytest.raises(InputError, match="keep_trace=True"):
        ChaosReport("ray", {"seed": 1}).explain()


def test_an_explanation_is_plain_data_and_a_file(tmp_path):
    found = explain(small())
    plain = found.to_dict()
    assert plain["outcome"] == "delivered" and plain["event"] == ["bob", 1] and plain["words"] == found.lines
    assert found.save(tmp_path / "why.html").read_text().startswith("<!doctype html>")
    assert found.save(tmp_path / "why.svg").read_text().startswith("<svg ")
    with pytest.raises(InputError, match=r"must end in \.html or \.svg"):
        found.save(tmp_path / "why.png")
    with pytest.raises(InputError, match="cannot be written"):
        found.save(tmp_path / "no" / "why.html")
    assert "<iframe srcdoc=" in found._repr_html_()
