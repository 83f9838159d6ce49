"""Workers of the tests' Ray are forked from a process that has imported what they need, in a tenth of the time.

Starting a worker takes a second of a core, of which importing Ray and the package is most; tests on Ray start hundreds.
Reference: docs/decisions/0195-what-a-test-costs.md.

Rules
-----
* Ray starts `quick_worker` in place of its own worker. That hands over its arguments, environment and outputs, and
  lives as long as the forked worker does. A worker is of a process group of its own, as Ray would have it.
* Ray's library reads its environment when it is loaded. The fork server has that of a worker of the tests' driver, and
  forks only workers whose environment is the same in everything that libraries read. The others, such as those of
  another driver, start as always.
* The fork server ends with the process that started it.
"""

import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
import ray
from ray._private import parameter
from ray._private.workers import default_worker

HERE = Path(__file__).parent
READ_BY_LIBRARIES = ("RAY", "PYTHON", "OPENBLAS", "LD_")
"""Beginnings of variables that are read when something is imported."""
OF_ITS_NODE = "RAY_RAYLET_PID"
"""What started a worker, which ends with it: read when Ray's library is loaded, and different on each node."""
READ_LATER = "PYTHONBREAKPOINT"
"""Read where a program stops for a debugger. Ray sets it in drivers, whose nodes have it then, and in workers."""


def prepare(patch: pytest.MonkeyPatch, folder: Path) -> None:
    """Make the Ray that is started next ask for its workers at the fork server of this folder, once there is one.

    That Ray does not look at what nobody reads: its workers' logs (ten times a second, all there ever were), what
    each process uses, and whether nodes should be added, which nobody would add.
    """
    patch.setenv("RAYVOUS_FORK_SERVER", str(folder / f"fork-{os.getpid()}"))
    patch.setenv("RAYVOUS_WORKER", default_worker.__file__)
    patch.setenv("REPORTER_UPDATE_INTERVAL_MS", "3600000")
    made = partial(
        parameter.RayParams,
        worker_path=str(HERE / "quick_worker.py"),
        include_log_monitor=False,
        no_monitor=True,
    )
    patch.setattr(parameter, "RayParams", made)


@contextmanager
def opened() -> Iterator[None]:
    """Run a fork server beside the block for the workers of this process, which has joined Ray."""
    there = ray.get(ray.remote(num_cpus=0)(lambda: dict(os.environ)).remote())
    there["RAY_JOB_ID"] = ray.get_runtime_context().get_job_id()  # a worker may be older than that
    line = [sys.executable, __file__, there["RAYVOUS_FORK_SERVER"]]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=there) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait()
            Path(there["RAYVOUS_FORK_SERVER"]).unlink()


def relevant(environment: dict[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(READ_BY_LIBRARIES) and name not in (OF_ITS_NODE, READ_LATER)
    }


def main(path: str) -> None:
    # What hosts, the rendezvous point, collectors, groups, sinks and drivers in workers have imported.
    import rayvous.actors.groups.actor
    import rayvous.actors.host.host
    import rayvous.actors.network.network
    import rayvous.actors.network.rendezvous
    import rayvous.actors.telemetry.collector  # noqa: F401

    gc.collect()
    gc.freeze()
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how a worker ended
    mine = relevant(dict(os.environ))
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(path)
        listening.listen(64)
        os.write(sys.stdout.fileno(), b"ready\n")
        while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
            with listening.accept()[0] as asking:
                size, files, _, _ = socket.recv_fds(asking, 4, 3)
                with asking.makefile("rb") as text:
                    arguments, environment = json.loads(text.read(int.from_bytes(size, "big")))
                alike = relevant(environment) == mine
                asking.sendall(b"y" if alike else b"n")
                if alike and not os.fork():
                    listening.close()
                    become(arguments, environment, files)
                for file in files:
                    os.close(file)


def become(arguments: list[str], environment: dict[str, str], files: list[int]) -> None:
    """Run a worker of Ray in this process, and end with it."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    for place, file in enumerate(files):
        os.dup2(file, place)
        os.close(file)
    mine = os.environ.get(OF_ITS_NODE)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = [default_worker.__file__, *arguments]
    if environment.get(OF_ITS_NODE, mine) != mine:
        threading.Thread(target=end_with, args=[int(environment[OF_ITS_NODE])], daemon=True).start()
    try:
        runpy.run_path(default_worker.__file__, run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(0)


def end_with(process: int) -> None:
    """End at once when a process has ended, as Ray's library does within a second."""
    select.select([os.pidfd_open(process)], [], [])
    os._exit(1)


if __name__ == "__main__":
    main(sys.argv[1])
