"""Every process of a network is replaced under load, and nothing is lost or duplicated.

Reference: promises 1, 2, 3 and 6; docs/operations.md, "A rolling restart".
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS


def lives(net: rv.Network) -> dict[int, tuple[str, int]]:
    """Return the process of each broker."""
    return {
        broker: (net.inspect.node_of(broker), net.inspect.pid_of(broker)) for broker in net.inspect.brokers()
    }


def test_every_process_is_replaced_under_load(
    ray_started: None, rayvous: Callable[..., Any], traffic_at: Callable[..., Any]
) -> None:
    """From the command line, with two brokers per process: one whole cluster at a time, the root's first."""
    with rv.Network.launch(
        rv.ClusterTree(2, 2), brokers_per_actor=2, recovery=rv.Recovery(heartbeat_seconds=0.3)
    ) as net:
        net.await_convergence(PATIENCE_SECONDS)
        before = lives(net)
        traffic = traffic_at(net, {"all": 0, "few": 2}, {"a": 1, "b": 3})
        with traffic.flowing():
            status, out, said = rayvous("restart", net.name, "--rolling", "--json")
            assert status == 0, said
        replaced = json.loads(out)["replaced"]
        assert [(one["brokers"], one["left"]) for one in replaced] == [([0, 1], 1), ([2, 3], 0)]
        net.inspect.survey()  # this process has yet to learn of the new actors
        after = lives(net)
        assert set(after) == set(before) and not set(after.values()) & set(before.values())
        assert after[0] == after[1] and after[2] == after[3], "together as they were"
        traffic.verify(200, PATIENCE_SECONDS)


def test_brokers_that_go_on_from_their_stores_are_replaced_one_by_one(
    ray_started: None, traffic_at: Callable[..., Any], tmp_path: Path
) -> None:
    with rv.Network.launch(rv.ClusterTree(2, 1), stable=rv.Stable(tmp_path)) as net:
        before = lives(net)
        traffic = traffic_at(net, {"all": 0}, {"a": 1})
        with traffic.flowing():
            seen: list[Any] = []
            assert net.restart_rolling(PATIENCE_SECONDS, seen.append) == seen
        assert [one.brokers for one in seen] == [(0,), (1,)]
        assert not set(lives(net).values()) & set(before.values())
        heard = [note.sequence for note in traffic.subscribers["all"].notifications(5.0)]
        assert heard == list(range(1, len(traffic.published) + 1))


def test_what_cannot_be_restarted_without_loss_is_refused(net: rv.Network) -> None:
    with pytest.raises(rv.InputError, match="cannot be restarted without loss"):
        net.restart_rolling()
