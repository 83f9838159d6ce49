"""The comparison on real actors gives the same counts as the simulator."""

from rayvous.experiments import compare
from rayvous.protocol.scenarios.scenario import Workload


def test_schemes_send_as_much_on_ray_as_in_virtual_time(ray_started):
    arguments = {
        "schemes": ["lbdd"],
        "topology": {"clusters": 2, "brokers_per_cluster": 2, "degree": 2},
        "workload": Workload(8, 4, 30, matching=0.2),
    }
    real, virtual = compare.run(**arguments, on="ray"), compare.run(**arguments)
    assert real["verdict"] == virtual["verdict"] == "holds"
    for one, other in zip(real["results"], virtual["results"], strict=True):
        for name in ("messages", "crossings", "table_entries_mean", "load_gini"):
            assert one[name] == other[name], name
        assert one["hops_mean"] is None and one["latency_mean_seconds"] > 0
