"""The benchmark of events as data: the files have the rows of the datasets."""

from pathlib import Path

import pyarrow.parquet as pq
from rayvous.benchmarks import data
from rayvous.benchmarks.sink import flights


def test_the_files_have_the_rows_of_the_datasets(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(data, "BLOCK_EVENTS", 100)
    found = data._files(flights(1_000, 128, seed=1), 250, tmp_path)
    assert [len(paths) for paths in found] == [3] * data.DATASETS
    sequences = [pq.read_table(paths).column("_sequence").to_pylist() for paths in found]
    assert sequences == [[*range(first, first + 250)] for first in (1, 251, 501, 751)]
