"""A network on real actors grows, moves and shrinks under traffic; nothing is lost, duplicated or reordered.

Reference: promises 1, 2, 3 and 6; docs/operations.md.
"""

import subprocess
import sys
import textwrap
from collections.abc import Callable
from typing import Any

import pytest
import ray
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.real.killable_clients import KillableClients, Spares
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.recovery import Recovery


def designated(net: rv.Network, cluster: int) -> int:
    survey = net.inspect.survey()
    return next(b for b, one in survey.items() if one["designated"] and one["cluster"] == cluster)


def test_a_network_grows_moves_and_shrinks_while_events_flow(
    ray_started: None, traffic_at: Callable[..., Any]
) -> None:
    recovery = Recovery.for_tests(degree=2)
    with rv.Network.launch(rv.ClusterTree(3, 2, degree=1), recovery=recovery) as net:
        net.await_convergence(PATIENCE_SECONDS)
        traffic = traffic_at(net, {"all": 0, "odd": 3, "few": 4, "none": 5}, {"p": 2, "q": 5})
        with traffic.flowing():
            # The network grows.
            new = net.add_broker(1)
            cluster, brokers = net.add_cluster(2)
            assert (new, cluster, brokers) == (6, 3, [7, 8])
            net.await_convergence(PATIENCE_SECONDS)
            assert traffic.subscribers["odd"].move_to(new) == new
            assert traffic.publishers["q"].move_to(7) == 7
            late = net.subscriber("late", broker=8)
            late.subscribe("x < 0")
            net.reoptimise()
            net.await_convergence(PATIENCE_SECONDS)

            # A normal broker leaves with a client, then a designated one, then the root's cluster.
            net.remove_broker(new, PATIENCE_SECONDS)
            assert traffic.subscribers["odd"].broker in (2, 3)
            net.await_convergence(PATIENCE_SECONDS)
            victim = designated(net, 2)
            net.remove_broker(victim, PATIENCE_SECONDS)
            net.await_convergence(PATIENCE_SECONDS)
            assert designated(net, 2) != victim
            root = next(one["cluster"] for one in net.inspect.survey().values() if one["root"])
            net.remove_cluster(root, PATIENCE_SECONDS)
            net.await_convergence(PATIENCE_SECONDS)
        survey = net.inspect.survey()
        assert root not in {one["cluster"] for one in survey.values()} and new not in survey
        assert [position.broker for position in net.inspect.positions] == sorted(survey)
        assert len(survey) == 9 - 4
        traffic.verify(500, PATIENCE_SECONDS)


def test_where_views_say_who_is_in_a_network_grows_and_shrinks_while_events_flow(
    ray_started: None, traffic_at: Callable[..., Any]
) -> None:
    """Even the first brokers may leave. Reference: paper 2, 2.4.

    Simulated: other schemes with views, and those where every broker is a node by itself (`test_flat_operations.py`).
    """
    options: dict[str, Any] = {"recovery": Recovery.for_tests(node_cluster_max=2), "brokers_per_actor": 1}
    with rv.Network.launch(rv.ClusterTree(2, 1), scheme="hypercube", **options) as net:
        net.await_convergence(PATIENCE_SECONDS)
        traffic = traffic_at(net, {"all": 0, "odd": 1, "few": 1, "none": 0}, {"p": 0, "q": 1})
        with traffic.flowing():
            new = net.add_broker(1)
            cluster, brokers = net.add_cluster(2)
            assert (new, cluster, brokers) == (2, 2, [3, 4])
            net.await_convergence(PATIENCE_SECONDS)
            assert traffic.subscribers["odd"].move_to(new) == new
            assert traffic.publishers["q"].move_to(brokers[0]) == brokers[0]
            with pytest.raises(InputError, match="no tree to reoptimise"):
                net.reoptimise()
            net.remove_cluster(0, PATIENCE_SECONDS)
            net.remove_broker(1, PATIENCE_SECONDS)
            net.await_convergence(PATIENCE_SECONDS)
            assert net.kill_broker(4) == [4]
            net.await_convergence(PATIENCE_SECONDS)
        assert sorted(net.inspect.survey()) == [2, 3]
        traffic.verify(300, PATIENCE_SECONDS)


