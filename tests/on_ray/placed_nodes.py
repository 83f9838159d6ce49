"""A part of `nodes.py`: a network with places, on Ray nodes with labels, resources and a GPU."""

import tempfile
import time
from pathlib import Path

import ray
import rayvous as rv
from patience import PATIENCE_SECONDS, until
from ray._private.state import actors

KINDS = {
    "one": {"num_cpus": 1, "labels": {"pool": "brokers"}, "resources": {"broker": 3}},
    "two": {"num_cpus": 1, "labels": {"pool": "brokers"}, "resources": {"broker": 3}},
    "gpu": {"num_cpus": 1, "labels": {"pool": "brokers"}, "resources": {"broker": 9}, "num_gpus": 1},
    "edge": {"num_cpus": 1, "labels": {"edge": "yes"}},
}
FILE = """
name = "placed"
[topology]
clusters = 1
brokers_per_cluster = 3
[recovery]
[place]
labels = { pool = "brokers" }
resources = { broker = 1 }
num_cpus = 0.25
[gateway]
http = "127.0.0.1:0"
place = { labels = { edge = "yes" } }
[limits]
call_seconds = 300
[access.anonymous]
publish = "TRUE"
"""


def refused(place):
    """Launch a network with a place, and return what is said, how long it took, and the actors that are left."""
    begun = time.monotonic()
    try:
        rv.Network.launch(rv.ClusterTree(1, 3), name="nowhere", place=place, progress=False).close()
        said = ""
    except rv.InputError as error:
        said = str(error)
    left = [each["name"] for each in ray.util.list_named_actors(all_namespaces=True)]
    return {"said": said, "seconds": time.monotonic() - begun, "left": left}


def where(names):
    """Return on which kind of node each actor is that is alive, by the last part of its name."""
    alive = [each for each in actors().values() if each["State"] == "ALIVE" and each["Name"]]
    return {each["Name"].removeprefix("placed:"): names[each["Address"]["NodeID"]] for each in alive}


def places(nodes, kinds, folder):
    names = {node.node_id: kind for kind, node in kinds.items()} | {nodes.home: "head"}
    path = Path(folder) / "network.toml"
    path.write_text(FILE, encoding="utf-8")
    with rv.Network.launch(path, progress=False) as net:
        net.await_convergence(PATIENCE_SECONDS)
        net.sink(
            Path(folder) / "lake", "TRUE", name="lake", place=rv.NodePlace({"edge": "!no"}, num_cpus=0.5)
        )
        net.subscriber("workers", group=True).subscribe("TRUE")
        seen = {"at_first": where(names)}
        try:
            net.sink(folder, "TRUE", name="deep", place=rv.NodePlace({"disk": "large"}))
        except rv.InputError as error:
            seen["sink"] = str(error)
        moved = next(broker for broker in range(3) if names[net.inspect.node_of(broker)] == "one")
        net.kill_broker(moved)
        net.restart_broker(moved)
        seen["again"] = names[net.inspect.node_of(moved)]
        nodes.lose(kinds["one"])
        net.await_convergence(PATIENCE_SECONDS)
        net.restart_broker(moved)
        seen["elsewhere"] = names[net.inspect.node_of(moved)]
        added = net.add_broker(0)
        seen["added"] = names[net.inspect.node_of(added)]
        alone = until(lambda: {"collector", "rendezvous", "gateways", "group:workers"} <= where(names).keys())
        seen["at_last"] = where(names) if alone else {}
    return seen


def run(nodes):
    kinds = dict(zip(KINDS, nodes.add_all(KINDS.values()), strict=True))
    with tempfile.TemporaryDirectory() as folder:
        return {
            "nowhere": refused(rv.NodePlace({"pool": "none"})),
            "too_small": refused(rv.NodePlace({"edge": "yes"}, num_cpus=0.5)),
        } | places(nodes, kinds, folder)
