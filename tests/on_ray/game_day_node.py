"""A part of `nodes.py`: a game day ends a machine by a command, and starts its brokers elsewhere."""

import shlex
import threading

import rayvous as rv
from node_lost import BOUND_SECONDS


def run(nodes):
    enough, lost = threading.Event(), nodes.add()
    at, [raylet] = lost.node_id, lost.all_processes["raylet"]
    with rv.Network.launch(
        rv.ClusterTree(2, 2),
        recovery=rv.Recovery(heartbeat_seconds=0.3),
        nodes=[nodes.home, at],
        chaos=True,
        progress=False,
    ) as net:
        net.await_convergence(BOUND_SECONDS)
        there = [broker for broker in net.inspect.brokers() if net.inspect.node_of(broker) == at]
        end = shlex.join(["sh", "-c", f"kill -9 {raylet.process.pid}"])
        report = rv.game_day(
            net,
            seconds=600,
            per_minute=60,
            kinds="node",
            node_command=f"{end} {{node}}",
            stop=enough,
            progress=lambda now, what: enough.set() if what.startswith("whole again") else None,
        )
        after = {net.inspect.node_of(broker) for broker in there}
        found = {"there": there, "moved": at not in after, "healthy": net.status().healthy}
    return found | report.to_dict()
