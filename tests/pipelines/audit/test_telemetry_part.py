"""Explaining by telemetry: of simulated networks, which have the tables of Ray, with wrong clocks and missing rows."""

from itertools import pairwise

import numpy as np
import pytest
import rayvous as rv
from rayvous.actors.telemetry.arrow import to_arrow
from rayvous.actors.telemetry.files import PartKey, network_of, write_network, write_part
from rayvous.actors.telemetry.telemetry import Telemetry
from rayvous.cli.verbs.explain import run_explain
from rayvous.pipelines.audit.telemetry_part import explain_telemetry
from rayvous.protocol.errors import InputError
from rayvous.simulator.telemetry import SimulatedTelemetry

RUN = "flights-1a2b3c4d"
TREE = rv.ClusterTree(3, 2)


def tables(trace_events=True, after=lambda simulation: None):
    """Return what is recorded while alice at broker 0 and carol at 5 want what bob at 5 and dan at 0 publish."""
    telemetry = SimulatedTelemetry(trace_events=trace_events)
    simulation = rv.Simulation(TREE, telemetry=telemetry)
    for client, broker in (("alice", 0), ("carol", 5)):
        number = simulation.subscribe(client, broker, "price > 10")
        simulation.run_until_installed(client, number)
    for price in (12, 13):
        simulation.publish("bob", 5, [{"price": price}])
        simulation.run()
        simulation.publish("dan", 0, [{"price": price}])
        simulation.run()
    after(simulation)
    simulation.publish("bob", 5, [{"price": 14}])
    simulation.run()
    return telemetry.tables()


def folder_of(found, folder):
    for name, table in found.items():
        write_part(folder, name, RUN, PartKey(1, 0), to_arrow(name, table))
    write_network(folder, RUN, network_of(TREE.positions(), "hybrid"))
    return folder


def shifted(found, brokers, seconds):
    return {
        name: table | {"time_seconds": table["time_seconds"] + seconds * np.isin(table["broker"], brokers)}
        for name, table in found.items()
    }


def test_a_delivered_event_has_its_hops(tmp_path):
    found = explain_telemetry(Telemetry.from_folder(folder_of(tables(), tmp_path)), "alice", "bob:1")
    assert found.finding.outcome == "delivered" and found.finding.broker == 0
    way = found.journey.taken[0].ways
    assert way[0] == 5 and way[-1] == 0
    assert [(copy.source, copy.to) for copy in found.journey.copies] == list(pairwise(way))
    times = [copy.sent_at for copy in found.journey.copies]
    assert times == sorted(times) and found.journey.notified[0] >= times[-1]
    assert "the clocks agree" in found.journey.clocks and "the first of" in found.journey.clocks
    assert found.diagram.arrows and "takes it from bob" in str(found)


def test_wrong_clocks_are_set_right_by_the_messages_between_them(tmp_path):
    right = explain_telemetry(
        Telemetry.from_folder(folder_of(tables(), tmp_path / "right")), "alice", "bob:1"
    )
    wrong = shifted(tables(), [0], 100.0)
    found = explain_telemetry(Telemetry.from_folder(folder_of(wrong, tmp_path / "wrong")), "alice", "bob:1")
    assert "clocks were moved" in found.journey.clocks
    assert found.journey.notified[0] == pytest.approx(right.journey.notified[0], abs=0.2)
    assert found.finding.outcome == "delivered"


def test_a_missing_event_was_last_seen_before_the_hop_that_nothing_took(tmp_path):
    found = tables(after=lambda simulation: simulation.crash(1))
    said = explain_telemetry(Telemetry.from_folder(folder_of(found, tmp_path)), "alice", "bob:3").finding
    assert said.outcome == "missing" and said.broker not in (None, 0)
    assert "left it for broker" in said.why
    lost = {name: table for name, table in tables().items() if name != "transfers"}
    notified = lost["notified"]
    keep = ~((notified["subscriber"] == "alice") & (notified["sequence"] == 3))
    lost["notified"] = {name: column[keep] for name, column in notified.items()}
    said = explain_telemetry(
        Telemetry.from_folder(folder_of(lost, tmp_path / "lost")), "alice", "bob:3"
    ).finding
    assert said.outcome == "missing" and said.broker == 5 and "no message with events left it" in said.why


def test_without_a_question_it_is_the_slowest_notification(tmp_path):
    found = explain_telemetry(Telemetry.from_folder(folder_of(tables(), tmp_path)))
    assert found.chosen == "the notification that took longest" and found.finding.outcome == "delivered"


@pytest.mark.parametrize(
    ("subscriber", "event", "words"),
    [
        ("zoe", None, "has handed anything to a subscriber 'zoe'"),
        (None, "bob:99", "nobody published bob:99"),
        (None, "bob", "must be publisher:number"),
    ],
)
def test_what_is_not_there_is_refused(tmp_path, subscriber, event, words):
    telemetry = Telemetry.from_folder(folder_of(tables(), tmp_path))
    with pytest.raises(InputError, match=words):
        explain_telemetry(telemetry, subscriber, event)


def test_a_network_that_does_not_trace_events_is_refused(tmp_path):
    telemetry = Telemetry.from_folder(folder_of(tables(trace_events=False), tmp_path))
    with pytest.raises(InputError, match="trace_events=True"):
        explain_telemetry(telemetry)


def test_the_command_takes_a_telemetry_folder(tmp_path, capsys):
    folder = folder_of(tables(), tmp_path / "telemetry")
    said = run_explain(folder, "alice", "bob:2", tmp_path / "why.html", as_json=False)
    assert said["outcome"] == "delivered" and "clocks: " in capsys.readouterr().out
    part = next((folder / "notified").rglob("*.parquet"))
    part.write_bytes(part.read_bytes()[:50])
    with pytest.raises(InputError, match="cannot be read"):
        run_explain(folder, "alice", "bob:2", None, as_json=False)


def test_times_that_are_no_numbers_are_passed_over(tmp_path):
    found = tables()
    odd = found["notified"]["time_seconds"].copy()
    odd[0] = np.nan
    some = found | {"notified": found["notified"] | {"time_seconds": odd}}
    said = explain_telemetry(Telemetry.from_folder(folder_of(some, tmp_path / "some")), "alice")
    assert said.finding.outcome == "delivered"
    none = found | {"notified": found["notified"] | {"time_seconds": np.full(len(odd), np.nan)}}
    with pytest.raises(InputError, match="no notification has a time; name an event: --event"):
        explain_telemetry(Telemetry.from_folder(folder_of(none, tmp_path / "none")), "alice")
    explain_telemetry(Telemetry.from_folder(tmp_path / "none"), "alice", "bob:1")
