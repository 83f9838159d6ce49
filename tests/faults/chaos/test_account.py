"""The trace of clients that die: what the dead had not acknowledged, or nobody had accepted, has not been."""

from rayvous.faults.chaos.account import Account
from rayvous.faults.checker.reliability import judge
from rayvous.faults.checker.trace import Notified


def written() -> Account:
    account = Account()
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
    account = written()
    account.published(2.0, "p", 3, [{"n": 3}])
    account.published(2.0, "q", 1, [{"n": 3}])
    account.died_with_broker(3.0, "p", 2)
    account.notified(3.5, "s", "q", 1)
    account.settled(4.0)
    verdict = judge(account)
    assert verdict.holds and verdict.lost == 1
    account.rolled_back("s", {"p": 2})
    assert not judge(account).holds
