"""What the phases of a chaos run rely on, on the simulator."""

from rayvous.faults.plans.cases import Action
from rayvous.faults.simulated.chaos import draw_sim_case
from rayvous.faults.simulated.on_simulator import OnSimulator


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
