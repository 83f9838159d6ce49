"""Shared by tests of telemetry: a host that hands over rows, each with its own number."""

from typing import Any

import numpy as np
import pytest
from rayvous.actors.telemetry.accounts import HandOver
from rayvous.protocol.telemetry.tables import SCHEMAS, Table


def rows_of(name: str, first: int, count: int) -> Table:
    """Return ``count`` rows of a table; the time of each is its number."""
    columns: dict[str, Any] = {
        column: np.array(["w"] * count, object) if kind is str else np.zeros(count, kind)
        for column, kind in SCHEMAS[name].items()
    }
    return columns | {"time_seconds": np.arange(first, first + count, dtype=np.float64)}


class Host:
    """What a host hands over: flushes that keep counting, whether or not they arrive."""

    def __init__(self, source: str = "host", first: int = 0) -> None:
        self.source = source
        self.first = first
        self.handed = dict.fromkeys(SCHEMAS, 0)
        self.dropped: dict[str, int] = {}

    def flush(self, **counts: int) -> HandOver:
        tables = {
            name: rows_of(name, self.first + self.handed[name], count)
            for name, count in counts.items()
            if count
        }
        flush = HandOver(self.source, dict(self.handed), (tables,) if tables else (), dict(self.dropped))
        for name, count in counts.items():
            self.handed[name] += count
        return flush


@pytest.fixture(scope="session")
def make_host() -> type[Host]:
    """Return the class of hosts: ``make_host(source, first)`` has handed nothing over."""
    return Host
