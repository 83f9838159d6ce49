"""Many seeds in several processes: no process outlives the one that started it."""

import os
import select
import subprocess
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool

import pytest
from patience import PATIENCE_SECONDS
from rayvous.faults.simulated import chaos
from rayvous.protocol.errors import ProcessLost

MANY_SEEDS = """
import multiprocessing
from rayvous.faults.simulated.chaos import run_seeds

def tell(report):
    print(*[child.pid for child in multiprocessing.active_children()], flush=True)

if __name__ == "__main__":
    run_seeds(range(1000), processes=2, progress=tell, heals=False, brokers_max=4, seconds=1.0)
"""


@pytest.mark.slow
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
            assert select.select([end], [], [], PATIENCE_SECONDS)[0]
    finally:
        for end in ends:
            os.close(end)


def test_a_process_that_is_killed_is_told_with_what_is_left_to_do(monkeypatch):
    class Pool:
        def __init__(self, *how):
            pass

        def __enter__(self):
            return self

        def __exit__(self, *error):
            return None

        def submit(self, run, seed, **options):
            done = Future()
            if seed < 2:
                done.set_result(run(seed, **options))
            else:
                done.set_exception(BrokenProcessPool("a child process terminated abruptly"))
            return done

    monkeypatch.setattr(chaos.concurrent.futures, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(chaos, "run_chaos", lambda seed: chaos.ChaosReport("sim", {"seed": seed}, brokers=1))
    monkeypatch.setattr(chaos.concurrent.futures, "as_completed", list)
    with pytest.raises(ProcessLost, match=r"was killed.* 7 have not run: 2, 3, 4, 5, 6, \.\.\."):
        chaos.run_seeds(range(9), processes=2)
