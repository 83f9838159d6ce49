"""Many seeds in several processes: none of them outlives the one that started them."""

import os
import select
import subprocess
import sys

import pytest

BOUND_SECONDS = 60

MANY_SEEDS = """
import multiprocessing
from rayvous.simulator.chaos import run_seeds

def tell(report):
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)

if __name__ == "__main__":
    run_seeds(range(1000), processes=2, progress=tell, heals=False, brokers_max=4, seconds=1.0)
"""


@pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="waits for processes as Linux does")
def test_processes_end_with_the_one_that_started_them(tmp_path):
    script = tmp_path / "seeds.py"
    script.write_text(MANY_SEEDS)
    with subprocess.Popen([sys.executable, str(script)], stdout=subprocess.PIPE, text=True) as parent:
        workers = [int(pid) for pid in parent.stdout.readline().split()]
        ends = [os.pidfd_open(pid) for pid in workers]
        parent.kill()
    assert len(workers) == 2
    try:
        for end in ends:
            assert select.select([end], [], [], BOUND_SECONDS)[0]
    finally:
        for end in ends:
            os.close(end)
