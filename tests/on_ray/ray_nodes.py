"""A Ray cluster on this machine whose nodes are processes: they come, go, and are lost for good."""

import ray
from patience import until
from ray.cluster_utils import Cluster

ROOM = {"num_cpus": 0, "object_store_memory": 100 << 20}
QUICK = {
    "health_check_period_ms": 500, "health_check_failure_threshold": 6, "prestart_worker_first_driver": False,
    "enable_worker_prestart": False,
}  # fmt: skip
"""Ray gives a node up after some three seconds, and starts no worker for each CPU."""


class Nodes:
    """The nodes of one Ray cluster: the node of this process, and nodes that can be lost."""

    def __init__(self):
        head = ROOM | {"include_dashboard": False, "_system_config": QUICK}
        self.cluster = Cluster(initialize_head=True, head_node_args=head)
        ray.init(
            address=self.cluster.address, namespace="rayvous", log_to_driver=False, logging_level="error"
        )
        self.home = ray.get_runtime_context().get_node_id()

    def add(self, **has):
        return self.cluster.add_node(**ROOM | has)

    def add_all(self, kinds):
        """Add a node of each of these kinds, all at the same time."""
        made = [self.cluster.add_node(wait=False, **ROOM | has) for has in kinds]
        self.cluster.wait_for_nodes()
        return made

    def lose(self, node):
        """Kill a node, and poll until Ray has given it up."""
        self.cluster.remove_node(node, allow_graceful=False)
        until(lambda: node.node_id not in self._alive())

    def clear(self):
        """Lose all nodes but that of this process, and wait until nothing with a name is left on Ray."""
        for node in tuple(self.cluster.worker_nodes):
            self.cluster.remove_node(node, allow_graceful=False)
        until(lambda: self._alive() == {self.home})
        until(lambda: not ray.util.list_named_actors(all_namespaces=True))

    def end(self):
        ray.shutdown()
        self.cluster.shutdown()

    def _alive(self):
        return {each["NodeID"] for each in ray.nodes() if each["Alive"]}
