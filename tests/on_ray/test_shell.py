"""A network from a shell: commands in their own processes, on a Ray that the first starts and the last stops.

What does not depend on that is tested in this process, on the tests' Ray: starting a command takes seconds.
"""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest
import ray
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.protocol.gateways import digest_of

RAYVOUS = Path(sys.executable).with_name("rayvous")
EVENTS = 400
OUTSIDE = 600


@pytest.fixture
def shell(monkeypatch):
    """Return a function that runs a command as on a machine where no Ray is known."""
    with tempfile.TemporaryDirectory(prefix="rv") as folder:  # short: a socket path has <= 107 characters
        monkeypatch.setenv("RAY_TMPDIR", folder)
        monkeypatch.delenv("RAY_ADDRESS", raising=False)

        def run(*words, status=0):
            done = subprocess.run(
                [RAYVOUS, *map(str, words)],
                capture_output=True,
                text=True,
                timeout=PATIENCE_SECONDS,
                check=False,
            )
            assert done.returncode == status, (words, done.stdout, done.stderr)
            assert "Traceback" not in done.stderr, done.stderr
            return done

        yield run
        for one in processes_of(folder):  # left over from a failed test
            one.kill()


def processes_of(folder):
    """Yield the processes of the Ray whose files are in that folder."""
    for one in psutil.process_iter(["cmdline"]):
        if any(folder in part for part in one.info["cmdline"] or ()):
            yield one


@pytest.fixture(scope="module")
def net_that_heals(ray_started):
    with rv.Network.launch(rv.ClusterTree(2, 2), recovery=rv.Recovery.for_tests()) as net:
        yield net


@pytest.fixture
def ray_address(ray_started):
    return ray.get_runtime_context().gcs_address


def started(*words):
    return running(RAYVOUS, *words)


def outsider(*words):
    return running(sys.executable, Path(__file__).with_name("outside.py"), *words)


