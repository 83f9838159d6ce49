"""What explain says of a subscriber that begins in the past, and is recorded apart."""

from pathlib import Path

import pytest
from rayvous.faults.checker.reliability import judge
from rayvous.faults.explaining.explain import Ran, explain
from rayvous.faults.explaining.past import PAGES, READS
from rayvous.faults.explaining.picture import PAST_KIND
from rayvous.faults.plans.replay_cases import replays_of
from rayvous.faults.simulated.chaos import draw_sim_case, explain_case, run_case
from rayvous.protocol.batch import concat
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.replay.history import History, Page
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

ROOT = Path(__file__).parents[3]


def small(at="oldest", meanwhile=lambda network: None, problems=(), seconds=20.0):
    """Return a run: bob publishes three events at broker 5, long before alice comes to broker 2, and one after that."""

    def run(recorder):
        times = Recovery.for_simulator(history_seconds=86_400.0)
        given = {} if recorder is None else recorder.options()
        network = Simulation(
            ClusterTree(3, 2, degree=1), seed=1, recovery=times, store=in_memory, client_detect_seconds=1.0, **given
        )  # fmt: skip
        if recorder is not None:
            recorder.attend(network)
        for number in range(3):
            network.publish("bob", 5, [{"price": 10 * number}])
            network.advance(1.0)
        network.advance(100.0)
        network.subscribe_at("alice", 2, ["price > 5"], at)
        meanwhile(network)
        network.advance(seconds)
        network.publish("bob", 5, [{"price": 99}])
        network.advance(seconds)
        return Ran(network.account, judge(network.account), list(problems), [], network.clients.apart)

    return run


def test_what_is_read_from_a_history_is_told_from_the_publisher_on():
    found = explain(small(), "alice", "bob:2")
    assert found.finding.outcome == "delivered" and found.finding.broker == 5
    assert "which it had read from the history of broker 5" in found.finding.was
    words = str(found)
    for line in (
        "bob publishes #2", "takes it from bob", "alice registers #1 at broker 2: price > 5",
        "alice reads its past: it is to read bob:1 to bob:3",
        "alice reads it: broker 5 answers up to bob:3, and brings it", "alice is notified",
    ):  # fmt: skip
        assert line in words, words
    order = [
        words.index(part) for part in ("publishes", "registers", "reads its past", "brings it", "notified")
    ]
    assert order == sorted(order)
    guide = (ROOT / "docs" / "chaos.md").read_text(encoding="utf-8")
    lines = words.splitlines()
    assert "\n".join([*lines[3:-2], lines[-1]]) in guide, words
    diagram = found.diagram
    assert {"b2", "b5"} < {lane.key for lane in diagram.lanes}
    (brought,) = [arrow for arrow in diagram.arrows if arrow.kind == PAST_KIND]
    assert brought.source == "b5" and brought.style == "path" and "brings it" in brought.text
    assert "reading the past" in found.html()


def test_what_comes_after_the_past_came_from_broker_to_broker():
    found = explain(small(), "alice", "bob:4")
    assert found.finding.outcome == "delivered" and found.finding.broker == 2
    assert "alice reads its past, which ends before it: what it reads ends with bob:3" in str(found)
    assert not [arrow for arrow in found.diagram.arrows if arrow.kind == PAST_KIND]


def test_what_is_in_front_of_the_beginning_is_not_owed():
    found = explain(small({"bob": 2}), "alice", "bob:2").finding
    assert (found.outcome, found.broker) == ("not owed", None)
    assert "it reads bob from behind bob:2 on" in found.why


def test_what_it_does_not_want_is_passed_by():
    found = explain(small(), "alice", "bob:1")
    assert found.journey.matching == () and "does not match: price > 5" in str(found)
    assert found.finding.outcome == "missing" and "without it" in found.finding.why
    assert found.finding.place == PAGES


def test_a_history_that_leaves_something_out_is_named(monkeypatch):
    real = History.page

    def page(self, query):
        found = real(self, query)
        rows = (
            []
            if found.batch is None
            else [row for row in range(len(found.batch)) if found.batch.sequence[row] != 2]
        )
        return found if found.batch is None else Page(concat([found.batch.take(rows)]), found.upto)

    monkeypatch.setattr(History, "page", page)
    problem = "replay of alice: complete: bob 2 is missing, and it was not told"
    found = explain(small(problems=[problem]))
    assert found.chosen == problem and found.journey.event == ("bob", 2)
    assert found.finding.outcome == "missing" and found.finding.broker == 5 and found.finding.place == PAGES
    (asked,) = [arrow for arrow in found.diagram.arrows if arrow.kind == PAST_KIND]
    assert asked.to == "b5" and asked.style == "wants"


def test_what_no_broker_has_that_answers_is_given_up_and_it_is_told_so():
    found = explain(small({"bob": 0}, lambda network: network.crash(5), seconds=100.0), "alice", "bob:2")
    assert found.finding.outcome == "missing" and found.finding.place == READS
    assert "none of the 5 brokers that answer has it in its history" in found.finding.why
    words = str(found)
    assert "broker 5 dies" in words and "alice is told that it is lost" in words
    assert [dot for dot in found.diagram.dots if dot.kind == PAST_KIND and dot.sign == "cross"]


def test_a_broker_that_has_it_and_stands_still_is_named():
    def stands_still(network):
        network.pause(5)

    found = explain(small({"bob": 0}, stands_still, seconds=100.0), "alice", "bob:2").finding
    assert "broker 5 has it, and does not answer" in found.why


def test_who_is_not_there_is_refused_with_who_is():
    with pytest.raises(InputError, match="there is no subscriber 'carol'; there are alice"):
        explain(small(), "carol")
    assert explain(small(), "alice").journey.event == ("bob", 2), "what took longest"


def replayed():
    """Return a case with a subscriber that begins in the past."""
    for seed in range(20):
        case = draw_sim_case(seed, stable=True, brokers_max=6, seconds=6.0, late=False)
        if replays_of(case):
            return case
    raise AssertionError


def test_a_run_of_chaos_explains_them_and_recording_changes_nothing():
    case = replayed()
    report = run_case(case, keep_trace=True)
    client = replays_of(case)[0].client
    found = report.explain(client)
    assert found.journey.subscriber == client and found.finding.outcome == "delivered"
    assert found.journey.notified[0] > found.journey.published_at
    again = explain_case(case, {}, client, found.journey.event)
    assert again.lines == found.lines[1:], "it is the same but for why it was chosen"
