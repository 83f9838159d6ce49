"""Every combination of features in one simulated network: all work together under every scheme."""

from itertools import product
from typing import Any

import pytest
from draws import slow, thorough
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.judging import books_problems
from rayvous.protocol.messages.admission import AdmissionConfig, Capacity
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.stability import Stability
from rayvous.routing.schemes.registry import SCHEMES
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.overload import Queues
from rayvous.simulator.simulation import Simulation

TREE = ClusterTree(3, 2, degree=2).positions()
PARTS = ("recovery", "store", "admission", "operations", "overload", "faults")
AMPLE = Capacity(1000.0, 1000.0)


def make_sense(parts: tuple[str, ...]) -> bool:
    """Return whether these parts make sense together."""
    if "operations" in parts and "recovery" not in parts:
        return False
    return "faults" not in parts or bool({"recovery", "store"} & set(parts))  # else nobody has what was lost


def network(parts: tuple[str, ...], scheme: str, capacity: Capacity = AMPLE) -> Simulation:
    options: dict[str, Any] = {
        "recovery": {"recovery": Recovery.for_simulator(degree=6)},
        "store": {"store": in_memory, "stability": Stability(retransmit_seconds=0.1)},
        "admission": {"admission": AdmissionConfig(0.0, capacity=AMPLE)},
        "overload": {"queues": Queues(lambda broker: capacity)},
    }
    chosen = {name: value for part in parts for name, value in options.get(part, {}).items()}
    return Simulation(TREE, scheme, seed=3, **chosen)


def play(net: Simulation, parts: tuple[str, ...]) -> None:
    if "admission" in parts:
        net.advertise("p", 5, "n >= 0", 10.0)
    for broker in (0, 3):
        net.subscribe(f"s{broker}", broker, "n > 0", 1)
    net.advance(5.0)
    assert net.unconfirmed() == []
    net.publish("p", 5, [{"n": 0}, {"n": 1}])
    net.advance(1.0)
    if "operations" in parts:
        operations = SimulatedOperations(net)
        operations.add_broker(net.hosts[0].cluster)
        assert operations.remove_broker(1)
    if "faults" in parts:
        assert net.crash(4)
        net.publish("p", 5, [{"n": 2}])
        net.advance(3.0)
        assert net.restart(4)
    net.advance(20.0)
    net.publish("p", 5, [{"n": 3}])
    net.advance(20.0)
    net.account.settled(net.now)


def subsets() -> list[tuple[str, ...]]:
    chosen = product((False, True), repeat=len(PARTS))
    return [tuple(part for part, is_in in zip(PARTS, each, strict=True) if is_in) for each in chosen]


@pytest.mark.parametrize(
    ("scheme", "third"),
    [
        ("lbdd", 0),
        *(slow("lbdd", third) for third in (1, 2)),
        # The other six a third of the sets each, so that every set is played under three schemes.
        *(
            (slow if third == at % 3 else thorough)(scheme, third)
            for at, scheme in enumerate(each for each in SCHEMES if each != "lbdd")
            for third in range(3)
        ),
    ],
)
def test_every_set_of_parts_works(scheme: str, third: int) -> None:
    played = 0
    for parts in [each for each in subsets() if make_sense(each)][third::3]:
        net = network(parts, scheme)
        play(net, parts)
        verdict = judge(net.account)
        assert verdict.holds and not verdict.lost, (parts, verdict.examples)
        assert verdict.notifications_delivered >= 2 * (2 + ("faults" in parts)), parts
        assert books_problems(net) == [], parts
        played += 1
    assert played >= 10, played


@pytest.mark.parametrize("others", [(), ("recovery",), ("store",), ("recovery", "store", "faults")])
def test_what_overload_drops_is_lost_by_name_or_said_again(others: tuple[str, ...]) -> None:
    """With stores alone what is dropped is retransmitted; else events are lost, and the trace shows it."""
    parts = (*others, "overload")
    net = network(parts, "hybrid", Capacity(10.0, 10.0))
    net.subscribe("s", 0, "n >= 0", 1)
    net.advance(5.0)
    for _ in range(9):
        net.publish("p", 5, [{"n": 1}] * 10)
    net.advance(120.0)
    net.account.settled(net.now)
    assert net.queues is not None and sum(net.queues.dropped_events().values()) > 0
    verdict = judge(net.account)
    assert verdict.holds, verdict.examples
    if "store" in parts and "recovery" not in parts:
        assert verdict.notifications_delivered == 90
    else:
        assert 0 < verdict.notifications_delivered < 90
