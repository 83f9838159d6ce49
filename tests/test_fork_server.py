"""The fork server: a worker is forked if its environment is that of the server, and starts as always if not."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import fork_server
import pytest
from patience import PATIENCE_SECONDS
from ray._private.workers import default_worker

USAGE = "usage: default_worker.py"


@pytest.fixture
def there(tmp_path: Path) -> Iterator[dict[str, str]]:
    """Run a fork server, and return the environment in which workers ask for it."""
    path = Path("/tmp") / f"rv-{os.getpid()}-fork"  # short: the path of a socket may have 107 characters
    environment = os.environ | {"RAYVOUS_FORK_SERVER": str(path), "RAYVOUS_WORKER": default_worker.__file__}
    line = [sys.executable, fork_server.__file__, str(path)]
    with subprocess.Popen(line, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None and process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        yield environment
        process.stdin.close()
        assert process.wait() == 0
    path.unlink()


def said(environment: dict[str, str], *words: str) -> str:
    """Return what is printed when a worker is asked for help."""
    line = [sys.executable, *words, "--help"]
    done = subprocess.run(
        line, env=environment, cwd=fork_server.HERE, capture_output=True, text=True, check=True
    )
    return done.stdout


ASK = "-c", "import os, quick_worker; print(quick_worker.forked(os.environ['RAYVOUS_FORK_SERVER']))"


@pytest.mark.slow
def test_a_worker_is_forked_where_libraries_read_the_same(there: dict[str, str]) -> None:
    out = said(there | {"SOMETHING": "else"}, *ASK)
    assert out.startswith(USAGE) and out.endswith("True\n")


@pytest.mark.slow
def test_a_worker_of_another_node_is_forked_and_ends_with_what_started_it(there: dict[str, str]) -> None:
    with subprocess.Popen(["sleep", "300"]) as raylet:
        told = {
            fork_server.OF_ITS_NODE: str(raylet.pid),
            "PYTHONBREAKPOINT": "ray.util.rpdb._driver_set_trace",
        }
        out = said(there | told, *ASK)
        assert out.startswith(USAGE) and out.endswith("True\n")
        ending = "import sys, fork_server; fork_server.end_with(int(sys.argv[1]))"
        with subprocess.Popen(
            [sys.executable, "-c", ending, str(raylet.pid)], cwd=fork_server.HERE
        ) as worker:
            raylet.kill()
            assert worker.wait(PATIENCE_SECONDS) == 1


@pytest.mark.slow
def test_a_worker_of_another_driver_starts_as_always_and_so_does_one_without_a_fork_server(
    there: dict[str, str],
) -> None:
    for change in (
        {"RAY_JOB_ID": "02000000"},
        {"RAYVOUS_FORK_SERVER": there["RAYVOUS_FORK_SERVER"] + "-none"},
    ):
        assert said(there | change, *ASK) == "False\n"
        assert said(there | change, "quick_worker.py").startswith(USAGE)
