"""The program run by `test_bulk_nodes`: payloads between Ray nodes, and the bytes that Ray says it sent."""

import json
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import ray
import rayvous as rv
from ray.cluster_utils import Cluster
from rayvous.routing.topologies.lbdd_plan import plan

NODES, BROKERS, MEGABYTES = 3, 6, 8
PAYLOAD = bytes(MEGABYTES << 20)
REPORT_MILLISECONDS = 300
BOUND_SECONDS = 10.0
STORE_BYTES = 150 << 20


def pushed(nodes):
    """Return the bytes that each node's object manager has sent so far, by Ray's own count."""
    out = dict.fromkeys(nodes, 0.0)
    for node, port in nodes.items():
        with urllib.request.urlopen(f"http://{port}/metrics") as answer:
            for line in answer.read().decode().splitlines():
                if line.startswith("ray_object_manager_bytes{") and 'Type="Pushed' in line:
                    out[node] += float(line.split()[-1])
    return out


def main():
    head = {"include_dashboard": False, "_system_config": {"metrics_report_interval_ms": REPORT_MILLISECONDS}}
    room = {"num_cpus": 0, "object_store_memory": STORE_BYTES}
    cluster = Cluster(initialize_head=True, head_node_args=room | head)
    try:
        for _ in range(NODES - 1):
            cluster.add_node(wait=False, **room)
        cluster.wait_for_nodes()
        ray.init(address=cluster.address, namespace="rayvous", log_to_driver=False, logging_level="error")
        nodes = {
            node["NodeID"]: f"{node['NodeManagerAddress']}:{node['MetricsExportPort']}"
            for node in ray.nodes()
        }
        places = list(nodes)
        with rv.Network.launch(
            rv.ClusterTree(BROKERS, 1), scheme="lbdd", nodes=places, progress=False
        ) as net:
            hosts = net._hosts.directory.hosts
            at = {broker: ray.get(host.pid.remote())[0] for broker, host in hosts.items()}
            assert at == {broker: places[broker % NODES] for broker in at}  # the nodes are used in turn
            for broker in at:
                net.subscriber(f"s{broker}", broker=broker).subscribe("topic = 'maps'")
            publisher = net.publisher("atlas", broker=0)
            ways = [
                (broker, to) for broker, several in plan(0, range(BROKERS)).children.items() for to in several
            ]
            expected = Counter({ray.get_runtime_context().get_node_id(): 0} | dict.fromkeys(nodes, 0))
            crossing = [(ray.get_runtime_context().get_node_id(), at[0])]
            crossing += [(at[source], at[to]) for source, to in ways]
            for source, to in crossing:
                expected[source] += len(PAYLOAD) * (source != to)
            before = pushed(nodes)
            done = publisher.distribute(PAYLOAD, topic="maps")
            deadline = time.monotonic() + BOUND_SECONDS
            while True:  # Ray's counters must be polled
                now = pushed(nodes)
                sent = {node: now[node] - before[node] for node in nodes}
                if sum(sent.values()) >= sum(expected.values()) or time.monotonic() > deadline:
                    break
                time.sleep(REPORT_MILLISECONDS / 1000)
        result = {
            "expected": [expected[node] for node in nodes],
            "pushed": [sent[node] for node in nodes],
            "sent": {str(broker): nbytes for broker, nbytes in done.sent.items()},
            "seconds": done.seconds,
        }
        Path(sys.argv[1]).write_text(json.dumps(result), encoding="utf-8")
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    sys.exit(main())
