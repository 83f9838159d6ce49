"""Networks that heal, on real actors: brokers crash under traffic, nothing is lost, duplicated or reordered.

Reference: promises 1, 2, 3 and 6; paper 1, section 4.
"""

import asyncio
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
import ray
import rayvous as rv
from patience import PATIENCE_SECONDS, until
from rayvous.faults.real.crash import crash
from rayvous.protocol.messages.recovery import Recovery


def launch(clusters: int, brokers_per_cluster: int, **options: Any) -> rv.Network:
    return rv.Network.launch(
        rv.ClusterTree(clusters, brokers_per_cluster, degree=1), recovery=Recovery.for_tests(), **options
    )


def designated(net: rv.Network, cluster: int) -> int:
    return next(
        one["broker"]
        for one in net.inspect.survey().values()
        if one["designated"] and one["cluster"] == cluster
    )


def members(net: rv.Network, cluster: int) -> list[int]:
    return [broker for broker, one in net.inspect.survey().items() if one["cluster"] == cluster]


def clusters_from_the_root(net: rv.Network) -> list[int]:
    """Return the clusters of a chain, the root first."""
    return list(max((one["path"] for one in net.inspect.survey().values()), key=len))


def await_rest(net: rv.Network) -> None:
    """Poll until all brokers but the root rest."""
    until(lambda: sum(sizes["resting"] for _, sizes in net.inspect.describe().nodes(data=True)) >= 5)


def test_a_designated_broker_is_killed_between_its_parent_and_its_child(
    ray_started: None, traffic_at: Callable[..., Any]
) -> None:
    with launch(3, 2) as net:
        net.await_convergence(PATIENCE_SECONDS)
        top, middle, bottom = clusters_from_the_root(net)
        victim = designated(net, middle)
        await_rest(net)
        traffic = traffic_at(
            net,
            {"all": designated(net, top), "odd": designated(net, bottom), "few": victim, "none": victim},
            {"p": min(members(net, middle)), "q": designated(net, bottom), "r": victim},
        )
        with traffic.flowing():
            assert net.kill_broker(victim) == [victim]
            net.await_convergence(PATIENCE_SECONDS)
            assert [what.partition(":")[0] for _, what in net.inspect.timeline] == [
                f"killed broker {victim}",
                "healed",
            ]
        traffic.verify(100, PATIENCE_SECONDS)
        (heir,) = members(net, middle)
        assert designated(net, middle) == heir
        assert {client.broker for client in (traffic.subscribers["few"], traffic.publishers["r"])} == {heir}
        graph = net.inspect.describe()
        assert victim not in graph and graph.nodes[heir]["role"] == "DEB" and len(graph) == 5


def test_a_normal_broker_crashes_with_its_clients(ray_started: None, traffic_at: Callable[..., Any]) -> None:
    with launch(2, 3) as net:
        net.await_convergence(PATIENCE_SECONDS)
        top, bottom = clusters_from_the_root(net)
        victim = min(members(net, bottom))
        traffic = traffic_at(
            net, {"all": victim, "odd": victim, "few": designated(net, top)}, {"p": victim, "q": 0}
        )
        with traffic.flowing():
            assert crash(net, victim) == [victim]
            traffic.subscribers["all"].subscribe("x = 5")  # while it moves, at whichever broker it moves to
            net.await_convergence(PATIENCE_SECONDS)
        assert designated(net, bottom) == max(members(net, bottom))
        highest = max(members(net, bottom))
        assert {client.broker for client in traffic.net._attached.clients} <= {
            highest,
            0,
            designated(net, top),
        }
        traffic.verify(100, PATIENCE_SECONDS)

        async def next_one() -> int:
            async for note in traffic.subscribers["all"]:
                return note.sequence
            raise AssertionError

        number = traffic.publishers["p"].publish({"x": 7})
        assert asyncio.run(asyncio.wait_for(next_one(), PATIENCE_SECONDS)) == number
        # A reused name continues its numbers, which the brokers know.
        net.release(traffic.publishers["p"])
        again = net.publisher("p")
        assert again.publish({"x": 8}) == number + 1
        assert asyncio.run(asyncio.wait_for(next_one(), PATIENCE_SECONDS)) == number + 1


def test_whole_clusters_are_killed_the_root_and_then_one_in_the_middle(
    ray_started: None, traffic_at: Callable[..., Any]
) -> None:
    with launch(4, 2) as net:
        net.await_convergence(PATIENCE_SECONDS)
        top, heir, _, bottom = clusters_from_the_root(net)
        victims = members(net, top)
        traffic = traffic_at(
            net,
            {"all": designated(net, heir), "odd": min(members(net, bottom)), "few": victims[0]},
            {"p": min(members(net, heir)), "q": designated(net, bottom), "r": victims[1]},
        )
        with traffic.flowing():
            for victim in victims:
                net.kill_broker(victim)
            net.await_convergence(PATIENCE_SECONDS)
        traffic.verify(100, PATIENCE_SECONDS)
        first, middle, _ = clusters_from_the_root(net)
        assert top not in clusters_from_the_root(net)

        victims = members(net, middle)
        ends = {
            "all": designated(net, first), "few": victims[0], "p": min(members(net, first)), "r": victims[1]
        }  # fmt: skip
        for name, broker in ends.items():
            client = traffic.subscribers.get(name) or traffic.publishers[name]
            assert client.move_to(broker) == broker
        with traffic.flowing():
            for victim in victims:
                net.kill_broker(victim)
            net.await_convergence(PATIENCE_SECONDS)
        traffic.verify(200, PATIENCE_SECONDS)
        assert len(clusters_from_the_root(net)) == 2 and middle not in clusters_from_the_root(net)


