"""The covering DAG agrees with brute-force direct covers after any insertions and removals."""

import functools
import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from rayvous.protocol.batch import batch_of
from rayvous.routing.filters.covering import covers
from rayvous.routing.filters.filter import EVERYTHING_FILTER, NOTHING_FILTER, Filter, to_filter
from rayvous.routing.matching import covering_dag, witness_store
from rayvous.routing.matching.covering_dag import CoveringDag
from rayvous.routing.matching.index import MatchIndex

covers_ = functools.cache(covers)

small = st.integers(0, 4)
plain_conditions = st.one_of(
    st.builds("{} {} {}".format, st.sampled_from("xy"), st.sampled_from(("<", "<=", ">", ">=", "=", "<>")), small),
    st.builds("{} BETWEEN {} AND {}".format, st.sampled_from("xy"), st.integers(0, 2), st.integers(2, 4)),
    st.builds("x IN ({}, {}, {})".format, small, small, small),
    st.builds("s {} '{}'".format, st.sampled_from(("=", "<>", "<", ">=", "PREFIX")), st.sampled_from(("a", "ab", "b"))),
    st.sampled_from(("b = TRUE", "x IS NULL", "x IS NOT NULL", "s IS NOT NULL", "x = 'a'", "TRUE", "FALSE")),
)  # fmt: skip
patterns = st.sampled_from(
    ("s SUFFIX 'a'", "s SUFFIX 'ba'", "s CONTAINS 'b'", "s LIKE 'a%b'", "s LIKE '%a%b%'", "s NOT LIKE '%b'")
)


def filters_of(conditions: st.SearchStrategy[str]) -> st.SearchStrategy[Filter]:
    """Return a strategy for filters of one or two clauses of one or two conditions each."""
    clauses = st.lists(conditions, min_size=1, max_size=2).map(" AND ".join)
    selectors = st.lists(clauses, min_size=1, max_size=2).map(" OR ".join)
    return selectors.map(to_filter) | st.sampled_from((EVERYTHING_FILTER, NOTHING_FILTER))


plain_filters = filters_of(plain_conditions)
any_filters = filters_of(plain_conditions | patterns)


class Reference:
    """Filters in the order of their arrival; every answer is computed from `covers` alone."""

    def __init__(self) -> None:
        self.held: list[Filter] = []

    def is_above(self, f: Filter, g: Filter) -> bool:
        older = self.held.index(f) < self.held.index(g)
        return f != g and covers_(f, g) and (older or not covers_(g, f))

    def predecessors(self, g: Filter) -> set[Filter]:
        above = [f for f in self.held if self.is_above(f, g)]
        return {f for f in above if not any(self.is_above(f, other) for other in above)}

    def successors(self, f: Filter) -> set[Filter]:
        below = [g for g in self.held if self.is_above(f, g)]
        return {g for g in below if not any(self.is_above(other, g) for other in below)}

    def roots(self) -> set[Filter]:
        return {g for g in self.held if not any(self.is_above(f, g) for f in self.held)}


class Pair:
    """The DAG and its index, kept consistent as the routing table does."""

    def __init__(self) -> None:
        self.index = MatchIndex()
        self.dag = CoveringDag(self.index)
        self.slots: dict[Filter, int] = {}

    def insert(self, item: Filter) -> list[Filter]:
        self.slots[item] = self.index.insert(item)
        return self.dag.insert(item, self.slots[item])

    def remove(self, item: Filter) -> list[Filter]:
        exposed = self.dag.remove(item)
        self.index.remove(self.slots.pop(item))
        return exposed


class Machine(RuleBasedStateMachine):
    """The base of both machines, with small limits that exercise the scan, the indexes and the packing."""

    filters: st.SearchStrategy[Filter] = any_filters

    @initialize(
        scan=st.sampled_from((0, 3, 1000)),
        tail=st.sampled_from((1, 3)),
        batches=st.sampled_from((0, 2)),
        few=st.sampled_from((-1, 1, 64)),
    )
    def start(self, scan: int, tail: int, batches: int, few: int) -> None:
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(covering_dag, "SCAN_MAX", scan)
        self.patch.setattr(witness_store, "TAIL_MAX", tail)
        self.patch.setattr(witness_store, "BATCHES_MAX", batches)
        self.patch.setattr(witness_store, "FEW", few)
        self.pair = Pair()
        self.reference = Reference()

    def teardown(self) -> None:
        if hasattr(self, "patch"):
            for item in list(self.reference.held):
                self.pair.remove(item)
            self.pair.dag.check()
            assert len(self.pair.dag) == 0 and list(self.pair.dag.roots()) == []
            self.patch.undo()


