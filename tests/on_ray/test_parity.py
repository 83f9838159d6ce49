"""One scenario on two hosts gives the same deliveries and as many messages about subscriptions."""

import pytest
import rayvous as rv
from rayvous.faults.checker.reliability import judge
from rayvous.faults.real.scenarios import replay
from rayvous.routing.topologies.cluster_trees import topology_of
from rayvous.simulator.run import run_scenario

RUNS = [
    ("hybrid", 2),
    ("hierarchical", 1),
    ("match-first", 1),
    ("flooding+graph", 1),
    ("lbdd", 2),
    ("hypercube", 1),
    ("hybrid+quench+merge", 2),
]


@pytest.mark.parametrize(("scheme", "seed"), RUNS)
def test_a_scenario_gives_the_same_deliveries_on_both_hosts(ray_started, scheme, seed):
    scenario = rv.Scenario.from_dict(
        {
            "name": "parity",
            "topology": {"clusters": 4, "brokers_per_cluster": 2, "degree": 2},
            "scheme": scheme,
            "seed": seed,
            "workload": {
                "subscribers": 12,
                "publishers": 4,
                "publications": 30,
                "subscriptions_per_subscriber": 2,
                "events_per_publication": 5,
                "rounds": 2,
            },
        }
    )
    topology = topology_of(scenario.topology)
    explicit = scenario.explicit(topology.positions())
    simulated = run_scenario(explicit)
    in_virtual_time = simulated.trace
    with rv.Network.launch(topology, scheme=scheme, brokers_per_actor=4) as net:
        on_ray = replay(net, explicit)
        net.inspect.check()
        transfers = net.telemetry().to_pandas()["transfers"]
    for kind in ("up", "down", "multicast"):
        rows, traffic = transfers[transfers["link_kind"] == kind], simulated.traffic[kind]
        of_events = rows["events"] > 0
        assert int(rows["messages"][~of_events].sum()) == traffic.control, kind
        # On Ray, events that wait for the same link travel together.
        assert 0 < int(rows["messages"][of_events].sum()) <= traffic.events or not traffic.events, kind
    for trace in (in_virtual_time, on_ray):
        verdict = judge(trace)
        assert verdict.holds, verdict
        assert verdict.notifications_expected > 50
    assert by_publisher(in_virtual_time) == by_publisher(on_ray)


def by_publisher(trace):
    """Return the sequences by (client, publisher), as order is promised only for each publisher."""
    out = {}
    for note in trace.notifications():
        out.setdefault((note.client, note.publisher), []).append(note.sequence)
    return out
