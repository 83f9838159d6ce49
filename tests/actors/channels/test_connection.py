"""The machine of a connection: greeting, calls, and whatever a bad peer may send."""

import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rayvous.actors.channels.connection import (
    _HEAD,
    GREETING_BYTES_MAX,
    VERSION,
    Answered,
    Called,
    Connection,
    Continued,
    Kind,
    Opened,
    Parted,
    Refused,
    Self,
    frame,
)

NETWORK, SECRET = b"n" * 16, b"s" * 32
ALICE, BOB = Self(NETWORK, b"a" * 16, SECRET), Self(NETWORK, b"b" * 16, SECRET)
LONGEST = 10_000


def end(me: Self, opens: bool, seed: int = 0) -> Connection[str]:
    nonce = random.Random(f"{me.name!r} {seed}").randbytes(32)
    return Connection(me, opens, nonce, LONGEST)


def flushed(one: Connection[str]) -> bytes:
    data = b"".join(one.out)
    one.out.clear()
    return data


def greeted(one: Connection[str], other: Connection[str]) -> tuple[list[object], list[object]]:
    """Let two ends greet; return what each was told."""
    told: tuple[list[object], list[object]] = ([], [])
    for _ in range(3):
        told[1].extend(other.take(flushed(one)))
        told[0].extend(one.take(flushed(other)))
    return told


def pair() -> tuple[Connection[str], Connection[str]]:
    alice, bob = end(ALICE, True), end(BOB, False)
    assert greeted(alice, bob) == ([Opened(BOB.name)], [Opened(ALICE.name)])
    return alice, bob


def why(events: list[object]) -> str:
    assert events and isinstance(events[-1], Refused), events
    return events[-1].why


def test_each_end_calls_the_other_and_answers_come_in_any_order() -> None:
    alice, bob = pair()
    calls = bob.take(alice.call(b"one", "first") + alice.call(b"two", "second"))
    assert calls == [Called(1, b"one"), Called(2, b"two")]
    assert alice.take(bob.call(b"back", "third")) == [Called(1, b"back")]
    assert alice.take(bob.answer(2, b"2")) == [Answered("second", b"2", False)]
    assert alice.take(bob.answer(1, b"1", failed=True)) == [Answered("first", b"1", True)]
    assert bob.take(alice.answer(1, b"3")) == [Answered("third", b"3", False)]
    assert not alice.waiting and not alice.serving and not bob.serving
    assert bob.take(alice.farewell()) == [Parted()]


@given(st.lists(st.integers(1, 40), max_size=60), st.lists(st.binary(max_size=90), min_size=1, max_size=8))
def test_how_bytes_are_cut_on_their_way_makes_no_difference(cuts: list[int], contents: list[bytes]) -> None:
    alice, bob = end(ALICE, True), end(BOB, False)
    bob.take(flushed(alice))
    alice.take(flushed(bob))
    data = flushed(alice) + b"".join(alice.call(content, "") for content in contents)
    events: list[object] = []
    for cut in cuts:
        events += bob.take(data[:cut])
        data = data[cut:]
    events += bob.take(data)
    assert events == [Opened(ALICE.name), *(Called(n, each) for n, each in enumerate(contents, 1))]


@pytest.mark.parametrize(
    ("stranger", "said"),
    [
        (BOB._replace(secret=b"x" * 32), "does not have the secret"),
        (BOB._replace(network=b"x" * 16), "is of another network"),
    ],
)
def test_a_stranger_is_refused_by_both_ends_and_told_why(stranger: Self, said: str) -> None:
    for opens in (True, False):
        one, other = end(ALICE, opens), end(stranger, not opens)
        told, _ = greeted(one, other)
        assert said in why(told) and one.peer is None
        assert "the other end refuses" in why(end(BOB, True).take(one.refusal(why(told))))


def test_another_version_is_named() -> None:
    alice, bob = end(ALICE, True), end(BOB, False)
    hello = bytearray(flushed(alice))
    hello[_HEAD.size + 8 : _HEAD.size + 10] = (9).to_bytes(2, "big")
    assert f"speaks version 9 of channels, this process {VERSION}" in why(bob.take(bytes(hello)))
    longer = frame(Kind.HELLO, 0, bytes(hello[_HEAD.size :]) + b"more")
    assert "speaks version 9" in why(end(BOB, False).take(longer)), "whatever its hello looks like"


def test_a_recorded_greeting_is_worth_nothing_on_another_connection() -> None:
    alice, bob = end(ALICE, True), end(BOB, False)
    hello = flushed(alice)
    bob.take(hello)
    alice.take(flushed(bob))
    proof = flushed(alice)
    assert bob.take(proof) == [Opened(ALICE.name)]
    later = end(BOB, False, seed=1)
    assert "does not have the secret" in why(later.take(hello + proof))


def test_what_an_end_says_is_worth_nothing_when_it_is_sent_back_to_it() -> None:
    alice = end(ALICE, True)
    assert "sends back what it was sent" in why(alice.take(flushed(alice)))


