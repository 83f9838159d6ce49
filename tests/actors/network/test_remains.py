"""A network is ended by its name, whatever is left of it, and ends by itself if its launcher is gone."""

import signal
import threading
from queue import Queue
from typing import Any

import pytest
from fakes import Ray
from patience import PATIENCE_SECONDS
from rayvous.actors.network import launching, network, remains
from rayvous.actors.network.directory import (
    KINDS,
    collector_name,
    host_name,
    kind_of,
    network_of_actor,
    rendezvous_name,
)
from rayvous.actors.network.remains import LaunchWatch, described, end_remains, parts_of, signs_of_life
from rayvous.cli.interrupts import ends_interrupt
from rayvous.protocol.errors import NetworkExists, NetworkNotFound

HOSTS = [host_name("n", [0]), host_name("n", [0], 2), host_name("n", [1, 2]), host_name("n", [1, 3, 5], 1)]
GATEWAYS = ["n:gateways", "n:gateway:0f3c:1"]
SINKS = ["n:sink:lake", "n:group:alice/work@2~x"]
OTHERS = ["n:rendezvous:0", "other", "other:rendezvous", "n2:broker:0", "n:something"]


@pytest.fixture
def actors(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return the names of the actors of a Ray, which can be changed; one is killed as if by Ray."""
    names = [*OTHERS, *HOSTS, collector_name("n"), rendezvous_name("n"), *SINKS, *GATEWAYS]
    listed = [{"namespace": "another", "name": "n:rendezvous"}]
    fake = Ray(monkeypatch, remains)
    fake.util.list_named_actors = lambda **_: [
        *listed,
        *({"namespace": "rayvous", "name": name} for name in names),
    ]
    monkeypatch.setattr(fake, "get_actor", lambda name, namespace: name)
    monkeypatch.setattr(fake, "kill", names.remove)
    return names


def test_the_parts_of_a_network_are_known_by_their_names(actors: list[str]) -> None:
    assert parts_of("n") == [*GATEWAYS, *SINKS, "n:rendezvous", *sorted(HOSTS), "n:collector"]
    assert {kind_of(part) for part in parts_of("n")} == set(KINDS)
    for name in ("a", "a:rendezvous", "a:broker:1", "a:gateway:1", "a:brokers:1-2:life:3"):
        for part in (rendezvous_name, collector_name, lambda network: host_name(network, [1, 3], 2)):
            assert network_of_actor(part(name)) == name
    assert network_of_actor("a:b:collector") == "a:b" and network_of_actor("a") is None
    assert described(parts_of("n")[4:]) == "the rendezvous point, 4 actors of brokers, the collector"
    assert described(["n:broker:0"]) == "1 actor of brokers"


def test_all_that_bears_the_name_is_ended_and_nothing_else(actors: list[str]) -> None:
    assert len(end_remains("n")) == 10 and actors == OTHERS
    assert end_remains("n") == []


def test_a_rendezvous_point_that_ends_its_network_ends_the_last(
    actors: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its process is gone then, and could not end the others."""
    ended = list[str]()

    def kill(part: str) -> None:
        ended.append(part)
        actors.remove(part)

    monkeypatch.setattr(remains.ray, "kill", kill)
    remains.end_with_this("n")
    assert ended[-1] == "n:rendezvous" and len(ended) == 10


def test_who_launches_is_told_what_is_in_the_way_and_what_ends_it(
    actors: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NetworkExists, match=r"already a network 'n': .* or end it: rayvous down n$"):
        launching.claim("n", True, None, {})
    actors.remove("n:rendezvous")
    lost = r"'n' has lost its rendezvous point, and .*4 actors of brokers, the collector is left of it"
    with pytest.raises(NetworkExists, match=lost + ": end it first: rayvous down n$"):
        launching.claim("n", True, None, {})
    monkeypatch.setattr(network, "starts_ray", lambda: False)
    monkeypatch.setattr(network, "ensure_ray", lambda: None)
    monkeypatch.setattr(network.ray, "get_actor", lambda *_, **__: int("none"))
    with pytest.raises(NetworkNotFound, match=lost + "; end it: rayvous down n$"):
        network.Network.attach("n")


def test_a_network_whose_launcher_is_silent_ends_and_one_that_is_open_does_not() -> None:
    ended: Queue[str] = Queue()
    silent = LaunchWatch("silent", 0.01, ended.put)
    silent.beat()
    assert ended.get(timeout=PATIENCE_SECONDS) == "silent"
    opened = LaunchWatch("open", 0.2, ended.put)
    opened.done()
    after = LaunchWatch("after", 0.3, ended.put)
    assert ended.get(timeout=PATIENCE_SECONDS) == "after", (
        "the other one, which was open, has not ended before"
    )
    after.beat()


def test_a_launcher_gives_signs_of_life_until_the_end_of_the_launch() -> None:
    heard = threading.Semaphore(0)
    with signs_of_life(heard.release, 0.01):
        assert heard.acquire(timeout=PATIENCE_SECONDS) and heard.acquire(timeout=PATIENCE_SECONDS)
    assert not any(thread.name == "launcher" for thread in threading.enumerate())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_launch_is_interrupted_once_by_a_signal_that_is_not_ignored(number: Any) -> None:
    before = signal.signal(number, signal.SIG_DFL)
    try:
        with pytest.raises(KeyboardInterrupt), ends_interrupt():
            try:
                signal.raise_signal(number)
            finally:
                signal.raise_signal(number)  # while it ends in good order
        assert signal.getsignal(number) == signal.SIG_DFL
        signal.signal(number, signal.SIG_IGN)
        with ends_interrupt():
            signal.raise_signal(number)
    finally:
        signal.signal(number, before)
