"""Restarted rendezvous points still know durable subscribers (docs/decisions/0015-exactly-once.md)."""

import json

import pytest
from rayvous.protocol.effects import Received, Send
from rayvous.protocol.messages.recovery import ClusterView, Holds, LetGo, Recovery
from rayvous.protocol.messages.views import MembershipView, ViewMember
from rayvous.recovery.membership.root_registry import RendezvousMachine
from rayvous.recovery.membership.view_registry import ViewRendezvous

RECOVERY = Recovery(detector="fixed")
MEMBERS = tuple(ViewMember(broker, broker, 1) for broker in range(2))
MAKERS = [
    lambda: RendezvousMachine(RECOVERY, ClusterView(0, 0, 1, (0, 1)), 1),
    lambda: ViewRendezvous(RECOVERY, MembershipView(1, 1, 1, MEMBERS)),
]


@pytest.mark.parametrize("make", MAKERS, ids=["root", "views"])
def test_who_holds_a_durable_subscriber_is_known_after_a_restart(make):
    """One broker holds it; a broker that held it in an earlier incarnation is told to let it go."""
    point = make()
    assert point.handle(Received(0, Holds((("s", 1),)))) == []
    again = make()
    again.restore(json.loads(json.dumps(point.state())))
    assert again.handle(Received(1, Holds((("s", 2),)))) == [Send(0, LetGo((("s", 2),)))]
    assert again.handle(Received(0, Holds((("s", 1),)))) == [Send(0, LetGo((("s", 2),)))]


@pytest.mark.parametrize("make", MAKERS, ids=["root", "views"])
def test_a_state_from_before_there_were_durable_subscribers_is_taken(make):
    state = make().state()
    del state["durable"]
    again = make()
    again.restore(state)
    assert again.state()["durable"] == {}
