"""A part of `nodes.py`: Ray nodes join and leave under a network with gateways."""

import os
import signal
from contextlib import ExitStack

import httpx
import ray
import rayvous as rv
from patience import until
from rayvous.actors.network.gateways import gateways_of
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, GatewayLimits, Principal

ACCESS = AccessConfig(anonymous=Principal(publish="TRUE", subscribe="TRUE", streams_max=2))


ALL, HALF = [200, 200], [200, 429]
"""What two subscriptions are answered where two are allowed, and where one is the share."""
LOOKS = []
"""The states of gateways in each look."""


def serving(net, number):
    seen = net.status().gateways
    LOOKS.append(sorted(one.state for one in seen))
    there = {one.node: one.urls for one in seen if one.state == "serving"}
    return there if len(there) == len(seen) == number else {}


def named():
    """Return the names of all gateway actors and gateway supervisors."""
    return [name for name in ray.util.list_named_actors(all_namespaces=True) if "gateway" in name["name"]]


def streams(url):
    """Return the status codes of two subscriptions that are open at the same time."""
    with ExitStack() as opened:
        asked = [httpx.stream("GET", f"{url}/subscribe", params={"selector": "n < 0"}) for _ in range(2)]
        return [opened.enter_context(each).status_code for each in asked]


def comes_and_goes(nodes, net):
    before = serving(net, 1)
    [[url]] = before.values()
    shares = [streams(url) == ALL]
    inside = net.subscriber("inside")
    inside.subscribe("n >= 0")
    node = nodes.add()
    seen = until(lambda: serving(net, 2))
    states = [list(each) for each in dict.fromkeys(map(tuple, LOOKS))]
    new = [urls[0] for name, urls in seen.items() if name not in before]
    answers = [httpx.post(f"{url}/events", json={"n": n}).status_code for n, url in enumerate(new)]
    shares.append(until(lambda: streams(url) == HALF))
    heard = [note.event["n"] for note in inside.notifications(timeout_seconds=5.0)] if new else []
    nodes.lose(node)
    left = until(lambda: serving(net, 1))
    shares.append(until(lambda: streams(url) == ALL))
    return {
        "before": list(before), "after": list(seen), "of_the_node": node.node_id, "answers": answers,
        "states": states, "heard": heard, "shares": shares, "left": list(left), "urls": net.gateways() == [url],
    }  # fmt: skip


def supervisor_dies(net):
    """Kill the supervisor; Ray restarts it, and it should keep the gateway that it had started."""
    processes = [ray.get(each.pid.remote()) for each in gateways_of(net.inspect.directory)]
    supervisor = ray.get_actor(f"{net.name}:gateways", namespace="rayvous")
    os.kill(ray.get(supervisor.pid.remote()), signal.SIGKILL)
    found = until(lambda: serving(net, 1))
    after = [ray.get(each.pid.remote()) for each in gateways_of(net.inspect.directory)]
    return {"found": len(found), "same": after == processes, "named": len(named())}


def run(nodes):
    config = GatewayConfig("127.0.0.1:0", share_limits=True, limits=GatewayLimits(heartbeat_seconds=1.0))
    net = rv.Network.launch(rv.ClusterTree(1, 1), gateway=config, access=ACCESS, progress=False)
    seen = {"nodes": comes_and_goes(nodes, net), "supervisor": supervisor_dies(net)}
    net.close()
    return seen | {"left": until(lambda: not named())}
