"""A broker restored from the snapshot of another does the same from then on, effect for effect (promise 7).

Every scheme that heals runs under faults. At intervals each broker is snapshotted; the snapshot is encoded
with the codec of the stores, decoded, and restored into a new broker, a *twin*. Until the next snapshot both
handle every event, and the twin has to return the same effects.
"""

from collections import deque
from dataclasses import replace
from fractions import Fraction
from random import Random
from typing import Any
from unittest.mock import patch

import pytest
from draws import KINDS, slow, thorough
from rayvous.broker import Broker
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol import snapshots
from rayvous.protocol.messages.recovery import ClusterView, Recovery
from rayvous.protocol.snapshots import Part, restore_state, state_of
from rayvous.recovery.durability.codec import decode, encode
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.recovery.membership.detector import Detector
from rayvous.recovery.membership.join import Phase
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.schemes.registry import NAMES
from rayvous.routing.topologies.cluster_trees import ClusterTree

SMALL = {"clusters": 1, "brokers_per_cluster": 2, "degree": 2}
TREE = {"clusters": 2, "brokers_per_cluster": 2, "degree": 2}
MADE_ANEW = {"_advertised_here"}
"""Attributes that are made when they are needed."""

EVERY = 80
"""Events between two snapshots of one broker."""


def new_twin(broker: Any, made_with: tuple[Any, ...], more: dict[str, Any]) -> Any:
    """Return a broker with the same arguments, but an empty store, restored from this one's snapshot."""
    twin = Broker(*made_with, **more | {"store": MemoryStore() if more.get("store") else None})
    plain = broker.pipeline.snapshot()
    twin.pipeline.restore(decode(encode(plain)))
    assert same(whole(twin), whole(broker)), "something is lacking in the snapshot"
    return twin


def whole(broker: Any) -> list[Any]:
    """Return the state inside the layers of a broker, including what they do not own; shared objects once."""
    seen: dict[int, Any] = {}

    def once(machine: Any) -> Any:
        if id(machine) in seen:
            return {}
        seen[id(machine)] = machine
        return state_of(machine)

    with patch.object(snapshots, "SHARED", "NOT_LOOKED_AT"), patch.object(snapshots, "state_of", once):
        states: Any = [once(layer) for layer in broker.pipeline.layers]
    return [{name: each for name, each in state.items() if name not in MADE_ANEW} for state in states]


def same(one: Any, other: Any) -> bool:
    """Return whether two values are equal, down to the order of their mappings."""
    return not (one or other) or encode(one) == encode(other) or repr(one) == repr(other)


class Watch:
    """Creates brokers, and compares each with twins."""

    def __init__(self) -> None:
        self.twins = self.compared = 0

    def __call__(self, *made_with: Any, **more: Any) -> Any:
        broker = Broker(*made_with, **more)
        inner, twin, steps = broker.handle, None, 0

        def handle(event: Any) -> Any:
            nonlocal twin, steps
            steps += 1
            if steps % EVERY == 1:
                twin = new_twin(broker, made_with, more)
                self.twins += 1
            effects = inner(event)
            assert same(twin.handle(event), effects), (
                f"the twin of broker {broker.position.broker} does otherwise"
            )
            self.compared += len(effects)
            return effects

        broker.handle = handle
        return broker


CASES = (
    slow("hybrid", {"operations": True}),
    slow("hybrid", {"stable": True, "admission": True}),
    slow("hypercube", {"admission": True}),
    slow("lbdd", {"stable": True}),
    # An option changes the router alone, whose snapshots `tests/routing/schemes/test_snapshots.py` compares.
    *((slow if scheme in KINDS else thorough)(scheme, {}) for scheme in NAMES),
)


@pytest.mark.parametrize(("scheme", "more"), CASES)
def test_a_broker_that_is_restored_does_what_the_other_does(scheme: str, more: dict[str, Any]) -> None:
    """Meanwhile brokers crash, take over, join and leave, and compare what they know."""
    watch = run(scheme, TREE, 3.0, **more)
    assert watch.twins > 10 and watch.compared > 200


@pytest.mark.parametrize("stable", [slow(False), True])
def test_so_does_one_of_a_small_network(stable: bool) -> None:
    watch = run("hybrid", SMALL, 1.0, stable=stable)
    assert watch.twins > 5 and watch.compared > 200


def run(scheme: str, topology: dict[str, Any], seconds: float, **more: Any) -> Watch:
    watch = Watch()
    case = draw_sim_case(7, scheme=scheme, topology=topology, seconds=seconds, **more)
    assert case.recovery is not None
    report = run_case(replace(case, recovery=replace(case.recovery, compare_heartbeats=2.0)), broker=watch)
    assert report.holds, report.problems
    return watch


def test_what_a_part_of_the_membership_says_is_not_its_own_is_that_of_another() -> None:
    """Otherwise state could be missing from snapshots because every part treats it as owned by another."""
    broker = Broker(ClusterTree(1, 2).positions()[0], recovery=Recovery())
    parts = vars(broker.layer(HealingBroker))
    owned = [id(part) for part in parts.values()]
    named = [
        getattr(part, name) for part in parts.values() for name in getattr(type(part), snapshots.SHARED, ())
    ]
    assert len(named) > 20 and all(id(each) in owned for each in named)


class Owner:
    """A machine with one attribute of each kind of state."""

    SHARED = frozenset({"known"})

    def __init__(self, known: list[int]) -> None:
        self.known = known
        self.chance = Random(1)
        self.detector = Detector(Recovery())
        self.phase = Phase.IDLE
        self.views = {1: ClusterView(0, 0, 1, (1,))}
        self.late = deque([1, 2], maxlen=2)
        self.members = {3, 1}
        self.handlers = {int: self.change}

    def change(self) -> None:
        self.chance.random()
        self.detector.heard(7, 1.0)
        self.phase = Phase.TRIPS
        self.late.append(3)
        self.members.discard(3)
        self.views.clear()


def test_state_is_all_but_what_is_shared_and_code_and_it_does_not_change_later() -> None:
    one, known = Owner([1]), [2]
    one.change()
    plain = decode(encode(state_of(one)))
    assert plain.keys() == {"chance", "detector", "phase", "views", "late", "members"}
    before = encode(plain)
    other = Owner(known)
    detector = other.detector
    restore_state(other, plain)
    assert other.known is known and other.detector is detector, "what knows a part goes on knowing it"
    assert encode(state_of(other)) == before
    assert (other.phase, other.late.maxlen, other.members, other.views) == (Phase.TRIPS, 2, {1}, {})
    assert other.chance.random() == one.chance.random()
    one.change()
    assert encode(plain) == before


def test_what_is_no_state_is_refused() -> None:
    one = Owner([])
    one.phase = open  # type: ignore[assignment]
    assert "phase" not in state_of(one), "a function is no state"
    one.phase = Fraction(1, 2)  # type: ignore[assignment]
    with pytest.raises(TypeError, match="Fraction is no state"):
        state_of(one)
    with pytest.raises(TypeError, match="not a class of rayvous"):
        restore_state(one, {"phase": Part("word", "os:system", "IDLE")})
