"""Brokers know those to which they are connected once a designated broker has died. Reference: decision 0139."""

from rayvous.protocol.effects import Meet
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.network import Step
from rayvous.simulator.simulation import Simulation
from rayvous.simulator.survey import survey_of


def test_successors_meet_the_neighbours_and_neighbours_the_successors() -> None:
    met: dict[int, list[tuple[int, ...]]] = {}

    def note(step: Step) -> None:
        for each in step.effects:
            if isinstance(each, Meet):
                met.setdefault(step.broker.position.broker, []).append(each.brokers)

    net = Simulation(ClusterTree(3, 3, degree=1), recovery=Recovery(), record=note)
    net.advance(10.0)
    (top, middle, bottom) = max((one["path"] for one in survey_of(net).values()), key=len)
    speaks = {one["cluster"]: one["broker"] for one in survey_of(net).values() if one["designated"]}
    successor = {
        cluster: max(one for one in survey_of(net)[broker]["view"].members if one != broker)
        for cluster, broker in speaks.items()
    }
    last = {broker: said[-1] for broker, said in met.items()}
    assert last == {
        successor[top]: (speaks[middle],),
        successor[middle]: tuple(sorted((speaks[top], speaks[bottom]))),
        successor[bottom]: (speaks[middle],),
        speaks[top]: (successor[middle],),
        speaks[middle]: tuple(sorted((successor[top], successor[bottom]))),
        speaks[bottom]: (successor[middle],),
    }
    said = sum(map(len, met.values()))
    net.advance(10.0)
    assert sum(map(len, met.values())) == said, "once"
    net.crash(successor[middle])
    net.advance(10.0)
    next_one = min(one for one in survey_of(net)[speaks[middle]]["view"].members)
    assert next_one in {broker for broker, each in met.items() if each[-1] == last[successor[middle]]}
    assert met[speaks[top]][-1] == (next_one,)
