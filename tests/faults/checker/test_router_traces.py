"""Definition 9 of routers: no event comes down to a router without its notice. Reference: paper 4, table 1."""

import random

import pytest
from rayvous.faults.checker.conditions import definition_9, never_unannounced, safe
from rayvous.faults.checker.ltl import always, holds
from rayvous.faults.checker.reliability import judge
from rayvous.faults.checker.router_traces import RouterTrace, at_router
from rayvous.protocol.effects import Send
from rayvous.protocol.stability import Stability
from rayvous.protocol.traces.trace import Adv, Cancelled, Notified, Registered, UnAdv
from rayvous.routing.schemes.tree import TreeRouter
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.hosts import in_memory
from rayvous.simulator.simulation import Simulation

OF_ROUTERS = ("published", "wanted", "noticed", "fresh")
CLIENTS = [f"s{number}" for number in range(12)]
TREES = {
    "hierarchical": ClusterTree(7, 1, degree=2),
    "hierarchical+merge": ClusterTree(7, 1, degree=2),
    "hybrid": ClusterTree(5, 2, degree=2),
}


def traced(scheme, seed=0, *, crashes=False, turns=12):
    """Return the trace of the routers of a tree in which clients subscribe, publish and cancel, and brokers crash."""
    watching = []
    net = Simulation(
        TREES[scheme].positions(),
        scheme,
        record=lambda step: [
            each.step(step.now, step.broker.position.broker, step.received, step.effects) for each in watching
        ],
        **({"store": in_memory, "stability": Stability(retransmit_seconds=0.1)} if crashes else {}),
    )
    upstream = {here: host.parent for here, host in net.hosts.items() if host.parent is not None}
    watching.append(routers := RouterTrace(net.account, upstream))
    rng = random.Random(seed)
    brokers = sorted(net.hosts)
    for turn in range(turns):
        net.subscribe(CLIENTS[turn], rng.choice(brokers), f"x > {rng.randrange(9)}", 1)
        if turn % 3 == 2:
            net.unsubscribe(CLIENTS[turn - 1], 1)
        net.publish(f"p{turn}", rng.choice(brokers), [{"x": rng.randrange(10)} for _ in range(3)])
        net.advance(rng.choice([0.0, 0.02, 1.0]))
        if crashes and turn % 4 == 1:
            victim = rng.choice(brokers)
            net.crash(victim)
            net.advance(0.3)
            net.restart(victim)
        if turn % 4 == 3:
            _ = net.settle() if crashes else net.run()
            net.account.settled(net.now)
    routers.follow()
    assert judge(net.account).holds
    return routers.trace


@pytest.mark.parametrize("scheme", TREES)
@pytest.mark.parametrize("crashes", [False, True], ids=["calm", "crashes"])
def test_no_event_comes_down_to_a_router_that_gave_no_notice_of_it(scheme, crashes):
    """Definition 9 with routers for subscribers, as it is printed and always. Reference: paper 4, definition 9."""
    for seed in range(3):
        trace = traced(scheme, seed, crashes=crashes)
        found = judge(trace).findings
        for name in (*OF_ROUTERS, *(() if crashes else ("once", "ordered"))):
            assert found[name].checked and not found[name].violated, found[name].violations
        assert {Adv, UnAdv, Notified} <= {type(each) for each in trace}


def test_definition_9_holds_for_routers_as_it_is_printed():
    trace = traced("hierarchical", turns=4)
    assert any(isinstance(each, Notified) for each in trace) and holds(definition_9(), trace) is True


def test_a_router_that_sends_down_what_nobody_noticed_is_found(monkeypatch):
    right = TreeRouter._on_events

    def sends_all(self, source, message):
        sent = right(self, source, message)
        there = {effect.to for effect in sent if isinstance(effect, Send)} | {source}
        return [*sent, *(Send(child, message) for child in self.position.children if child not in there)]

    monkeypatch.setattr(TreeRouter, "_on_events", sends_all)
    trace = traced("hierarchical", turns=4)
    found = judge(trace).findings
    assert found["noticed"].violated and found["wanted"].violated
    assert holds(always(never_unannounced()), trace) is False and holds(always(safe()), trace) is False


def test_each_operation_has_its_router():
    """Register(C, R), Cancel(C, R), Adv(C, R) and Adv(Ri, Rj). Reference: paper 4, table 1."""
    trace = traced("hierarchical", seed=2)
    for kind in (Registered, Cancelled, Adv, UnAdv, Notified):
        who = {each.client for each in trace if isinstance(each, kind)}
        assert any(name.startswith("router ") for name in who) and any(name.startswith("s") for name in who)
        assert who <= {at_router(name, router) for name in (*CLIENTS, *range(7)) for router in range(7)}
