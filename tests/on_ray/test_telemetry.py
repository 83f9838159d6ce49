"""Telemetry of networks on Ray: increments, folders, and a collector that dies under load."""

import pandas as pd
import psutil
import pytest
import ray
import rayvous as rv
from rayvous.actors.telemetry.files import runs
from rayvous.pipelines.audit.telemetry_part import explain_telemetry

SHAPE = {"topology": rv.ClusterTree(2, 2), "brokers_per_actor": 2}


def kill_and_see_it_gone(collector):
    """Kill the collector, and wait until it is dead: until then it accepts rows."""
    process = psutil.Process(ray.get(collector.pid.remote()))
    process.kill()
    process.wait(60)


def test_a_collector_that_dies_costs_no_delivery_and_what_it_had_is_counted(
    ray_started, traffic_at, tmp_path
):
    # The collector writes only when somebody reads, so that it has rows to lose.
    config = rv.TelemetryConfig(tmp_path, roll_seconds=1_000.0)
    with rv.Network.launch(**SHAPE, trace_events=True, telemetry=config) as net:
        traffic = traffic_at(net, {"all": 0, "odd": 3}, {"p": 1, "q": 2})
        with traffic.flowing():
            written = net.telemetry()
            assert written.rows["published"] > 0
            for publisher in traffic.publishers.values():
                publisher.publish({"x": 1_000, "odd": False})
            net._hosts.ask("flush_telemetry")  # the rows are in the collector, but in no file
            kill_and_see_it_gone(net._hosts.directory.collector)
            after = net.telemetry(since=written)
            lost = after.lost["published"]["collector"]
            assert lost >= len(traffic.publishers)
        for name, publisher in traffic.publishers.items():
            for sequence in range(1, publisher.published + 1):
                traffic.published.setdefault((name, sequence), {"x": 1_000, "odd": False})
        traffic.verify(100, 60)
        found = net.telemetry()
        frames = found.to_pandas()
        notified = sum(map(len, traffic.notified.values()))
        for name, total in (("published", len(traffic.published)), ("notified", notified)):
            assert len(frames[name]) + found.lost[name]["collector"] == total, name
            key = [column for column in ("subscriber", "publisher", "sequence") if column in frames[name]]
            assert not frames[name].duplicated(key).any()
        assert (
            frames["lost"].groupby("table")["rows"].sum()["published"] == found.lost["published"]["collector"]
        )
        late = frames["published"]["time_seconds"].max()
        assert late > written.to_pandas()["published"]["time_seconds"].max(), "rows after the restart arrive"
        assert found.lost["published"]["collector"] == lost, "it died once"


def test_an_event_is_explained_by_telemetry_with_the_clocks_of_hosts(ray_started, tmp_path):
    with rv.Network.launch(**SHAPE, trace_events=True) as net:
        for name, broker in (("alice", 0), ("carol", 3)):
            net.subscriber(name, broker=broker).subscribe("x >= 0")
        there, back = net.publisher("faa", broker=3), net.publisher("back", broker=0)
        for x in range(5):
            there.publish({"x": x})
            back.publish({"x": x})
            net.settle()
        seen = net.telemetry()
        found = explain_telemetry(seen, "alice", "faa:3")
        folder = seen.to_parquet(tmp_path / "telemetry")
    assert (found.finding.outcome, found.finding.broker) == ("delivered", 0)
    assert found.journey.taken[0].broker == 3 and found.journey.taken[0].ways[-1] == 0
    hops = [(copy.source, copy.to) for copy in found.journey.copies]
    assert hops and hops[0][0] == 3 and hops[-1][1] == 0
    assert "the clocks agree" in found.journey.clocks, "it is one machine"
    assert "times of different brokers compare to within" in found.journey.clocks
    assert explain_telemetry(rv.Telemetry.from_folder(folder), "alice", "faa:3").lines == found.lines
    assert found.save(tmp_path / "why.html").exists()


def test_multicasts_are_told_as_the_paper_counts_them_and_as_they_were_carried_out(ray_started):
    """Reference: paper 1, 5.1: a multicast is one message on its link."""
    with rv.Network.launch(rv.ClusterTree(1, 3)) as net:
        net.subscriber("s", broker=0).subscribe("x >= 0")
        publisher = net.publisher("p", broker=1)
        for count, text in ((10, ""), (2_000, "t" * 1_100)):
            publisher.publish_batch({"x": range(count), "text": [f"{x}{text}" for x in range(count)]})
            net.settle()
        frames = net.telemetry().to_pandas()
    said, done = (frames[name][frames[name]["events"] > 0] for name in ("transfers", "multicasts"))
    paper = said[said["link_kind"] == "multicast"]
    assert done["events"].sum() == paper["events"].sum() == 2_010
    assert done["nbytes"].sum() == paper["nbytes"].sum()
    inline, by_reference = (done[done["by_reference"] == way] for way in (0, 1))
    assert set(done["members"]) == set(done["calls"]) == {2} and set(done["nodes"]) == {1}
    assert inline["events"].sum() == 10 and (inline["sent_bytes"] == 2 * inline["nbytes"]).all()
    assert by_reference["events"].sum() == 2_000
    assert (by_reference["sent_bytes"] == by_reference["nbytes"]).all(), "one copy on the one node"


def test_a_folder_has_all_rows_when_the_network_is_closed(ray_started, tmp_path):
    with rv.Network.launch(**SHAPE, trace_events=True, telemetry=rv.TelemetryConfig(tmp_path)) as net:
        net.subscriber("s").subscribe("x >= 0")
        net.publisher("p").publish_batch({"x": range(500)})
        net.settle()
    assert len(runs(tmp_path)) == 1
    assert sorted(pd.read_parquet(tmp_path / "published")["sequence"]) == list(range(1, 501))
    assert len(pd.read_parquet(tmp_path / "notified")) == 500


def test_what_is_new_and_a_collector_that_is_gone_for_good(ray_started):
    with rv.Network.launch(**SHAPE, trace_events=True) as net:
        subscriber = net.subscriber("s")
        subscriber.subscribe("x >= 0")
        publisher = net.publisher("p")
        publisher.publish_batch({"x": range(10)})
        net.settle()
        first = net.telemetry()
        publisher.publish_batch({"x": range(5)})
        net.settle()
        second = net.telemetry(since=first)
        assert (first.rows["published"], second.rows["published"]) == (10, 5)
        assert second.to_pandas()["published"]["sequence"].tolist() == list(range(11, 16))
        assert net.telemetry(since=second).rows["notified"] == 0
        ray.kill(net._hosts.directory.collector)
        with pytest.raises(rv.BrokerUnavailable, match="reading telemetry: the collector is gone"):
            net.telemetry()
        publisher.publish_batch({"x": range(100)})
        net.settle()
        assert len(list(subscriber.notifications(timeout_seconds=0))) == 115


def test_a_folder_that_cannot_be_used_is_refused_before_anything_starts(ray_started, tmp_path):
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(rv.InputError, match=r"telemetry folder .* cannot be used"):
        rv.Network.launch(**SHAPE, name="unborn", telemetry=rv.TelemetryConfig(file))
    with pytest.raises(rv.InputError, match="it must be a TelemetryConfig"):
        rv.Network.launch(**SHAPE, name="unborn", telemetry=str(tmp_path))
    assert "unborn" not in rv.networks()
