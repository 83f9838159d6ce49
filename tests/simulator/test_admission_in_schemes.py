"""Admission works the same under every scheme: what fits is admitted, and what does not fit is refused."""

import pytest
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity, Judgement
from rayvous.routing.schemes.registry import SCHEMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation


@pytest.mark.parametrize(
    "name", [*SCHEMES, "hybrid+quench+merge", "hierarchical+quench+merge", "hybrid+fanout"]
)
def test_who_fits_is_admitted_and_who_does_not_is_refused(name):
    positions = scheme(name).positions(ClusterTree(4, 2).positions())
    first, last = positions[0].broker, positions[-1].broker
    net = Simulation(positions, name, admission=AdmissionConfig(0.0, capacity=Capacity(100, 60)))
    net.advertise("steel", last, "k = 'steel'", 50.0, 1)
    net.advertise("wool", last, "k = 'wool'", 30.0, 1)
    net.run()
    for client, wanted in (("alice", "k = 'steel' AND n > 1"), ("bob", "k = 'wool'")):
        net.subscribe(client, first, wanted)
        net.run()
    net.publish("steel", last, [{"k": "steel", "n": n} for n in range(4)])
    net.publish("wool", last, [{"k": "wool", "n": 9}])
    net.run()
    alice, bob = (
        [news for news in net.news(client) if isinstance(news, Judgement)] for client in ("alice", "bob")
    )
    assert [news.admitted for news in alice] == [True] and not alice[0].refusals
    assert [news.admitted for news in bob] == [False]
    short_of = {(refusal.resource, refusal.asked, refusal.free) for refusal in bob[0].refusals}
    assert short_of == {("bandwidth", 30.0, 10.0)}
    assert net.notifications("alice") == [("steel", 3), ("steel", 4)] and not net.notifications("bob")
