"""A sink that appends to a table of Delta Lake: each roll is there once, and columns only come."""

from pathlib import Path

import pytest
from rayvous.pipelines.sink.delta import DeltaTarget
from rayvous.pipelines.sink.folder import attempt
from rayvous.pipelines.sink.rolling import NOTHING, Acknowledged
from rayvous.protocol.batch import batch_of

deltalake = pytest.importorskip("deltalake")


def target(folder: Path) -> DeltaTarget:
    return DeltaTarget(str(folder), "lake-3fa9")


def rows(folder: Path) -> list[dict[str, object]]:
    table = (
        deltalake.DeltaTable(str(folder))
        .to_pyarrow_table()
        .sort_by([("_publisher", "ascending"), ("_sequence", "ascending")])
    )
    return [{name: value for name, value in row.items() if value is not None} for row in table.to_pylist()]


def test_columns_keep_their_types_and_others_are_added(tmp_path: Path) -> None:
    for number, events in enumerate(
        [[{"gate": 7, "to": "JFK"}], [{"gate": 2.5, "TO": "LGA", "a b": True}, {"gate": 8}]], 1
    ):
        sink = target(tmp_path)
        sink.find(Acknowledged(number - 1, "an earlier process"))
        sink.write(number, "", batch_of(events, publisher="faa", first_sequence=number, published_at=0.0))
        sink.name()
    assert [{k: v for k, v in row.items() if not k.startswith("_")} for row in rows(tmp_path)] == [
        {"gate": 7, "to": "JFK"},
        {"gate:float": 2.5, "TO:string": "LGA", "a_b": True},
        {"gate": 8},
    ]
    assert sink.files == 1 and sink.conflicts == (("gate:float", 1),)
    assert [path.name for path in (tmp_path / "_rolls").iterdir()] == ["lake-3fa9-000000000002.delta"]


@pytest.mark.parametrize("dies", ["before the table has it", "before its file has its name", "after both"])
def test_an_acknowledged_roll_is_appended_once(
    tmp_path: Path, dies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = target(tmp_path)
    assert first.find(NOTHING) == 0
    first.write(5, "", batch_of([{"n": 1}, {"n": 2}], publisher="faa"))
    if dies == "before its file has its name":
        first._append(first._unnamed[0].unnamed)
    elif dies == "after both":
        first.name()
    later = target(tmp_path)
    assert later.find(Acknowledged(5, first.process)) == 5
    assert [row["n"] for row in rows(tmp_path)] == [1, 2]
    first.name()  # a process that was cut off goes on
    assert later.find(Acknowledged(5, first.process)) == 5
    assert [row["n"] for row in rows(tmp_path)] == [1, 2]


def test_a_roll_that_is_not_acknowledged_is_removed_and_numbers_rise_without_its_folder(
    tmp_path: Path,
) -> None:
    sink = target(tmp_path)
    sink.find(NOTHING)
    sink.write(5, "", batch_of([{"n": 1}]))
    sink.name()
    sink.write(6, "", batch_of([{"n": 2}]))
    assert target(tmp_path).find(NOTHING) == 5
    assert len(rows(tmp_path)) == 1
    for path in (tmp_path / "_rolls").iterdir():
        path.unlink()
    assert target(tmp_path).find(NOTHING) == 5, "a lower number would count as appended"


def test_a_table_that_refuses_is_tried_again(tmp_path: Path) -> None:
    sink = target(tmp_path)
    sink.find(NOTHING)
    sink.write(1, "", batch_of([{"n": 1}]))
    (tmp_path / "_delta_log").write_text("not a folder")
    assert attempt(sink.name)
    (tmp_path / "_delta_log").unlink()
    assert attempt(sink.name) == ""
    assert len(rows(tmp_path)) == 1
