"""The order of a rolling restart, on hosts that only record what they are told."""

from types import SimpleNamespace
from typing import Any

import pytest
from fakes import Actor, Ray
from rayvous.actors.host import handle
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network import rolling
from rayvous.actors.network.rolling import Rolling
from rayvous.protocol.errors import BrokerUnavailable, InputError
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery


class Story:
    """The hosts, operations and convergence of a network of two processes, in one."""

    name = "flights"

    def __init__(self, *, heals: bool = True, numbered: bool = False, hosts: str = "aabb") -> None:
        self.told: list[Any] = []
        self.dead: set[str] = set()
        self.features = Features(Recovery() if heals else None, numbered)
        self.actors = {name: Actor(BrokerHost, quiet=self._quiet) for name in hosts}
        named = {broker: self.actors[name] for broker, name in enumerate(hosts)}
        self.directory = SimpleNamespace(hosts=dict(named))
        self.whole = True

    def _quiet(self, deliveries: bool) -> None:
        self.told.append(("pass on", deliveries))

    def require_open(self) -> None: ...

    def find_reborn(self) -> None: ...

    def host_of(self, broker: int) -> Any:
        return self.directory.hosts[broker]

    def lives(self, host: Any) -> bool:
        return all(host is not self.actors[name] for name in self.dead)

    def kill_broker(self, broker: int) -> None:
        self.told.append(("kill", broker))

    def start_again(self, brokers: list[int]) -> None:
        self.told.append(("start", brokers))

    def send_clients_away(self, brokers: list[int]) -> None:
        self.told.append(("clients away", brokers))

    def await_convergence(self, seconds: float) -> float:
        self.told.append("whole")
        if not self.whole:
            raise BrokerUnavailable("not converged")
        return 0.0


@pytest.fixture(autouse=True)
def _without_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    Ray(monkeypatch, rolling, handle)


def rolled(story: Any, **options: Any) -> list[Any]:
    return Rolling(story, story, story).restart_rolling(**options)


def one(brokers: list[int]) -> list[Any]:
    return [("clients away", brokers), ("pass on", False), ("kill", brokers[0]), ("start", brokers), "whole"]


def test_clients_go_first_and_the_next_process_waits_until_the_network_is_whole() -> None:
    story, seen = Story(), []
    done = rolled(story, progress=seen.append)
    assert story.told == ["whole", *one([0, 1]), *one([2, 3])]
    assert done == seen and [(each.brokers, each.left) for each in done] == [((0, 1), 1), ((2, 3), 0)]


def test_one_that_is_dead_is_only_started_again() -> None:
    story = Story()
    story.dead = {"a"}
    rolled(story)
    assert story.told == [("start", [0, 1]), "whole", *one([2, 3])]


def test_when_it_does_not_become_whole_the_others_stay_as_they_are() -> None:
    story = Story()

    def broken(each: Any) -> None:
        story.whole = False

    with pytest.raises(BrokerUnavailable, match="not converged"):
        rolled(story, progress=broken)
    assert [told for told in story.told if told[0] == "kill"] == [("kill", 0), ("kill", 2)]
    story = Story()
    story.whole = False
    with pytest.raises(BrokerUnavailable, match="not converged"):
        rolled(story)
    assert story.told == ["whole"], "nothing is begun in a network that is not whole"


@pytest.mark.parametrize(
    ("story", "said"),
    [
        (Story(heals=False), "cannot be restarted without loss"),
        (Story(hosts="aaaa"), "are in one process: none could take over"),
    ],
)
def test_what_would_lose_something_is_refused(story: Story, said: str) -> None:
    with pytest.raises(InputError, match=said):
        rolled(story)
    assert not story.told


def test_wrong_arguments_are_named() -> None:
    for options in ({"timeout_seconds": -1}, {"progress": 3}):
        with pytest.raises(InputError, match=next(iter(options))):
            rolled(Story(), **options)
