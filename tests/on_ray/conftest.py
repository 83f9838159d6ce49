"""Shared fixtures of the tests on Ray: a network for tests that need any network, and traffic."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Barrier, Event
from typing import Any

import pytest
import ray
import rayvous as rv
from rayvous.actors.network import launching
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.traces.trace import trace_of

SELECTORS = {"all": "x >= 0", "odd": "odd = TRUE", "few": "x BETWEEN 20 AND 60", "none": "x < 0"}
EVENTS_AT_LEAST = 100
EVENTS_BEFORE = 20
PACE_SECONDS = 0.01


@pytest.fixture(autouse=True)
def _one_ray(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that leaves the Ray of all tests fails, and not those after it, which would start another one."""
    yield
    if "ray_started" in request.fixturenames:
        assert ray.is_initialized(), "this process has left the Ray of all tests"


@pytest.fixture(scope="module")
def healing(ray_started: None) -> Iterator[rv.Network]:
    """A network that heals, on two hosts, that suspects nobody who is only slow, and retains what a slow one lacks."""
    patient = rv.Recovery.for_tests(
        suspect_after_seconds=4.0, client_patience_seconds=6.0, retention_seconds=3_600.0
    )
    with rv.Network.launch(rv.ClusterTree(2, 2, degree=1), brokers_per_actor=2, recovery=patient) as net:
        net.await_convergence(60.0)
        yield net


class Traffic:
    """Clients at chosen brokers, their events and notifications; a subscriber's name selects its filter."""

    def __init__(self, net: rv.Network, subscribers: dict[str, int], publishers: dict[str, int]) -> None:
        self.net = net
        self.subscribers = {name: net.subscriber(name, broker=at) for name, at in subscribers.items()}
        for name, subscriber in self.subscribers.items():
            subscriber.subscribe(SELECTORS[name])
        self.publishers = {name: net.publisher(name, broker=at) for name, at in publishers.items()}
        self.published: dict[tuple[str, int], dict[str, Any]] = {}
        self.notified: dict[str, list[tuple[str, int]]] = {name: [] for name in subscribers}

    @contextmanager
    def flowing(self) -> Iterator[None]:
        """Publish from all publishers concurrently while the block runs, and shortly before it."""
        started, stop = Barrier(len(self.publishers) + 1), Event()

        def feed(name: str) -> None:
            for x in count():
                if x == EVENTS_BEFORE:
                    started.wait()
                if x >= EVENTS_AT_LEAST and stop.is_set():
                    return
                event = {"x": x % 100, "odd": x % 2 == 1}
                self.published[name, self.publishers[name].publish(event)] = event
                time.sleep(PACE_SECONDS)

        with ThreadPoolExecutor(len(self.publishers)) as pool:
            feeds = [pool.submit(feed, name) for name in self.publishers]
            for done in feeds:
                done.add_done_callback(lambda done: done.exception() and started.abort())
            try:
                started.wait()
                yield
            finally:
                stop.set()
            for done in feeds:
                done.result()

    def verify(self, expected_at_least: int, bound_seconds: float) -> None:
        """Check that all expected notifications arrived once and in order, and that there were enough."""
        self.net.settle(bound_seconds)
        for name, subscriber in self.subscribers.items():
            self.notified[name] += [(note.publisher, note.sequence) for note in subscriber.notifications(0)]
        wanted = {name: [SELECTORS[name]] for name in self.subscribers}
        verdict = judge(trace_of(self.published, wanted, self.notified))
        assert verdict.holds, verdict
        assert verdict.notifications_expected > expected_at_least
        self.net.inspect.check()


@pytest.fixture
def traffic_at() -> Callable[[rv.Network, dict[str, int], dict[str, int]], Traffic]:
    """Return a function of (network, {subscriber: broker}, {publisher: broker}) that makes traffic."""
    return Traffic


@pytest.fixture(scope="module")
def net(ray_started: None) -> Iterator[rv.Network]:
    """A network for tests that need any; while other files run, its processes take more than to start them again."""
    with rv.Network.launch(rv.ClusterTree(4, 2, degree=2), brokers_per_actor=2, trace_events=True) as network:
        yield network
        network.settle()
        network.inspect.check()


@pytest.fixture
def lasting_ray(ray_started: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Treat the tests' Ray as one that outlives this process, so that networks may be launched detached."""
    monkeypatch.setattr(launching, "_ends_with_this_process", lambda: False)


NUMBERS = count()


@pytest.fixture
def fresh(request: pytest.FixtureRequest) -> str:
    """A client name that no other test uses."""
    return f"{request.node.name}-{next(NUMBERS)}"


@pytest.fixture
def found_by(tmp_path: Path) -> Callable[..., Any]:
    """Run a program of this folder in its own process, with a Ray of several nodes, and return its result."""

    def run(program: str, *words: str, timeout_seconds: float = 300) -> Any:
        found = tmp_path / "found.json"  # a file, as Ray itself prints to standard output
        line = [sys.executable, Path(__file__).with_name(program), found, *words]
        done = subprocess.run(line, capture_output=True, text=True, timeout=timeout_seconds, check=False)
        assert done.returncode == 0, done.stderr[-3000:]
        return json.loads(found.read_text())

    return run
