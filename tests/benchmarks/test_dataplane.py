"""Figures of the benchmark of the data plane."""

import numpy as np
import pytest
from rayvous.benchmarks.bare_chains import HEAD, _Frames
from rayvous.benchmarks.dataplane import GOALS, Round, _figures, _ratios

OURS = [
    Round(np.array([2.0, 4.0, 4.0]), 3.0, 10.0),
    Round(np.array([6.0]), 5.0, 30.0),
    Round(np.array([6.0]), 4.0, 40.0),
]
THEIRS = [
    Round(np.array([2.0]), 1.0, 20.0),
    Round(np.array([2.0]), 1.0, 20.0),
    Round(np.array([6.0]), 4.0, 20.0),
]


def test_a_ratio_is_that_of_the_median_round() -> None:
    found = _ratios("chain", OURS, THEIRS)
    assert found["times_chain_latency_by_round"] == [2.0, 3.0, 1.0] and found["times_chain_latency"] == 2.0
    assert found["times_chain_cpu_by_round"] == [3.0, 5.0, 1.0] and found["times_chain_cpu"] == 3.0
    assert found["of_chain_events_per_second_by_round"] == [0.5, 1.5, 2.0]
    assert found["of_chain_events_per_second"] == 1.5


def test_every_goal_is_that_of_a_ratio() -> None:
    assert (
        set(GOALS) <= {**_ratios("bare_chain", OURS, THEIRS), **_ratios("socket_chain", OURS, THEIRS)}.keys()
    )


def test_a_latency_is_that_of_all_rounds_and_a_rate_that_of_the_median_round() -> None:
    found = _figures("our_", OURS)
    assert found["our_latency_p50_seconds"] == 4.0 and found["our_events_per_second"] == 30.0
    assert found["our_cpu_seconds_per_event"] == 4.0


@pytest.mark.parametrize("size", [1, 7, 100])
def test_an_actor_of_the_socket_chain_finds_the_contents_in_any_pieces(size: int) -> None:
    taken: list[tuple[bytes, bool]] = []
    end = _Frames(lambda _, content, answered: taken.append((content, answered)))
    sent = b"".join(
        HEAD.pack(len(content), answered) + content for content, answered in [(b"ab", True), (b"", False)]
    )
    for start in range(0, len(sent), size):
        end.data_received(sent[start : start + size])
    assert taken == [(b"ab", True), (b"", False)]
