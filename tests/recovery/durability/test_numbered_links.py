"""The crash/recover machine: one short test for each rule of algorithms 1 to 4, and for its limits.

Reference: paper 4, section 3; promises 7 and 9.
"""

import numpy as np
import pytest
from rayvous.broker import Broker
from rayvous.protocol.batch import batch_of
from rayvous.protocol.effects import Acknowledge, Confirm, Deliver, Effect, Persist, Received, Send, Ticked
from rayvous.protocol.errors import StorageFailed
from rayvous.protocol.ids import Link
from rayvous.protocol.messages.pubsub import (
    Ack,
    Announce,
    Back,
    Events,
    Installed,
    Message,
    Numbered,
    Register,
)
from rayvous.protocol.stability import Stability
from rayvous.recovery.durability.numbered_links import CrashRecover
from rayvous.recovery.durability.stores import MemoryStore
from rayvous.routing.filters.filter import to_filter
from rayvous.routing.topologies.cluster_trees import ClusterTree

ROOT, MIDDLE, LEAF = 0, 1, 2
ROW = ClusterTree(3, 1, degree=1).positions()
SETTINGS = Stability(
    retransmit_seconds=1.0, window_messages=2, queue_events_max=3, notifications_max=4, inputs_max=3
)


class Rig:
    """One broker of a row of three, by default the middle one, and its store."""

    def __init__(self, place: int = MIDDLE) -> None:
        self.store = MemoryStore()
        self.place = place
        self.start()
        self.tick(0.0)

    def start(self) -> None:
        self.broker = Broker(ROW[self.place], store=self.store, stability=SETTINGS)

    def give(self, source: Link, message: Message) -> list[Effect]:
        return self.keep(self.broker.handle(Received(source, message)))

    def tick(self, now: float) -> list[Effect]:
        return self.keep(self.broker.handle(Ticked(now)))

    def keep(self, effects: list[Effect]) -> list[Effect]:
        """Commit the `Persist` effects, and return the others."""
        for effect in effects:
            if isinstance(effect, Persist):
                self.store.commit(effect.writes)
        return [effect for effect in effects if not isinstance(effect, Persist)]


def event(number: int, before: int | None = None, x: int = 1) -> Numbered:
    batch = batch_of([{"x": x}], publisher="p", first_sequence=number)
    return Numbered(number, number - 1 if before is None else before, Events(batch))


def numbers(effects: list[Effect], to: Link) -> list[int]:
    return [
        e.message.number
        for e in effects
        if isinstance(e, Send) and e.to == to and isinstance(e.message, Numbered)
    ]


def test_the_next_in_order_is_made_stable_then_acknowledged_then_sent_on() -> None:
    rig = Rig()
    effects = rig.broker.handle(Received(LEAF, event(1)))
    assert [type(effect) for effect in effects] == [Persist, Send, Send]
    assert effects[1:] == [Send(LEAF, Ack(1)), Send(ROOT, Numbered(1, 0, effects[2].message.message))]
    assert {write.table for write in effects[0].writes} == {"heard", "out"}


def test_a_duplicate_is_acknowledged_again_and_a_gap_is_left_alone() -> None:
    rig = Rig()
    assert rig.give(LEAF, event(2)) == []
    rig.give(LEAF, event(1))
    assert rig.give(LEAF, event(1)) == [Send(LEAF, Ack(1))]
    assert rig.give(LEAF, event(3)) == []
    assert numbers(rig.give(LEAF, event(2)), ROOT) == [2]


def test_what_is_not_acknowledged_is_sent_again_ever_more_rarely() -> None:
    rig = Rig()
    rig.give(LEAF, event(1))
    sent = [now for now in range(1, 12) if numbers(rig.tick(float(now)), ROOT)]
    assert sent == [2, 4, 8]  # 1, 2 and 4 seconds apart, from the tick that saw it first
    rig.give(ROOT, Ack(1))
    assert not any(rig.tick(float(now)) for now in range(12, 30))


def test_the_window_holds_back_and_acknowledgements_let_go() -> None:
    rig = Rig()
    sent = [numbers(rig.give(LEAF, event(n)), ROOT) for n in (1, 2, 3)]
    assert sent == [[1], [2], []]
    assert numbers(rig.give(ROOT, Ack(1)), ROOT) == [3]


def test_a_full_queue_takes_nothing_more_but_from_its_own_end() -> None:
    rig = Rig()
    rig.give(LEAF, Numbered(1, 0, Announce(to_filter("x > 5"), 1)))
    for n in range(2, 8):
        rig.give(LEAF, event(n))
    assert (
        rig.broker.describe()["unacknowledged"] == 4
    )  # towards the root; one above the limit, as the rule says
    assert rig.broker.describe()["refused"] == 1  # the later messages were gaps
    assert numbers(rig.give(ROOT, event(1, x=9)), LEAF) == [1]
    assert rig.give("pub", event(1)) == []
    rig.give(ROOT, Ack(4))
    assert Acknowledge("pub", "events", 1) in rig.give("pub", event(1))


