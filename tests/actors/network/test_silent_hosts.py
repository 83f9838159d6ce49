"""A survey goes on without hosts that are silent for longer than a client's patience, and takes them back.

Reference: promise 6; docs/decisions/0094-a-node-is-noticed-by-its-fellows.md.
"""

from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from ray.exceptions import ActorDiedError, ActorUnavailableError, GetTimeoutError
from rayvous.actors.channels.replies import Reply
from rayvous.actors.clients.attaching import Attaching
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network import convergence, status
from rayvous.actors.network import hosts as hosts_file
from rayvous.actors.network import network as network_file
from rayvous.actors.network.convergence import Convergence
from rayvous.actors.network.hosts import Hosts
from rayvous.actors.network.network import Network
from rayvous.actors.network.rendezvous import Rendezvous
from rayvous.protocol.errors import BrokerUnavailable
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery


class Host(Actor):
    """A host, whose calls raise what it `fails` with, if anything."""

    def __init__(self, broker: int) -> None:
        self.fails: Exception | None = None
        super().__init__(
            BrokerHost,
            survey=lambda: self.fails or {broker: {"broker": broker}},
            pid=lambda: self.fails or ("node", broker),
            quiet=lambda deliveries=True: broker,
            accepted_here=lambda publisher: self.fails or {publisher: 7 * broker},
            flush_telemetry=lambda: self.fails,
            dead_letters=lambda: self.fails or [],
        )


def hosts_of(*actors: Host) -> Hosts:
    """Return the hosts of a network that heals; broker b is on the b-th."""
    found = dict(enumerate(actors))
    directory: Any = SimpleNamespace(
        name="net",
        hosts=dict(found),
        features=Features(Recovery.for_tests()),
        positions=[SimpleNamespace(broker=b) for b in found],
    )
    return Hosts(
        directory, Actor(Rendezvous, hosts_since=lambda edition: None if edition == "one" else ("one", found))
    )


