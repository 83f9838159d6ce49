"""Events to and from Ray Data: bounded datasets, micro-batches that are acknowledged when consumed, and a datasink."""

import os
import signal
import time
from pathlib import Path

import pyarrow as pa
import pytest
import ray
import rayvous as rv
from kills import kills, rng
from patience import PATIENCE_SECONDS, until
from ray.exceptions import RayActorError
from rayvous.pipelines.ray_data.datasink import EventsDatasink
from rayvous.protocol.errors import InputError

DEATHS = kills(3)


def test_a_dataset_of_what_comes_until_there_is_enough(healing: rv.Network, fresh: str) -> None:
    bob = healing.publisher(f"{fresh}-bob")

    class Late:
        def __init__(self, network: str) -> None:
            self.net = rv.Network.attach(network)
            self.before = self.filters()

        def filters(self) -> int:
            """Return how many filters the root knows."""
            return sum(one.sizes["filters"] for one in self.net.status().brokers if one.role == "REB")

        def publish(self) -> None:
            """Publish when somebody has subscribed."""
            until(lambda: self.filters() > self.before)
            self.net.publisher(f"{fresh}-late").publish_batch(
                [{"run": fresh, "x": x, "to": "JFK"} for x in range(10)]
            )
            self.net.close()

    late = ray.remote(Late).options(num_cpus=0).remote(healing.name)
    ray.get(
        late.filters.remote(), timeout=PATIENCE_SECONDS
    )  # it has begun: what it cannot import is told here
    done = late.publish.remote()
    found = rv.read(healing, f"run = '{fresh}' AND x >= 4", until=PATIENCE_SECONDS, events_max=6)
    ray.get(done, timeout=PATIENCE_SECONDS)
    rows = found.sort("_sequence").take_all()
    assert [(row["x"], row["to"], row["_publisher"]) for row in rows] == [
        (x, "JFK", f"{fresh}-late") for x in range(4, 10)
    ]
    assert rv.read(healing, f"run = '{fresh}'", until=0.0).count() == 0
    bob.close()


def test_a_micro_batch_is_acknowledged_when_the_next_is_asked_for(healing: rv.Network, fresh: str) -> None:
    bob = healing.publisher(f"{fresh}-bob")
    selector = f"run = '{fresh}'"
    batches = rv.stream(healing, selector, batch_seconds=0.0, batch_events=3, name=fresh)
    bob.publish_batch([{"run": fresh, "x": x, "gate": x} for x in range(3)])
    first = next(batches)
    # An actor pool, as for a model that is loaded once.
    doubled = first.map_batches(Double, batch_format="numpy", concurrency=1, num_cpus=0.1)
    assert sorted(row["x"] for row in doubled.take_all()) == [0, 2, 4]
    bob.publish_batch([{"run": fresh, "x": x, "gate": f"B{x}"} for x in range(3, 6)])
    second = next(batches).take_all()
    assert [(row["x"], row["gate"], row["gate:string"]) for row in second] == [
        (x, None, f"B{x}") for x in range(3, 6)
    ]
    batches.close()  # in the loop's body: this batch is not consumed
    with pytest.raises(InputError, match="has subscribed to"):
        rv.stream(healing, "x > 0", name=fresh)
    again = rv.stream(healing, selector, batch_seconds=0.0, batch_events=3, name=fresh)
    assert [row["x"] for row in next(again).take_all()] == [3, 4, 5]
    bob.publish({"run": fresh, "x": 6})
    assert [row["x"] for row in next(again).take_all()] == [6], "asking for it acknowledged the batch before"
    again.close()
    assert position_at_the_end(healing, fresh) == {bob.name: 6}
    bob.close()


class Double:
    def __call__(self, batch: dict[str, object]) -> dict[str, object]:
        return batch | {"x": batch["x"] * 2}


def position_at_the_end(net: rv.Network, name: str) -> dict[str, int]:
    """End a durable subscriber, and return what it had acknowledged."""
    subscriber = net.subscriber(name, durable=True)
    position = subscriber.position
    subscriber.end()
    return position


