"""Joining and leaving a cube: vacancies, node clusters, dimensions (paper 2, section 2.4); golden traces."""

import math
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.protocol.errors import InputError
from rayvous.routing.topologies.cube import Cube
from rayvous.routing.topologies.cube_members import CubeMembers

FOLDER = Path(__file__).parent / "cube_traces"


class Story:
    """A cube, and the commands of a golden trace."""

    def cube(self, cluster_max, *, lines):
        self.members = CubeMembers(cluster_max=int(cluster_max))
        return ["nobody"]

    def join(self, broker, contact=None, *, lines):
        return self._told(self.members.join(int(broker), None if contact is None else int(contact)))

    def leave(self, broker, *, lines):
        return self._told(self.members.leave(int(broker)))

    def where(self, *, lines):
        return [
            f"{self.members.bits(vertex)}: {' '.join(map(str, brokers))}"
            for vertex, brokers in self.members.clusters().items()
        ]

    def _told(self, changes):
        self.members.check()
        return [_words(change) for change in changes]


def _words(change):
    match change:
        case ("opened" | "closed", _, dimensions, _):
            return f"{change.word}: {dimensions} dimensions"
        case ("moved", broker, vertex, before):
            return f"moved {broker}: {before} -> {vertex}"
        case (word, broker, vertex, _):
            return f"{word} {broker}: {vertex}"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_story_is_as_written(path, golden):
    golden(Story(), path)


@st.composite
def histories(draw):
    """Draw (cluster_max, steps); a step is (join or leave, a number that selects the contact or leaver)."""
    steps = draw(st.lists(st.tuples(st.booleans(), st.integers(0, 1000)), max_size=60))
    return draw(st.sampled_from([1, 1, 2, 4])), steps


def run(history):
    cluster_max, steps = history
    members, coming = CubeMembers(cluster_max=cluster_max), 0
    for joins, number in steps:
        known = sorted(members.labels)
        if joins or len(known) < 2:
            members.join(coming, known[number % len(known)] if known else None)
            coming += 1
        else:
            members.leave(known[number % len(known)])
        yield members


@settings(deadline=None)
@given(histories())
def test_whoever_comes_and_goes_positions_are_filled_and_clusters_are_even_and_small(history):
    """Cluster sizes differ by at most one, and are one while there are vacancies. Reference: paper 2, 2.4."""
    for members in run(history):
        members.check()
        count, dimensions = len(members.labels), members.dimensions
        assert count <= members.cluster_max << dimensions
        assert not dimensions or count > 1 << (dimensions - 1), "half of the positions would do"
        sizes = [len(brokers) for brokers in members.clusters().values()]
        vacant = (1 << dimensions) - len(sizes)
        assert max(sizes) - (0 if vacant else min(sizes)) <= 1
        assert max(sizes) <= members.cluster_max


def test_clusters_that_got_small_are_filled_from_large_ones():
    """Brokers of larger clusters move when one shrinks. Reference: paper 2, 2.4 (a cluster is regrouped)."""
    members = CubeMembers.of_clusters([(0, 1, 2), (3, 4, 5), (6, 7, 8)])
    for broker in (0, 1):
        members.leave(broker)
    assert sorted(map(len, members.clusters().values())) == [1, 2, 2, 2]


@settings(deadline=None)
@given(histories())
def test_a_broadcast_takes_at_most_log2_hops_with_clusters_of_one(history):
    """The bound is ceil(log2 N): a dimension closes when half of it is enough. Reference: promise 4."""
    for members in run((1, history[1])):
        count = len(members.labels)
        cube = Cube(members.dimensions, members.labels)
        bound = math.ceil(math.log2(count))
        assert members.dimensions == bound
        assert max(len(cube.path(0, to)) - 1 for to in cube.labels) <= bound if 0 in cube.labels else True


def test_who_joins_fills_the_largest_gap_first_and_the_nearest_of_those():
    members = CubeMembers(3, {0: 0b000 << 29, 1: 0b001 << 29, 2: 0b010 << 29, 3: 0b011 << 29, 4: 0b111 << 29})
    assert [members.need(vertex) for vertex in range(8)] == [0, 0, 0, 0, 2, 2, 1, 0]
    members.join(5, contact=1)
    assert members.vertex(5) == 0b101, "100 and 101 are a gap of two; 101 is nearer to 001"


def test_opening_a_dimension_moves_nobody():
    members = CubeMembers(cluster_max=2)
    for broker in range(4):
        members.join(broker)
    before = dict(members.labels)
    assert members.dimensions == 1
    changes = members.join(4)
    assert changes[0].word == "opened"
    assert before.items() <= members.labels.items()


def test_clusters_of_a_topology_stand_at_vertices_of_their_own():
    members = CubeMembers.of_clusters([(0, 1, 2), (3, 4), (5,)])
    assert sorted(map(tuple, members.clusters().values())) == [(0, 1, 2), (3, 4), (5,)]
    assert members.dimensions == 2 and members.cluster_max == 3


def test_wrong_uses_are_refused():
    members = CubeMembers()
    members.join(1)
    with pytest.raises(InputError, match="in the cube already"):
        members.join(1)
    with pytest.raises(InputError, match="the last one"):
        members.leave(1)
    with pytest.raises(InputError, match="not in the cube"):
        members.leave(7)
    with pytest.raises(InputError, match="at least one"):
        CubeMembers(cluster_max=0)
