"""The dissemination tree of LBDD, theorem by theorem, and the paper's twelve addresses as a golden trace.

Reference: paper 5, sections 3.2 to 3.5 and 4.2.
"""

from itertools import chain, combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.routing.topologies.lbdd_plan import DIGEST_BITS, bucket_of, digest, may_relay, plan, shares

FOLDER = Path(__file__).parent / "traces"
ADDRESSES = st.integers(0, 2**32 - 1)
SETS = st.sets(ADDRESSES, min_size=0, max_size=60)


@given(ADDRESSES, SETS)
def test_every_target_gets_exactly_one_copy_over_a_tree(source, targets):
    made = plan(source, targets)
    targets = targets - {source}
    served = [child for below in made.children.values() for child in below]
    assert sorted(served) == sorted(targets), "n targets take n copies, each of them one (theorem 1)"
    assert made.children.keys() == targets | {source}
    assert sorted(made.below(source)) == sorted(targets), "all are reached from the source"
    assert not targets or sum(made.contributions().values()) == pytest.approx(1)


@given(ADDRESSES, SETS)
def test_copies_go_one_way_and_no_way_is_longer_than_there_are_buckets(source, targets):
    made = plan(source, targets)
    rank = {source: 0} | {each: bucket_of(source, each) for each in made.targets}
    depth = {source: 0}
    for node in [source, *made.below(source)]:
        for child in made.children[node]:
            assert rank[child] > rank[node], "corollary 1"
            depth[child] = depth[node] + 1
    assert max(depth.values()) == made.depth == len({rank[each] for each in made.targets}) <= DIGEST_BITS


@given(ADDRESSES, SETS)
def test_each_agent_works_out_its_own_part_as_algorithms_1_and_2_say(source, targets):
    """Computed by hand for each agent: its rank in its bucket, and its share of the next bucket."""
    made = plan(source, targets)
    for me in made.targets:
        mine = bucket_of(source, me)
        rank = sum(bucket_of(source, peer) == mine and digest(peer) < digest(me) for peer in made.targets)
        other_members = sum(bucket_of(source, peer) == mine for peer in made.targets)
        above = sorted(bucket_of(source, peer) for peer in made.targets if bucket_of(source, peer) > mine)
        ordered = sorted((p for p in made.targets if above and bucket_of(source, p) == above[0]), key=digest)
        low, high = rank * len(ordered) // other_members, (rank + 1) * len(ordered) // other_members
        assert made.children[me] == tuple(ordered[low:high])


@given(st.integers(0, 300), st.integers(1, 300))
def test_shares_are_a_partition_in_order_and_as_equal_as_can_be(size, senders):
    made = shares(size, senders)
    assert [place for share in made for place in share] == list(range(size))
    assert len(made) == senders
    assert max(map(len, made)) - min(map(len, made)) <= 1


@given(ADDRESSES, st.sets(ADDRESSES, min_size=1, max_size=60), st.data())
def test_a_failure_or_a_join_changes_only_the_senders_around_it(source, targets, data):
    before = plan(source, targets - {source})
    if not before.targets:
        return
    gone = data.draw(st.sampled_from(sorted(before.targets)))
    after = before.without(gone)
    assert after == plan(source, before.targets - {gone})
    assert after.joined_by(gone) == before
    numbers = list(before.buckets)
    place = numbers.index(bucket_of(source, gone))
    touched = {source} if place == 0 else set(before.buckets[numbers[place - 1]])
    touched |= set(before.buckets[numbers[place]])
    changed = {node for node in after.children if after.children[node] != before.children[node]}
    assert changed <= touched, "algorithm 3: nobody further away plans anew"


def test_two_of_one_digest_are_both_served(monkeypatch):
    monkeypatch.setattr("rayvous.routing.topologies.lbdd_plan.digest", lambda address: 7)
    made = plan("a", ["b", "c", "d"])
    assert made.children == {"a": ("b", "c", "d"), "b": (), "c": (), "d": ()}


def test_the_mean_out_degree_of_a_bucket_is_2_where_buckets_are_full():
    """Theorem 2: bucket n + 1 is expected to hold twice as many as bucket n."""
    made = plan(-1, range(20_000))
    sizes = [len(bucket) for bucket in made.buckets.values()]
    assert [later / size for size, later in zip(sizes[-5:], sizes[-4:], strict=False)] == pytest.approx(
        [2] * 4, rel=0.1
    )


class Story:
    """One publisher and its subscribers, and the commands of a golden trace."""

    def publisher(self, address, *, lines):
        self.source = address
        return [f"digest {digest(address):08x}"]

    def subscribers(self, *, lines):
        prefix = self.source.rpartition(".")[0]
        self.plan = plan(self.source, [f"{prefix}.{last}" for line in lines for last in line.split()])
        return [
            f"bucket {number}: " + ", ".join(f"{each} ({digest(each):08x})" for each in bucket)
            for number, bucket in self.plan.buckets.items()
        ]

    def tree(self, *, lines):
        return list(self._drawn(self.source, 0))

    def _drawn(self, node, depth):
        yield f"{'  ' * depth}{node}"
        for child in self.plan.children[node]:
            yield from self._drawn(child, depth + 1)

    def measures(self, *, lines):
        degrees = [len(below) for below in self.plan.children.values()]
        share = self.plan.contributions()[self.source]
        return [
            f"{len(self.plan.targets)} subscribers, {sum(degrees)} copies, depth {self.plan.depth}",
            f"largest out-degree {max(degrees)}, the publisher's share {share:.3f}",
        ]

    def fails(self, address, *, lines):
        self.plan = self.plan.without(address)
        return self.tree(lines=[])

    def joins(self, address, *, lines):
        self.plan = self.plan.joined_by(address)
        return self.tree(lines=[])


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_plan_is_as_written(path, golden):
    golden(Story(), path)


@pytest.mark.parametrize("here", [0, 3, 6])
def test_whom_one_may_have_to_send_to_is_whom_some_plan_has_it_send_to(here):
    """All plans of seven nodes are computed, with every set of targets."""
    nodes = range(7)
    for source, found in may_relay(here, nodes).items():
        others = [node for node in nodes if node not in (source, here)]
        sets = chain.from_iterable(combinations(others, size) for size in range(len(others) + 1))
        drawn = {child for targets in sets for child in plan(source, {here, *targets}).children[here]}
        assert set(found) == drawn
