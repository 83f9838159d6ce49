"""What brokers are told of deaths in the simulator: of some or of all, to those connected, and wrong news.

Reference: decision 0139.
"""

from dataclasses import replace

import pytest
from rayvous.faults.plans.cases import Known, Rumour
from rayvous.faults.simulated.chaos import draw_sim_case, run_case
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey_of


def network() -> Simulation:
    net = Simulation(ClusterTree(2, 3, degree=1), recovery=Recovery())
    net.advance(6.0)
    return net


def told(net: Simulation, dead: int) -> list[int]:
    """Return the brokers that were told of a death."""
    return [broker for broker, one in survey_of(net).items() if dead in dict(one["learned_dead"])]


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_a_death_becomes_known_after_a_while_to_those_connected_or_not_at_all(share: float) -> None:
    net = network()
    net.faults.tell_of_deaths(0.5, share)
    (dead,) = (one["view"].designated for one in survey_of(net).values() if one["root"])
    net.crash(dead)
    net.advance(0.4)
    assert not told(net, dead)
    net.advance(0.2)
    other_members = [broker for broker in net.living() if net.positions[broker].cluster == 0]
    below = next(
        one["broker"] for one in survey_of(net).values() if one["cluster"] == 1 and one["designated"]
    )
    assert told(net, dead) == ([*other_members, below] if share else [])


def test_wrong_news_is_about_one_that_is_paused_or_slow_if_there_is_one() -> None:
    net = network()
    net.pause(1)
    net.slow(4, 20.0)
    assert [net.faults.rumour(pick, 1.0) for pick in (0.0, 0.49, 0.5, 0.99)] == [1, 1, 4, 4]
    assert told(net, 4) == [5] and told(net, 1) == [2], "those that have sent it something"
    net.calm()
    assert [net.faults.rumour(pick, 0.0) for pick in (0.0, 0.99)] == [0, 5]
    assert not told(net, 0) and not told(net, 5), "a share of nobody"


def test_a_run_spreads_the_news_of_its_case() -> None:
    case = replace(draw_sim_case(3, brokers_max=6, known=False), known=None)
    known = Known(0.1, 1.0, (Rumour(2.0, 0.0, 1.0),))
    with_news = run_case(replace(case, known=known))
    assert with_news.holds, with_news.problems
    said = [what for _, what in with_news.timeline if what.startswith("wrong news: broker ")]
    assert len(said) == 1
    assert any(draw_sim_case(seed, brokers_max=6).known for seed in range(4))
    assert not any(draw_sim_case(seed, brokers_max=6, plan=case.plan).known for seed in range(4))
