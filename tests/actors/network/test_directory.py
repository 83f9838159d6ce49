"""Names of actors, as an operator reads them in Ray's views; and who may attach."""

from types import SimpleNamespace

import pytest
from fakes import Actor, Ray
from rayvous.actors.network import network
from rayvous.actors.network.directory import PROTOCOL, collector_name, host_name, rendezvous_name
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.protocol.errors import NetworkNotFound


def test_names_begin_with_the_network_and_say_what_it_is():
    assert rendezvous_name("flights") == "flights:rendezvous"
    assert collector_name("flights") == "flights:collector"
    assert host_name("flights", [3]) == "flights:broker:3"
    assert host_name("flights", [3], 2) == "flights:broker:3:life:2"
    assert host_name("flights", [0, 1, 2]) == "flights:brokers:0-2"


def test_names_of_networks_that_look_alike_differ():
    names = [
        make(network)
        for network in ("a", "a:rendezvous", "a:collector", "a:broker:1")
        for make in (rendezvous_name, collector_name, lambda network: host_name(network, [1]))
    ]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("spoken", [0, 1, PROTOCOL + 1])
def test_who_speaks_another_protocol_does_not_attach(monkeypatch: pytest.MonkeyPatch, spoken: int) -> None:
    """Protocol 1 called methods by name, 2 calls with bytes, 3 knows channels. Reference: decision 0103."""
    monkeypatch.setattr(network, "starts_ray", lambda: False)
    monkeypatch.setattr(network, "ensure_ray", lambda: None)
    ray = Ray(monkeypatch, network)
    ray.names[rendezvous_name("net")] = Actor(Rendezvous, directory=SimpleNamespace(protocol=spoken))
    with pytest.raises(NetworkNotFound, match=f"speaks protocol {spoken}, this process {PROTOCOL}"):
        network.Network.attach("net")
