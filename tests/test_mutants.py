"""Switches off behaviours one at a time, and tests that a check detects each.

A row is a behaviour: its name, how it is switched off, and a check, which returns problems as sentences. Each
check passes on the unchanged code and must find a problem for every row that uses it. To add a behaviour, add
a row; to add a check, write a function without parameters. Checks are small networks in virtual time that
take about a tenth of a second each.

Mutants that chaos finds by the notifications of clients are in ``simulator/test_mutants.py``; wrong traces
for the checker are in ``rayvous.faults.checker.mutants``.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

import pytest
from rayvous.broker import routes_of
from rayvous.faults.simulated.judging import structure_problems, subscription_problems
from rayvous.protocol.effects import Multicast
from rayvous.protocol.messages.recovery import MemberBeat, Recovery, TableCopy
from rayvous.recovery.membership import acceptance
from rayvous.recovery.membership.children import ChildLinks
from rayvous.recovery.membership.copies import Copies
from rayvous.recovery.membership.group import Group
from rayvous.recovery.membership.join import Join
from rayvous.recovery.membership.succession import HANDLERS, ClusterRole, Succession
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.routing.interest.announcer import Announcer, AnnouncerSteps
from rayvous.routing.interest.outlets import Outlet
from rayvous.routing.schemes.hybrid import Hybrid
from rayvous.routing.schemes.tree import TreeRouter
from rayvous.routing.schemes.viewed import ViewedRouter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.operations import SimulatedOperations
from rayvous.simulator.simulation import Simulation


class Mutant(NamedTuple):
    """A behaviour that can be switched off."""

    name: str
    off: Callable[[pytest.MonkeyPatch], None]
    check: Callable[[], list[str]]


def without(owner: type, method: str, result: Any = None) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a patch that makes a method do nothing and return `result`, or a new list if that is None."""
    return lambda patch: patch.setattr(
        owner, method, lambda self, *given, **named: [] if result is None else result
    )


