"""The figures of the benchmarks of many brokers: a panel for each cost, even where a row lacks a value."""

from typing import Any

import pytest
from legends import covered
from rayvous.benchmarks import scale_figure, soak_figure

ROW: dict[str, Any] = {
    "launch_seconds": 5.0, "one_tree_seconds": 1.0, "own_megabytes_an_actor": 90.0, "actors": 3,
    "idle_cores": 0.1, "subscribe_seconds": 0.03, "settle_seconds": 0.5,
}  # fmt: skip


@pytest.mark.slow
def test_scale_has_a_line_for_each_figure_that_was_measured() -> None:
    rows = [ROW | {"brokers": 100, "mended_seconds": 5.0}, ROW | {"brokers": 1000}]
    picture = scale_figure.figure({"results": rows})
    assert covered(picture) == []
    titles = [axes.get_title(loc="left") for axes in picture.axes]
    assert titles == [title for title, _ in scale_figure.PANELS]
    drawn = {line.get_label(): list(line.get_ydata()) for axes in picture.axes for line in axes.lines}
    assert drawn["of all"] == [270.0, 270.0] and drawn["last broker in its place"] == [5.0]
    assert drawn["Ray gives it up"] == []


def test_soak_has_a_line_for_each_process_as_long_as_it_lived() -> None:
    samples = [
        {"seconds": 60.0 * at, "own_bytes": own, "queued_events": 3, "owed": 10 * at, "wrong": 0}
        for at, own in enumerate([{"a": 1 << 20, "b": 2 << 20}, {"a": 1 << 20}])
    ]
    picture = soak_figure.figure({"samples": samples})
    assert covered(picture) == []
    memory, queues, owed = picture.axes
    assert [len(line.get_xdata()) for line in memory.lines] == [2, 1]
    assert list(queues.lines[0].get_ydata()) == [3, 3] and len(owed.lines) == 2
