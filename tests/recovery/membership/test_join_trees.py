"""Whole trees rejoin: many subtrees lose their parents at once, and always end in one tree.

A small simulation in virtual time: one broker per cluster, FIFO links, brokers that crash, links that hold
their messages or are slow, and the two rules about paths that `recovery/membership/join.py` requires of its
host.
"""

import heapq
import random
from collections import Counter

import pytest
from draws import some_of
from rayvous.protocol.effects import Received, Send, Ticked
from rayvous.protocol.messages.recovery import (
    RENDEZVOUS,
    AskChildren,
    Children,
    ClusterView,
    Goodbye,
    JoinRequest,
    Ping,
    Pong,
    Recovery,
    Root,
    RootBeat,
    TreeBeat,
)
from rayvous.recovery.membership.acceptance import judge
from rayvous.recovery.membership.join import Join
from rayvous.recovery.membership.local import Joined, MadeRoot
from rayvous.recovery.membership.root_registry import RendezvousMachine

SECONDS_MAX = 60.0
"""Until the tree is whole, with links that are held for up to 20 s; the longest that 20,000 seeds took was 36."""
MESSAGES_MAX = 100
"""Per live cluster, beats included; the most that 20,000 seeds had was 60."""


def broker_of(cluster):
    return 100 + cluster


FAR_SECONDS = 15.0
"""Links may be slower than anybody's patience for so long; forever would mean that two brokers never meet."""


class Node:
    """One cluster of one broker, with as much of a broker as joining needs."""

    def __init__(self, world, cluster):
        self.world, self.cluster, self.id = world, cluster, broker_of(cluster)
        self.view = ClusterView(cluster, 1, self.id, (self.id,))
        self.parent, self.children, self.path, self.term = None, {}, (), 1
        self.join = Join(world.recovery, random.Random(f"{world.seed} {cluster}"))

    @property
    def is_root(self):
        return self.path == (self.cluster,)

    def send(self, to, message):
        self.world.send(self.id, to, message)

    def set_path(self, path, term):
        if (path, term) != (self.path, self.term):
            self.path, self.term = path, term
            for child in self.children:
                self.send(broker_of(child), TreeBeat(self.view, path, term))

    def lose_parent(self, root_died=False, goodbye=False):
        if goodbye and self.parent is not None:
            self.send(broker_of(self.parent), Goodbye(self.cluster))
        self.parent = None
        self.set_path((), self.term)
        self.do(self.join.start(self.view, (), self.world.now, root_died=root_died))

    def tick(self):
        self.do(self.join.handle(Ticked(self.world.now)))

    def receive(self, source, message):
        self.tick()
        if isinstance(message, AskChildren):
            children = tuple(self.world.nodes[child].view for child in self.children)
            self.send(source, Children(message.nonce, self.view, children))
        elif isinstance(message, Ping):
            self.send(source, Pong(message.nonce))
        elif isinstance(message, JoinRequest):
            self.asked(source, message)
        elif isinstance(message, Goodbye):
            self.children.pop(message.cluster, None)
            if message.cluster == self.parent:
                self.lose_parent()
        elif isinstance(message, TreeBeat):
            self.beaten(message)
        elif isinstance(message, Root) and self.is_root:
            if message.term > self.term:
                self.lose_parent()
        else:
            self.do(self.join.handle(Received(source, message)))

    def asked(self, source, request):
        answer = judge(
            request, self.view, self.path, self.term, self.children, self.world.recovery, designated=True
        )
        if answer.accepted:
            self.children[request.view.cluster] = None
        self.send(source, answer)

    def beaten(self, beat):
        if beat.view.cluster != self.parent:
            return
        if self.cluster in beat.path:
            self.world.counts["rings seen and opened"] += 1
            self.lose_parent(goodbye=True)
        else:
            self.set_path((*beat.path, self.cluster) if beat.path else (), beat.term)

    def do(self, out):
        for item in out:
            if isinstance(item, Send):
                self.send(item.to, item.message)
            elif isinstance(item, Joined):
                self.world.counts["joined"] += 1
                self.parent = item.parent.cluster
                self.set_path((*item.path, self.cluster), item.term)
            elif isinstance(item, MadeRoot):
                self.world.counts["roots made"] += 1
                self.set_path((self.cluster,), item.term)
                self.world.beat(self)
        if self.join.active:
            self.world.at(self.join.deadline, self.timer, counted=False)

    def timer(self):
        if self.join.active and self.world.now >= self.join.deadline:
            self.tick()


