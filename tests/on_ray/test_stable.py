"""Brokers with files on real actors, killed under load, restart; everything arrives once and in order.

Reference: promises 1, 2, 3 and 7; paper 4, section 3.
"""

import threading
from itertools import islice
from pathlib import Path

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.checker.reliability import judge
from rayvous.faults.real.crash import crash
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.traces.trace import trace_of
from rayvous.recovery.durability.sqlite_store import SqliteStore

SELECTORS = {"all": "x >= 0", "few": "x BETWEEN 20 AND 60", "none": "x < 0"}
TREE = rv.ClusterTree(3, 1, degree=1)  # a chain: 0 is the root, 1 in the middle, 2 the leaf


def drain(subscriber: rv.Subscriber) -> list[tuple[str, int]]:
    return [(note.publisher, note.sequence) for note in subscriber.notifications(0)]


def take(subscriber: rv.Subscriber, number: int) -> list[tuple[str, int]]:
    """Return up to `number` notifications, waiting until no more arrive."""
    notes = islice(subscriber.notifications(timeout_seconds=PATIENCE_SECONDS), number)
    return [(note.publisher, note.sequence) for note in notes]


def test_brokers_killed_under_load_come_back_and_lose_and_repeat_nothing(
    ray_started: None, tmp_path: Path
) -> None:
    published: dict[tuple[str, int], dict[str, int]] = {}
    with rv.Network.launch(TREE, stable=rv.Stable(tmp_path)) as net:
        subscribers = {name: net.subscriber(name, broker=0) for name in SELECTORS}
        for name, selector in SELECTORS.items():
            subscribers[name].subscribe(selector)
        publisher = net.publisher("pub", broker=2)
        killed, half = threading.Event(), threading.Event()

        def load() -> None:
            x = 0
            while not killed.is_set() or x < 150:
                event = {"x": x % 100}
                published["pub", publisher.publish(event)] = event
                x += 1
                if x == 50:
                    half.set()

        feed = threading.Thread(target=load)
        feed.start()
        assert half.wait(PATIENCE_SECONDS)
        assert crash(net, 1) == [1]  # on the path of the events
        crash(net, 0)  # where the subscribers are
        crash(net, 2)  # where the publisher is, while it publishes
        killed.set()
        feed.join(PATIENCE_SECONDS)
        assert not feed.is_alive()
        # `settle` covers only the clients that hosts know, so the subscribers must have returned to theirs.
        due = {"all": len(published), "few": sum(20 <= event["x"] <= 60 for event in published.values())}
        heard = {name: take(subscribers[name], number) for name, number in due.items()}
        net.settle(PATIENCE_SECONDS)
        heard |= {name: heard.get(name, []) + drain(subscriber) for name, subscriber in subscribers.items()}
        graph = net.inspect.describe()
    verdict = judge(trace_of(published, {name: [text] for name, text in SELECTORS.items()}, heard))
    assert verdict.holds, verdict.examples
    assert len(heard["all"]) == len(published) >= 150 and heard["few"]
    assert all(graph.nodes[broker]["commits"] > 0 for broker in (0, 1, 2))
    assert sorted(path.name for path in tmp_path.glob("*.sqlite")) == [f"broker-{i}.sqlite" for i in range(3)]
    _goes_on_with_the_same_files(tmp_path, len(published))


def _goes_on_with_the_same_files(tmp_path: Path, before: int) -> None:
    """Launch the network again; subscriptions and sequence numbers are restored.

    Right after a crash Ray has not yet restarted the host; `settle` waits for that.
    """
    with rv.Network.launch(TREE, stable=rv.Stable(tmp_path, "full")) as net:
        subscriber, publisher = net.subscriber("few", broker=0), net.publisher("pub", broker=2)
        assert publisher.publish({"x": 30}) == before + 1
        net.settle(PATIENCE_SECONDS)
        assert drain(subscriber) == [("pub", before + 1)]
        for broker in (0, 1):
            assert crash(net, broker) == [broker]
            net.settle(PATIENCE_SECONDS)
        assert publisher.publish({"x": 30}) == before + 2
        net.settle(PATIENCE_SECONDS)
        assert take(subscriber, 1) == [("pub", before + 2)]
    with pytest.raises(StorageFailed, match=r"another network.*name another directory"):
        rv.Network.launch(rv.ClusterTree(3, 1, degree=2), stable=rv.Stable(tmp_path))


def test_a_full_disk_stops_acknowledgements_by_name_and_loses_nothing_acknowledged(
    ray_started: None, tmp_path: Path
) -> None:
    with rv.Network.launch(rv.ClusterTree(1, 1), stable=rv.Stable(tmp_path, pages_max=40)) as net:
        subscriber = net.subscriber("all", broker=0)
        subscriber.subscribe("x >= 0")
        publisher = net.publisher("pub", broker=0)
        accepted = publisher.publish({"x": 1})
        with pytest.raises(StorageFailed, match=r"has stopped: .*broker-0\.sqlite: database or disk is full"):
            publisher.publish_batch({"x": [1] * 40, "s": [f"{place}" * 20_000 for place in range(40)]})
    store = SqliteStore(rv.Stable(tmp_path).backend().file_of(0))  # opens once its process has ended
    assert dict(store.rows("heard"))["events", "pub"] == accepted
    store.close()


def test_what_a_commit_waits_for_is_checked_before_anything_is_launched(tmp_path: Path) -> None:
    with pytest.raises(rv.InputError, match="synchronous"):
        rv.Network.launch(TREE, stable=rv.Stable(tmp_path, "maybe"))  # type: ignore[arg-type]