def around(owner: type, method: str, changed: Callable[..., Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Return a patch that replaces a method by `changed(real, self, ...)`."""
    real = getattr(owner, method)
    return lambda patch: patch.setattr(
        owner, method, lambda self, *given, **named: changed(real, self, *given, **named)
    )


# Checks.


def _network(scheme: str = "hybrid", degree: int = 2) -> Simulation:
    """Return a root cluster (0 to 2) with two child clusters (3 to 5, 6 to 8), and a subscriber at each broker."""
    tree = ClusterTree(3, 3, degree=degree)
    net = Simulation(tree.positions(), scheme, recovery=Recovery.for_simulator(degree=4), seed=2)
    for broker in range(9):
        net.subscribe(f"s{broker}", broker, f"n = {broker}", 1)
        net.subscribe(f"s{broker}", broker, f"m = {broker}", 2)
    net.advance(5.0)
    return net


def _wrong(net: Simulation) -> list[str]:
    net.advance(30.0)
    return structure_problems(net) or subscription_problems(net)


def subscriptions_that_go() -> list[str]:
    """Subscriptions are cancelled, one client moves, and one leaves."""
    net = _network()
    net.unsubscribe("s4", 2)
    net.unsubscribe("s5", 1)
    net.move("s7", 3)
    net.detach("s8")
    return _wrong(net)


def a_member_that_dies() -> list[str]:
    """A normal broker of the root cluster crashes, and its client moves to another broker."""
    net = _network()
    net.crash(1)
    return _wrong(net)


def a_child_that_goes() -> list[str]:
    """One cluster crashes as a whole; another is cut off from its parent and comes back."""
    net = _network()
    for broker in (3, 4, 5):
        net.crash(broker)
    net.faults.cut([(one, other) for one in (0, 1, 2) for other in (6, 7, 8)], "the check")
    net.advance(20.0)
    net.unsubscribe("s6", 1)
    net.faults.mend()
    return _wrong(net)


def a_member_that_comes() -> list[str]:
    """A new member of the root cluster is told everything that the children want, and later changes."""
    net = _network()
    SimulatedOperations(net).add_broker(0)
    net.advance(5.0)
    net.subscribe("s4", 4, "k = 1", 9)
    return _wrong(net)


def a_member_that_comes_back() -> list[str]:
    """A member crashes with its designated broker, and restarts before the successor notices its crash."""
    net = _network()
    net.crash(0)
    net.crash(2)
    net.advance(4.5)
    net.restart(0)
    return _wrong(net)


def a_successor() -> list[str]:
    """The designated broker of the root cluster crashes; its successor holds the same filters of children."""
    net = _network()
    held = {2: {}}

    def note(step: Any) -> None:
        broker = step.broker
        here, healing = broker.position.broker, broker.layer(HealingBroker)
        if here in (0, 1) and healing.designated and here not in held:
            held[here] = of_children(broker)

    def of_children(broker: Any) -> dict[int, frozenset[Any]]:
        routes = routes_of(broker)
        return {
            cluster: routes.held_of(view.designated)
            for cluster, view in broker.layer(HealingBroker).place.children.items()
        }

    before = of_children(net.broker(2))
    net._record = note
    net.crash(2)
    net.advance(10.0)
    return [] if held.get(1) == before else [f"the successor holds {held.get(1)}, the dead one held {before}"]


def a_quenched_network() -> list[str]:
    """With quenching, a broker is told what is wanted above and beside it, and when that ends."""
    net = _network("hybrid+quench")
    net.unsubscribe("s4", 2)
    net.unsubscribe("s0", 1)
    return _wrong(net)


def a_view() -> list[str]:
    """On a mesh with recovery, a subscription is cancelled and a broker crashes."""
    net = _network("point-to-point")
    net.unsubscribe("s4", 2)
    net.crash(7)
    return _wrong(net)


def overload() -> list[str]:
    """The root, alone and above its load limit, refuses a join once, then accepts it as the last resort."""
    recovery = Recovery.for_simulator(load_max=5.0)
    net = Simulation(ClusterTree(1, 1).positions(), recovery=recovery, seed=1)
    for number in range(250):
        net.at(1.0 + number / 10, net.publish, "p", 0, [{"n": number}])
    net.advance(5.0)
    SimulatedOperations(net).add_cluster(1)
    net.advance(15.0)
    refused = net.broker(0).describe()["refused_joins"]
    return structure_problems(net) + ([] if refused == 1 else [f"it has refused {refused} times"])


# Rows.


def _keeps_what_it_announced(real: Any, self: Any, item: Any, steps: Any) -> None:
    """Withdraw nothing."""
    before = len(steps.up)
    real(self, item, steps)
    del steps.up[before:]


def _adds_only(real: Any, self: Any, link: Any, holder: Any, filters: Any, **named: Any) -> Any:
    """Add the new filters, and remove none."""
    kept = [(item, 0) for item in self.table.held_by(link, holder)]
    return real(self, link, holder, [*filters, *kept], **named)


def _takes_over_with_nothing(real: Any, self: Any, view: Any) -> Any:
    self.copies.tables = {}
    return real(self, view)


def _is_not_told(real: Any, self: Any, joined: Any, left: Any) -> list[Any]:
    effects = real(self, joined, left)
    return [
        each for each in effects if not (isinstance(each, Multicast) and isinstance(each.message, TableCopy))
    ]


def _counts_as_known(real: Any, self: Any, member: Any, message: Any) -> list[Any]:
    return real(self, member, replace(message, introduces=False))  # type: ignore[no-any-return]


def _introduces_nobody(patch: pytest.MonkeyPatch) -> None:
    real = Succession._on_registration
    designated = ClusterRole.DESIGNATED, MemberBeat
    patch.setitem(HANDLERS, designated, lambda *given: _counts_as_known(real, *given))


def _lets_nothing_go(real: Any, self: Any, item: Any) -> AnnouncerSteps:
    return AnnouncerSteps()


def _refuses_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(acceptance, "_overloaded", lambda load, recovery: False)


def _forgets_why(real: Any, self: Any) -> list[Any]:
    self._load_refused = False
    return real(self)  # type: ignore[no-any-return]


MUTANTS = [
    # Replication (paper 1, 4.1.1).
    Mutant("a member copies changes", without(Copies, "on_entry"), a_member_that_comes),
    Mutant("a member copies what is gone", without(Copies, "on_child"), a_child_that_goes),
    Mutant("who comes gets a copy", around(Group, "_change_members", _is_not_told), a_member_that_comes),
    Mutant("who is back introduces itself", _introduces_nobody, a_member_that_comes_back),
    Mutant("a member takes a whole copy", without(Copies, "take"), a_member_that_comes),
    Mutant("a successor uses its copy", around(Group, "_take_over", _takes_over_with_nothing), a_successor),
    # Removing routes (paper 1, 4.2.2, and unsubscribing, section 3).
    Mutant("withdrawals are sent", around(Announcer, "_withdraw", _keeps_what_it_announced), subscriptions_that_go),
    Mutant("withdrawals are taken in", without(TreeRouter, "_on_withdraw"), subscriptions_that_go),
    Mutant("what is cancelled goes", without(TreeRouter, "_on_cancel"), subscriptions_that_go),
    Mutant("who leaves takes all along", without(TreeRouter, "_on_detach"), subscriptions_that_go),
    Mutant("what a dead member wanted goes", without(Hybrid, "drop"), a_member_that_dies),
    Mutant("what a child wanted goes with it", without(ChildLinks, "disconnect"), a_child_that_goes),
    Mutant("a set replaces the one before", around(Hybrid, "adopt", _adds_only), a_member_that_dies),
    # Refusing (paper 1, 4.2.1, figure 3).
    Mutant("load refuses a child", _refuses_nobody, overload),
    Mutant("load does not refuse for ever", around(Join, "_nobody", _forgets_why), overload),
    # The same with quenching and on a mesh.
    Mutant("what is wanted above goes", around(Outlet, "release", _lets_nothing_go), a_quenched_network),
    Mutant("a change is taken in on a mesh", without(ViewedRouter, "_forget_filter"), a_view),
    Mutant("who is out of the view wants nothing", without(ViewedRouter, "_forget_broker"), a_view),
]  # fmt: skip


@cache
def _holds(check: Callable[[], list[str]]) -> list[str]:
    return check()


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_behaviour_that_is_switched_off_is_found(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _holds(mutant.check) == []
    mutant.off(monkeypatch)
    assert mutant.check() != []


def test_names_are_told_once() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert len(set(names)) == len(names)
