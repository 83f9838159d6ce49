"""A host ends with its raylet, and the next incarnation of its brokers waits for that."""

import asyncio
import os
import subprocess
from pathlib import Path
from threading import Timer
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from patience import PATIENCE_SECONDS
from rayvous.actors.host import broker_store
from rayvous.actors.host import host as host_module
from rayvous.actors.host.broker_store import BrokerStores
from rayvous.actors.host.ending import RAYLET
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network.directory import rendezvous_name
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.protocol.configs import Limits
from rayvous.protocol.effects import Persist, Write
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery
from rayvous.recovery.durability.stable import Stable
from rayvous.routing.topologies.cluster_trees import ClusterTree


def test_a_host_ends_with_its_raylet_also_when_nobody_has_asked_how_that_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ray considers a raylet alive while its process id exists. Reference: decision 0102."""
    raylet = subprocess.Popen(["cat"], stdin=subprocess.PIPE)
    monkeypatch.setenv(RAYLET, str(raylet.pid))
    said: list[str] = []

    async def live() -> None:
        ended = asyncio.Event()
        host = BrokerHost("hybrid", Limits.for_tests())
        monkeypatch.setattr(host, "_end", lambda why: (said.append(why), ended.set()))
        await host.begin()
        await asyncio.sleep(0)
        assert not said
        raylet.kill()
        await asyncio.wait_for(ended.wait(), PATIENCE_SECONDS)
        os.kill(raylet.pid, 0)  # its id still exists, or this would raise

    asyncio.run(live())
    raylet.communicate()
    assert said == ["the raylet has ended: this host is out of its cluster"]


@pytest.mark.parametrize("heals", [True, False])
def test_where_others_can_take_over_a_process_ends_whose_broker_cannot_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heals: bool
) -> None:
    """Otherwise its subscribers would get nothing, and its publishers only errors. As in the simulator."""
    said: list[Any] = []
    monkeypatch.setattr(host_module, "end_process", lambda log, why: said.append(str(why)))

    async def live() -> None:
        recovery = Recovery.for_tests() if heals else None
        host = BrokerHost("hybrid", Limits.for_tests(), recovery=recovery, stable=Stable(tmp_path))
        await host.start_brokers(ClusterTree(1, 1).positions())
        commits = host.hosted_brokers[0].commits
        assert commits is not None

        def full(writes: Any) -> None:
            raise StorageFailed("the disk is full")

        monkeypatch.setattr(commits._store, "commit", full)
        commits.put(Persist((Write("t", ("a",), 1),)), lambda: None)
        with pytest.raises(StorageFailed, match="broker 0 has stopped: the disk is full"):
            await commits.stable()

    asyncio.run(live())
    assert said == (["the disk is full"] if heals else [])


def test_a_host_whose_raylet_is_gone_when_it_begins_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    raylet = subprocess.Popen(["true"])
    raylet.wait()
    monkeypatch.setenv(RAYLET, str(raylet.pid))
    said: list[str] = []

    async def live() -> None:
        host = BrokerHost("hybrid", Limits.for_tests())
        monkeypatch.setattr(host, "_end", said.append)
        await host.begin()
        await asyncio.sleep(0)

    asyncio.run(live())
    assert len(said) == 1


def test_a_later_life_waits_for_the_process_of_the_one_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The former process may only have been cut off, and is about to end. Here a first incarnation does not wait."""
    monkeypatch.setattr(broker_store, "OPEN_SECONDS", 0.0)
    stores = BrokerStores(Stable(tmp_path), Features(Recovery.for_tests(), stores=True))
    former = stores.store_of(3, incarnation=0)
    with pytest.raises(StorageFailed, match="another process has it open"):
        stores.store_of(3, incarnation=0)
    Timer(0.15, former.close).start()
    stores.store_of(3, incarnation=1).close()


def test_a_process_that_ray_has_started_again_waits_for_the_former_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its brokers do not heal, and continue in life 0. Reference: decision 0102."""
    monkeypatch.setattr(broker_store, "OPEN_SECONDS", 0.0)
    places, stable = ClusterTree(1, 1).positions(), Stable(tmp_path)

    async def directory() -> Any:
        return SimpleNamespace(positions=places, hosts={places[0].broker: "me"})

    ray = Ray(monkeypatch, host_module)
    ray.names[rendezvous_name("net")] = Actor(Rendezvous, directory=directory)
    ray.here.current_actor = "me"

    async def live() -> None:
        former = BrokerStores(stable, Features(stores=True)).store_of(places[0].broker, incarnation=0)
        host = BrokerHost("hybrid", Limits.for_tests(), network="net", stable=stable)
        Timer(0.15, former.close).start()
        assert list(await host.describe()) == [places[0].broker]

    asyncio.run(live())
