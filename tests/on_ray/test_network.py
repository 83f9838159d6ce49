"""Networks on real Ray actors: launched, used, joined from other processes, closed."""

import asyncio
import os
import subprocess
import sys
import textwrap

import networkx as nx
import pytest
import ray
import rayvous as rv
from patience import PATIENCE_SECONDS
from payloads import PAYLOADS, without_none
from rayvous.actors.host.frames import CALL_BYTES_MAX, PIECE_BYTES
from rayvous.actors.network.network import networks


def identities(subscriber, timeout_seconds=0.0):
    return [(note.publisher, note.sequence) for note in subscriber.notifications(timeout_seconds)]


def test_a_subscriber_is_notified_of_what_matches_and_of_nothing_else(net, fresh):
    subscriber = net.subscriber(fresh, broker=0)
    subscriber.subscribe("origin = 'JFK' AND dep_delay > 60")
    publisher = net.publisher(fresh, broker=7)
    publisher.publish({"origin": "JFK", "dep_delay": 75.0})
    publisher.publish({"origin": "JFK", "dep_delay": 15.0})
    publisher.publish_batch([{"origin": "LGA", "dep_delay": 75.0}, {"origin": "JFK", "dep_delay": 61}])
    net.settle()
    notes = list(subscriber.notifications(timeout_seconds=0))
    assert [(note.publisher, note.sequence) for note in notes] == [(fresh, 1), (fresh, 4)]
    assert notes[0].event == {"origin": "JFK", "dep_delay": 75.0}
    assert 0 < notes[0].latency_seconds < 60
    assert "JFK" in notes[0]._repr_html_()


def test_it_is_drawn_with_what_went_over_its_links(net, fresh, tmp_path):
    subscriber = net.subscriber(fresh, broker=0)
    subscriber.subscribe(rv.attr("drawn") == fresh)
    net.publisher(fresh, broker=7).publish_batch([{"drawn": fresh}] * 10)
    net.settle()
    picture = net.draw()
    written = [text.get_text() for axes in picture.figure.axes for text in axes.texts]
    assert all(any(place.label in text for text in written) for place in net.inspect.positions)
    assert picture.save(tmp_path / "tree.png").stat().st_size > 10_000
    assert any(text.isdigit() and int(text) >= 10 for text in written), "numbers stand on the links"


@pytest.mark.parametrize("at", range(8))
def test_subscribe_returns_when_every_broker_can_reach_the_subscriber(net, fresh, at):
    """Reference: promise 2. Events are published right after subscribe(), far away in the tree."""
    subscriber = net.subscriber(fresh, broker=at)
    subscriber.subscribe(rv.attr("test") == fresh)
    for broker in (0, 3, 5, 6):
        net.publisher(f"{fresh}-{broker}", broker=broker).publish({"test": fresh})
    net.settle()
    assert sorted(identities(subscriber)) == sorted((f"{fresh}-{broker}", 1) for broker in (0, 3, 5, 6))
    net.release(subscriber)


