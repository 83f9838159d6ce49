"""Routes are rebuilt without a gap when a broker's place changes (paper 1, 4.2.2)."""

from dataclasses import replace

from rayvous.protocol.configs import Position
from rayvous.protocol.effects import Confirm, Multicast, Received, Send
from rayvous.protocol.ids import GROUP
from rayvous.protocol.messages.pubsub import Announce, Installed, Register, Withdraw
from rayvous.routing.language.questions import to_filter
from rayvous.routing.schemes.hybrid import Hybrid

D = Position(2, 1, "D1", (1, 2), 2, parent=9, children=(5,))
N = replace(D, broker=1, label="N1.1")
WIDE, NARROW, OTHER = to_filter("x > 0"), to_filter("x > 5"), to_filter("y = 1")


def sent(effects, kind):
    return [
        effect.message for effect in effects if isinstance(effect, Send) and isinstance(effect.message, kind)
    ]


def test_a_set_is_taken_in_new_ones_first_and_what_is_gone_after():
    """Announce before withdrawing, so that nothing wanted is ever unannounced. Reference: paper 1, 4.2.2."""
    router = Hybrid(D)
    router.adopt(5, 5, [(WIDE, 1)])
    effects = router.adopt(5, 5, [(NARROW, 2), (OTHER, 3)])
    kinds = [(type(message).__name__, message.filter) for message in sent(effects, Announce | Withdraw)]
    assert kinds == [("Announce", OTHER), ("Announce", NARROW), ("Withdraw", WIDE)]
    router.check()


def test_taking_in_the_same_set_twice_changes_nothing():
    router = Hybrid(D)
    router.adopt(5, 5, [(WIDE, 1), (OTHER, 2)])
    assert sent(router.adopt(5, 5, [(WIDE, 7), (OTHER, 8)]), Announce | Withdraw) == []
    assert sorted(map(str, router.copy(5, 5))) == sorted(map(str, (WIDE, OTHER)))


def test_without_a_way_up_nothing_is_sent_and_the_next_parent_gets_all():
    router = Hybrid(D)
    router.handle(Received("alice", Register(1, NARROW)))
    router.move(replace(D, parent=None), attached=False)
    router.forget_parent()
    assert router.handle(Received("alice", Register(2, OTHER))) == []
    assert [item for item, _ in router.wants()] == [NARROW, OTHER]
    assert not router.settled()
    tokens = dict(router.wants())
    router.move(replace(D, parent=7), attached=True)
    assert router.handle(Received(7, Installed(tokens[NARROW]))) == [Confirm("alice", 1)]
    assert router.handle(Received(7, Installed(tokens[OTHER]))) == [Confirm("alice", 2)]
    assert router.settled()


def test_an_answer_to_the_old_parent_s_token_counts_for_nothing():
    router = Hybrid(D)
    (announced,) = sent(router.handle(Received("alice", Register(1, WIDE))), Announce)
    router.forget_parent()
    assert router.handle(Received(9, Installed(announced.token))) == []
    assert not router.settled()


def test_who_becomes_root_has_everything_installed_at_once():
    router = Hybrid(D)
    router.handle(Received("alice", Register(1, WIDE)))
    router.adopt(5, 5, [(OTHER, 4)])
    router.move(replace(D, parent=None), attached=True)
    effects = router.forget_parent(top=True)
    assert effects == [Confirm("alice", 1), Send(5, Installed(4))]
    assert router.settled()


def test_dropping_a_link_lets_go_what_only_it_wanted():
    router = Hybrid(D)
    router.adopt(5, 5, [(WIDE, 1), (OTHER, 2)])
    router.adopt(GROUP, 1, [(OTHER, 3)])
    assert [message.filter for message in sent(router.drop(5, 5), Withdraw)] == [WIDE]
    assert router.copy(5, 5) == () and router.copy(GROUP, 1) == (OTHER,)
    assert router.members_with_filters() == [1]


def test_a_normal_broker_s_way_up_is_its_group():
    router = Hybrid(N)
    effects = router.handle(Received("alice", Register(1, WIDE)))
    assert [type(effect) for effect in effects] == [Multicast]
    assert router.subscribers() == ["alice"]
