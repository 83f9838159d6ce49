"""The names of tests say what they test, not when they were collected: workers of one run have to agree on them."""

import subprocess
import sys
from pathlib import Path

import pytest
from draws import COLLECTED

ROOT = Path(__file__).parent.parent

COLLECT = """
import random, sys, time
import numpy as np
import pytest

now, begun = int(sys.argv[1]), time.time()
clock = time.time
time.time = lambda: clock() - begun + now
random.seed(now)
np.random.seed(now)


class Names:
    def pytest_collection_finish(self, session):
        for item in session.items:
            print("::", item.nodeid, "thorough" if item.get_closest_marker("thorough") else "usual", sep="\\t")


sys.exit(pytest.main(["--collect-only", "-qqq", "-p", "no:xdist", "-p", "no:cacheprovider"], [Names()]))
"""


@pytest.mark.slow
def test_names_do_not_depend_on_time_or_hashes_and_each_test_has_a_case_in_make_test(
    request: pytest.FixtureRequest,
) -> None:
    """Compared with the names of this run, of all its tests or a few; workers of xdist compare theirs, too."""
    # gzip writes the second into its header: names made of such bytes differ between workers once in a while.
    collecting = subprocess.run(
        [sys.executable, "-c", COLLECT, "1000000000"],
        cwd=ROOT,
        env={"PYTHONHASHSEED": "1", "PATH": ""},
        capture_output=True,
        text=True,
        check=True,
    )
    found = [line.split("\t")[1:] for line in collecting.stdout.splitlines() if line.startswith("::\t")]
    assert len(found) > 7_000
    assert {*request.config.stash[COLLECTED]} <= {name for name, _ in found}
    usual = {name.partition("[")[0] for name, amount in found if amount == "usual"}
    only_thorough = {name.partition("[")[0] for name, _ in found} - usual
    assert not only_thorough, "`make test` runs no case of these"
