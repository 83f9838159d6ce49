"""Sinks on Ray: every event is in the files exactly once, whatever dies, and however often."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import deltalake
import pyarrow.dataset
import pytest
import ray
import rayvous as rv
from kills import kills, rng
from patience import PATIENCE_SECONDS, until
from rayvous.actors.network.directory import NAMESPACE, sink_name
from rayvous.actors.network.sinks import FileSink
from rayvous.protocol.errors import BrokerUnavailable, InputError
from rayvous.protocol.messages.recovery import Recovery

KILLS = kills(3)
PATIENT = Recovery.for_tests(suspect_after_seconds=4.0, client_patience_seconds=6.0)


def actor_of(net: rv.Network, name: str) -> ray.actor.ActorHandle:
    return ray.get_actor(sink_name(net.name, name), namespace=NAMESPACE)


def in_files(folder: Path) -> list[tuple[str, int]]:
    """Return the identity of each event in the Parquet files of a folder."""
    table = pyarrow.dataset.dataset(folder, partitioning="hive").to_table(["_publisher", "_sequence"])
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_events_go_to_parquet_files_by_hour_and_the_sink_goes_on_under_its_name(
    healing: rv.Network, fresh: str, tmp_path: Path
) -> None:
    bob = healing.publisher(f"{fresh}-bob")
    name = "lake"
    sink = healing.sink(tmp_path / "lake", f"run = '{fresh}' AND x >= 2", name=name, roll_seconds=600.0)
    bob.publish_batch([{"run": fresh, "x": x, "to": "JFK"} for x in range(5)])
    healing.settle()
    assert sink.status().state == "writing"
    assert not [*(tmp_path / "lake").rglob("*.parquet")], "a roll is not due"
    sink.flush(PATIENCE_SECONDS)
    assert in_files(tmp_path / "lake") == [(bob.name, n) for n in (3, 4, 5)]
    (path,) = (tmp_path / "lake").rglob("*.parquet")
    assert path.parent.parent.name.startswith("date=") and path.parent.name.startswith("hour=")
    assert [each.name for each in healing.status().sinks] == [name]
    assert (
        healing.sink(tmp_path / "lake", f"run = '{fresh}' AND x >= 2", name=name, roll_seconds=600.0)
        .status()
        .events
        == 3
    ), "the same sink once more is that sink"
    with pytest.raises(InputError, match="has another sink 'lake'"):
        healing.sink(tmp_path / "other", "x > 0", name=name)
    bob.publish({"run": fresh, "x": 6})
    healing.settle()
    sink.close()
    assert len(in_files(tmp_path / "lake")) == 4, "what had arrived is written at the end"
    assert healing.status().sinks == ()
    bob.publish({"run": fresh, "x": 7})
    with pytest.raises(InputError, match="has subscribed to"):
        healing.sink(tmp_path / "lake", "x > 0", name=name)
    later = healing.sink(
        str(tmp_path / "lines"), f"run = '{fresh}' AND x >= 2", name=name, format="jsonl", partition="none"
    )
    healing.settle()
    later.flush(PATIENCE_SECONDS)
    (path,) = (tmp_path / "lines").rglob("*.jsonl")
    assert [json.loads(line)["event"]["x"] for line in path.read_text().splitlines()] == [7]
    later.end()
    assert not healing.subscriber("sink:lake", durable=True).subscriptions
    bob.close()


def test_each_event_is_in_one_file_though_the_sink_dies_at_random_moments(
    healing: rv.Network, fresh: str, tmp_path: Path
) -> None:
    bob, draw, x = healing.publisher(f"{fresh}-bob"), rng(), 0
    sink = healing.sink(
        tmp_path, f"run = '{fresh}' AND odd = TRUE", name="killed", roll_seconds=0.05, roll_events=40
    )
    made = actor_of(healing, "killed")

    def publish(batches: int) -> None:
        nonlocal x
        for _ in range(batches):
            bob.publish_batch([{"run": fresh, "x": x + i, "odd": i % 2 == 1} for i in range(8)])
            x += 8
            time.sleep(0.005)

    for _ in range(KILLS):
        pid = ray.get(made.pid.remote(), timeout=PATIENCE_SECONDS)
        before = len([*tmp_path.rglob("*.parquet")])
        publish(10)
        until(lambda before=before: len([*tmp_path.rglob("*.parquet")]) > before)  # it writes again
        publish(draw.randrange(30))  # a random moment of a roll
        os.kill(pid, signal.SIGKILL)
        publish(10)
        until(lambda pid=pid: _answers_as_another(made, pid))
    healing.settle(PATIENCE_SECONDS)

    def written() -> bool:
        sink.flush(PATIENCE_SECONDS)  # its broker may have more for it than has reached it
        return len(in_files(tmp_path)) >= x // 2

    until(written)
    assert sorted(in_files(tmp_path)) == [(bob.name, n) for n in range(2, x + 1, 2)]
    assert not [*tmp_path.rglob("_*.tmp")]
    status = sink.status()
    assert (status.waiting, status.lost, status.state) == (0, 0, "writing")
    sink.end()
    bob.close()


def _answers_as_another(made: ray.actor.ActorHandle, pid: int) -> bool:
    """Return whether Ray has started the actor again."""
    return bool(ray.get(made.pid.remote(), timeout=PATIENCE_SECONDS) != pid)


def test_a_sink_that_cannot_write_waits_says_so_and_goes_on(
    healing: rv.Network, fresh: str, tmp_path: Path
) -> None:
    folder, away = tmp_path / "lake", tmp_path / "away"
    bob = healing.publisher(f"{fresh}-bob")
    sink = healing.sink(folder, f"run = '{fresh}'", name="waits", partition="none")
    bob.publish({"run": fresh, "x": 1})
    healing.settle()
    sink.flush(PATIENCE_SECONDS)
    folder.rename(away)
    folder.write_text("not a folder")  # also root cannot write there
    bob.publish({"run": fresh, "x": 2})
    healing.settle()
    with pytest.raises(BrokerUnavailable, match="no answer in time"):
        sink.flush(1.0)
    until(lambda: sink.status().state == "waiting")
    status = healing.status()
    assert "lake" in status.sinks[0].problem and status.healthy
    assert status.sinks[0].waiting == 1
    folder.unlink()
    away.rename(folder)
    sink.flush(PATIENCE_SECONDS)
    assert in_files(folder) == [(bob.name, 1), (bob.name, 2)]
    assert sink.status().problem == ""
    sink.end()
    bob.close()


def test_what_is_refused_when_a_sink_begins_is_named_and_leaves_nothing(
    healing: rv.Network, net: rv.Network, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(InputError, match=r"target '.*file/lake' cannot be used"):
        healing.sink(tmp_path / "file" / "lake", "x > 0", name="refused")
    with pytest.raises(InputError, match="target 'nosuch://x' cannot be opened"):
        healing.sink("nosuch://x", "x > 0", name="refused")
    with pytest.raises(rv.SelectorError):
        healing.sink(tmp_path, "x >", name="refused")
    with pytest.raises(InputError, match="name is 'a/b'"):
        healing.sink(tmp_path, "x > 0", name="a/b")
    with pytest.raises(InputError, match="format is 'csv'"):
        healing.sink(tmp_path, "x > 0", name="refused", format="csv")
    with pytest.raises(InputError, match="partition is 'day': it must be left out"):
        healing.sink(tmp_path, "x > 0", name="refused", format="delta", partition="day")
    with pytest.raises(InputError, match="launch the network with recovery"):
        net.sink(tmp_path, "x > 0", name="refused")
    until(lambda: healing.status().sinks == ())


def test_a_sink_from_a_shell(
    healing: rv.Network, fresh: str, tmp_path: Path, rayvous: Callable[..., tuple[int, str, str]]
) -> None:
    to = "--to", str(tmp_path / "lake"), "--name", "shell"
    status, _, err = rayvous(
        "sink", healing.name, f"run = '{fresh}'", *to, "--format", "jsonl", "--partition", "none"
    )
    assert status == 0, err
    bob = healing.publisher(f"{fresh}-bob")
    bob.publish_batch([{"run": fresh, "x": n} for n in range(3)])
    healing.settle()
    until(lambda: healing.status().sinks[0].waiting == 3)
    assert "shell" in rayvous("status", healing.name)[1]
    status, _, err = rayvous("sink", healing.name, "--name", "shell", "--end")
    assert status == 0, err
    lines = [line for path in (tmp_path / "lake").glob("*.jsonl") for line in path.read_text().splitlines()]
    assert [json.loads(line)["event"]["x"] for line in lines] == [0, 1, 2]
    until(lambda: healing.status().sinks == ())
    bob.close()


def test_a_sink_writes_what_it_has_when_its_network_ends(ray_started: None, tmp_path: Path) -> None:
    with rv.Network.launch(rv.ClusterTree(1, 1), name="ends", recovery=PATIENT) as net:
        sink: FileSink = net.sink(tmp_path / "lake", "x > 0", name="last")
        net.sink(tmp_path / "table", "x > 0", name="table", format="delta")
        net.publisher("bob").publish({"x": 1})
        net.settle()
        made = actor_of(net, "last")
    assert in_files(tmp_path / "lake") == [("bob", 1)]
    assert deltalake.DeltaTable(tmp_path / "table").to_pyarrow_table().column("x").to_pylist() == [1]
    with pytest.raises(ray.exceptions.RayActorError):
        ray.get(made.pid.remote(), timeout=PATIENCE_SECONDS)
    with pytest.raises((BrokerUnavailable, rv.ClientError)):
        sink.status()
