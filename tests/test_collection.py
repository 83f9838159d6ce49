"""The names of tests say what they test, not when they were collected: workers of one run have to agree on them."""

import subprocess
import sys
from pathlib import Path

import pytest

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
def test_names_do_not_depend_on_time_or_hashes_and_each_test_has_a_case_in_make_test() -> None:
    # gzip writes the second into its header: names made of such bytes differ between workers once in a while.
    collecting = [
        subprocess.Popen(
            [sys.executable, "-c", COLLECT, now],
            cwd=ROOT,
            env={"PYTHONHASHSEED": hashes, "PATH": ""},
            stdout=subprocess.PIPE,
            text=True,
        )
        for now, hashes in (("1000000000", "1"), ("1700000001", "2"))
    ]
    one, other = [
        [line.split("\t")[1:] for line in process.communicate()[0].splitlines() if line.startswith("::\t")]
        for process in collecting
    ]
    assert not any(process.returncode for process in collecting)
    assert len(one) > 7_000
    assert one == other
    usual = {name.partition("[")[0] for name, amount in one if amount == "usual"}
    only_thorough = {name.partition("[")[0] for name, _ in one} - usual
    assert not only_thorough, "`make test` runs no case of these"
