"""An interrupted run resumes where it stopped, and only with the same points."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from rayvous.experiments import reproduction
from rayvous.experiments.experiment import Repeated, Runs
from rayvous.protocol.errors import InputError


@dataclass(frozen=True)
class Point:
    size: int
    run: int = 0


PLAN = Runs(
    "some",
    {"quick": Repeated((Point(8), Point(4)), 3)},
    lambda point: {"table": {"value": [point.size + point.run]}},
)


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Measure points in this process and return the list of them; the first Point(4) is interrupted."""
    points: list[Any] = []

    def spread(measure: Any, items: list[Any]) -> Iterator[Any]:
        for item in items:
            if item == Point(4) and not points[4:]:
                points.append("broken off")
                raise KeyboardInterrupt
            points.append(item)
            yield item, measure(item)

    monkeypatch.setattr(reproduction, "spread", spread)
    return points


def measure(folder: Path, shown: list[Any], runs: int | None = None, *, resume: bool) -> None:
    reproduction._measure(PLAN, folder, "quick", runs, lambda *said: shown.append(said), resume=resume)


def values(folder: Path) -> list[tuple[int, int]]:
    """Return the size and value of each row."""
    files = sorted((folder / "some").rglob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file, partitioning=None).to_pylist()]
    return sorted((row["size"], row["value"]) for row in rows)


ALL = [(4, 4), (4, 5), (4, 6), (8, 8), (8, 9), (8, 10)]


def test_no_point_is_measured_twice_and_all_are_there(measured: list[Any], tmp_path: Path) -> None:
    shown: list[Any] = []
    with pytest.raises(KeyboardInterrupt):
        measure(tmp_path, shown, resume=True)
    with (tmp_path / "some" / reproduction.MEASURED).open("a") as log:
        log.write("4")  # interrupted while it recorded that this one is measured
    done = len(measured) - 1
    measured.append("again")
    measure(tmp_path, shown, resume=True)
    assert measured[:done] == [Point(8, 0), Point(8, 1), Point(8, 2)] and values(tmp_path) == ALL
    assert measured[done + 2 :] == [Point(4, 0), Point(4, 1), Point(4, 2)]
    assert shown[-4] == ("some", 3, 6) and shown[-1] == ("some", 6, 6)
    measure(tmp_path, shown, resume=True)
    assert shown[-1] == ("some", 6, 6) and len(measured) == done + 5


def test_without_it_all_begins_anew(measured: list[Any], tmp_path: Path) -> None:
    measured += ["before"] * 5
    for _ in range(2):
        measure(tmp_path, [], resume=False)
        assert values(tmp_path) == ALL
    assert len(measured) == 5 + 12


def test_other_points_are_refused(measured: list[Any], tmp_path: Path) -> None:
    measured += ["before"] * 5
    measure(tmp_path, [], resume=False)
    with pytest.raises(InputError, match=r"--resume: .*some has other points"):
        measure(tmp_path, [], 2, resume=True)
    assert values(tmp_path) == ALL
