"""A broker of a tree opens a link with a round that began after everything behind it was installed.

Reference: promises 2 and 3; docs/decisions/0011-recovery.md, "Nothing lost, nothing twice".
"""

from typing import Any

import pytest
from rayvous.actors.broker import Broker
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Deliver, Received, Send, Ticked
from rayvous.protocol.ids import RoundNumber
from rayvous.protocol.messages.pubsub import Announce, Events, Installed, Register, Resume
from rayvous.protocol.messages.recovery import ClusterView, Recovery, TreeBeat
from rayvous.protocol.messages.rounds import AskRound, Round
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

    def installed(self) -> None:
        self.broker.handle(Received(0, Installed(self.token, KNOWN)))

    def asks(self) -> list[Any]:
        out = self.broker.handle(Ticked(1.25))
        return [each.message for each in out if isinstance(each, Send) and isinstance(each.message, AskRound)]

    def delivers(self, number: RoundNumber) -> bool:
        """Return whether an event of a round, sent at its beginning, is delivered."""
        self.broker.handle(Received(0, Round(number, 60.0)))
        batch = batch_of([{"x": 1}], publisher="p", first_sequence=number.number)
        out = self.broker.handle(Received(0, Events(batch, number, True, doubt_seconds=60.0)))
        return any(isinstance(each, Deliver) for each in out)


def test_a_round_that_may_have_begun_before_all_was_installed_does_not_open_the_link() -> None:
    """Some of its events may have passed before the filter was installed, so they were not sent here."""
    child = Child()
    child.installed()
    (asked,) = child.asks()
    assert asked.after == KNOWN, "the next one is to be higher"
    assert not child.delivers(RoundNumber(1, 4)) and not child.delivers(KNOWN)
    assert child.broker.healing is not None and child.broker.healing.rounds.closed_links() == ["s"]
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