def test_back_is_answered_with_all_that_is_missing_and_with_what_was_heard() -> None:
    rig = Rig()
    rig.give(ROOT, Numbered(1, 0, Installed(7)))
    for n in (1, 2):
        rig.give(LEAF, event(n))
    effects = rig.give(ROOT, Back(1))
    assert numbers(effects, ROOT) == [2] and Send(ROOT, Ack(1)) in effects


def test_a_new_life_sends_again_says_back_and_goes_on_with_its_numbers() -> None:
    rig = Rig()
    rig.give(LEAF, Numbered(1, 0, Announce(to_filter("x > 5"), 1)))
    for n in (2, 3):
        rig.give(LEAF, event(n))
    rig.give(ROOT, Ack(1))
    before = rig.broker.router.snapshot()
    rig.start()
    assert rig.broker.router.snapshot() == before
    effects = rig.tick(0.0)
    assert numbers(effects, ROOT) == [2, 3] or numbers(effects, ROOT) == [
        1,
        2,
    ]  # the deletion may wait for a tick
    assert Send(ROOT, Back(0)) in effects and Send(LEAF, Back(3)) in effects
    assert rig.give(LEAF, event(3)) == [Send(LEAF, Ack(3))]
    rig.give(ROOT, Ack(3))
    assert numbers(rig.give(LEAF, event(4)), ROOT) == [4]


@pytest.mark.parametrize("made_stable", [True, False], ids=["deleted", "not yet deleted"])
@pytest.mark.parametrize("acknowledged", [1, 2, 3])
def test_a_new_life_goes_on_with_its_numbers_when_all_is_acknowledged(acknowledged, made_stable) -> None:
    rig = Rig()
    for number in (1, 2, 3):
        rig.give(LEAF, event(number))
        rig.give(ROOT, Ack(min(number, acknowledged)))
    if made_stable:
        rig.tick(1.0)
        assert len(list(rig.store.rows("out"))) == 3 - acknowledged
    rig.start()
    rig.tick(2.0)
    rig.give(ROOT, Ack(3))
    assert numbers(rig.give(LEAF, event(4)), ROOT) == [4]


def test_the_state_takes_the_place_of_many_inputs_and_is_the_same() -> None:
    rig, twin = Rig(), Broker(ROW[MIDDLE])
    for n in range(1, 12):
        message = Announce(to_filter(f"x > {n % 5} AND y = {n}"), n)
        rig.give(LEAF, Numbered(n, n - 1, message))
        rig.give(ROOT, Ack(n))
        twin.handle(Received(LEAF, message))
        rig.tick(1.0)
        rig.start()
        rig.tick(0.0)
        assert rig.broker.router.snapshot() == twin.router.snapshot()
        rig.broker.check()
    assert 0 < len(list(rig.store.rows("router"))) <= 12


def test_a_subscriber_gets_what_it_lacks_when_it_says_back_and_nothing_before() -> None:
    rig = Rig()
    assert rig.give("alice", Back(0)) == []
    rig.give("alice", Numbered(1, 0, Register(1, to_filter("x >= 0"))))
    assert rig.give(ROOT, Numbered(1, 0, Installed(1)))[-1] == Confirm("alice", 1, 1)
    first = rig.give(LEAF, event(1))[-2]
    assert isinstance(first, Deliver) and first.number == 2
    rig.give("alice", Ack(2))
    rig.start()
    rig.tick(0.0)
    assert not any(isinstance(effect, Deliver) for effect in rig.give(LEAF, event(2)))
    lacking = rig.give("alice", Back(2))
    assert [effect.number for effect in lacking] == [3]
    assert isinstance(lacking[0], Deliver) and lacking[0].batch.identity(int(lacking[0].rows[0])) == ("p", 2)
    assert np.array_equal(lacking[0].starts, [0, 1])


def test_past_the_limit_the_oldest_notifications_are_shed_and_counted() -> None:
    rig = Rig(ROOT)
    rig.give("alice", Back(0))
    rig.give("alice", Numbered(1, 0, Register(1, to_filter("x >= 0"))))
    for n in range(1, 8):
        rig.give("pub", event(n))
    assert (
        rig.broker.describe()["deliveries_unacknowledged"] == 4
        and rig.broker.describe()["shed_by_limit"] == 3
    )
    rig.start()
    kept = [e.batch.identity(0)[1] for e in rig.give("alice", Back(1)) if isinstance(e, Deliver)]
    assert kept == [4, 5, 6, 7] and rig.broker.describe()["shed_by_limit"] == 3


def test_an_old_copy_of_the_store_is_noticed() -> None:
    rig = Rig()
    with pytest.raises(StorageFailed, match="old copy or was deleted"):
        rig.give(ROOT, Ack(5))


def test_a_store_of_another_place_is_refused() -> None:
    rig = Rig()
    with pytest.raises(StorageFailed, match="written by broker 1"):
        Broker(ROW[LEAF], store=rig.store)


def test_what_makes_no_sense_is_counted_and_changes_nothing() -> None:
    rig = Rig()
    for source, message in ((9, event(1)), (9, Ack(1)), (LEAF, Installed(1)), (LEAF, Ack(1, group=True))):
        assert rig.give(source, message) == []
    assert rig.broker.layer(CrashRecover).strays == 4
