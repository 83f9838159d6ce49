"""What all tests share: the flag that rewrites golden traces, and a fence around the fast suite."""

import socket
import time
from pathlib import Path

import pytest
import ray
from rayvous.actors.java import prepare_java

HEAVY = ("on_ray", "on_spark")


def pytest_addoption(parser):
    parser.addoption(
        "--rewrite", action="store_true", help="write the golden traces anew from what happens now"
    )


@pytest.fixture(scope="session")
def ray_started():
    """One Ray for the whole run, started with Java in its environment, so that Spark can run on it too."""
    prepare_java()
    ray.init(
        num_cpus=4, namespace="rayvous", include_dashboard=False, log_to_driver=False, logging_level="error"
    )
    yield
    ray.shutdown()


@pytest.fixture(autouse=True)
def _fence(request, monkeypatch):
    """Make whatever is slow, or differs from run to run, raise in the fast tests."""
    if not any(folder in Path(request.node.path).parts for folder in HEAVY):
        for owner, name in ((ray, "init"), (socket.socket, "connect"), (time, "sleep")):
            monkeypatch.setattr(owner, name, _refuse(name))


def _refuse(name):
    def refuse(*args, **kwargs):
        raise AssertionError(f"a fast test called {name}: it belongs into tests/on_ray or tests/on_spark")

    return refuse