def test_who_is_overloaded_takes_a_child_only_as_a_last_resort_and_who_asks_for_it_later_comes_elsewhere(
    ray_started: None, traffic_at: Callable[..., Any]
) -> None:
    """The root is alone and handles about a hundred events a second. Reference: paper 1, 4.2.1, figure 3."""
    with rv.Network.launch(rv.ClusterTree(1, 1), recovery=Recovery.for_tests(load_max=5.0)) as net:
        traffic = traffic_at(net, {"all": 0}, {"p": 0})
        with traffic.flowing():
            while net.inspect.describe().nodes[0]["events_in"] < 150:
                pass  # the load is that of the last full second
            cluster, (new,) = net.add_cluster(1)
            assert (cluster, new) == (1, 1)
            net.await_convergence(PATIENCE_SECONDS)
            assert net.inspect.describe().nodes[0]["refused_joins"] > 0
            assert net.inspect.survey()[new]["parent"].designated == 0
        traffic.verify(100, PATIENCE_SECONDS)
        what_cannot_be_operated_says_why(net)
        ray.get(net.inspect.rendezvous.retire.remote([1]))  # as another operator does who removes it
        with pytest.raises(InputError, match="no broker would stay"):
            net.remove_broker(0)
        net.remove_broker(1, PATIENCE_SECONDS)
        with pytest.raises(InputError, match="the last broker"):
            net.remove_broker(0)
        whoever_asks_for_a_broker_that_has_left_comes_elsewhere(net)


def what_cannot_be_operated_says_why(net: rv.Network) -> None:
    with pytest.raises(InputError, match="no cluster 7 is alive"):
        net.add_broker(7)
    with pytest.raises(InputError, match="brokers is 0: it must be a whole number from 1"):
        net.add_cluster(0)
    with pytest.raises(InputError, match="no broker 9 is alive"):
        net.remove_broker(9)


def whoever_asks_for_a_broker_that_has_left_comes_elsewhere(net: rv.Network) -> None:
    """The client is in its own process: broker 9 never existed, broker 1 has left."""
    spares = Spares(net.name, 1)
    try:
        client = KillableClients("s", 9, False, spares)
        with pytest.raises(InputError, match="no broker 9"):
            client.start()
        client.broker = 1
        client.start()
        assert client.alive and client.broker == 0
    finally:
        spares.close()


def test_what_only_a_leaving_broker_has_goes_to_its_trustee(ray_started: None) -> None:
    """The publisher's broker has forgotten all but two events. Reference: decision 0185."""
    recovery = Recovery.for_tests(retention_events_max=2)
    with rv.Network.launch(rv.ClusterTree(2, 2), recovery=recovery) as net:
        net.await_convergence(PATIENCE_SECONDS)
        here, away = (net.subscriber(name, broker=3, durable=True) for name in ("here", "away"))
        for subscriber in (here, away):
            subscriber.subscribe("n > 0")
        net.release(away)
        carol = net.publisher("carol", broker=3, durable=True)
        carol.publish({"n": 1})
        net.release(carol)
        bob = net.publisher("bob", broker=0)
        for n in range(2, 12):
            bob.publish({"n": n})
        bob.flush()
        net.remove_broker(3, PATIENCE_SECONDS)
        net.await_convergence(PATIENCE_SECONDS)
        back = net.subscriber("away", durable=True)
        assert here.broker == back.broker == 2
        for subscriber in (here, back):
            got: list[int] = []
            for note in subscriber.notifications(PATIENCE_SECONDS):
                got.append(note.event["n"])
                if len(got) == 11:
                    break
            assert sorted(got) == list(range(1, 12)) and not subscriber.losses
            subscriber.acknowledge()
        assert net.publisher("carol", durable=True).published == 1


OPERATOR = """
    import sys
    import ray
    ray.init(address=sys.argv[1], namespace="rayvous", log_to_driver=False, logging_level="error")
    import rayvous as rv
    net = rv.Network.attach("operated")
    new = net.add_broker(1)
    net.await_convergence(40)
    net.remove_broker(3, 40)
    net.await_convergence(40)
    print(new, sorted(net.inspect.survey()), flush=True)
"""


def test_another_process_operates_a_network_of_several_brokers_an_actor(
    lasting_ray: None, traffic_at: Callable[..., Any]
) -> None:
    options: dict[str, Any] = {"recovery": Recovery.for_tests(), "brokers_per_actor": 2}
    with rv.Network.launch(rv.ClusterTree(2, 2), name="operated", detached=True, **options) as net:
        net.await_convergence(PATIENCE_SECONDS)
        traffic = traffic_at(net, {"all": 0, "odd": 3, "few": 2}, {"p": 1, "q": 3})
        with traffic.flowing():
            script = [sys.executable, "-c", textwrap.dedent(OPERATOR), ray.get_runtime_context().gcs_address]
            done = subprocess.run(
                script, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False
            )
            assert done.returncode == 0, done.stderr
            net.await_convergence(PATIENCE_SECONDS)
        assert done.stdout.split("\n")[0] == "4 [0, 1, 2, 4]"
        assert sorted(net.inspect.survey()) == [0, 1, 2, 4]  # the other broker of its actor stays
        assert net.kill_broker(2) == [2]
        net.await_convergence(PATIENCE_SECONDS)
        traffic.verify(500, PATIENCE_SECONDS)
        assert {
            client.broker for client in (*traffic.subscribers.values(), *traffic.publishers.values())
        } <= {0, 1, 4}
        net.shutdown()
