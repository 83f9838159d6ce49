"""A sink beside pyarrow, events into Ray Data beside reading them from Parquet, and four workers of a group beside one.

*The sink* is that of `sink`: its path from delivered events to named files, beside pyarrow writing the same tables.

*Ray Data.* The events of a durable subscription wait at its broker. `rv.stream` makes datasets of them, and each is
summed; the reference reads the same rows from Parquet files in the object store's file system, in datasets of the same
size, and sums them. The time is from the request to the last sum. A round before the first one is not counted: Ray
starts the processes that read files in it.

*Groups.* The workers are Ray actors. Each takes an event, works on it, and acknowledges it. The work is a wait, as for
a database or a service elsewhere: workers beside each other are faster where they do not wait for the processor. The
workers have joined when the events are published. The time is from the first acknowledgement to the last.

Those of each pair take turns, and all is one run.
"""

from __future__ import annotations

import math
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import ray
from ray.actor import ActorHandle

from ..actors.clients.record_batches import Layout
from ..actors.network.network import Network, ensure_ray
from ..pipelines.ray_data.quiet import quiet
from ..pipelines.ray_data.reading import BLOCK_EVENTS, stream
from ..protocol.batch import EventBatch, concat
from ..protocol.errors import RayvousError
from ..protocol.messages.recovery import Recovery
from ..routing.topologies.cluster_trees import ClusterTree
from . import sink
from .sink import BATCH_EVENTS, flights

if TYPE_CHECKING:
    from ray.data import Dataset

DATASETS: Final = 4
ARRIVALS: Final = DATASETS * BATCH_EVENTS
"""A stream of a multiple of so many events has datasets of one size, and waits for no event that does not come."""
EVENTS: Final = 6 * ARRIVALS
GROUP_EVENTS: Final = 200
WORK_SECONDS: Final = 0.02
WORKERS: Final = (1, 4)
ROUNDS: Final = 3
LOOK_SECONDS: Final = 0.1
BOUND_SECONDS: Final = 600.0
"""How long a group may take for its events."""
NAME: Final = "bench"

Progress = Callable[[str, int, int], None]


