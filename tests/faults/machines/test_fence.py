"""Everything behind the fence ends with the process that set it up; why there can be none is reported."""

import signal
import subprocess
import sys
from pathlib import Path
from select import select

import pytest
from patience import PATIENCE_SECONDS
from rayvous.faults.machines.fence import FENCE, Hindrance, hindrance, run_among_hosts, why_not, words_of
from rayvous.faults.machines.layout import Layout
from rayvous.protocol.errors import HostsUnavailable, InputError

INSIDE = """
import os, subprocess, sys, time
from rayvous.faults.machines.init import make_hosts
from rayvous.faults.machines.layout import Layout
make_hosts(Layout(2, 100))
asleep = subprocess.Popen(["ip", "netns", "exec", "host-1", "sleep", "1000"])
print(os.stat("/proc/self/ns/net").st_ino, *os.listdir("/run/netns"), flush=True)
asleep.wait()
"""
ORPHAN = (
    "orphan=$(sh -c 'sleep 0.1 > /dev/null & echo $!'); while kill -0 $orphan; do sleep 0.02; done; exit 7"
)
FIRST = f"""
import sys
from rayvous.faults.machines.init import run
sys.exit(run(("sh", "-c", {ORPHAN!r})))
"""
OUTSIDE = "import subprocess, sys; subprocess.run(sys.argv[1:])"


def there(program):
    return f"/usr/bin/{program}"


def test_why_there_can_be_no_hosts_is_said_with_what_to_do(monkeypatch):
    none = hindrance(True, lambda program: None)
    assert none.said.startswith("there is no ip, tc, ")
    assert none.todo == "apt-get install iproute2 mount util-linux"
    no_root = hindrance(False, there)
    assert "only root" in no_root.said and no_root.todo.startswith("sudo ")
    refused = hindrance(True, there, lambda: "Operation not permitted")
    assert refused.said.endswith("links: Operation not permitted") and not refused.todo
    assert hindrance(True, there, lambda: "") is None
    monkeypatch.setattr("rayvous.faults.machines.fence.hindrance", lambda: Hindrance("no tc", "get it"))
    assert why_not() == "no tc: get it"


def test_without_hosts_nothing_is_run(monkeypatch):
    monkeypatch.setattr("rayvous.faults.machines.fence.why_not", lambda: "only root may")
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: pytest.fail("it was run"))
    with pytest.raises(HostsUnavailable, match="only root may"):
        run_among_hosts(Layout(2), ["true"])


def test_a_wrong_layout_is_refused_before_anything_is_run():
    with pytest.raises(InputError, match="hosts is 0"):
        words_of(Layout(0), ["true"])


@pytest.mark.slow
@pytest.mark.parametrize("ending", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_hosts_are_gone_when_who_made_them_is_killed(ending):
    """The kernel removes namespaces and processes, so this holds for SIGKILL as for any other end."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no hosts on this machine: {reason}")
    words = [sys.executable, "-c", OUTSIDE, *FENCE, sys.executable, "-c", INSIDE]
    made = subprocess.Popen(
        words,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # background jobs ignore it
    )
    assert made.stdout is not None
    namespace, *names = made.stdout.readline().split()
    assert sorted(names) == ["host-0", "host-1"]
    assert namespace in namespaces() and not any(Path("/run/netns", name).exists() for name in names)
    made.send_signal(ending)
    over, _, _ = select([made.stdout], [], [], PATIENCE_SECONDS)
    assert over and made.stdout.read() == ""  # the pipe closes when all its writers have ended
    made.wait()
    assert namespace not in namespaces()


@pytest.mark.slow
def test_who_has_ended_and_whose_parent_is_gone_has_its_number_no_more():
    """Otherwise Ray's workers would consider their raylet alive forever. Reference: decision 0102."""
    reason = why_not()
    if reason is not None:
        pytest.skip(f"no hosts on this machine: {reason}")
    words = ["timeout", f"{PATIENCE_SECONDS}", *FENCE, sys.executable, "-c", FIRST]
    assert subprocess.run(words, stderr=subprocess.DEVNULL, check=False).returncode == 7


def namespaces():
    """Return the numbers of the network namespaces of all processes on this machine."""
    found = set()
    for process in Path("/proc").glob("[0-9]*"):
        try:
            found.add(str((process / "ns/net").stat().st_ino))
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue  # it has just ended
    return found
