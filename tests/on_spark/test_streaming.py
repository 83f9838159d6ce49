"""Following a telemetry folder with Structured Streaming counts each row once, also after a restart."""

import json
import threading
from pathlib import Path

import numpy as np
import pytest
from rayvous.actors.telemetry.arrow import to_arrow
from rayvous.actors.telemetry.files import PartKey, write_part
from rayvous.pipelines.figures.live import ACCURACY, Following
from rayvous.pipelines.figures.streaming import CHECKPOINT, FIGURES_FILE, follow
from rayvous.pipelines.run import report
from rayvous.protocol.errors import InputError

RUN = "run-1"
SETTINGS = Following(RUN, window_seconds=10, late_seconds=30)
EVENTS = 50


class Feed:
    """Writes parts of all tables; the number of a part seeds its content."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.number = 0

    def add(self, at: float) -> None:
        """Write a part of each table, with times within a second of `at`."""
        rng = np.random.default_rng(self.number)
        times = at + rng.uniform(0, 1, EVENTS)
        latency = rng.lognormal(-4, 1, EVENTS)
        names = np.array(["p"] * EVENTS, object)
        kinds = np.array(["publish", "up", "multicast", "deliver", "down"] * (EVENTS // 5), object)
        integers = dict.fromkeys(("broker", "cluster"), np.zeros(EVENTS, int))
        sequence = np.arange(EVENTS) + EVENTS * self.number
        self.write(
            transfers={
                **integers, "time_seconds": times, "link_kind": kinds, "peer": np.full(EVENTS, -1),
                "messages": np.ones(EVENTS, int), "events": rng.integers(0, 4, EVENTS),
                "nbytes": rng.integers(0, 99, EVENTS),
            },
            deliveries={
                "time_seconds": times, "broker": integers["broker"],
                "notifications": rng.integers(1, 5, EVENTS), "latency_sum_seconds": latency,
            },
            published={
                "time_seconds": times, "broker": integers["broker"], "publisher": names, "sequence": sequence,
            },
            notified={
                "time_seconds": times, "broker": integers["broker"], "subscriber": names, "publisher": names,
                "sequence": sequence, "published_at": times - latency,
            },
            lost={
                "time_seconds": times[:1], "table": np.array(["notified"], object),
                "reason": np.array(["memory"], object), "rows": np.array([3]),
            },
        )  # fmt: skip

    def write(self, **tables: dict[str, np.ndarray]) -> None:
        for name, columns in tables.items():
            write_part(self.folder, name, RUN, PartKey(1, self.number), to_arrow(name, columns))
        self.number += 1


def figures_agree(live, written):
    """Check that the follower has the sums of the batch report, and its percentiles within their accuracy.

    The follower keeps nothing per subscriber, so it reports neither the AED nor the number of subscribers.
    """
    batch = json.loads(written.paths["summary"].read_text())
    aggregates = batch["aggregates"]
    assert live["tct"] == aggregates["tct"]
    unknown = dict.fromkeys(("aed_seconds", "subscribers"))
    for name, left_out in (("throughput", {}), ("aed", unknown)):
        assert (
            live[name] == {key: pytest.approx(value) for key, value in aggregates[name].items()} | left_out
        ), name
    exact = aggregates["latency_percentiles"]
    assert live["latency_percentiles"]["notifications"] == exact["notifications"]
    for name in ("p50_seconds", "p90_seconds", "p99_seconds"):
        assert live["latency_percentiles"][name] == pytest.approx(exact[name], rel=1.001 * ACCURACY)
    lost = written.figures["telemetry_lost"].to_dict("records")
    assert live["lost"] == {row["table"]: {row["reason"]: row["rows"]} for row in lost}


def in_windows(figures, name):
    return sum(window[name] for window in figures["windows"])


def test_stopped_in_the_middle_and_started_again_it_counts_every_row_once(spark, tmp_path):
    folder, out = tmp_path / "telemetry", tmp_path / "out"
    feed = Feed(folder)

    def go_on():
        return follow(spark, folder, out, SETTINGS, only_what_is_there=True)

    for at in (1_000.0, 1_020.0):
        feed.add(at)
    first = go_on()
    assert first["aed"]["notifications"] == 2 * EVENTS and first["late_rows"] == {}
    feed.add(1_100.0)
    assert go_on()["batch"] == 1
    # Within the watermark of about 1,070, and older than it.
    feed.add(1_072.0)
    feed.add(1_015.0)
    last = go_on()
    assert last["late_rows"] == {
        "transfers": EVENTS, "deliveries": EVENTS, "published": EVENTS, "notified": EVENTS, "lost": 1
    }  # fmt: skip
    starts = [window["start_seconds"] for window in last["windows"]]
    assert starts == [1_000, 1_020, 1_070, 1_100]
    assert in_windows(last, "lost_rows") == 4 * 3
    assert last["lost"] == {"notified": {"memory": 5 * 3}}
    assert json.loads((out / FIGURES_FILE).read_text()) == last
    figures_agree(last, report(folder, tmp_path / "report", spark))
    assert go_on() == last  # nothing new, nothing twice


def test_a_micro_batch_that_was_not_committed_is_not_counted_twice(spark, tmp_path):
    folder, out = tmp_path / "telemetry", tmp_path / "out"
    feed = Feed(folder)
    feed.add(1_000.0)
    follow(spark, folder, out, SETTINGS, only_what_is_there=True)
    feed.add(1_010.0)
    before = follow(spark, folder, out, SETTINGS, only_what_is_there=True)
    # As if the process had died after writing the state and before Spark committed the batch.
    for path in (out / CHECKPOINT / RUN / "commits").glob("*1*"):
        path.unlink()
    feed.add(1_020.0)
    after = follow(spark, folder, out, SETTINGS, only_what_is_there=True)
    assert after["aed"]["notifications"] == before["aed"]["notifications"] + EVENTS == 3 * EVENTS
    figures_agree(after, report(folder, tmp_path / "report", spark))


def test_it_shows_what_appears_until_it_is_told_to_stop(spark, tmp_path):
    folder = tmp_path / "telemetry"
    feed = Feed(folder)
    feed.add(1_000.0)
    stop, seen = threading.Event(), []

    def show(figures):
        seen.append(figures["aed"]["notifications"])
        if seen[-1] == EVENTS:
            feed.add(1_010.0)  # appears while the folder is followed
        elif seen[-1] == 2 * EVENTS:
            stop.set()

    last = follow(spark, folder, tmp_path / "out", SETTINGS, show=show, stop=stop, every_seconds=0.2)
    assert seen == [0, EVENTS, 2 * EVENTS]
    assert in_windows(last, "notifications") == last["throughput"]["notifications"]


def test_a_file_that_is_being_written_is_not_read(spark, tmp_path):
    folder = tmp_path / "telemetry"
    feed = Feed(folder)
    feed.add(1_000.0)
    (folder / "transfers" / f"run={RUN}" / ".part-9-9.parquet.writing").write_bytes(b"PAR1 and no more")
    last = follow(spark, folder, tmp_path / "out", SETTINGS, only_what_is_there=True)
    assert last["aed"]["notifications"] == EVENTS


def test_a_checkpoint_that_does_not_belong_is_refused(spark, tmp_path):
    folder, out = tmp_path / "telemetry", tmp_path / "out"
    feed = Feed(folder)
    feed.add(1_000.0)
    follow(spark, folder, out, SETTINGS, only_what_is_there=True)
    with pytest.raises(InputError, match=r"made with window_seconds 10, not 5"):
        follow(spark, folder, out, Following(RUN, 5, 30), only_what_is_there=True)
    (out / CHECKPOINT / RUN / "state.json").unlink()
    feed.add(1_010.0)
    with pytest.raises(InputError, match="they do not belong together"):
        follow(spark, folder, out, SETTINGS, only_what_is_there=True)
