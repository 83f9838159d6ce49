"""Clients attach all or none: a failed attempt takes no name."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from packed_calls import PackedCalls
from patience import PATIENCE_SECONDS
from ray.exceptions import ActorUnavailableError
from rayvous.actors.clients import attaching
from rayvous.actors.clients.attaching import Attaching
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.network.rendezvous import Directory, Rendezvous
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import BrokerUnavailable, ClientError
from rayvous.protocol.features import Features
from rayvous.routing.topologies.cluster_trees import ClusterTree


class Host(PackedCalls):
    """The actor of a broker that Ray is restarting as long as it is `away`."""

    def __init__(self) -> None:
        self.away = True
        self.request = SimpleNamespace(remote=self._request)
        self.poll = SimpleNamespace(remote=self._poll)
        self.end_session = SimpleNamespace(remote=lambda *_: None)

    async def _request(self, *_: Any) -> None:
        if self.away:
            raise ActorUnavailableError("it is started again", None)

    async def _poll(self, *_: Any) -> Any:
        return await asyncio.sleep(PATIENCE_SECONDS, [])


def test_a_name_is_free_again_when_its_broker_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    host, point = Host(), Rendezvous()
    positions = tuple(ClusterTree(1, 1).positions())
    directory = Directory("net", "hybrid", Limits.for_tests(), positions, {0: host}, None)
    point.open(directory)
    rendezvous = Actor(Rendezvous, place=point.place, leave=point.leave)
    Ray(monkeypatch, attaching)
    hosts: Any = SimpleNamespace(
        directory=directory, rendezvous=rendezvous, features=Features(), name="net", require_open=bool
    )
    process = ClientProcess("net", returns=True)
    try:
        clients = Attaching(hosts, process)
        with pytest.raises(BrokerUnavailable):
            clients.subscriber("alice")
        assert not clients.clients
        host.away = False
        assert clients.subscriber("alice").broker == 0
    finally:
        process.ending = True
        process.close()


def test_clients_may_attach_while_another_thread_looks_at_them() -> None:
    process = ClientProcess("net", returns=True)
    try:
        attached = Attaching(SimpleNamespace(), process)  # type: ignore[arg-type]

        class Client:
            def __init__(self) -> None:
                self.process = process

            @property
            def closed(self) -> bool:  # the other thread attaches in this moment
                attached._clients[Client()] = None  # type: ignore[index]
                return False

        attached._clients[Client()] = None  # type: ignore[index]
        assert attached.hosts_by_ray() == 0 and len(attached.clients) == 2
    finally:
        process.ending = True
        process.close()


def test_a_process_on_a_loop_closes_whatever_its_clients_say() -> None:
    """Its polls outlived the event loop of a gateway when one of its clients could not be closed."""

    async def story() -> None:
        hosts: Any = SimpleNamespace(hosts=list, rendezvous=None)
        process = ClientProcess("net", here=True)
        clients = Attaching(hosts, process)

        class Lost:
            async def close_async(self) -> None:
                raise ClientError("its name was taken over")

        clients._clients[Lost()] = None  # type: ignore[index]
        with pytest.raises(ClientError, match="taken over"):
            await clients.close_here()
        with pytest.raises(ClientError, match="closed"):
            process.submit(asyncio.sleep(0))

    asyncio.run(story())
