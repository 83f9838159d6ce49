"""Clients attach all or none: a failed attempt takes no name."""

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from packed_calls import PackedCalls
from ray.exceptions import ActorUnavailableError
from rayvous.actors.clients import attaching
from rayvous.actors.clients.attaching import Attaching
from rayvous.actors.clients.process import ClientProcess
from rayvous.actors.network.rendezvous import Directory, Rendezvous
from rayvous.protocol.configs import Limits
from rayvous.protocol.errors import BrokerUnavailable
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
        return await asyncio.sleep(20, [])


def test_a_name_is_free_again_when_its_broker_was_away(monkeypatch: pytest.MonkeyPatch) -> None:
    host, point = Host(), Rendezvous()
    positions = tuple(ClusterTree(1, 1).positions())
    directory = Directory("net", "hybrid", Limits.for_tests(), positions, {0: host}, None)
    point.open(directory)
    rendezvous = Actor(Rendezvous, place=point.place, leave=point.leave)
    Ray(monkeypatch, attaching)
    hosts: Any = SimpleNamespace(
        directory=directory, rendezvous=rendezvous, recovery=None, name="net", require_open=bool
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
