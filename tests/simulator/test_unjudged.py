"""A durable subscriber dies while one of its subscriptions waits for its verdict, and comes back before that.

Reference: promises 1 and 8: notified only of what it has asked for, and books that hold what clients want.
"""

import pytest
from draws import of_each_kind
from rayvous.faults.checker.reliability import judge
from rayvous.faults.simulated.chaos import draw_sim_case
from rayvous.faults.simulated.judging import books_problems, subscription_problems
from rayvous.protocol.messages.admission import AdmissionConfig
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.schemes.registry import NAMES, scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

TREE = ClusterTree(3, 2, degree=2).positions()
ON_ITS_WAY_SECONDS = 0.0002
"""The request has reached the subscriber's broker, and no verdict has come back."""


def died_meanwhile(name: str, *, forgets: bool) -> Simulation:
    """Let a subscriber die and come back while the verdict on its second subscription is under way."""
    net = Simulation(
        scheme(name).positions(TREE), name, recovery=Recovery.for_simulator(), admission=AdmissionConfig(0.2)
    )
    net.advance(3.0)
    net.advertise("p", 0, "x > 0", 5.0)
    net.advance(3.0)
    net.subscribe("s", 5, "x > 100", 1, durable=True)
    net.advance(3.0)
    assert net.installed("s", 1)
    net.subscribe("s", 5, "x > 3", 2, durable=True)
    net.advance(ON_ITS_WAY_SECONDS)
    assert net.unconfirmed() == [("s", 2)]
    net.stop("s", forgets=forgets)
    net.start("s")
    net.advance(3.0)
    net.publish("p", 0, [{"x": 5}, {"x": 500}])
    net.advance(5.0)
    return net


@pytest.mark.parametrize("forgets", [True, False], ids=["forgets", "asks-again"])
@pytest.mark.parametrize("name", of_each_kind(NAMES))
def test_a_subscription_is_judged_for_a_new_life_only_if_that_asks_for_it(name: str, forgets: bool) -> None:
    net = died_meanwhile(name, forgets=forgets)
    assert [note.sequence for note in net.account.notifications()] == ([2] if forgets else [1, 2])
    assert net.unconfirmed() == [] and not judge(net.account).violated
    assert subscription_problems(net) == [] and books_problems(net) == []


def test_chaos_draws_deaths_between_a_request_and_its_verdict_and_some_do_not_ask_again() -> None:
    deaths = [
        (subscribed, stop)
        for case in (draw_sim_case(seed, stable=True, brokers_max=8, seconds=8.0) for seed in range(20))
        for subscribed in case.actions
        for stop in case.actions
        if subscribed.do == "subscribe" and stop.do == "stop" and subscribed.client == stop.client
        if 0.0 <= stop.at_seconds - subscribed.at_seconds < 0.02
    ]
    assert len(deaths) >= 5
    assert {stop.forgets for _, stop in deaths} == {True, False}
