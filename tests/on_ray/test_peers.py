"""A gateway and a peer from a wheel carry the same load: neither loses anything."""

from rayvous.benchmarks.peers import run


def test_a_gateway_and_a_peer_deliver_what_was_asked_for(ray_started):
    """Two processes share the gateway's port: events sent to one are delivered by the other, too."""
    result = run.run(alerts=(40,), clients=12, seconds=0.3, peers=("redis",), gateway_processes=2)
    ours, theirs = result["results"]
    assert (ours["server"], theirs["server"]) == ("rayvous", "redis")
    for row in (ours, theirs):
        assert row["events"] > 0 and row["notifications"] > 0
        assert (row["lost"], row["unwanted"]) == (0, 0), row
        assert 0 < row["latency_p50_seconds"] <= row["latency_p99_seconds"] < 5
        assert row["memory_bytes"] > 1 << 20
    assert ours["rayvous_times_this"] == 1
