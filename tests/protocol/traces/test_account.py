"""The trace of clients that crash, without what they had not acknowledged and what no broker had accepted."""

from rayvous.faults.checker.numbers import check_trace
from rayvous.faults.checker.reliability import judge
from rayvous.protocol.batch import batch_of
from rayvous.protocol.features import Features
from rayvous.protocol.messages.recovery import Recovery
from rayvous.protocol.traces.account import Account
from rayvous.protocol.traces.trace import ITSELF, Bounded, Died, Kept, LossTold, Notified, Trace


def written(account: Account | None = None) -> Account:
    account = Account() if account is None else account
    account.subscribed(0.0, "s", 1, "n >= 0")
    account.confirmed(0.0, "s", 1)
    account.published(1.0, "p", 1, [{"n": 1}, {"n": 2}])
    account.notified(1.5, "s", "p", 1)
    account.notified(1.6, "s", "p", 2)
    return account


def test_what_a_subscriber_had_not_acknowledged_when_it_died_it_has_not_had() -> None:
    account = written()
    account.rolled_back("s", {"p": 1})
    assert account.notifications() == [Notified(1.5, "s", "p", 1)]
    account.settled(3.0)
    assert not judge(account).holds, "the other one has to come again"


def test_what_no_broker_has_accepted_never_was_and_its_number_is_used_again() -> None:
    account = written()
    account.published(2.0, "p", 3, [{"n": 3}, {"n": 4}])
    account.never_accepted("p", 2)
    assert sorted(account.publications()) == [("p", 1), ("p", 2)]
    account.published(3.0, "p", 3, [{"n": 5}])
    account.notified(3.5, "s", "p", 3)
    account.settled(4.0)
    assert judge(account).holds


def test_what_only_dead_brokers_had_is_forgiven_and_nothing_else() -> None:
    account = written(Account(Features(Recovery())))
    account.published(2.0, "p", 3, [{"n": 3}])
    account.published(2.0, "q", 1, [{"n": 3}])
    account.accepted(2.1, 7, batch_of([{"n": 3}], publisher="p", first_sequence=3))
    account.died(2.5, "p")
    account.died_with_broker(3.0, "p", 2, [7])
    account.notified(3.5, "s", "q", 1)
    account.settled(4.0)
    verdict = judge(account)
    assert verdict.holds and verdict.losses == {"died": 1}
    lives = Trace(op for op in account if op != Died(3.0, 7, ""))
    assert not judge(lives).holds and judge(lives).unexplained == 1, "a broker that lives has it"
    account.rolled_back("s", {"p": 2})
    assert not judge(account).holds


def test_a_publisher_that_restarts_replaces_all_that_no_broker_has_accepted() -> None:
    """Also numbers above those that it uses at first: numbers rise in a trace."""
    account = written()
    account.published(2.0, "p", 3, [{"n": 3}, {"n": 4}, {"n": 5}])
    account.published(2.0, "q", 1, [{"n": 3}])
    account.accepted(2.1, 7, batch_of([{"n": 3}], publisher="p", first_sequence=3))
    account.died(2.5, "p")
    account.published(3.0, "p", 4, [{"n": 6}])
    assert sorted(account.publications()) == [("p", 1), ("p", 2), ("p", 3), ("p", 4), ("q", 1)]
    check_trace(account)
    account.published(3.5, "p", 5, [{"n": 7}])
    check_trace(account)
    assert account.publications()["p", 4].event == {"n": 6}


def test_what_only_a_dead_broker_may_have_had_is_lost_also_if_somebody_has_it() -> None:
    """The publisher died before it could say that the broker had accepted its event, which reached one subscriber."""
    account = written(Account(Features(Recovery(), True)))
    account.subscribed(1.0, "t", 1, "n = 3")
    account.confirmed(1.0, "t", 1)
    account.published(2.0, "p", 3, [{"n": 3}])
    account.notified(2.2, "t", "p", 3)
    account.died(2.5, "p")
    account.died_with_broker(3.0, "p", 2, [7])
    account.settled(4.0)
    assert judge(account).losses == {"died": 1} and judge(account).holds


def test_at_the_end_what_no_living_broker_had_of_a_dead_publisher_is_lost() -> None:
    account = written(Account(Features(Recovery(), True)))
    account.published(2.0, "p", 3, [{"n": 3}, {"n": 4}])
    account.accepted(2.1, 7, batch_of([{"n": 3}], publisher="p", first_sequence=3))
    account.accepted(2.1, 8, batch_of([{"n": 4}], publisher="p", first_sequence=4))
    account.died(2.5, "p")
    for broker in (7, 8):
        account.crashed(2.6, broker)  # it has a store
    account.dead_for_good(9.0, [7])
    account.settled(9.0)
    assert [op[1:] for op in account if isinstance(op, LossTold)] == [
        ("", "p", 1),
        ("", "p", 2),
        ("", "p", 3),
    ]
    verdict = judge(account)
    assert verdict.losses == {"died": 1} and verdict.violated == ["complete"] and verdict.missing == 1, (
        "#4 is with a broker that is alive"
    )


def test_what_a_broker_takes_to_keep_is_written_down_with_its_size() -> None:
    recovery = Recovery(retention_events_max=20, retention_bytes_max=300, retention_seconds=5.0)
    batch = batch_of([{"n": 1}, {"n": 2}], publisher="p")
    for stable in (False, True):
        account = Account(Features(recovery, stable))
        account.published(1.0, "p", 1, [{"n": 1}, {"n": 2}])
        account.accepted(1.1, 7, batch)
        account.accepted(1.2, 7, batch)
        kept = [op for op in account if isinstance(op, Kept)]
        assert account.operations[0] == Bounded(0.0, "", 20, 300, 5.0)
        assert [(op.broker, op.sequence) for op in kept[:4]] == [(ITSELF, 1), (ITSELF, 2), (7, 1), (7, 2)]
        assert sum(op.size_bytes for op in kept[:2]) == sum(op.size_bytes for op in kept[2:4]) == batch.nbytes
        again = [] if stable else [(7, 1), (7, 2)]
        assert [(op.broker, op.sequence) for op in kept[4:]] == again, "a store knows what it has"
        assert len({op.batch for op in kept}) == 2 + len(again) // 2
    assert not [op for op in written() if isinstance(op, Bounded | Kept)], "where nothing is kept"