def test_a_broker_is_killed_that_stands_alone_in_the_tree(
    ray_started: None, traffic_at: Callable[..., Any]
) -> None:
    """The broker has no successor; the brokers below it join elsewhere. Other schemes: `test_flat_healing.py`."""
    with launch(2, 2, scheme="match-first") as net:
        net.await_convergence(PATIENCE_SECONDS)
        top = next(broker for broker, one in net.inspect.survey().items() if one["root"])
        victim = next(
            broker for broker, one in net.inspect.survey().items() if broker != top and one["children"]
        )
        others = [broker for broker in net.inspect.survey() if broker not in (top, victim)]
        traffic = traffic_at(
            net, {"all": top, "odd": others[0], "few": victim}, {"p": others[-1], "q": victim}
        )
        with traffic.flowing():
            net.kill_broker(victim)
            net.await_convergence(PATIENCE_SECONDS)
        traffic.verify(100, PATIENCE_SECONDS)
        found = net.inspect.survey()
        assert set(found) == {top, *others}
        assert all(one["designated"] and one["view"].members == (broker,) for broker, one in found.items())


def test_the_rendezvous_point_dies_and_then_the_root(
    ray_started: None, traffic_at: Callable[..., Any]
) -> None:
    with launch(3, 1, name="mortal") as net:
        net.await_convergence(PATIENCE_SECONDS)
        top, middle, bottom = clusters_from_the_root(net)
        ends = {"all": designated(net, middle), "odd": designated(net, bottom)}
        traffic = traffic_at(net, ends, {"p": designated(net, middle), "q": designated(net, bottom)})
        before = ray.get(net.inspect.rendezvous.pid.remote())
        with traffic.flowing():
            ray.kill(net.inspect.rendezvous, no_restart=False)
            until(lambda: ray.get(net.inspect.rendezvous.pid.remote()) != before)
            with pytest.raises(rv.ClientError, match="already a subscriber 'odd'"):
                net.subscriber("odd")
            crash(net, designated(net, top))
            net.await_convergence(PATIENCE_SECONDS)
        traffic.verify(100, PATIENCE_SECONDS)
        assert {one["term"] for one in net.inspect.survey().values()} == {2}
        elsewhere = rv.Network.attach("mortal")
        late = elsewhere.publisher("late")
        traffic.published["late", late.publish({"x": 1, "odd": True})] = {"x": 1, "odd": True}
        traffic.verify(100, PATIENCE_SECONDS)
        elsewhere.close()


def test_what_only_a_network_that_heals_can_do(net: rv.Network, ray_started: None) -> None:
    for wrong in (net.inspect.survey, net.inspect.converged, net.await_convergence):
        with pytest.raises(rv.InputError, match="does not heal"):
            wrong()
    with pytest.raises(rv.InputError, match="no broker 99"):
        net.kill_broker(99)


def test_a_killed_broker_is_replaced_without_waiting_for_its_silence(ray_started: None) -> None:
    """Ray knows that its process is dead. By silence it would take a minute. Reference: decision 0131."""
    recovery = Recovery(
        heartbeat_seconds=0.2, suspect_after_seconds=60.0, probe_seconds=0.3, client_patience_seconds=60.0
    )
    with rv.Network.launch(rv.ClusterTree(2, 2, degree=1), recovery=recovery, brokers_per_actor=1) as net:
        net.await_convergence(PATIENCE_SECONDS)
        top, bottom = clusters_from_the_root(net)
        for cluster in (bottom, top):
            assert net.kill_broker(victim := designated(net, cluster)) == [victim]
            net.await_convergence(PATIENCE_SECONDS)
            assert designated(net, cluster) != victim


def in_views(net: rv.Network, without: list[int]) -> set[tuple[int, ...]]:
    """Return the members of the views of all brokers that are asked."""
    return {
        tuple(member.broker for member in one["view_members"])
        for one in net.inspect.survey(without=without).values()
    }


def test_a_killed_broker_is_out_of_the_view_at_once_and_a_stopped_one_is_not(ray_started: None) -> None:
    """The channels of the killed process have ended, those of the stopped one have not. Reference: decision 0139."""
    recovery = Recovery(heartbeat_seconds=0.2, suspect_after_seconds=60.0, client_patience_seconds=60.0)
    tree, stopped, killed = rv.ClusterTree(4, 1), 1, 2
    with rv.Network.launch(
        tree, scheme="hypercube", recovery=recovery, brokers_per_actor=1, links="direct"
    ) as net:
        for broker in range(4):
            net.subscriber(f"s{broker}", broker=broker).subscribe(f"x > {broker}")
        net.await_convergence(PATIENCE_SECONDS)
        until(lambda: all(sizes["hosts_by_channel"] for _, sizes in net.inspect.describe().nodes(data=True)))
        pid = net.inspect.pid_of(stopped)
        os.kill(pid, signal.SIGSTOP)
        try:
            assert net.kill_broker(killed) == [killed]
            until(lambda: in_views(net, without=[stopped]) == {(0, 1, 3)})
        finally:
            os.kill(pid, signal.SIGCONT)
        net.await_convergence(PATIENCE_SECONDS)
        assert set(net.inspect.survey()) == {0, 1, 3}
