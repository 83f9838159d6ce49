"""The benchmark of a sink: both write the same rows."""

import pyarrow.dataset
import pytest
from rayvous.benchmarks import sink


def test_both_write_the_same_rows(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    batches = sink.flights(1_000, 128, seed=1)
    tables = sink._tables(batches, 300)
    sink._sink(batches, 300, tmp_path / "sink")
    sink._pyarrow(tables, tmp_path / "bare")
    ours, theirs = (pyarrow.dataset.dataset(tmp_path / name).to_table() for name in ("sink", "bare"))
    assert ours.num_rows == 1_000
    assert ours.sort_by("_sequence").equals(theirs.sort_by("_sequence"))


def test_the_figures_are_plain_and_their_ratio_is_theirs() -> None:
    told: list[tuple[str, int, int]] = []
    found = sink.run(
        events=2_000, batch_events=256, roll_events=512, rounds=1, progress=lambda *said: told.append(said)
    )
    assert found["files"] == 4 and told[-1] == ("writing", 1, 1)
    assert found["sink_over_pyarrow"] == pytest.approx(found["sink_seconds"] / found["pyarrow_seconds"])