@contextmanager
def running(*words):
    process = subprocess.Popen(
        [*map(str, words)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
    )
    try:
        yield process
    finally:
        if process.poll() is None:
            process.kill()
        process.communicate()


def identities(lines):
    notes = [json.loads(line) for line in lines]
    return [(note["publisher"], note["sequence"]) for note in notes]


def free_port():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return listening.getsockname()[1]


def network_file(folder, http):
    path, token = folder / "network.toml", "token-of-alice"
    path.write_text(
        f"""name = "flights"
[topology]
clusters = 2
brokers_per_cluster = 2
[recovery]
[gateway]
http = "{http}"
[access.principals.alice]
token_sha256 = ["{digest_of(token)}"]
publish = "TRUE"
subscribe = "TRUE"
"""
    )
    return path, token


def kill_gateway(folder):
    """Kill the only gateway of the Ray whose files are in that folder, and return its process."""
    ours = {int(one.pid) for one in processes_of(folder)}
    (gateway,) = [
        one
        for one in psutil.process_iter(["name", "ppid"])
        if one.info["ppid"] in ours and one.info["name"].startswith("ray::GatewayAc")  # not its supervisor
    ]
    gateway.kill()
    return gateway


def test_a_session_from_up_to_down_with_a_subscriber_a_broker_and_a_gateway_killed(shell, tmp_path):
    """Promises 1 and 2, across processes: durable subscribers and publishers that retry lose nothing."""
    http = f"127.0.0.1:{free_port()}"
    file, token = network_file(tmp_path, http)
    made = json.loads(shell("up", "-f", file, "--json").stdout)
    assert (made["network"], made["brokers"], made["heals"], made["ray_started"]) == (
        "flights",
        4,
        True,
        True,
    )
    lines = "".join(f'{{"x": {x}, "odd": {str(x % 2 == 1).lower()}}}\n' for x in range(EVENTS))
    (tmp_path / "events.jsonl").write_text(lines)
    wants = ("subscribe", "flights", "odd = TRUE", "--durable", "alice", "--format", "json")
    outside = (f"http://{http}", token, OUTSIDE)
    with started(*wants) as first, outsider("read", *outside) as reader, ExitStack() as outsiders:
        assert any("subscribed at broker" in line for line in first.stderr)
        heard = [reader.stdout.readline()]
        assert heard == ["subscribed\n"]  # a later one need not get earlier events
        sender = outsiders.enter_context(outsider("publish", *outside))
        heard += [reader.stdout.readline() for _ in range(20)]
        kill_gateway(os.environ["RAY_TMPDIR"])
        while heard[-1] not in ("subscribed\n", ""):  # events held only by two killed processes are lost
            heard.append(reader.stdout.readline())
        heard += [reader.stdout.readline() for _ in range(20)]
        with started("publish", "flights", tmp_path / "events.jsonl", "--as", "faa", "--rate", 100) as feed:
            had = [first.stdout.readline() for _ in range(20)]
            first.kill()
            had += first.stdout.readlines()
            killed = json.loads(shell("kill", "flights", 3, "--json").stdout)
            assert killed["killed"] == [3] and killed["healed_after_seconds"] > 0
            assert feed.wait(PATIENCE_SECONDS) == 0, feed.stderr.read()
        heard += reader.stdout.readlines()
        assert (reader.wait(PATIENCE_SECONDS), sender.wait(PATIENCE_SECONDS)) == (0, 0), reader.stderr.read()
    notes = [json.loads(line) for line in heard if line != "subscribed\n"]
    assert len(heard) - len(notes) >= 2, "it came again"
    assert {event["outside"] for _, _, event in notes} == set(range(OUTSIDE))
    assert len({(publisher, number) for publisher, number, _ in notes}) == len(notes), "nothing comes twice"
    with started(*wants[:2], "--durable", "alice", "--format", "json") as second:
        again = [second.stdout.readline()]
        while again[-1] and identities(again[-1:]) != [("faa", EVENTS)]:  # they arrive in order
            again.append(second.stdout.readline())
    had = [line for line in had if line.endswith("}\n")]  # the line written during the kill may be cut
    wanted = {("faa", x + 1) for x in range(EVENTS) if x % 2}
    assert {*identities(had), *identities(again)} == wanted
    assert len(set(identities(again))) == len(again), "nothing comes twice to one reader"
    assert "ended: flights, and the Ray" in shell("down", "flights").stdout
    assert not list(processes_of(os.environ["RAY_TMPDIR"]))
    assert "none is running" in shell("networks").stderr


def test_verbs_on_a_network_of_this_ray(rayvous, net_that_heals, lasting_ray, tmp_path):
    """Check what each command prints, and how it refuses wrong arguments."""
    name = net_that_heals.name
    assert name in json.loads(rayvous("networks", "--json")[1])["networks"]
    status, _, said = rayvous("up", "--name", name)
    assert status == 2 and f"there is already a network '{name}'" in said
    (tmp_path / "events.csv").write_text("sym,price\nA,1.5\nB,2.5\n")
    status, _, said = rayvous("add-broker", name, "0", "--json")
    assert status == 0, said
    status, out, _ = rayvous("add-cluster", name, "1", "--json")
    cluster = json.loads(out)["cluster"]
    assert status == 0
    status, _, said = rayvous("remove", name, "--cluster", str(cluster))
    assert status == 0, said
    assert "every cluster already has its nearest parent" in rayvous("reoptimise", name)[1]
    status, out, _ = rayvous("publish", name, str(tmp_path / "events.csv"), "--json")
    assert status == 0 and json.loads(out)["published"] == 2
    status, out, said = rayvous("status", name)
    assert status == 0 and "healthy" in out, said
    assert json.loads(rayvous("kill", name, "3", "--json")[1])["killed"] == [3]
    status, out, _ = rayvous("status", name, "--json", "--every", "0.1")
    seen = json.loads(out)
    states = {one["broker"]: one["state"] for one in seen["brokers"]}
    assert status == 1 and not seen["healthy"]
    assert states.pop(3) == "dead" and set(states.values()) == {"alive"} and len(states) == 4
    assert sum(one["sizes"]["events_in"] for one in seen["brokers"] if one["broker"] in states) >= 2
    status, _, said = rayvous("restart", name, "3")
    assert status == 0, said
    assert json.loads(rayvous("status", name, "--json", "--every", "0.1")[1])["healthy"]
    assert rayvous("subscribe", name, "x > 0", "--durable", "bob", "--timeout", "0.1")[0] == 0
    (bob,) = json.loads(rayvous("durable", name, "--json")[1])["durables"]
    assert (bob["name"], bob["attached"], bob["events"], bob["selectors"]) == ("bob", False, 0, ["x > 0"])
    assert "bob" in rayvous("durable", name)[1] and rayvous("status", name)[1].count("bob") == 1
    assert rayvous("unsubscribe", name, "bob")[:2] == (0, "ended: bob\n")
    assert "no durable subscribers" in rayvous("durable", name)[1]
    (tmp_path / "wrong.jsonl").write_text('{"x": 1}\n{"x": 1e400}\n{"x": 3}\n')
    status, _, said = rayvous("publish", name, str(tmp_path / "wrong.jsonl"))
    assert status == 2 and "wrong.jsonl:2: " in said and "published before it: 1" in said
    for words, why in (
        (("subscribe", name), "a selector is missing"),
        (("subscribe", name, "x >"), "line 1, column 4"),
        (("subscribe", name, "x > 1", "--format", "xml"), "json, table or cloudevents"),
        (("subscribe", name, "--durable", "nobody"), "there is no such subscriber yet"),
        (("unsubscribe", name, "nobody"), "no durable subscriber"),
        (("remove", name), "--broker, or --cluster"),
        (("kill", name, "99"), "no broker 99"),
        (("status", "no-such"), "no network 'no-such'"),
        (("publish", name, "none.jsonl"), "no such file"),
        (("publish", name, "none.txt"), "events are read from"),
    ):
        status, _, said = rayvous(*words)
        assert status == 2 and why in said, (words, said)


def test_signals_end_a_subscriber_in_good_order(net_that_heals, monkeypatch, ray_address):
    monkeypatch.setenv("RAY_ADDRESS", ray_address)
    publisher = net_that_heals.publisher("signals")
    for number in (signal.SIGINT, signal.SIGTERM):
        with started("subscribe", net_that_heals.name, "signalled = TRUE") as process:
            assert any("subscribed at broker" in line for line in process.stderr)
            publisher.publish({"signalled": True})
            assert json.loads(process.stdout.readline())["event"] == {"signalled": True}
            process.send_signal(number)
            assert process.wait(PATIENCE_SECONDS) == 0 and "events: 1" in process.stderr.read()
    net_that_heals.release(publisher)


def test_a_durable_reader_whose_name_is_taken_ends_and_says_so(net_that_heals, monkeypatch, ray_address):
    monkeypatch.setenv("RAY_ADDRESS", ray_address)
    with started("subscribe", net_that_heals.name, "taken = TRUE", "--durable", "zed") as process:
        assert any("subscribed at broker" in line for line in process.stderr)
        taker = net_that_heals.subscriber("zed", durable=True)
        assert process.wait(PATIENCE_SECONDS) == 2
        assert "was taken over by another client" in process.stderr.read()
    taker.end()
