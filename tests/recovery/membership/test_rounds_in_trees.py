"""A broker of a tree opens a link with a round that began after everything behind it was installed.

Reference: promises 2 and 3; docs/decisions/0011-recovery.md, "Nothing lost, nothing twice".
"""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.broker import Broker
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Deliver, Received, Send, TickAt, Ticked
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Announce, Cancel, Events, Installed, Register, Resume
from rayvous.protocol.messages.recovery import ClusterView, Recovery, TreeBeat
from rayvous.protocol.messages.rounds import AskRound, Round
from rayvous.recovery.membership.tree import HealingBroker
from rayvous.recovery.membership.tree_rounds import GAP_MIN
from rayvous.routing.language.questions import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

KNOWN = RoundNumber(1, 5)
"""The highest round that the root knew of when all was installed."""


class Child:
    """A designated broker below the root, to which a subscriber has moved."""

    def __init__(self) -> None:
        self.broker = Broker(ClusterTree(2, 1).positions()[1], recovery=Recovery())
        self.broker.handle(Ticked(0.0))
        self.broker.handle(Ticked(1.0))
        self.broker.handle(Received(0, TreeBeat(ClusterView(0, 0, 0, (0,)), (0,), 1)))
        out = self.broker.handle(Received("s", Resume({"p": 2}, 1.0)))
        out += self.broker.handle(Received("s", Register(1, to_filter("x > 0"))))
        (self.token,) = [
            each.message.token
            for each in out
            if isinstance(each, Send) and isinstance(each.message, Announce)
        ]

        self.out: list[Any] = []

    def installed(self) -> None:
        self.out += self.broker.handle(Received(0, Installed(self.token, KNOWN)))

    def asks(self) -> list[Any]:
        """Return the requests for a round since the last call, the next tick included."""
        out, self.out = self.out + self.broker.handle(Ticked(1.25)), []
        return [each.message for each in out if isinstance(each, Send) and isinstance(each.message, AskRound)]

    def delivers(self, number: RoundNumber) -> bool:
        """Return whether an event of a round, sent at its beginning, is delivered."""
        self.broker.handle(Received(0, Round(number, 60.0)))
        batch = batch_of([{"x": 1}], publisher="p", first_sequence=number.number)
        out = self.broker.handle(Received(0, Events(batch, number, True, repair_window_seconds=60.0)))
        return any(isinstance(each, Deliver) for each in out)


def test_a_round_that_may_have_begun_before_all_was_installed_does_not_open_the_link() -> None:
    """Some of its events may have passed before the filter was installed, so they were not sent here."""
    child = Child()
    child.installed()
    (asked,) = child.asks()
    assert asked.after == KNOWN, "the next one is to be higher"
    assert not child.delivers(RoundNumber(1, 4)) and not child.delivers(KNOWN)
    assert child.broker.layer(HealingBroker).rounds.closed_links() == ["s"]
    assert child.delivers(RoundNumber(1, 6))


@pytest.mark.parametrize("installed", [False, True])
def test_a_round_that_comes_before_all_is_installed_does_not_open_the_link_and_another_is_asked_for(
    installed: bool,
) -> None:
    child = Child()
    assert not child.delivers(RoundNumber(1, 3))
    if installed:
        child.installed()
    assert bool(child.asks()) == installed


def test_a_round_is_asked_for_with_the_message_after_which_it_is_of_use() -> None:
    """Not with the next tick, which may be a quarter of a heartbeat away. Reference: decision 0139."""
    child = Child()
    child.installed()
    assert [each for each in child.out if isinstance(each, Send) and isinstance(each.message, AskRound)]
    assert len(child.asks()) == 1, "the tick asks for no other"


def test_between_the_messages_of_a_client_no_round_is_asked_for_but_soon_after_them() -> None:
    """A client that moves sends each subscription by itself, and a round is of use for all of them."""
    root = Root()
    out = root.broker.handle(Received("s", Resume({"p": 2}, 1.0)))
    out += root.broker.handle(Received("s", Register(1, to_filter("x > 0"))))
    out += root.broker.handle(Received("s", Register(2, to_filter("y > 0"))))
    assert not rounds(out)
    (soon,) = (each.at for each in out if isinstance(each, TickAt))
    assert 1.0 < soon < 1.25 and rounds(root.broker.handle(Ticked(soon)))


@settings(max_examples=40)
@given(st.lists(st.sampled_from(["round", Register, Cancel]), max_size=8), st.integers(1, 4))
def test_rounds_between_the_messages_of_a_client_pass_it_by_until_it_has_registered_all_that_it_announced(
    between: list[Any], count: int
) -> None:
    """Marks only rise, so of a round between them what is registered later would lack what the round sent again."""
    root = Root()
    links = root.broker.layer(HealingBroker).rounds
    waiting = list(range(1, count + 1))
    comes = Resume({}, 10.0, ages_seconds=dict.fromkeys(waiting, 9.0))
    root.broker.handle(Received("s", comes))
    now = 1.0
    for each in [*between, *[Register] * count, "round"]:
        if each != "round" and waiting:
            number = waiting.pop(0)
            message = Cancel(number) if each is Cancel else Register(number, to_filter("x > 0"))
            root.broker.handle(Received("s", message))
        now += 2.0
        out = [*root.broker.handle(Ticked(now)), *root.ask()]
        assert rounds(out), "one that it wants, or another one"
        assert links.passes("s", links.current) is not bool(waiting)


class Root:
    """The root of two clusters, after its first tick; it takes its child for alive."""

    def __init__(self) -> None:
        self.broker = Broker(ClusterTree(2, 1).positions()[0], recovery=Recovery(suspect_after_seconds=1e4))
        self.broker.handle(Ticked(0.0))
        self.broker.handle(Ticked(1.0))

    def ask(self) -> list[Any]:
        return self.broker.handle(Received(1, AskRound(RoundNumber(0, 0), 20.0)))


def rounds(out: list[Any]) -> list[Any]:
    return [each.message for each in out if isinstance(each, Send) and isinstance(each.message, Round)]


def gaps_of(root: Root, now: float, count: int) -> list[float]:
    """Return the gaps between rounds while a round is always wanted; the first one begins now."""
    root.broker.handle(Ticked(now))
    assert rounds(root.ask()), "at once"
    gaps = []
    for _ in range(count):
        (tick,) = (each for each in root.ask() if isinstance(each, TickAt))
        assert not root.ask(), "it has asked for the time"
        assert tick.at > now and not rounds(root.broker.handle(Ticked((now + tick.at) / 2)))
        gaps.append(tick.at - now)
        now = tick.at
        assert rounds(root.broker.handle(Ticked(now)))
    return gaps


def test_the_gaps_between_rounds_double_up_to_a_heartbeat_and_shrink_while_none_is_wanted() -> None:
    root = Root()
    doubling = [GAP_MIN * 2**turn for turn in range(5)]
    assert gaps_of(root, 1.0, 7) == pytest.approx([*doubling, 1.0, 1.0])
    assert sum(doubling) < 1.0, "the first six within a heartbeat"
    now = 1.0 + sum(doubling) + 2.0
    assert gaps_of(root, now + 1.0 + 2.0, 2) == pytest.approx([0.5, 1.0]), "half for each heartbeat of quiet"
    assert gaps_of(root, now + 1000.0, 2) == pytest.approx(doubling[:2]), "as at the start"
