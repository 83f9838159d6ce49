"""Checks of memory, shared memory, the disk of Ray's temporary folder, and ports.

The limits are Ray's own. It kills workers when 95 % of the memory is used, and stops writing when 95 % of the
disk is used. It takes 30 % of the memory for objects. It creates sockets in its folder, and a kernel accepts
socket paths of up to 107 bytes.
"""

from __future__ import annotations

import errno
import math
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import psutil

from .findings import Finding

GIB: Final = 1 << 30
MEMORY_BYTES_MIN: Final = GIB
"""Ray's own processes take about half of it, a host of brokers 80 MB."""

STORE_SHARE: Final = 0.3
STORE_BYTES_MAX: Final = 200_000_000_000
DISK_SHARE_MAX: Final = 0.95
SOCKET_PATH_MAX: Final = 107
SOCKET_NAME: Final = "session_2000-01-01_00-00-00_000000_4194304/sockets/plasma_store"
"""The longest socket name in Ray's temporary folder; 4194304 is the largest process id."""

PORTS: Final[Mapping[int, tuple[str, str]]] = {
    6379: ("the head of a cluster", "ray start --head --port 6380"),
    8265: ("Ray's dashboard", "ray start --head --include-dashboard true --dashboard-port 8266"),
    10001: ("ray:// from other machines", "ray start --head --ray-client-server-port 20001"),
    8080: ("HTTP at a gateway", "rayvous gateway NETWORK --http 127.0.0.1:8081"),
}
"""Ports used by default: their purpose, and a command that uses another one. Ray gives 10002 to 19999 to workers."""

RAY_PROGRAMS: Final = ("gcs_server", "raylet", "ray::", "ray/dashboard", "ray.util.client.server", "rayvous")
CGROUPS: Final = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)
"""Files with the memory limit and usage of a container: of cgroup version 2, and of version 1."""


def look_at_memory() -> Iterator[Finding]:
    """Check the memory of this machine, or of its container, and /dev/shm."""
    seen = psutil.virtual_memory()
    total, available = seen.total, seen.available
    for limit, taken in CGROUPS:
        if (most := _number(limit)) is not None and most < total:
            total, available = most, min(available, most - (_number(taken) or 0))
    yield memory(total, available)
    if Path("/dev/shm").is_dir():
        shared = shutil.disk_usage("/dev/shm")
        yield shared_memory(shared.free, total, in_container=Path("/.dockerenv").exists())


def _number(path: str) -> int | None:
    try:
        return int(Path(path).read_text())
    except (OSError, ValueError):  # missing, or "max"
        return None


def memory(total: int, available: int) -> Finding:
    """Judge the memory, in bytes."""
    said = f"{available / GIB:.1f} GiB of {total / GIB:.1f} GiB available"
    if available >= MEMORY_BYTES_MIN:
        return Finding("memory", "ok", said)
    needed = f"; Ray and a few brokers take {MEMORY_BYTES_MIN / GIB:.0f} GiB"
    return Finding("memory", "wrong", said + needed, "ps aux --sort=-rss | head")


def shared_memory(free: int, memory_total: int, *, in_container: bool) -> Finding:
    """Judge the shared memory, in bytes, by the size of Ray's object store."""
    wanted = int(min(STORE_SHARE * memory_total, STORE_BYTES_MAX))
    said = f"{free / GIB:.1f} GiB free in /dev/shm"
    if free >= wanted:
        return Finding("shared memory", "ok", said)
    size = math.ceil(wanted / GIB)
    todo = (
        f"docker run --shm-size={size}g ..."
        if in_container
        else f"sudo mount -o remount,size={size}G /dev/shm"
    )
    return Finding("shared memory", "missing", f"{said}: Ray puts objects on disk, which is slow", todo)


def look_at_disk() -> Iterator[Finding]:
    """Check the disk of Ray's session folder."""
    folder = Path(os.environ.get("RAY_TMPDIR") or os.environ.get("TMPDIR") or "/tmp") / "ray"
    there = folder
    while not there.exists():
        there = there.parent
    usage = shutil.disk_usage(there)
    yield disk(str(folder), usage.total, usage.free, writable=os.access(there, os.W_OK))


def disk(folder: str, total: int, free: int, *, writable: bool) -> Finding:
    """Judge Ray's temporary folder: whether it is writable, has enough space, and has a path that is short enough."""
    name, other = "Ray's folder", "export RAY_TMPDIR=/tmp"
    said = f"{folder}: {free / GIB:.1f} GiB of {total / GIB:.1f} GiB free"
    if len(os.fsencode(f"{folder}/{SOCKET_NAME}")) > SOCKET_PATH_MAX:
        most = SOCKET_PATH_MAX - len(SOCKET_NAME) - 1
        return Finding(
            name, "wrong", f"{folder}: sockets below it have too long names; {most} bytes go", other
        )
    if not writable:
        return Finding(name, "wrong", f"{folder}: cannot be written", f"sudo chown $USER {folder}")
    if total - free > DISK_SHARE_MAX * total:
        return Finding(
            name, "wrong", f"{said}; Ray stops writing at 5 %", f"du -xh {folder} | sort -h | tail"
        )
    return Finding(name, "ok", said)


def look_at_ports() -> Iterator[Finding]:
    """Check which processes listen on the ports of a cluster's head and of a gateway."""
    for number in PORTS:
        yield port(number, _listener(number) if _taken(number) else None)


def _taken(number: int) -> bool:
    with socket.socket() as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            trial.bind(("", number))
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return True
            raise
    return False


def _listener(number: int) -> str:
    """Return the command of the process that listens on a port; empty if the system does not tell."""
    for entry in psutil.net_connections("tcp"):
        if entry.status == psutil.CONN_LISTEN and entry.laddr.port == number and entry.pid is not None:
            return " ".join(psutil.Process(entry.pid).cmdline())
    return ""


def port(number: int, listener: str | None) -> Finding:
    """Judge a port by the command of the process that listens there: None if none does, empty if it is unknown."""
    purpose, todo = PORTS[number]
    name = f"port {number}"
    if listener is None:
        return Finding(name, "ok", f"free, for {purpose}")
    if any(program in listener for program in RAY_PROGRAMS):
        return Finding(name, "ok", f"taken by Ray or Rayvous, for {purpose}")
    who = listener.split(" ", 1)[0].rsplit("/", 1)[-1] or "another program"
    return Finding(name, "missing", f"{who} has it; it is wanted for {purpose}", todo)
