"""Clients of a run on Ray: the kind of each, whatever its first action is."""

import time
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.faults.plans.cases import Action, DrawnAdvertisement
from rayvous.faults.real import workload
from rayvous.faults.real.workload import RunningWorkload
from rayvous.protocol.errors import BrokerUnavailable


class Net:
    """A fake network that records its clients and what they do."""

    name, rendezvous = "net", None

    def __init__(self) -> None:
        self.came: list[tuple[str, str]] = []
        self.leaving: set[int | None] = set()
        self.done: list[tuple[Any, ...]] = []

    @property
    def inspect(self) -> "Net":
        return self

    def brokers(self) -> list[int]:
        return [0, 1]

    def publisher(self, name: str, broker: int | None) -> Any:
        if broker in self.leaving:
            raise BrokerUnavailable(f"broker {broker} is gone")
        self.came.append(("publisher", name))
        return SimpleNamespace(
            published=0,
            move_to=lambda broker: self.done.append((name, "move", broker)),
            advertise=lambda selector, max_rate: self.done.append((name, "advertise", selector)),
            publish_batch=lambda events: self.done.append((name, "publish", events)),
        )


@pytest.fixture(autouse=True)
def _no_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """No spare processes, and no waiting for the time of an action."""
    monkeypatch.setattr(workload, "Spares", lambda name, count: SimpleNamespace(close=lambda: None))
    monkeypatch.setattr(
        workload, "time", SimpleNamespace(sleep=lambda seconds: None, monotonic=time.monotonic)
    )


def workload_of(net: Net, wrong: list[str], **options: Any) -> RunningWorkload:
    """Return the workload of a fake network, whose findings go to `wrong`."""
    return RunningWorkload(
        net,  # type: ignore[arg-type]
        lambda: 10.0,
        0.0,
        wrong.append,
        say=lambda what: None,
        silent=tuple,
        **options,
    )


def test_a_publisher_is_one_also_when_it_moves_before_it_publishes() -> None:
    """With admission control it advertises before its first publication, as in the simulator, and only then.

    Publishers that had advertised before anybody subscribed made seeds in which every subscription was refused.
    """
    net, wrong = Net(), list[str]()
    event = {"price": 1.0}
    players = workload_of(net, wrong, adverts={"p1": DrawnAdvertisement("TRUE", 5.0)})
    players.await_end(
        players.play(
            [
                Action(0.0, "move", "p1", 1),
                Action(0.1, "publish", "p1", 1, events=(event,)),
                Action(0.2, "publish", "p1", 1, events=(event,)),
            ],
            0.0,
        ),
        10.0,
    )
    players.close()
    assert not wrong and net.came == [("publisher", "p1")]
    published = ("p1", "publish", [event])
    assert net.done == [("p1", "move", 1), ("p1", "advertise", "TRUE"), published, published]


def test_a_client_begins_elsewhere_when_its_first_broker_is_about_to_leave() -> None:
    """A broker that is retired takes no clients: it is in the network still, and refuses them (decision 0185)."""
    net, wrong = Net(), list[str]()
    net.leaving = {1}
    players = workload_of(net, wrong)
    event = {"price": 1.0}
    players.await_end(players.play([Action(0.0, "publish", "p1", 1, events=(event,))], 0.0), 10.0)
    players.close()
    assert not wrong and net.came == [("publisher", "p1")] and net.done == [("p1", "publish", [event])]
    net.leaving = {1, None}
    with pytest.raises(BrokerUnavailable):
        players.play([Action(0.0, "publish", "p2", 1, events=(event,))], 0.0)
