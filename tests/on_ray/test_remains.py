"""Whatever is left of a network is ended by its name, and a half launched one ends by itself."""

import os
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
import ray
import rayvous as rv
from ray.exceptions import RayActorError
from rayvous.actors.network import launching
from rayvous.actors.network.directory import NAMESPACE, rendezvous_name
from rayvous.actors.network.remains import parts_of

PATIENCE_SECONDS = 300.0
"""As in `patience`, which is not on the path of the workers that import this file."""


class Launcher:
    """A process that is killed while it launches a detached network."""

    def launch(self, name: str, launcher_seconds: float) -> None:
        launching.LAUNCHER_SECONDS = launcher_seconds  # type: ignore[misc]

        def die(ready: int, total: int) -> None:
            os.kill(os.getpid(), signal.SIGKILL)

        rv.Network.launch(rv.ClusterTree(1, 1), name=name, detached=True, progress=die)


@pytest.fixture
def half_launched(ray_started: None, fresh: str) -> Callable[[float], str]:
    """Launch a network until its launcher is killed, and return its name."""

    def launch(launcher_seconds: float) -> str:
        with pytest.raises(RayActorError):
            ray.get(
                ray.remote(Launcher).remote().launch.remote(fresh, launcher_seconds), timeout=PATIENCE_SECONDS
            )
        return fresh

    return launch


def test_a_half_launched_network_ends_by_itself(half_launched: Callable[[float], str]) -> None:
    name = half_launched(3.0)
    deadline = time.monotonic() + PATIENCE_SECONDS
    while parts_of(name):
        assert time.monotonic() < deadline
        time.sleep(0.2)


def test_a_half_launched_network_is_ended_by_its_name(
    half_launched: Callable[[float], str], lasting_ray: None, rayvous: Any
) -> None:
    name = half_launched(600.0)
    status, _, said = rayvous("status", name)
    assert status == 2 and f"'{name}' is still being launched: wait, or end it: rayvous down {name}" in said
    status, _, said = rayvous("up", "--name", name)
    assert status == 2 and f"or end it: rayvous down {name}" in said and said.count("\n") == 1
    assert rayvous("down", name, "--keep-ray")[:2] == (0, f"ended: {name}\n")
    assert not parts_of(name)
    status, _, said = rayvous("down", name, "--keep-ray")
    assert status == 2 and f"no network '{name}'" in said


def test_a_network_without_its_rendezvous_point_is_ended_by_its_name(
    lasting_ray: None, fresh: str, rayvous: Any
) -> None:
    rv.Network.launch(rv.ClusterTree(1, 1), name=fresh, detached=True)
    ray.kill(ray.get_actor(rendezvous_name(fresh), namespace=NAMESPACE))
    deadline = time.monotonic() + PATIENCE_SECONDS
    while rendezvous_name(fresh) in parts_of(fresh):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    for verb in ("status", "up"):
        status, _, said = rayvous(verb, *(("--name", fresh) if verb == "up" else (fresh,)))
        assert status == 2 and "lost its rendezvous point" in said and f"rayvous down {fresh}" in said
    assert rayvous("down", fresh, "--keep-ray")[0] == 0 and not parts_of(fresh)
