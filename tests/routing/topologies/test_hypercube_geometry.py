"""Labels, broadcasts and reverse paths in cubes with any positions vacant (paper 2, sections 2.1 and 2.2)."""

import itertools
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.views import LABEL_BITS
from rayvous.routing.topologies.cube import Cube, mean_hops
from rayvous.routing.topologies.cube_members import CubeMembers

BITS = 6


@st.composite
def cubes(draw):
    """Draw a cube of six dimensions with any positions occupied, as joins, leaves and crashes leave it."""
    vertices = draw(st.lists(st.integers(0, (1 << BITS) - 1), min_size=1, max_size=40, unique=True))
    return Cube(BITS, {broker: vertex << (LABEL_BITS - BITS) for broker, vertex in enumerate(vertices)})


def broadcast(cube, start):
    """Run a broadcast, and return (the receiver of each message, {broker: the path to it})."""
    received, ways, waiting = [], {start: [start]}, [(start, None)]
    while waiting:
        here, source = waiting.pop(0)
        for other in cube.onwards(here, source):
            received.append(other)
            ways[other] = [*ways[here], other]
            waiting.append((other, here))
    return received, ways


@settings(deadline=None)
@given(cubes())
def test_each_broker_receives_a_broadcast_once_whatever_is_vacant(cube):
    """N - 1 messages, at most as many hops as dimensions. Reference: paper 2, 2.2; promise 4."""
    for start in cube.labels:
        received, ways = broadcast(cube, start)
        assert sorted(received) == sorted(cube.labels.keys() - {start})
        assert max(map(len, ways.values())) - 1 <= BITS


@settings(deadline=None)
@given(cubes())
def test_where_events_may_go_on_to_is_where_the_ways_of_some_lead(cube):
    """`onward` gives exactly the turns that the paths of events take, so reverse requests come to an end."""
    turns = {here: set() for here in cube.labels}
    for origin, to in itertools.permutations(cube.labels, 2):
        way = cube.path(to, origin)[::-1]
        for source, here, other in zip([None, *way], way, way[1:], strict=False):
            turns[here].add((source, other))
    for here in cube.labels:
        beside = (None, *cube.beside(here))
        found = {(source, other) for source in beside for other in cube.onward(here, source)}
        assert found == turns[here]


@settings(deadline=None)
@given(cubes())
def test_the_way_that_is_worked_out_is_the_way_that_a_broadcast_takes(cube):
    for start in cube.labels:
        for to, way in broadcast(cube, start)[1].items():
            assert cube.path(start, to) == way


@settings(deadline=None)
@given(cubes(), st.data())
def test_ways_back_to_all_form_one_tree(cube, data):
    """An event for several brokers therefore reaches each broker on its paths at most once."""
    entry = data.draw(st.sampled_from(sorted(cube.labels)))
    ways = {origin: broadcast(cube, origin)[1][entry] for origin in cube.labels}
    before = {}
    for origin, way in ways.items():
        for there, here in itertools.pairwise(way):
            assert cube.back(here, entry)[origin] == there
            assert before.setdefault(there, here) == here, "two ways to one broker"
    for origin, way in ways.items():
        for broker in cube.labels.keys() - set(way[1:]):
            assert origin not in cube.back(broker, entry)


@settings(deadline=None)
@given(cubes(), st.data())
def test_a_way_back_crosses_dimensions_in_falling_order(cube, data):
    """Outboxes that wait for each other therefore cannot form a cycle (docs/hypercube.md)."""
    entry, origin = (data.draw(st.sampled_from(sorted(cube.labels))) for _ in range(2))
    way = cube.path(origin, entry)[::-1]
    crossed = [cube.dimension(here, there) for here, there in itertools.pairwise(way)]
    assert crossed == sorted(set(crossed), reverse=True)


@settings(deadline=None)
@given(cubes(), st.integers(0, (1 << BITS) - 1))
def test_a_vacancy_is_covered_by_the_least_xor(cube, vertex):
    label = vertex << (LABEL_BITS - BITS)
    assert cube.cover(label) == min(cube.labels, key=lambda broker: cube.labels[broker] ^ label)


def test_the_paper_s_figure_3():
    """0 sends to 4, 2 and 1; 4 forwards to 6 and 5, 2 to 3, 1 to nobody. Reference: paper 2, 2.2."""
    cube = Cube.complete(3)
    assert cube.neighbours(0) == [(0, 4), (1, 2), (2, 1)]
    assert cube.onwards(4, 0) == [6, 5]
    assert cube.onwards(2, 0) == [3]
    assert cube.onwards(1, 0) == []


def test_the_paper_s_names_of_neighbours():
    """4 and 5 are neighbour 2 of each other; {0, 1}(7) = 1 and {0, 1}(1) = 7. Reference: paper 2, 2.1."""
    cube = Cube.complete(3)
    assert dict(cube.neighbours(4))[2] == 5
    assert dict(cube.neighbours(5))[2] == 4
    assert cube.path(7, 1) == [7, 3, 1]
    assert cube.path(1, 7) == [1, 5, 7]


@pytest.mark.parametrize("dimensions", range(1, 7))
def test_a_complete_cube_has_log2_hops_and_the_mean_of_formula_1(dimensions):
    cube = Cube.complete(dimensions)
    hops = [len(way) - 1 for start in cube.labels for way in broadcast(cube, start)[1].values()]
    assert max(hops) == dimensions == math.log2(len(cube))
    assert sum(hops) / (len(cube) * (len(cube) - 1)) == pytest.approx(mean_hops(dimensions))


def test_formula_1_in_three_dimensions():
    """12/7; the paper measured 1.709. Reference: paper 2, formula (1) and 2.5."""
    assert mean_hops(3) == pytest.approx(12 / 7)
    assert mean_hops(3) == pytest.approx(1.709, rel=0.005)


@pytest.mark.parametrize(("dimensions", "base"), [(2, 3), (3, 3), (2, 5)])
def test_formula_1_holds_for_other_bases(dimensions, base):
    nodes = list(itertools.product(range(base), repeat=dimensions))
    hops = [sum(a != b for a, b in zip(one, other, strict=True)) for one in nodes for other in nodes]
    assert mean_hops(dimensions, base) == pytest.approx(sum(hops) / (len(nodes) * (len(nodes) - 1)))


@pytest.mark.parametrize(("dimensions", "base"), [(0, 2), (3, 1)])
def test_formula_1_needs_a_dimension_and_a_base(dimensions, base):
    with pytest.raises(InputError, match="mean_hops"):
        mean_hops(dimensions, base)


@pytest.mark.parametrize("labels", [{}, {1: 5, 2: 5}])
def test_a_cube_needs_brokers_with_labels_of_their_own(labels):
    with pytest.raises(InputError, match="labels of their own"):
        Cube(3, labels)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 64))
def test_the_brokers_of_a_large_cluster_part_evenly(size):
    members = CubeMembers.of_clusters([range(size)])
    cube = Cube(members.dimensions, members.labels)
    assert members.dimensions == 0
    hops = max(len(way) - 1 for way in broadcast(cube, 0)[1].values())
    assert hops <= math.ceil(math.log2(size))
