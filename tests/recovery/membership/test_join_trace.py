"""Golden traces of CMTP: each file of `traces` is a tree, some faults, and the search that follows.

A block is a command, lines of input if it has any, ``----``, and the output up to an empty line. `pytest
--rewrite` writes the outputs anew, and the difference is then reviewed. Lines that begin with ``#`` are
comments.

Commands
--------
* ``network``: the lines draw the tree; a number is the cluster's round trip to the joining cluster, in
  milliseconds.
* ``cut A B``: the link between two clusters is gone; if one is the parent of the other, that ends as well.
* ``dead A``, ``full A``: A never answers; A takes no more children than it has.
* ``join A``: A searches for a parent; the output has each message with the time at which it was sent.
"""

import heapq
import random
from dataclasses import replace
from pathlib import Path

import pytest
from rayvous.protocol.effects import Received, Ticked
from rayvous.protocol.messages.recovery import (
    RENDEZVOUS,
    AskChildren,
    AskRoot,
    Children,
    ClusterView,
    Goodbye,
    JoinRequest,
    Ping,
    Pong,
    Recovery,
    Root,
)
from rayvous.recovery.membership.acceptance import judge
from rayvous.recovery.membership.join import Join
from rayvous.recovery.membership.local import Joined

FOLDER = Path(__file__).parent / "traces"
SECONDS_MAX = 8.0
SETTINGS = Recovery(answer_seconds=2.0, root_wait_seconds=1.0)


class Story:
    """A tree that does not change, and one cluster that searches for a place in it."""

    def network(self, *, lines):
        self.parents, self.trips, path = {}, {}, []
        for line in lines:
            depth = (len(line) - len(line.lstrip())) // 2
            name, *trip = line.split()
            path[depth:] = [name]
            self.parents[name] = path[depth - 1] if depth else None
            self.trips[name] = int(trip[0]) / 1000 if trip else 0.0
        self.names = list(self.parents)
        self.cuts, self.silent, self.refusing = set(), set(), set()
        return [f"{name}: {' < '.join(self._path(name))}" for name in self.names]

    def cut(self, one, other, *, lines):
        self.cuts.add(frozenset((one, other)))
        for name, above in self.parents.items():
            if {name, above} == {one, other}:
                self.parents[name] = None
        return []

    def dead(self, name, *, lines):
        self.silent.add(name)
        return []

    def full(self, name, *, lines):
        self.refusing.add(name)
        return []

    def join(self, name, *, lines):
        self.me, self.heap, self.count, self.said = name, [], 0, []
        machine = Join(SETTINGS, random.Random(1))
        self._carry_out(0.0, machine.start(self._view(name), (), 0.0, root_died=False))
        while machine.active and machine.deadline < SECONDS_MAX:
            if self.heap and self.heap[0][0] <= machine.deadline:
                now, _, source, message = heapq.heappop(self.heap)
                machine.handle(Ticked(now))
                self._carry_out(now, machine.handle(Received(source, message)))
            else:
                now = machine.deadline
                self._carry_out(now, machine.handle(Ticked(now)))
        return self.said

    def _carry_out(self, now, out):
        for item in out:
            if isinstance(item, Joined):
                self.parents[self.me] = parent = self.names[item.parent.cluster]
                self._say(now, f"{self.me} hangs below {parent} now: {' < '.join(self._path(self.me))}")
            else:
                self._send(now, item)

    def _send(self, now, send):
        name = "RP" if send.to == RENDEZVOUS else self.names[send.to]
        arrow = f"{self.me} -> {name}:"
        if isinstance(send.message, AskRoot):
            root = self.names[0]
            self._say(now, f"{arrow} who is the root? {root}")
            self._answer(now + 0.002, RENDEZVOUS, Root(self._view(root), 1))
        elif name in self.silent or frozenset((self.me, name)) in self.cuts:
            self._say(now, f"{arrow} {self._question(send.message)} (no answer)")
        else:
            self._asked(now, arrow, name, send)

    def _asked(self, now, arrow, name, send):
        question, back = send.message, now + self.trips[name]
        if isinstance(question, AskChildren):
            children = [child for child, above in self.parents.items() if above == name]
            self._say(now, f"{arrow} {self._question(question)} {', '.join(children) or 'none'}")
            answer = Children(question.nonce, self._view(name), tuple(map(self._view, children)))
        elif isinstance(question, Ping):
            self._say(now, f"{arrow} {self._question(question)} {self.trips[name] * 1000:.0f} ms")
            answer = Pong(question.nonce)
        else:
            assert isinstance(question, JoinRequest)
            answer = self._judged(name, question)
            self._say(now, f"{arrow} {self._question(question)} {answer.reason or 'accepted'}")
        self._answer(back, send.to, answer)

    def _judged(self, name, request):
        children = [self.names.index(child) for child, above in self.parents.items() if above == name]
        settings = replace(SETTINGS, degree=len(children)) if name in self.refusing else SETTINGS
        path = tuple(map(self.names.index, reversed(self._path(name))))
        return judge(request, self._view(name), path, 1, children, settings, designated=True)

    def _answer(self, moment, source, message):
        self.count += 1
        heapq.heappush(self.heap, (moment, self.count, source, message))

    def _say(self, now, text):
        self.said.append(f"{now * 1000:5.0f} ms  {text}")

    @staticmethod
    def _question(message):
        words = {
            AskChildren: "your children?", Ping: "how near?", JoinRequest: "take me?", Goodbye: "goodbye",
        }  # fmt: skip
        return words[type(message)]

    def _view(self, name):
        number = self.names.index(name)
        return ClusterView(number, 1, number, (number,))

    def _path(self, name):
        above = self.parents[name]
        return [name] if above is None else [name, *self._path(above)]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_the_search_is_as_written(path, golden):
    golden(Story(), path)


def test_a_wrong_story_is_noticed(replay):
    text = (FOLDER / "cmtp.txt").read_text(encoding="utf-8")
    assert replay(Story(), text)[1] == []
    assert replay(Story(), text.replace("D4 hangs below D5", "D4 hangs below D1", 1))[1] != []
