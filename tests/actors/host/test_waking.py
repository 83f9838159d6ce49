"""A host that Ray has restarted continues with its brokers where they ended."""

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.host import host as host_module
from rayvous.actors.host.host import BrokerHost
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import StorageFailed
from rayvous.recovery.durability.stable import Stable
from rayvous.routing.topologies.cluster_trees import ClusterTree


def test_a_host_that_could_not_go_on_with_one_broker_goes_on_when_it_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It keeps what it has begun with: the store of the first broker is open."""
    places = tuple(ClusterTree(1, 2).positions())
    directory = SimpleNamespace(positions=places, hosts={0: "me", 1: "me"})

    async def told() -> Any:
        return directory

    monkeypatch.setattr(
        host_module,
        "ray",
        SimpleNamespace(
            get_actor=lambda *_, **__: SimpleNamespace(directory=SimpleNamespace(remote=told)),
            get_runtime_context=lambda: SimpleNamespace(current_actor="me"),
        ),
    )

    async def live() -> None:
        host = BrokerHost("hybrid", Limits.for_tests(), network="flights", stable=Stable(tmp_path))
        assert host._stores is not None
        opened, store_of = [], host._stores.store_of

        def fails_once(broker: int, incarnation: int, *, reopened: bool = False) -> Any:
            opened.append(broker)
            if opened == [0, 1]:
                raise StorageFailed("the disk is away")
            return store_of(broker, incarnation, reopened=reopened)

        monkeypatch.setattr(host._stores, "store_of", fails_once)
        with pytest.raises(StorageFailed, match="the disk is away"):
            await host.describe()
        assert set(await host.describe()) == {0, 1}
        assert opened == [0, 1, 1]

    asyncio.run(live())
