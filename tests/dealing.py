"""Which tests stay in one process where several processes run them, and in which order each process imports them.

Pytest rewrites the assertions of a file before it compiles it, and keeps the result. In a new clone that takes eight
seconds of a core for all files. Of two processes one begins with the last file of a folder, so each makes half of them.
"""

from collections.abc import Generator
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from xdist.scheduler import LoadFileScheduling


class OneSpark(LoadFileScheduling):
    """Gives a file to one process, and the folder whose tests share a Spark session as if it were one file."""

    def _split_scope(self, nodeid: str) -> str:
        file = super()._split_scope(nodeid)
        return "on_spark" if "on_spark" in Path(file).parts else file


TURNED = pytest.StashKey[bool]()


class FromTheEnd:
    """A plugin for one of several processes, which imports the files of each folder in the opposite order."""

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        report = yield
        if isinstance(collector, pytest.Directory) and report.passed:
            # What the command line names stays in the order in which it does.
            if not collector.session.isinitpath(collector.path, with_parents=True):
                report.result.reverse()
                collector.stash[TURNED] = True
        return report

    @pytest.hookimpl(tryfirst=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Turn round again what was: all processes have to name the tests in the same order."""
        items[:] = [
            item
            for _, below in groupby(items, highest_turned)
            for tests in reversed([list(tests) for _, tests in groupby(below, lambda item: item.path)])
            for item in tests
        ]


def highest_turned(item: pytest.Item) -> Any:
    return next(node for node in item.listchain() if TURNED in node.stash or node is item)
