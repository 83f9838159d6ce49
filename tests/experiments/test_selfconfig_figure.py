"""Self-configuration as an experiment, small: what is measured of a fault, and that each sentence can fail.

Reference: paper 1, sections 4.1, 4.2 and 6.
"""

import random

import pytest
from legends import covered
from rayvous.experiments.selfconfig import runs
from rayvous.experiments.selfconfig.pictures import draw_healing
from rayvous.experiments.selfconfig.runs import NOBODY, VICTIMS, Point, measure
from rayvous.experiments.selfconfig.statements import judge_healing
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation


def seen(victim, **other):
    table = measure(Point(victim, **{"clusters": 4, "members": 2, **other}))["subscribers"]
    return {
        "heard": max(table["heard"]),
        "late": sum(table["late"]),
        **{name: table[name][0] for name in ("structure", "again", "messages", "holds")},
    }


def test_when_nobody_dies_nothing_is_felt():
    found = seen(NOBODY)
    assert found.pop("heard") < 1.0
    assert found == {"late": 0, "structure": 0.0, "again": 0, "messages": 0, "holds": True}


def test_the_death_of_a_root_is_felt_and_a_member_takes_over():
    """Reference: paper 1, 4.1.1."""
    found = seen("root")
    assert 0 < found["structure"] < 8 and found["heard"] > 1.0
    assert found["again"] > 0 and found["messages"] > 0 and found["holds"]


@pytest.mark.parametrize("victim", VICTIMS)
def test_a_victim_is_who_it_is_said_to_be(victim):
    positions = ClusterTree(9, 3, degree=2).positions()
    net = Simulation(positions, recovery=runs.Recovery.for_simulator())
    runs.strike(net, positions, victim, random.Random(1), 3.0)
    dead = [place for place in positions if not net.host(place.broker).alive]
    roles = [place.role for place in dead]
    expected = {
        "NEB": ["NEB"],
        "DEB": ["DEB"],
        "root": ["REB"],
        "cluster": ["NEB", "NEB", "DEB"],
        "root's cluster": ["REB", "NEB", "NEB"],
    }
    assert sorted(roles) == sorted(expected.get(victim, []))
    assert len({place.cluster for place in dead}) <= 1
    assert net.rendezvous.alive == (victim != "RP") and bool(net.cuts.reasons) == (victim == "link")
    if victim in ("DEB", "cluster"):
        speaker = next(place for place in dead if place.role == "DEB")
        assert speaker.children, "somebody hangs below it"


def rows(**other):
    return [
        {
            "victim": victim,
            "clusters": clusters,
            "members": 4,
            "structure": 3.0,
            "heard": 3.0,
            "late": 10.0,
            "again": 20.0,
            "messages": 2.0 * clusters,
            "holds": 1.0,
        }
        | {name: of(clusters) for name, of in other.items()}
        for victim in VICTIMS
        for clusters in (10, 100)
    ]


def failing(**other):
    return [each.text for each in judge_healing(rows(**other)) if not each.holds]


def test_a_tree_that_heals_as_the_paper_says_holds():
    assert failing() == []


@pytest.mark.parametrize(
    ("other", "said"),
    [
        ({"structure": lambda n: 40.0}, "the tree heals by itself"),
        ({"heard": lambda n: 40.0}, "the tree heals by itself"),
        ({"holds": lambda n: 0.5}, "nothing is lost"),
        ({"structure": lambda n: n / 10}, "larger trees take hardly longer"),
        ({"messages": lambda n: n**1.5}, "nor more messages than in proportion"),
    ],
)
def test_each_sentence_can_fail(other, said):
    assert len([text for text in failing(**other) if said in text]) >= len(VICTIMS) - 1


def test_the_picture_has_a_curve_for_each_victim():
    figure = draw_healing(rows())
    assert len(figure.axes) == 3 and len(figure.legends) == 1
    assert not any(axes.get_legend() for axes in figure.axes)
    assert covered(figure) == []
    for axes in figure.axes:
        assert len(axes.get_lines()) == len(VICTIMS) - 1