class World:
    """Virtual time, links, and the rendezvous point."""

    def __init__(self, seed):
        self.seed, self.random = seed, random.Random(seed)
        draw = self.random
        self.recovery = Recovery(
            degree=draw.choice([2, 2, 3, 4, 8]), answer_seconds=draw.choice([0.5, 1.0, 2.0])
        )
        self.now, self.steps, self.pending, self.heap = 0.0, 0, 0, []
        self.counts = Counter()
        self.dead, self.last, self.held_until, self.slow_until, self.far = set(), {}, {}, {}, {}
        self.nodes = [Node(self, cluster) for cluster in range(draw.randint(2, draw.choice([10, 40])))]
        self.places = {broker_of(n): (draw.random(), draw.random()) for n in range(len(self.nodes))}
        self.places[RENDEZVOUS] = (0.5, 0.5)
        self.grow()
        self.rendezvous = RendezvousMachine(self.recovery, self.nodes[0].view)
        self.rendezvous.handle(Ticked(0.0))
        self.beat(self.nodes[0])

    def grow(self):
        self.nodes[0].path = (0,)
        for node in self.nodes[1:]:
            above = [n for n in self.nodes[: node.cluster] if len(n.children) < self.recovery.degree]
            parent = self.random.choice(above)
            node.parent, node.path = parent.cluster, (*parent.path, node.cluster)
            parent.children[node.cluster] = None
        if self.random.random() < 0.5:
            # News of a lost parent is slow, so a parent may not know yet that its own subtree is cut off.
            for node in self.nodes[1:]:
                self.far[frozenset((node.id, broker_of(node.parent)))] = self.random.choice([0, 0, 2.0, 6.0])

    def at(self, moment, action, *arguments, counted=True):
        self.steps += 1
        self.pending += counted
        heapq.heappush(self.heap, (moment, self.steps, counted, action, arguments))

    def send(self, source, to, message):
        if source in self.dead:
            return
        self.counts["messages"] += 1
        (x, y), (u, v) = self.places[source], self.places[to]
        moment = self.now + 0.001 + 0.1 * ((x - u) ** 2 + (y - v) ** 2) ** 0.5 + self.random.random() * 0.01
        if self.now < FAR_SECONDS:
            moment += self.far.get(frozenset((source, to)), 0)
        for end in (source, to):
            if self.now < self.slow_until.get(end, 0):
                moment += self.random.uniform(0, 2.5)
        for held in (source, to, frozenset((source, to))):
            moment = max(moment, self.held_until.get(held, 0))
        moment = self.last[source, to] = max(moment, self.last.get((source, to), 0))
        self.at(moment, self.deliver, source, to, message)

    def deliver(self, source, to, message):
        if to == RENDEZVOUS:
            self.rendezvous.handle(Ticked(self.now))
            for send in self.rendezvous.handle(Received(source, message)):
                self.send(RENDEZVOUS, send.to, send.message)
        elif to not in self.dead:
            self.nodes[to - 100].receive(source, message)

    def beat(self, node):
        if node.is_root and node.id not in self.dead:
            self.send(node.id, RENDEZVOUS, RootBeat(node.view, node.term))
            self.at(self.now + self.recovery.heartbeat_seconds, self.beat, node, counted=False)

    # Faults.

    def break_things(self):
        draw = self.random
        spread = draw.choice([0.0, 0.1, 1.0, 10.0])
        for node in self.nodes[1:]:
            if draw.random() < 0.5:
                kind = draw.choice([self.kill, self.cut, self.leave, self.leave, self.slow])
                self.at(draw.uniform(0, spread), kind, node)
        if draw.random() < 0.4:
            self.at(draw.uniform(0, spread), draw.choice([self.kill, self.isolate]), self.nodes[0])

    def notice(self, node, lost):
        """Let `node` notice that the link to its neighbour `lost` is gone."""
        if node.id in self.dead:
            return
        if lost.cluster in node.children:
            del node.children[lost.cluster]
            node.send(lost.id, Goodbye(node.cluster))
        if node.parent == lost.cluster:
            node.lose_parent(root_died=lost.is_root, goodbye=True)

    def kill(self, node):
        self.counts["killed"] += 1
        self.dead.add(node.id)
        for other in self.nodes:
            if other is not node:
                self.at(self.now + self.random.uniform(1, 4), self.notice, other, node)

    def cut(self, node):
        """Cut the link to the parent for some time, during which it holds its messages."""
        if node.id in self.dead or node.parent is None:
            return
        self.counts["cut"] += 1
        parent = self.nodes[node.parent]
        self.held_until[frozenset((node.id, parent.id))] = self.now + self.random.uniform(5, 20)
        self.at(self.now + self.random.uniform(1, 4), self.notice, node, parent)
        self.at(self.now + self.random.uniform(1, 4), self.notice, parent, node)

    def leave(self, node):
        if node.id not in self.dead and node.parent is not None:
            self.counts["left"] += 1
            node.lose_parent(goodbye=True)

    def slow(self, node):
        self.counts["slowed"] += 1
        self.slow_until[node.id] = self.now + self.random.uniform(2, 10)
        self.leave(node)

    def isolate(self, root):
        """Cut the root off from all others for longer than their patience."""
        if root.id in self.dead:
            return
        self.counts["isolated"] += 1
        self.held_until[root.id] = self.now + self.random.uniform(5, 15)
        for child in list(root.children):
            self.at(self.now + self.random.uniform(1, 4), self.notice, self.nodes[child], root)

    def run(self):
        self.break_things()
        while self.heap and self.now < SECONDS_MAX:
            if not self.alive():
                return
            if not self.pending and not any(node.join.active for node in self.alive()) and self.settled():
                return
            self.now, _, counted, action, arguments = heapq.heappop(self.heap)
            self.pending -= counted
            action(*arguments)
        raise AssertionError(f"seed {self.seed}: not settled after {self.now:.1f} s, {dict(self.counts)}")

    def alive(self):
        return [node for node in self.nodes if node.id not in self.dead]

    def settled(self):
        """Return whether the only live root, and its term, are those that the rendezvous point knows."""
        root = self.nodes[self.rendezvous.root.cluster]
        roots = [node for node in self.alive() if node.is_root]
        return roots == [root] and root.term == self.rendezvous.term

    def check(self):
        """Assert that there is one tree without rings, no exceeded degree, and only correct paths."""
        root = self.rendezvous.root.cluster
        for node in self.alive():
            assert len(node.children) <= self.recovery.degree
            if node.cluster == root:
                assert node.parent is None
            else:
                assert node.cluster in self.nodes[node.parent].children
            above, up = [], node
            while up is not None:
                assert up.cluster not in above, "a ring"
                assert up.id not in self.dead
                above.append(up.cluster)
                up = None if up.parent is None else self.nodes[up.parent]
            assert node.path == tuple(reversed(above)) and node.path[0] == root
            for child in node.children:
                assert self.nodes[child].parent == node.cluster, "a child that is somebody else's"


def settle(seed):
    world = World(seed)
    world.run()
    world.check()
    return world


@pytest.mark.parametrize("first", some_of(range(0, 400, 50), 0, 50))
def test_it_always_ends_in_one_tree(first):
    for seed in range(first, first + 50):
        world = settle(seed)
        assert world.counts["messages"] <= MESSAGES_MAX * max(1, len(world.alive())), f"seed {seed}"


@pytest.mark.parametrize("seed", [520, 806, 1914, 2821, 3712, 3777, 4161])
def test_subtrees_that_were_accepted_below_each_other_see_it_and_part(seed):
    """Rare (one seed in hundreds): the news that a subtree is cut off is slower than another one's search."""
    assert settle(seed).counts["rings seen and opened"] > 0, (
        "the seed shows no ring any more: look for another"
    )


def test_the_seeds_have_what_they_are_for():
    total = sum((settle(seed).counts for seed in range(60)), Counter())
    for kind in ("killed", "cut", "left", "slowed", "isolated", "roots made", "joined"):
        assert total[kind] > 0, kind
