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
sys.exit(pytest.main(["--collect-only", "-q", "-p", "no:xdist", "-p", "no:cacheprovider"]))
"""


@pytest.mark.slow
def test_names_of_tests_do_not_depend_on_the_time_of_collection() -> None:
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
        [line for line in process.communicate()[0].splitlines() if "::" in line] for process in collecting
    ]
    assert not any(process.returncode for process in collecting)
    assert len(one) > 7_000
    assert one == other