class Consumer:
    """Consumes a stream: appends the numbers of each micro-batch to a file, as one line."""

    def __init__(self, network: str, selector: str, name: str, file: str) -> None:
        self.net, self.file = rv.Network.attach(network), Path(file)
        self.batches = rv.stream(self.net, selector, batch_seconds=0.01, batch_events=20, name=name)

    def pid(self) -> int:
        return os.getpid()

    def consume(self) -> None:
        for dataset in self.batches:
            numbers = [row["_sequence"] for row in dataset.take_all()]
            with self.file.open("a") as out:
                out.write(" ".join(map(str, numbers)) + "\n")


def test_a_consumer_that_dies_gets_its_last_batch_again_and_no_other(
    healing: rv.Network, fresh: str, tmp_path: Path
) -> None:
    """A line is written before it is acknowledged: only the last one before a death may come twice."""
    bob, file = healing.publisher(f"{fresh}-bob"), tmp_path / "numbers"
    file.touch()
    x, draw, written = 0, rng(), [0]
    for death in range(DEATHS + 1):
        maker = ray.remote(Consumer).options(num_cpus=0)
        consumer = maker.remote(healing.name, f"run = '{fresh}'", fresh, str(file))
        pid = ray.get(consumer.pid.remote(), timeout=PATIENCE_SECONDS)
        consumer.consume.remote()
        lines = len(file.read_text().splitlines())
        for _ in range(3):
            bob.publish_batch([{"run": fresh, "x": x + i} for i in range(20)])
            x += 20
        if death < DEATHS:
            until(lambda lines=lines: len(file.read_text().splitlines()) > lines)
            time.sleep(draw.uniform(0.0, 0.1))  # a random moment
        else:
            until(lambda x=x: str(x) in file.read_text().split())
        os.kill(pid, signal.SIGKILL)
        with pytest.raises(RayActorError):
            ray.get(consumer.pid.remote(), timeout=PATIENCE_SECONDS)
        written.append(len(file.read_text().splitlines()))
    numbers = [[int(number) for number in line.split()] for line in file.read_text().splitlines()]
    seen = set[int]()
    for place, line in enumerate(numbers):
        assert line == [*range(line[0], line[0] + len(line))]
        assert line[0] <= max(seen, default=0) + 1, "nothing is left out"
        death = max(end for end in written if end <= place)
        assert seen.intersection(line) <= set(numbers[death - 1] if death else ()), (
            "acknowledged, and came again"
        )
        seen |= set(line)
    assert seen == set(range(1, x + 1))
    assert position_at_the_end(healing, fresh)[bob.name] >= x - 60
    bob.close()


def test_rows_of_a_dataset_are_published_once_and_go_round(healing: rv.Network, fresh: str) -> None:
    alice = healing.subscriber(f"{fresh}-alice")
    alice.subscribe(f"run = '{fresh}' AND x >= 10")
    dataset = ray.data.range(100, override_num_blocks=4).map(lambda row: {"x": row["id"], "run": fresh})
    dataset.write_datasink(rv.Sink(healing, "faa", rows_per_write=25))
    healing.settle()
    notes = [*alice.notifications(0)]
    assert sorted(note.event["x"] for note in notes) == [*range(10, 100)]
    assert all(note.publisher.startswith("faa/") for note in notes)
    alice.close()


def test_a_write_that_ray_repeats_publishes_the_rest(healing: rv.Network, fresh: str, tmp_path: Path) -> None:
    alice = healing.subscriber(f"{fresh}-alice")
    alice.subscribe(f"run = '{fresh}'")
    task = type("Context", (), {"task_idx": 7})()
    table = pa.table({"run": [fresh] * 20, "x": range(20)})

    @ray.remote(num_cpus=0, max_retries=1)
    def write(sink: EventsDatasink, died: Path) -> int:
        if not died.exists():
            died.touch()
            sink.write([table.slice(0, 8)], task)
            os._exit(1)
        return sink.write([table], task)

    assert ray.get(write.remote(rv.Sink(healing, "faa"), tmp_path / "died"), timeout=PATIENCE_SECONDS) == 12
    healing.settle()
    assert [note.event["x"] for note in alice.notifications(0)] == [*range(20)]
    alice.close()
