"""Figures of a running job: windows, lateness, percentiles from buckets, and repeated micro-batches."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.pipelines.figures.live import (
    ACCURACY,
    BUCKET_FLOOR_SECONDS,
    BUCKET_RATIO,
    GREATEST,
    LEAST,
    SUMS,
    WINDOWS_MAX,
    Following,
    Live,
    quantile,
)
from rayvous.protocol.errors import InputError

SETTINGS = Following("run", window_seconds=10, late_seconds=20)


def partial(table="transfers", at=5.0, kind="publish", **measures):
    """Return partial sums for one row, with its window."""
    sums = {**dict.fromkeys(SUMS, 0), **dict.fromkeys((*LEAST, *GREATEST)), "rows": 1, "events": 1}
    return {
        **sums, "table": table, "kind": kind, "window": at // 10 * 10, "bucket": 0, "newest_seconds": at, **measures
    }  # fmt: skip


def bucket(seconds):
    return math.ceil(
        math.log(max(seconds, BUCKET_FLOOR_SECONDS) / BUCKET_FLOOR_SECONDS) / math.log(BUCKET_RATIO)
    )


def windows(live):
    return {window["start_seconds"]: window["events"] for window in live.figures()["windows"]}


def test_a_row_within_the_watermark_counts_in_its_window_and_a_later_one_as_late():
    live = Live(SETTINGS)
    live.apply(0, [partial(at=5.0), partial(at=39.9)])
    assert windows(live) == {0: 1, 30: 1}
    live.apply(1, [partial(at=6.0, rows=3, events=3)])  # the watermark is 19.9: the window 0 to 10 is closed
    live.apply(2, [partial(at=15.0)])  # 10 to 20 is not
    assert windows(live) == {0: 1, 10: 1, 30: 1}
    assert live.figures()["late_rows"] == {"transfers": 3}
    assert live.figures()["throughput"]["events"] == 6  # the total has them all


def test_what_makes_others_late_counts_only_from_the_next_micro_batch_on():
    live = Live(SETTINGS)
    live.apply(0, [partial(at=500.0), partial(at=5.0)])
    assert windows(live) == {0: 1, 500: 1}
    live.apply(1, [partial(at=5.0)])
    assert live.figures()["late_rows"] == {"transfers": 1}


def test_each_table_has_a_watermark_of_its_own():
    live = Live(SETTINGS)
    live.apply(0, [partial(at=500.0)])
    live.apply(
        1,
        [
            partial(
                "deliveries",
                at=5.0,
                kind="",
                delay_seconds=0.5,
                last_seconds=5.0,
                first_published_seconds=4.5,
            )
        ],
    )
    assert live.figures()["late_rows"] == {}
    assert live.figures()["windows"][0] == {
        "start_seconds": 0, "events": 0, "notifications": 1, "mean_latency_seconds": 0.5,
        "p99_latency_seconds": None, "lost_rows": 0,
    }  # fmt: skip


def test_a_micro_batch_that_comes_again_changes_nothing_and_one_that_misses_is_an_error():
    live = Live(SETTINGS)
    assert live.apply(0, [partial()])
    assert not live.apply(0, [partial()])
    assert live.figures()["throughput"]["events"] == 1
    with pytest.raises(InputError, match="the checkpoint is at micro-batch 2 and the figures at 0"):
        live.apply(2, [partial()])


def test_windows_do_not_grow_with_the_run_and_totals_keep_all():
    live = Live(SETTINGS)
    for batch in range(1_000):
        live.apply(batch, [partial(at=10.0 * batch)])
    assert len(live.windows) == WINDOWS_MAX
    assert live.figures()["throughput"]["events"] == 1_000
    slow = Live(Following("run", window_seconds=10, late_seconds=10_000))
    for batch in range(500):
        slow.apply(batch, [partial(at=10.0 * batch)])
    assert len(slow.windows) == 500  # no window that may still get rows is dropped


def test_losses_are_told_by_table_and_reason():
    live = Live(SETTINGS)
    live.apply(
        0, [partial("lost", kind="notified/memory", events=7), partial("lost", kind="notified/buffer")]
    )
    assert live.figures()["lost"] == {"notified": {"memory": 7, "buffer": 1}}
    assert live.figures()["windows"][0]["lost_rows"] == 8


def test_nothing_is_null_and_not_zero():
    figures = Live(SETTINGS).figures()
    assert figures["aed"]["mean_delay_seconds"] is None
    assert figures["throughput"]["events_per_second"] is None
    assert figures["latency_percentiles"] is None
    assert quantile({}, 0.5) is None
    json.dumps(figures, allow_nan=False)


@given(
    st.lists(st.floats(1e-5, 1e4), min_size=1, max_size=60),
    st.sampled_from([0.0, 0.5, 0.9, 0.99, 1.0]),
)
def test_percentiles_from_buckets_are_those_of_numpy_to_a_hundredth(latencies, share):
    buckets = {}
    for latency in latencies:
        buckets[bucket(latency)] = buckets.get(bucket(latency), 0) + 1
    exact = float(np.quantile(latencies, share))
    assert quantile(buckets, share) == pytest.approx(exact, rel=ACCURACY * 1.001)


@given(
    st.lists(
        st.lists(st.tuples(st.sampled_from(["publish", "up"]), st.floats(0, 300)), max_size=6), max_size=12
    )
)
def test_the_state_goes_on_from_what_was_put_down(batches):
    straight, stopped = Live(SETTINGS), Live(SETTINGS)
    for number, rows in enumerate(batches):
        partials = [partial(at=at, kind=kind, first_seconds=at, last_seconds=at) for kind, at in rows]
        straight.apply(number, partials)
        stopped.apply(number, partials)
        stopped = Live.from_plain(json.loads(json.dumps(stopped.to_plain(), allow_nan=False)), SETTINGS)
    assert stopped.figures() == straight.figures()
    counted = sum(windows(straight).values()) + sum(straight.late.values())
    published = sum(kind == "publish" for rows in batches for kind, _ in rows)
    assert straight.figures()["throughput"]["events"] == published
    assert counted >= published  # late rows are counted whatever their kind


@pytest.mark.parametrize(
    "other", [Following("other", 10, 20), Following("run", 5, 20), Following("run", 10, 1)]
)
def test_a_checkpoint_of_other_settings_is_refused(other):
    with pytest.raises(InputError, match="the checkpoint was made with"):
        Live.from_plain(Live(SETTINGS).to_plain(), other)


@pytest.mark.parametrize("settings", [Following("r", 0), Following("r", math.nan), Following("r", 1, -1)])
def test_settings_that_cannot_be_used(settings):
    with pytest.raises(InputError, match=r"it must be a number from"):
        settings.validate()
