"""What was published under a key is remembered, within bounds.

Reference: docs/decisions/0100-published-again-once.md; promise 9.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.recovery.replay.repeats import RECORD_BYTES, NumbersRequest, Published, Repeats

A, B = b"digest of a", b"digest of b"


def test_what_is_new_gets_the_next_numbers_and_what_is_known_takes_none() -> None:
    machine = Repeats()
    requests = [NumbersRequest("k1", A, 2), NumbersRequest(None, B, 3), NumbersRequest("k2", B, 1)]
    assert machine.claim("alice", "alice@1", 10, requests, 0.0) == [None, None, None]
    again = [NumbersRequest("k2", B, 1), NumbersRequest("k3", A, 1), NumbersRequest("k1", A, 2)]
    assert machine.claim("alice", "alice@2", 0, again, 1.0) == [
        Published(B, "alice@1", 16, 16, 0.0), None, Published(A, "alice@1", 11, 12, 0.0),
    ]  # fmt: skip
    machine.check()


def test_a_key_twice_in_one_call_is_claimed_once() -> None:
    machine = Repeats()
    first, second = machine.claim(
        "alice", "alice@1", 0, [NumbersRequest("k", A, 1), NumbersRequest("k", A, 1)], 0.0
    )
    assert first is None and second is not None and (second.first, second.accepted) == (1, False)


def test_what_is_settled_is_known_as_accepted_or_free_again_and_nobody_settles_what_another_has_claimed() -> (
    None
):
    machine = Repeats()
    machine.claim("alice", "alice@1", 0, [NumbersRequest("yes", A, 1), NumbersRequest("no", A, 1)], 0.0)
    machine.settle("alice", ["yes", "no"], "alice@2", accepted=False)
    machine.settle("alice", ["yes"], "alice@1", accepted=True)
    machine.settle("alice", ["no", "never claimed"], "alice@1", accepted=False)
    yes, no = machine.claim(
        "alice", "alice@2", 5, [NumbersRequest("yes", A, 1), NumbersRequest("no", A, 1)], 1.0
    )
    assert yes is not None and yes.accepted and no is None


def test_what_was_accepted_stays_when_somebody_says_later_that_it_was_not() -> None:
    machine = Repeats()
    machine.claim("alice", "alice@1", 0, [NumbersRequest("k", A, 1)], 0.0)
    machine.settle("alice", ["k"], "alice@1", accepted=True)
    machine.settle("alice", ["k"], "alice@1", accepted=False)
    machine.withdraw("alice", "alice@1", 0)
    [known] = machine.claim("alice", "alice@1", 1, [NumbersRequest("k", A, 1)], 1.0)
    assert known is not None and known.accepted


def test_what_is_withdrawn_is_free_and_what_has_lower_numbers_or_another_publisher_stays() -> None:
    machine = Repeats()
    machine.withdraw("alice", "alice@1", 0)
    machine.claim("alice", "alice@1", 0, [NumbersRequest("low", A, 1), NumbersRequest("high", A, 1)], 0.0)
    machine.claim("alice", "alice@2", 0, [NumbersRequest("none", A, 1), NumbersRequest("other", A, 1)], 0.0)
    machine.withdraw("alice", "alice@1", 1)
    machine.check()
    requests = [NumbersRequest("low", A, 1), NumbersRequest("high", A, 1), NumbersRequest("other", A, 1)]
    assert [known is None for known in machine.claim("alice", "alice@3", 0, requests, 1.0)] == [
        False, True, False,
    ]  # fmt: skip


def test_the_same_call_made_again_claims_the_same() -> None:
    machine = Repeats()
    requests = [NumbersRequest("a", A, 2), NumbersRequest("b", B, 1)]
    assert machine.claim("alice", "alice@1", 0, requests, 0.0) == [None, None]
    assert machine.claim("alice", "alice@1", 0, requests, 0.1) == [None, None]
    machine.check()
    assert machine.claim("alice", "alice@1", 3, requests, 0.2) != [None, None]


def test_owners_have_keys_of_their_own() -> None:
    machine = Repeats(keys_max=1)
    machine.claim("alice", "alice@1", 0, [NumbersRequest("k", A, 1)], 0.0)
    assert machine.claim("bob", "bob@1", 0, [NumbersRequest("k", A, 1)], 0.0) == [None]
    assert machine.claim("alice", "alice@1", 1, [NumbersRequest("k", A, 1)], 0.0) != [None]


def test_the_oldest_are_forgotten_by_number_by_bytes_and_by_time() -> None:
    keys = [NumbersRequest(f"k{number}", A, 1) for number in range(4)]
    size = RECORD_BYTES + 4 * len("k0") + len("alice@1")
    for machine in (Repeats(keys_max=3), Repeats(bytes_max=4 * size - 1)):
        machine.claim("alice", "alice@1", 0, keys, 0.0)
        machine.check()
        known = machine.claim("alice", "alice@1", 4, keys[1:] + keys[:1], 0.0)
        assert [each is None for each in known] == [False, False, False, True]
    machine = Repeats(seconds_max=10.0)
    machine.claim("alice", "alice@1", 0, keys[:1], 0.0)
    assert machine.claim("alice", "alice@1", 1, keys[:1], 10.0) != [None]
    assert machine.claim("alice", "alice@1", 1, keys[:1], 10.1) == [None]


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(0, 9), st.booleans(), st.integers(0, 3)), max_size=40
    )
)
def test_it_never_holds_more_than_its_bounds(steps: list[tuple[str, int, bool, int]]) -> None:
    machine, now = Repeats(4, 3 * RECORD_BYTES, 5.0), 0.0
    for owner, number, accepted, later in steps:
        now += later
        key = str(number) * (number + 1)
        machine.claim(owner, f"{owner}@1", 0, [NumbersRequest(key, A, 1)], now)
        if number % 2:
            machine.settle(owner, [key], f"{owner}@1", accepted=accepted)
        machine.check()
