"""What the phases of a chaos run rely on, on the simulator."""

from rayvous.faults.plans.cases import Action
from rayvous.faults.simulated.chaos import draw_sim_case
from rayvous.faults.simulated.on_simulator import OnSimulator
from rayvous.protocol.messages.pubsub import Lost


def test_actions_are_over_when_the_latest_of_them_is_whatever_their_order() -> None:
    system = OnSimulator(draw_sim_case(1, brokers_max=4, seconds=4.0, known=False))
    start = system.now
    actions = [
        Action(at, "publish", client, 0, events=({"x": 1},)) for at, client in ((2.0, "p1"), (0.5, "p2"))
    ]
    system.wait_until(system.play(actions, start))
    published = {op.publisher for op in system.account.publications().values()}
    assert published == {"p1", "p2"} and system.now == start + 2.0
    assert system.play((), 7.0) == 7.0


def test_a_group_is_not_owed_what_is_lost_for_all_but_what_has_expired_was_owed_before() -> None:
    system = OnSimulator(draw_sim_case(1, brokers_max=4, seconds=4.0, known=False))
    account = system.account
    account.lost(0.0, "p", 3)
    account.lost(0.0, "p", 4, "another")
    account.expiring(-1.0, "p", 5, 1, 0.5)
    account.lost(0.0, "p", 5)
    assert system._lost_for_all == [Lost("p", 3, 3)]