def test_who_is_silent_is_left_out_and_asked_again_when_it_has_answered(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ray, well, mute = Ray(monkeypatch, hosts_file), Host(0), Host(1)
    hosts = hosts_of(well, mute)
    recovery = Recovery.for_tests()
    assert sorted(hosts.survey()) == [0, 1] and not ray.waited
    mute.fall_silent()
    assert sorted(hosts.survey()) == [0]
    assert ray.waited == [recovery.client_patience_seconds]
    asked = len(mute.asked)
    assert hosts.ask("quiet") == [0] and sorted(hosts.survey()) == [0]
    assert ray.waited[1:] == [0], "it is not waited for again"
    assert len(mute.asked) == asked and hosts.hosts() == [well]
    mute.speak()
    assert sorted(hosts.survey()) == [0, 1] and hosts.hosts() == [well, mute]


def test_who_is_out_of_reach_is_not_dead_and_who_is_dead_is_asked_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Behind a cut link Ray says "unavailable" of an actor, and "died" once it has given up its node."""
    well, other = Host(0), Host(1)
    Ray(monkeypatch, hosts_file)
    hosts = hosts_of(well, other)
    other.fails = ActorUnavailableError("not now", None)
    assert sorted(hosts.survey()) == [0] and hosts.lives(other) and not hosts.dead
    other.fails = None
    assert sorted(hosts.survey()) == [0, 1]
    other.fails = ActorDiedError()
    assert sorted(hosts.survey()) == [0] and not hosts.lives(other)
    asked = len(other.asked)
    assert sorted(hosts.survey()) == [0] and len(other.asked) == asked


@pytest.mark.parametrize("silent", [False, True])
def test_what_only_all_can_answer_is_not_answered_without_who_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch, silent: bool
) -> None:
    """A number that is too low would let an event be published twice. Reference: promise 1."""
    well, other = Host(0), Host(1)
    ray = Ray(monkeypatch, hosts_file)
    hosts = hosts_of(well, other)
    clients = Attaching(hosts, None)  # type: ignore[arg-type]
    assert clients.accepted("p") == 7 and clients.dead_letters() == []
    other.fails = ActorUnavailableError("not now", None)
    if silent:
        other.fall_silent()
    hosts.survey()
    for ask in (partial(clients.accepted, "p"), clients.dead_letters):
        with pytest.raises(BrokerUnavailable):
            ask()
    assert ray.waited[1:] == [60, 60] * silent, "who is only slow has time to answer"
    assert clients.accepted("p", without=[1]) == 0 and not hosts.dead
    other.fails = None
    other.speak()
    assert clients.accepted("p") == 7
    other.fails = ActorDiedError()
    assert clients.accepted("p") == 0 and hosts.dead == {other}


def test_telemetry_is_had_without_who_is_out_of_reach_and_fails_where_nothing_heals(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    well, other = Host(0), Host(1)
    Ray(monkeypatch, hosts_file)
    monkeypatch.setattr(network_file, "read_telemetry", lambda collector, since: "what was seen")
    hosts = hosts_of(well, other)
    hosts.directory.collector = None
    net: Any = SimpleNamespace(_hosts=hosts)
    other.fails = ActorUnavailableError("not now", None)
    assert Network.telemetry(net) == "what was seen" and not hosts.dead
    hosts.directory.features = Features()
    with pytest.raises(BrokerUnavailable):
        Network.telemetry(net)


def test_a_network_is_not_at_rest_before_all_have_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """A host that was unreachable when it was asked may still have something in flight."""
    well, other = Host(0), Host(1)
    Ray(monkeypatch, hosts_file)
    hosts, straight = hosts_of(well, other), Straight()
    straight.failed = ActorUnavailableError("the connection has ended", None)
    net = Convergence(hosts, SimpleNamespace(process=straight))  # type: ignore[arg-type]
    monkeypatch.setattr(net, "_healed", lambda deadline: dict.fromkeys(hosts.survey(), "as before"))
    rounds = list[int]()

    def quiet(deliveries: bool) -> Any:
        rounds.append(len(rounds))
        return ActorUnavailableError("not now", None) if len(rounds) < 5 else 1

    other.quiet.answer = quiet
    net.settle(20.0)
    assert len(rounds) == 6, "two rounds without it count for nothing"
    rounds.clear()
    with pytest.raises(BrokerUnavailable, match="has not come to rest"):
        net.settle(0.0)


class Straight:
    """The client process of a network: it asks over channels, unless those `failed`."""

    def __init__(self) -> None:
        self.asked: list[tuple[Any, str]] = []
        self.failed: Exception | None = None

    def handle(self, host: Host) -> Any:
        return SimpleNamespace(
            quiet=partial(self._ask, host, "quiet"), survey=partial(self._ask, host, "survey")
        )

    def _ask(self, host: Host, question: str, *arguments: Any) -> Reply[Any]:
        self.asked.append((host, question))
        reply = Reply[Any]()
        if self.failed is not None:
            reply.failed(self.failed)
        else:
            reply.given_by_ray(getattr(host, question).answer(*arguments))
        return reply


@pytest.mark.parametrize("features", [Features(), Features(stores=True), Features(Recovery.for_tests())])
def test_who_waits_for_rest_asks_over_channels_and_by_ray_if_one_does_not_answer(
    monkeypatch: pytest.MonkeyPatch, features: Features
) -> None:
    """Ray repeats a question on a host that it restarts, and knows who is dead; a channel does not."""
    well, other = Host(0), Host(1)
    Ray(monkeypatch, hosts_file)
    hosts, straight = hosts_of(well, other), Straight()
    hosts.directory.features = features
    net = Convergence(hosts, SimpleNamespace(process=straight, clients=[]))  # type: ignore[arg-type]
    monkeypatch.setattr(convergence, "problems", lambda survey: [])
    monkeypatch.setattr(convergence, "state_of", lambda survey: survey)
    net.settle(20.0)
    rest, seen = [(host, "quiet") for host in (well, other)], [(host, "survey") for host in (well, other)]
    assert straight.asked == (seen + rest + rest + seen if features.heals else rest + rest)
    assert not well.asked and not other.asked
    straight.failed = ActorUnavailableError("the connection has ended", None)
    if features.heals:
        other.fails = ActorDiedError()
        other.quiet.answer = lambda deliveries: ActorDiedError()
    net.settle(20.0, deliveries=False)
    assert len(well.asked) == (4 if features.heals else 2)
    assert hosts.dead == ({other} if features.heals else set())


def test_a_host_that_is_silent_is_asked_by_ray_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """A channel to a process that stands still is open, and each question would take a client's patience."""
    well, mute = Host(0), Host(1)
    Ray(monkeypatch, hosts_file)
    hosts, straight = hosts_of(well, mute), Straight()
    net = Convergence(hosts, SimpleNamespace(process=straight, clients=[]))  # type: ignore[arg-type]
    monkeypatch.setattr(convergence, "problems", lambda survey: [])
    mute.fall_silent()
    straight.failed = GetTimeoutError("no answer")
    net.problems()
    asked = len(straight.asked)
    net.problems()
    assert len(straight.asked) == asked == 2


def test_a_look_at_a_network_takes_nobody_for_dead_who_is_out_of_reach(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    well, other = Host(0), Host(1)
    Ray(monkeypatch, status)
    hosts = hosts_of(well, other)
    other.fails = ActorUnavailableError("not now", None)
    assert status._said(hosts, ("survey",), 1.0) == ({"survey": {0: {"broker": 0}}}, {1}) and not hosts.dead
    other.fails = ActorDiedError()
    assert status._said(hosts, ("survey",), 1.0) == ({"survey": {0: {"broker": 0}}}, set())
    assert hosts.dead == {other}