def test_two_connections_of_one_process_do_not_prove_each_other() -> None:
    """Somebody without the secret opens both, and passes to each what the other one says."""
    one, other = end(BOB, False), end(BOB, False, seed=1)
    told, back = greeted(one, other)
    assert "does not have the secret" in why(told) and "does not have the secret" in why(back)
    assert one.peer is other.peer is None


def test_somebody_between_two_ends_who_shows_each_a_certificate_of_his_own_is_found() -> None:
    alice, bob = end(ALICE, True), end(BOB, False)
    alice.certificate, bob.certificate = b"of the one between", b"of bob"
    told, back = greeted(alice, bob)
    assert "does not have the secret" in why(told) and "does not have the secret" in why(back)
    alice, bob = end(ALICE, True), end(BOB, False)
    alice.certificate = bob.certificate = b"of bob"
    assert greeted(alice, bob) == ([Opened(BOB.name)], [Opened(ALICE.name)])


def in_greeting(make: Callable[[Connection[str]], bytes]) -> str:
    bob, alice = end(BOB, False), end(ALICE, True)
    data = make(alice)
    return why(bob.take(data))


def test_before_the_proof_nothing_else_is_taken() -> None:
    assert "kind 4 in the greeting" in in_greeting(lambda alice: alice.call(b"x", ""))
    assert "kind 4 in the greeting" in in_greeting(lambda alice: flushed(alice) + alice.call(b"x", ""))
    assert "kind 1 in the greeting" in in_greeting(lambda alice: flushed(alice) + end(ALICE, True).out[0])
    assert "kind 2 in the greeting" in in_greeting(lambda _: frame(Kind.PROOF, 0, b"p" * 32))
    assert "does not speak this protocol" in in_greeting(lambda _: frame(Kind.HELLO, 0, b"hello"))
    assert "a frame of" in in_greeting(lambda _: _HEAD.pack(GREETING_BYTES_MAX + 1, Kind.HELLO, 0))
    assert "a frame of" in in_greeting(lambda _: b"GET / HTTP/1.1\r\nHost: here\r\n\r\n")


def test_a_proven_end_that_breaks_a_rule_is_refused_too() -> None:
    for make, said in (
        (lambda one: _HEAD.pack(LONGEST + 1, Kind.CALL, 1), "a frame of 10,001 bytes"),
        (lambda one: one.answer(7, b""), "an answer to call 7"),
        (lambda one: frame(Kind.CALL, 5, b""), "call 5 follows call 0"),
        (lambda one: one.call(b"", "") + frame(Kind.CALL, 1, b""), "call 1 follows call 1"),
        (lambda one: frame(Kind.HELLO, 0, b""), "kind 1 after the greeting"),
        (lambda one: frame(77, 0, b""), "kind 77 after the greeting"),  # type: ignore[arg-type]
    ):
        alice, bob = pair()
        assert said in why(bob.take(make(alice)))
        assert bob.take(alice.call(b"more", "")) == [], "nothing is taken in after that"


def test_what_came_before_a_fault_counts() -> None:
    alice, bob = pair()
    bob.take(alice.call(b"q", "who"))
    events = alice.take(bob.answer(1, b"a") + bob.answer(1, b"a"))
    assert events[0] == Answered("who", b"a", False) and "which is not open" in why(events)


@given(st.binary(max_size=2_000), st.integers(0, 3))
def test_garbage_is_refused_or_waits_for_more_in_little_memory(garbage: bytes, after: int) -> None:
    """After nothing, a hello, half a greeting, and a whole one."""
    alice, bob = end(ALICE, True), end(BOB, False)
    if after:
        bob.take(flushed(alice))
        alice.take(flushed(bob))
    if after > 1:
        bob.take(flushed(alice)[: 7 if after == 2 else None])
    called = [event for event in bob.take(garbage) if isinstance(event, Called)]
    assert after == 3 or (bob.peer is None and not called)
    assert len(bob._held) <= len(garbage) + GREETING_BYTES_MAX


def test_a_silent_or_slow_end_holds_no_more_than_a_greeting() -> None:
    bob = end(BOB, False)
    data = flushed(end(ALICE, True))
    for at in range(len(data) - 1):
        assert bob.take(data[at : at + 1]) == []
    assert len(bob._held) < GREETING_BYTES_MAX


def test_parts_come_before_the_answer_and_only_to_a_call_that_takes_them() -> None:
    alice, bob = end(ALICE, True), end(BOB, False)
    greeted(alice, bob)
    bob.take(alice.call(b"ask", "streamed", parts=True) + alice.call(b"ask", "plain"))
    assert alice.take(bob.part(1, b"one") + bob.part(1, b"two") + bob.answer(1, b"last")) == [
        Continued("streamed", b"one"),
        Continued("streamed", b"two"),
        Answered("streamed", b"last", False),
    ]
    assert list(alice.waiting) == [2]
    assert "a part of an answer to call 1, which takes none" in why(alice.take(bob.part(1, b"late")))
    alice, bob = end(ALICE, True), end(BOB, False)
    greeted(alice, bob)
    bob.take(alice.call(b"ask", "plain"))
    assert "a part of an answer to call 1, which takes none" in why(alice.take(bob.part(1, b"one")))