def run(
    *,
    events: int = EVENTS,
    group_events: int = GROUP_EVENTS,
    work_seconds: float = WORK_SECONDS,
    rounds: int = ROUNDS,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, object]:
    """Run the benchmark, and return the figures as plain data; medians of all rounds.

    Parameters
    ----------
    events
        How many events go into Ray Data in each round.
    group_events
        How many events a group gets in each round.
    work_seconds
        How long a worker waits for each of them.
    """
    show = progress or (lambda name, done, total: None)
    batches = flights(events, BATCH_EVENTS, seed)
    retained = Recovery(durable_events_max=4 * events, durable_bytes_max=1 << 32)
    written = sink.run(rounds=rounds, seed=seed, progress=progress)
    started_ray = ensure_ray()
    ours, theirs = list[float](), list[float]()
    groups: dict[int, list[float]] = {count: [] for count in WORKERS}
    try:
        with (
            quiet(),
            tempfile.TemporaryDirectory(prefix="rayvous-bench-") as folder,
            Network.launch(ClusterTree(1, 2), recovery=retained, brokers_per_actor=2, progress=False) as net,
        ):
            made = ray.remote(Worker).options(num_cpus=0, max_concurrency=2)
            workers = [made.remote(net.name, work_seconds) for _ in range(max(WORKERS))]
            files = _files(batches, events // DATASETS, Path(folder))
            _streamed(net, batches, events)
            _read(files, events)
            for done in range(rounds):
                show("rounds", done, rounds)
                ours.append(_streamed(net, batches, events))
                theirs.append(_read(files, events))
                for count, took in groups.items():
                    took.append(_worked(net, workers[:count], group_events, work_seconds))
            show("rounds", rounds, rounds)
    finally:
        if started_ray:
            ray.shutdown()
    one, four = (group_events / median(groups[count]) for count in WORKERS)
    return {
        **written,
        "benchmark": "data",
        "sink_events": written["events"],
        "rounds": rounds,
        "events": events,
        "ray_data_rows_per_second": events / median(ours),
        "parquet_rows_per_second": events / median(theirs),
        "of_parquet_rows_per_second": median(theirs[i] / ours[i] for i in range(rounds)),
        "group_events": group_events,
        "work_seconds": work_seconds,
        "one_worker_events_per_second": one,
        "four_workers_events_per_second": four,
        "four_workers_over_one": median(groups[1][i] / groups[4][i] for i in range(rounds)),
    }


# Ray Data.


def _streamed(net: Network, batches: list[EventBatch], events: int) -> float:
    """Return how long it takes to sum what waits for a stream."""
    waiting = net.subscriber(NAME, durable=True)
    waiting.subscribe("distance > 0")
    waiting.close()
    publisher = net.publisher(f"faa-{time.monotonic_ns()}")
    for batch in batches:
        publisher.publish_batch(batch)
    publisher.flush()
    net.settle()
    began, rows = time.perf_counter(), 0
    for dataset in stream(net, "distance > 0", batch_seconds=1.0, batch_events=events // DATASETS, name=NAME):
        rows += _summed(dataset)
        if rows >= events:
            break
    took = time.perf_counter() - began
    assert rows == events
    net.subscriber(NAME, durable=True).end()
    publisher.close()
    return took


def _summed(dataset: Dataset) -> int:
    """Sum a column of a dataset; return how many rows there were."""
    rows = 0
    for batch in dataset.iter_batches(batch_size=None, batch_format="pyarrow"):
        pc.sum(batch.column("distance"))
        rows += batch.num_rows
    return rows


def _files(batches: list[EventBatch], rows: int, folder: Path) -> list[list[str]]:
    """Write the rows of each dataset to files, and return their paths."""
    layout = Layout()
    table = pa.Table.from_batches([layout.record_batch(concat(batches))])
    found = []
    for number in range(DATASETS):
        part, paths = table.slice(number * rows, rows), list[str]()
        for first in range(0, part.num_rows, BLOCK_EVENTS):
            paths.append(str(folder / f"{number}-{first}.parquet"))
            pq.write_table(part.slice(first, BLOCK_EVENTS), paths[-1], compression="zstd")
        found.append(paths)
    return found


def _read(files: list[list[str]], events: int) -> float:
    """Return how long it takes to sum the same rows from files."""
    began, rows = time.perf_counter(), 0
    for paths in files:
        rows += _summed(ray.data.read_parquet(paths))
    took = time.perf_counter() - began
    assert rows == events
    return took


# Groups.


class Worker:
    """A worker of one group after another that waits for each event."""

    def __init__(self, network: str, seconds: float) -> None:
        self._net, self._seconds = Network.attach(network), seconds

    def join(self, group: str) -> None:
        """Join a group."""
        self._one = self._net.subscriber(group, group=True)
        self._one.subscribe("lot = 1")
        self._times = list[float]()
        self._over = threading.Event()

    def work(self) -> tuple[float, float]:
        """Work until it is over; return the times of the first and the last event."""
        while not self._over.is_set():
            for note in self._one.notifications(timeout_seconds=LOOK_SECONDS):
                time.sleep(self._seconds)
                self._one.ack(note)
                self._times.append(time.time())
        return (self._times[0], self._times[-1]) if self._times else (math.inf, 0.0)

    def done(self) -> int:
        """Return how many events it has done."""
        return len(self._times)

    def stop(self) -> None:
        """Let it end when nothing waits for it."""
        self._over.set()

    def end(self) -> None:
        """End the group."""
        self._one.end()


def _worked(net: Network, workers: Sequence[ActorHandle], events: int, seconds: float) -> float:
    """Return how long a group of these workers takes."""
    name = f"workers-{time.monotonic_ns()}"
    ray.get([each.join.remote(name) for each in workers])
    publisher = net.publisher(name)
    publisher.publish_batch([{"lot": 1, "n": n} for n in range(events)])
    publisher.flush()
    working, bound = [each.work.remote() for each in workers], time.monotonic() + BOUND_SECONDS
    while (done := sum(ray.get([each.done.remote() for each in workers]))) < events:
        if time.monotonic() > bound:
            raise RayvousError(f"a group has done {done} of {events} events in {BOUND_SECONDS:.0f} s")
        time.sleep(LOOK_SECONDS)
    ray.get([each.stop.remote() for each in workers])
    told = ray.get(working)
    ray.get(workers[0].end.remote())
    publisher.close()
    return float(max(last for _, last in told) - min(first for first, _ in told) + seconds)