class DirectCovers(Machine):
    """Without patterns `covers` is exact, so the DAG equals the reference."""

    @rule(item=plain_filters)
    def insert(self, item: Filter) -> None:
        if item in self.pair.dag:
            return
        before = self.reference.roots()
        covered = self.pair.insert(item)
        self.reference.held.append(item)
        assert set(covered) == before - self.reference.roots() and len(set(covered)) == len(covered)
        assert self.pair.dag.is_root(item) == (item in self.reference.roots())

    @precondition(lambda self: self.reference.held)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        item = data.draw(st.sampled_from(self.reference.held))
        before = self.reference.roots()
        exposed = self.pair.remove(item)
        self.reference.held.remove(item)
        assert set(exposed) == self.reference.roots() - before and len(set(exposed)) == len(exposed)
        assert item not in self.pair.dag

    @invariant()
    def equals_the_reference(self) -> None:
        dag, reference = self.pair.dag, self.reference
        dag.check()
        assert len(dag) == len(reference.held)
        assert set(dag.roots()) == reference.roots()
        for item in reference.held:
            assert set(dag.predecessors(item)) == reference.predecessors(item)
            assert set(dag.successors(item)) == reference.successors(item)
            top = dag.root_above(item)
            assert dag.is_root(top) and covers_(top, item)


class WithPatterns(Machine):
    """With patterns `covers` may miss covers, so only the required properties are checked."""

    @rule(item=any_filters)
    def insert(self, item: Filter) -> None:
        if item in self.pair.dag:
            return
        before = set(self.pair.dag.roots())
        covered = self.pair.insert(item)
        self.reference.held.append(item)
        assert set(covered) == before - set(self.pair.dag.roots())
        assert set(self.pair.dag.roots()) - before <= {item}

    @precondition(lambda self: self.reference.held)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        item = data.draw(st.sampled_from(self.reference.held))
        before = set(self.pair.dag.roots())
        exposed = self.pair.remove(item)
        self.reference.held.remove(item)
        assert set(exposed) == set(self.pair.dag.roots()) - before
        assert before - set(self.pair.dag.roots()) <= {item}

    @rule(event=st.fixed_dictionaries({}, optional={"s": st.text("ab", max_size=4), "x": small, "y": small}))
    def roots_speak_for_all(self, event: dict[str, Any]) -> None:
        wanted = any(item.matches(event) for item in self.reference.held)
        assert any(root.matches(event) for root in self.pair.dag.roots()) == wanted

    @invariant()
    def is_sound(self) -> None:
        self.pair.dag.check()
        for item in self.reference.held:
            assert self.pair.dag.is_root(self.pair.dag.root_above(item))


TestDirectCovers = DirectCovers.TestCase
TestDirectCovers.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
TestWithPatterns = WithPatterns.TestCase
TestWithPatterns.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)


@pytest.mark.parametrize("scan_max", [0, 1000])
def test_the_scan_and_the_indexes_build_the_same_graph(
    monkeypatch: pytest.MonkeyPatch, scan_max: int
) -> None:
    monkeypatch.setattr(covering_dag, "SCAN_MAX", scan_max)
    pair = Pair()
    nested = [to_filter(f"x > {i} AND x < {100 - i}") for i in range(50)]
    for item in nested[::2] + nested[1::2]:
        pair.insert(item)
    assert list(pair.dag.roots()) == [nested[0]]
    for outer, inner in itertools.pairwise(nested):
        assert pair.dag.successors(outer) == [inner] and pair.dag.predecessors(inner) == [outer]
    assert pair.remove(nested[0]) == [nested[1]]
    assert pair.remove(nested[25]) == []
    assert pair.dag.successors(nested[24]) == [nested[26]]
    pair.dag.check()


def test_of_two_that_cover_each_other_the_first_one_in_stands_above() -> None:
    one = to_filter("x = 1 AND y >= 1 OR x = 1 AND y < 1 AND s = 'a' OR x = 1 AND y < 1 AND s <> 'a'")
    other = to_filter("x = 1 AND y >= 2 OR x = 1 AND y < 2 AND (y >= 1 OR s = 'a' OR s <> 'a')")
    assert one != other and covers(one, other) and covers(other, one)
    pair = Pair()
    assert pair.insert(one) == [] and pair.insert(other) == []
    assert list(pair.dag.roots()) == [one] and pair.dag.predecessors(other) == [one]
    assert pair.remove(one) == [other]


def test_what_matches_nothing_stands_below_all_and_everything_above() -> None:
    pair = Pair()
    middle = to_filter("x = 1")
    for item in (NOTHING_FILTER, middle, EVERYTHING_FILTER):
        pair.insert(item)
    assert list(pair.dag.roots()) == [EVERYTHING_FILTER]
    assert pair.dag.successors(EVERYTHING_FILTER) == [middle]
    assert pair.dag.successors(middle) == [NOTHING_FILTER]
    assert pair.dag.root_above(NOTHING_FILTER) == EVERYTHING_FILTER
    assert len(pair.index.match(batch_of([{"x": 1}])).slots) == 2
