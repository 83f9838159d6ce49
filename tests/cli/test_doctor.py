"""`rayvous doctor`: how findings are judged, its time limit, and machines without the extras."""

import json
import os
import signal
import socket
import subprocess
import sys
from threading import Event

import pytest
from packaging.requirements import Requirement
from patience import PATIENCE_SECONDS
from rayvous.cli.doctor import machine, packages, tools
from rayvous.cli.doctor.findings import Check, Finding, take
from rayvous.cli.verbs import doctor as verb

GIB = machine.GIB
ASKED = [
    Requirement(line)
    for line in (
        "numpy<3,>=2",
        "ray[default]<2.61,>=2.60",
        'raydp<1.7,>=1.6.5; extra == "spark"',
        'rayvous[spark]; extra == "all"',
    )
]


def test_all_is_looked_at_at_once_and_told_in_order():
    met = Event()
    fine = [Finding("b", "ok", "seen")]

    def first():
        assert met.wait(5)  # the second check lets the first one go on
        return [Finding("a", "ok", "seen"), Finding("a2", "ok", "seen")]

    def second():
        met.set()
        return fine

    found = take([Check("a", first), Check("b", second)], 10)
    assert [finding.name for finding in found] == ["a", "a2", "b"]


def test_what_hangs_or_breaks_is_a_finding():
    for_ever = Event()
    checks = [
        Check("hangs", for_ever.wait, needed=False),
        Check("breaks", lambda: 1 // 0),
        Check("fine", lambda: [Finding("fine", "ok", "seen")]),
    ]
    found = {finding.name: finding for finding in take(checks, 0.05)}
    for_ever.set()
    assert found["hangs"] == Finding("hangs", "missing", "no answer within 0.05 s")
    assert found["breaks"].state == "wrong" and "ZeroDivisionError" in found["breaks"].said
    assert found["fine"].state == "ok"


def test_packages_against_what_is_asked_for():
    there = {"numpy": "2.1.0", "ray": "2.60.1", "raydp": "1.6.5"}
    (fine,) = packages.base(ASKED, [], there.get)
    assert (fine.state, fine.said) == ("ok", "numpy 2.1.0, ray 2.60.1")
    assert packages.of_extra("spark", ASKED, [], there.get).state == "ok"

    old, none = packages.base(ASKED, [], {"numpy": "1.26.0"}.get)
    assert (old.state, old.todo) == ("wrong", "pip install 'numpy<3,>=2'") and "1.26.0" in old.said
    assert none.said == "ray is not installed" and none.todo == "pip install 'ray[default]<2.61,>=2.60'"
    missing = packages.of_extra("spark", ASKED, [], {"raydp": "1.5"}.get)
    assert (missing.state, missing.todo) == ("missing", "pip install 'rayvous[spark]'")
    assert packages.of_extra("plots", ASKED, [], there.get).state == "missing"


def test_an_extra_of_what_is_asked_for_is_looked_at_too():
    of_ray = {"ray": ["packaging>=24", 'aiohttp>=3.13; extra == "default"', 'grpcio; extra == "other"']}
    beside = list(
        packages.their_extras(ASKED, lambda name: [Requirement(one) for one in of_ray.get(name, ())])
    )
    (fault,) = packages.base(ASKED, beside, {"numpy": "2.1.0", "ray": "2.60.1"}.get)
    assert (fault.name, fault.state, fault.todo) == ("aiohttp", "wrong", "pip install 'aiohttp>=3.13'")
    (fine,) = packages.base(ASKED, beside, {"numpy": "2.1.0", "ray": "2.60.1", "aiohttp": "3.14"}.get)
    assert (fine.state, fine.said) == ("ok", "numpy 2.1.0, ray 2.60.1")


def test_the_version_of_python():
    assert packages.python("3.11.7", ">=3.11,<3.13").state == "ok"
    old = packages.python("3.10.1", ">=3.11,<3.13")
    assert old.state == "wrong" and "3.10.1" in old.said and old.todo


def test_memory():
    assert machine.memory(8 * GIB, 2 * GIB).state == "ok"
    assert machine.memory(8 * GIB, GIB // 2).state == "wrong"
    assert machine.shared_memory(3 * GIB, 8 * GIB, in_container=False).state == "ok"
    small = machine.shared_memory(64 << 20, 8 * GIB, in_container=True)
    assert (small.state, small.todo) == ("missing", "docker run --shm-size=3g ...")
    assert "remount,size=3G" in machine.shared_memory(0, 8 * GIB, in_container=False).todo


def test_a_container_has_the_memory_that_it_is_given(tmp_path, monkeypatch):
    (tmp_path / "max").write_text(f"{2 * GIB}\n")
    (tmp_path / "current").write_text(f"{3 * GIB // 2}\n")
    monkeypatch.setattr(machine, "CGROUPS", [(str(tmp_path / "max"), str(tmp_path / "current"))])
    of_memory = next(machine.look_at_memory())
    assert of_memory.state == "wrong" and of_memory.said.startswith("0.5 GiB of 2.0 GiB")
    (tmp_path / "max").write_text("max\n")
    assert "of 2.0 GiB" not in next(machine.look_at_memory()).said


def test_rays_folder():
    assert machine.disk("/tmp/ray", 100 * GIB, 6 * GIB, writable=True).state == "ok"
    full = machine.disk("/tmp/ray", 100 * GIB, 4 * GIB, writable=True)
    assert full.state == "wrong" and full.todo.startswith("du -xh /tmp/ray")
    assert "chown" in machine.disk("/tmp/ray", 100 * GIB, 50 * GIB, writable=False).todo
    longest = "/" + "x" * (machine.SOCKET_PATH_MAX - len(machine.SOCKET_NAME) - 2)
    assert machine.disk(longest, 100 * GIB, 50 * GIB, writable=True).state == "ok"
    long = machine.disk(longest + "x", 100 * GIB, 50 * GIB, writable=True)
    assert (long.state, long.todo) == ("wrong", "export RAY_TMPDIR=/tmp")


def test_a_folder_that_is_not_there_yet_is_judged_by_its_disk(tmp_path, monkeypatch):
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    (finding,) = machine.look_at_disk()
    assert str(tmp_path / "ray") in finding.said
    assert not (tmp_path / "ray").exists()


def test_who_has_a_port(monkeypatch):
    assert machine.port(6379, None).state == "ok"
    assert machine.port(6379, "/x/gcs_server --port=6379").state == "ok"
    assert machine.port(8080, "/x/python /x/bin/rayvous gateway flights").state == "ok"
    other = machine.port(6379, "/usr/bin/redis-server *:6379")
    assert (other.state, other.todo) == ("missing", "ray start --head --port 6380")
    assert other.said.startswith("redis-server has it")
    for _, todo in machine.PORTS.values():
        number = int(todo.rsplit(maxsplit=1)[-1].rsplit(":", 1)[-1])
        assert (
            number not in machine.PORTS and not 10_002 <= number <= 19_999
        )  # which Ray gives to its workers
    assert machine.port(6379, "").said.startswith("another program")
    with socket.socket() as ours:
        ours.bind(("", 0))
        ours.listen()
        number = ours.getsockname()[1]
        monkeypatch.setattr(machine, "PORTS", {number: ("a test", "take another")})
        (taken,) = machine.look_at_ports()
    assert (taken.state, taken.todo) == ("missing", "take another")
    (free,) = machine.look_at_ports()
    assert free.state == "ok"


def test_ray_here():
    (none,) = tools.ray_here({"address": None}, None)
    assert (none.state, none.todo) == ("missing", "rayvous up")
    (mute,) = tools.ray_here({"error": "nobody answers"}, "head:6379")
    assert (mute.state, mute.todo) == ("wrong", "unset RAY_ADDRESS")
    seen = {"address": "a:1", "version": "2.60.0", "nodes": 3, "cpus": 8.0, "networks": ["flights"]}
    there, dashboard = tools.ray_here({**seen, "dashboard": "127.0.0.1:8265"}, None)
    assert there.said == "2.60.0 at a:1: 3 nodes, 8 CPUs; networks: flights"
    assert (dashboard.state, dashboard.said) == ("ok", "http://127.0.0.1:8265")
    assert list(tools.ray_here({**seen, "dashboard": None}, None))[1].state == "missing"


def test_a_ray_that_does_not_answer_is_given_up(monkeypatch):
    mute = subprocess.CompletedProcess([], -signal.SIGALRM, "", "")
    monkeypatch.setattr(subprocess, "run", lambda words, **options: mute)
    (finding,) = tools.look_at_ray()
    assert finding.state == "wrong" and "does not answer within 20 s" in finding.said


def test_java(monkeypatch, tmp_path):
    assert tools.java(17, "/j", named=False).state == "ok"
    assert tools.java(21, "/j", named=True).todo == "unset RAYVOUS_JAVA_HOME"
    assert "says no version" in tools.java(0, "/j", named=False).said
    monkeypatch.setenv("RAYVOUS_JAVA_HOME", str(tmp_path))
    (finding,) = tools.look_at_java()
    assert finding.state == "missing" and "there is no bin/java" in finding.said


def test_programs():
    assert tools.compiler("/usr/bin/cc").state == tools.browser("/usr/bin/chromium").state == "ok"
    assert "build-essential" in tools.compiler(None).todo
    assert "chromium" in tools.browser(None).todo


@pytest.mark.parametrize(("state", "status"), [("ok", 0), ("missing", 0), ("wrong", 1)])
def test_only_what_is_wrong_fails(rayvous, monkeypatch, state, status):
    check = Check("thing", lambda: [Finding("thing", state, "it is [so]", "do it")])
    monkeypatch.setattr(verb, "CHECKS", [check])
    ended, out, _ = rayvous("doctor", "--json")
    told = json.loads(out)
    assert (ended, told[state]) == (status, 1)
    assert told["findings"] == [{"name": "thing", "state": state, "said": "it is [so]", "todo": "do it"}]
    ended, out, _ = rayvous("doctor")
    assert ended == status and "it is [so]" in out and "$ do it" in out and f"1 {state}" in out


@pytest.mark.slow
def test_the_command_itself(tmp_path):
    """As it is typed, where no Ray runs."""
    words = [sys.executable, "-c", "from rayvous.cli import main; main()", "doctor", "--json"]
    words += ["--timeout", "600"]
    done = subprocess.run(
        words,
        env={"PATH": "/nowhere", "RAY_TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    told = {finding["name"]: finding for finding in json.loads(done.stdout)["findings"]}
    assert done.returncode == (1 if "wrong" in [finding["state"] for finding in told.values()] else 0)
    assert told["compiler"]["state"] == told["Chromium"]["state"] == told["kernel"]["state"] == "missing"
    assert told["Ray"]["todo"] == "rayvous up", told["Ray"]
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_asking_a_ray_that_takes_calls_and_says_nothing_ends_in_time(tmp_path):
    with socket.socket() as mute:
        mute.bind(("", 0))
        mute.listen()
        named = {"RAY_ADDRESS": f"127.0.0.1:{mute.getsockname()[1]}", "RAY_TMPDIR": str(tmp_path)}
        words = [sys.executable, "-m", "rayvous.actors.network.ray_here", "5"]
        done = subprocess.run(
            words, env=os.environ | named, capture_output=True, timeout=PATIENCE_SECONDS, check=False
        )
    assert done.returncode == -signal.SIGALRM


def test_which_kernel_the_match_index_runs_on_is_told():
    assert tools.index("native", "avx2") == Finding("match index", "ok", "compiled kernel, avx2")
    assert tools.index("numpy", "avx2").state == "ok"
    lacking = tools.index("numpy", "")
    assert lacking.state == "missing" and lacking.todo.startswith("pip install")
