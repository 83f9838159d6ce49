"""LBDD inside clusters: each member gets one copy, according to the plan (paper 5)."""

from collections import Counter

from rayvous.experiments import compare
from rayvous.protocol.effects import Multicast, Send
from rayvous.protocol.messages.pubsub import Events
from rayvous.protocol.scenarios.scenario import Workload
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.routing.topologies.lbdd_plan import plan
from rayvous.simulator import Simulation


def test_each_member_passes_on_what_the_plan_of_the_origin_says():
    sent, multicasts = Counter(), []

    def record(step):
        for effect in step.effects:
            if isinstance(effect, Send) and isinstance(effect.message, Events):
                sent[step.broker.position.broker, effect.to] += 1
            elif isinstance(effect, Multicast) and isinstance(effect.message, Events):
                multicasts.append(effect)

    net = Simulation(ClusterTree(1, 16).positions(), "hybrid+fanout", record=record)
    for broker in range(16):
        net.subscribe(f"s{broker}", broker, "x > 1", 1)
        assert net.run_until_installed(f"s{broker}", 1)
    net.publish("p", 3, [{"x": 2}])
    net.run()
    tree = plan(3, [broker for broker in range(16) if broker != 3])
    assert sent == {(sender, to): 1 for sender, below in tree.children.items() for to in below}
    assert not multicasts
    assert all(net.notifications(f"s{broker}") == [("p", 1)] for broker in range(16))


def test_it_spreads_the_load_that_a_multicast_leaves_with_one():
    topology = {"clusters": 3, "brokers_per_cluster": 12, "degree": 2}
    load = Workload(20, 6, 60, matching=0.1)
    schemes = ["hybrid", "hybrid+fanout"]
    multicast, fanned = compare.run(schemes, topology=topology, workload=load, deaths=False)["results"]
    assert multicast["verdict"] == fanned["verdict"] == "holds"
    assert fanned["messages"] > multicast["messages"] + 10, "a multicast counts one for all members"
    assert fanned["load_max_over_mean"] < multicast["load_max_over_mean"] / 2
    assert (multicast["survives"], fanned["survives"]) == ("heals", "heals")