@pytest.mark.parametrize("characters", [10, PIECE_BYTES, CALL_BYTES_MAX // 3])
def test_events_arrive_as_they_left_however_they_are_carried(net, fresh, characters):
    """Events travel in one argument, in several, or through the object store: decision 0103."""
    subscriber = net.subscriber(fresh, broker=0)
    subscriber.subscribe(rv.attr("test") == fresh)
    events = [{"test": fresh, "n": number, "text": f"{number}" + "ä" * characters} for number in range(3)]
    net.publisher(fresh, broker=7).publish_batch(events)
    net.settle()
    assert [note.event for note in subscriber.notifications(timeout_seconds=0)] == events
    net.release(subscriber)


def test_events_of_other_systems_arrive_as_they_were_published(net, fresh):
    """Many attributes, long paths, many arrays, long integers: decisions 0116 and 0117."""
    subscriber, chosen = net.subscriber(fresh, broker=0), net.subscriber(f"{fresh}-chosen", broker=3)
    subscriber.subscribe(rv.attr("test") == fresh)
    texts = [text for _, texts in PAYLOADS.values() for text, expected in texts.items() if expected]
    for text in texts:
        chosen.subscribe(f"test = '{fresh}' AND {text}")
    events = [event | {"test": fresh} for event, _ in PAYLOADS.values()]
    publisher = net.publisher(fresh, broker=7)
    refused = publisher.publish_batch([*events, {"test": fresh, "x": b""}], on_error="skip")
    assert list(refused) == [len(events)] and publisher.published == len(events)
    for event in events:
        publisher.publish(event)
    net.settle()
    assert [note.event for note in subscriber.notifications(timeout_seconds=0)] == [
        without_none(each) for each in events * 2
    ]
    assert len(identities(chosen)) == 2 * len(events)
    net.release(subscriber)
    net.release(chosen)


def test_one_notification_although_several_subscriptions_match(net, fresh):
    subscriber = net.subscriber(fresh)
    first, _ = subscriber.subscribe_all([rv.attr("n") > 1, {"n": [{"numeric": [">", 2]}]}])
    publisher = net.publisher(fresh)
    publisher.publish({"n": 3, "test": fresh})
    net.settle()
    assert identities(subscriber) == [(fresh, 1)]
    subscriber.unsubscribe(first)
    publisher.publish_batch({"n": [2, 3]})
    net.settle()
    assert identities(subscriber) == [(fresh, 3)]
    net.release(subscriber)


def test_the_async_twins(net, fresh):
    async def talk() -> list[int]:
        subscriber = net.subscriber(fresh)
        await subscriber.subscribe_async(f"test = '{fresh}'")
        publisher = net.publisher(fresh)
        await publisher.publish_async({"test": fresh})
        await publisher.publish_batch_async({"test": [fresh, fresh]})
        seen = []
        async for note in subscriber:
            seen.append(note.sequence)
            if len(seen) == 3:
                return seen
        return seen

    assert asyncio.run(asyncio.wait_for(talk(), 30)) == [1, 2, 3]


def test_large_batches_go_through_the_object_store_to_every_member(net, fresh):
    """A multicast load over 64 KiB is one object for the whole group."""
    subscribers = net.subscribers([f"{fresh}-{broker}" for broker in range(8)])
    for broker, subscriber in enumerate(subscribers):
        subscriber.subscribe(f"test = '{fresh}' AND n >= {broker}")
    size = 20_000
    net.publisher(fresh, broker=2).publish_batch({"test": [fresh] * size, "n": range(size)})
    net.settle()
    for broker, subscriber in enumerate(subscribers):
        assert identities(subscriber) == [(fresh, number) for number in range(broker + 1, size + 1)]


def test_describe_is_the_tree_with_its_loads(net):
    graph = net.inspect.describe()
    assert nx.number_of_nodes(graph) == 8
    assert sorted(role for _, role in graph.nodes(data="role")) == ["DEB"] * 3 + ["NEB"] * 4 + ["REB"]
    tree = nx.Graph((a, b) for a, b, kind in graph.edges(data="kind") if kind == "tree")
    assert nx.is_tree(tree) and len(tree) == 4
    assert sum(events for _, events in graph.nodes(data="events_in")) > 0
    assert "<table>" in net._repr_html_()


def test_names_are_unique_among_the_living(net, fresh):
    subscriber = net.subscriber(fresh)
    with pytest.raises(rv.ClientError, match=fresh):
        net.subscriber(fresh)
    net.release(subscriber)
    net.release(net.subscriber(fresh))
    with pytest.raises(rv.ClientError, match="closed"):
        subscriber.subscribe("a = 1")


def test_what_is_wrong_is_said_and_changes_nothing(net, fresh):
    subscriber = net.subscriber(fresh)
    publisher = net.publisher(fresh)
    with pytest.raises(rv.SelectorError, match="line 1, column 4"):
        subscriber.subscribe("a = ")
    with pytest.raises(rv.EventError, match="'price'"):
        publisher.publish({"price": object()})
    with pytest.raises(rv.EventError, match="'price'"):
        publisher.publish_batch({"price": [b"bytes"]})
    with pytest.raises(rv.InputError, match="no broker 99"):
        net.subscriber("far away", broker=99)
    with pytest.raises(rv.InputError, match="no subscription 5"):
        subscriber.unsubscribe(5)
    assert publisher.published == 0
    assert publisher.publish({"price": 1}) == 1
    with pytest.raises(rv.InputError, match="launch the network with scheme='point-to-point' or 'lbdd'"):
        publisher.distribute(b"abc", topic="maps")
    assert publisher.published == 1


def test_a_network_that_is_not_there(ray_started):
    with pytest.raises(rv.NetworkNotFound, match="'nowhere'"):
        rv.Network.attach("nowhere")


@pytest.mark.parametrize(
    "wrong", [{"brokers_per_actor": 0}, {"scheme": "pigeon"}, {"limits": rv.Limits(call_seconds=0)}]
)
def test_a_launch_that_fails_leaves_nothing_behind(ray_started, wrong):
    before = ray.util.list_named_actors(all_namespaces=True)
    with pytest.raises(rv.InputError):
        rv.Network.launch(rv.ClusterTree(2, 2), name="stillborn", **wrong)
    assert ray.util.list_named_actors(all_namespaces=True) == before


def test_two_networks_have_two_names_and_do_not_hear_each_other(net, fresh):
    with rv.Network.launch(rv.ClusterTree(1, 1), scheme="hierarchical", name="taken") as other:
        with pytest.raises(rv.NetworkExists, match="'taken'"):
            rv.Network.launch(rv.ClusterTree(1, 1), name="taken")
        here, there = net.subscriber(fresh), other.subscriber(fresh)
        here.subscribe("a = 1")
        there.subscribe("a = 1")
        other.publisher(fresh).publish({"a": 1})
        net.settle()
        other.settle()
        assert identities(here) == []
        assert identities(there) == [(fresh, 1)]
    assert "taken" not in networks()


PUBLISHER = """
    import sys
    import ray
    ray.init(address=sys.argv[1], namespace="rayvous", log_to_driver=False, logging_level="error")
    import rayvous as rv
    with rv.Network.attach("shared") as net:
        net.publisher("elsewhere").publish_batch({"n": [1, 2, 3]})
        net.settle(deliveries=False)
"""


def test_a_network_is_not_detached_on_a_ray_that_ends_with_this_process(ray_started):
    before = ray.util.list_named_actors(all_namespaces=True)
    with pytest.raises(rv.InputError, match=r"would end with this process.*ray start --head.*RAY_ADDRESS"):
        rv.Network.launch(rv.ClusterTree(1, 1), name="lost", detached=True)
    assert ray.util.list_named_actors(all_namespaces=True) == before


ALONE = """
    import ray
    import rayvous as rv
    from rayvous.actors.network.network import networks
    try:
        rv.Network.launch(rv.ClusterTree(1, 1), detached=True)
    except rv.InputError as error:
        print(error)
    try:
        rv.Network.attach("flights")
    except rv.NetworkNotFound as error:
        print(error)
    print(networks(), ray.is_initialized())
"""


def test_where_no_ray_runs_none_is_started_for_what_it_cannot_do(tmp_path):
    quiet = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "RAY_TMPDIR": str(tmp_path)}
    script = [sys.executable, "-c", textwrap.dedent(ALONE)]
    done = subprocess.run(
        script, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, env=quiet
    )
    detached, attached, state = done.stdout.splitlines()
    assert "ray start --head" in detached
    assert "no network 'flights': no Ray is running here" in attached
    assert state == "[] False"


def test_a_detached_network_is_joined_from_another_process(lasting_ray):
    with rv.Network.launch(rv.ClusterTree(2, 1), name="shared", detached=True) as net:
        subscriber = net.subscriber("here")
        subscriber.subscribe("n > 1")
        script = [sys.executable, "-c", textwrap.dedent(PUBLISHER), ray.get_runtime_context().gcs_address]
        done = subprocess.run(script, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False)
        assert done.returncode == 0, done.stderr
        notes = subscriber.notifications(timeout_seconds=30)
        assert [next(notes).sequence, next(notes).sequence] == [2, 3]
    assert "shared" in networks()  # closing does not end a detached network
    again = rv.Network.attach("shared")
    assert again.inspect.describe().number_of_nodes() == 2
    again.shutdown()
    assert "shared" not in networks()


def test_brokers_are_to_stand_on_nodes_that_are_there(ray_started):
    with pytest.raises(rv.InputError, match="nodes: there is no Ray node 'nowhere'"):
        rv.Network.launch(rv.ClusterTree(2, 1), name="nowhere-to-stand", nodes=["nowhere"], progress=False)
    assert "nowhere-to-stand" not in networks()
