"""The value machines of a gateway: rights, positions, queues."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rayvous.gateway.access import Access
from rayvous.gateway.deliveries import json_of
from rayvous.gateway.positions import PUBLISHERS_MAX, Seal, Window
from rayvous.gateway.queues import DeliveryQueue
from rayvous.protocol.errors import AccessDenied, InputError
from rayvous.protocol.gateways import (
    AccessConfig,
    GatewayConfig,
    GatewayLimits,
    Principal,
    address_of,
    digest_of,
)
from rayvous.protocol.values import Timestamp
from rayvous.routing.filters.filter import to_filter

# Rights: an admitted filter matches only events that the right matches.

SELECTORS = st.recursive(
    st.builds(
        "{} {} {}".format, st.sampled_from("abc"), st.sampled_from(["=", "<>", "<", ">="]), st.integers(0, 3)
    )
    | st.sampled_from(["TRUE", "FALSE", "a IS NULL", "b BETWEEN 1 AND 2", "c IN (0, 3)"]),
    lambda inner: (
        st.builds("({} {} {})".format, inner, st.sampled_from(["AND", "OR"]), inner)
        | st.builds("NOT ({})".format, inner)
    ),
    max_leaves=5,
)
EVENTS = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(0, 3)), max_size=20)


def rights_of(publish="FALSE", subscribe="FALSE"):
    config = AccessConfig({"me": Principal((digest_of("t"),), publish, subscribe)})
    return Access(config).rights_of("t")


@settings(max_examples=25)
@given(SELECTORS, SELECTORS, EVENTS, st.booleans())
def test_what_is_admitted_is_within_the_right(right, wanted, events, narrow):
    rights = rights_of(subscribe=right)
    try:
        admitted = rights.admit(to_filter(wanted), narrow=narrow)
    except AccessDenied as refused:
        assert refused.right == "subscribe"
        return
    for event in events:
        allowed, asked = to_filter(right).matches(event), to_filter(wanted).matches(event)
        assert admitted.matches(event) <= allowed
        # Nothing within the right is left out.
        assert admitted.matches(event) == (asked and allowed if narrow else asked)


def test_limits_and_addresses_are_checked():
    for wrong in (
        lambda: GatewayLimits(queue_events_max=0).validate(),
        lambda: GatewayLimits(stall_seconds=-1).validate(),
        lambda: GatewayLimits(slow="wait").validate(),
        lambda: GatewayConfig(certificate="cert.pem").validate(),
        lambda: GatewayConfig(http="localhost").validate(),
        lambda: address_of("x", "localhost:99999"),
        lambda: AccessConfig().validate(),
        lambda: AccessConfig({"me": Principal()}).validate(),
        lambda: AccessConfig({"me": Principal(("x",))}).validate(),
        lambda: Principal((digest_of("t"),), subscribe=" ").validate(),
        lambda: AccessConfig({"a/b": Principal((digest_of("t"),))}).validate(),
        lambda: AccessConfig(
            {"a": Principal((digest_of("t"),)), "b": Principal((digest_of("t"),))}
        ).validate(),
        lambda: AccessConfig(anonymous=Principal((digest_of("t"),))).validate(),
        lambda: Access(AccessConfig(anonymous=Principal(publish="a ="))),
    ):
        with pytest.raises(InputError):
            wrong()
    assert address_of("x", "[::1]:80") == ("::1", 80)


# Ids: they encode the position of a stream, and are valid for this stream only.

NAMES = st.text("a:,;%/@ \n\u00e9\u4e2d\U0001f4a9", min_size=1, max_size=6)


def test_an_id_has_room_for_its_own_publisher_whatever_the_others_are_called():
    seal = Seal("secret", "alice/mail")
    marks = {f"{n}" + "ж" * 120: n for n in range(1, 17)}
    back = seal.marks_of(seal.id_of(marks, "5" + "ж" * 120))
    assert 1 < len(back) < len(marks)
    assert next(iter(back.items())) == ("5" + "ж" * 120, 5)
    assert back.items() <= marks.items()


@settings(max_examples=20)
@given(st.dictionaries(NAMES, st.integers(1, 2**62), min_size=1, max_size=PUBLISHERS_MAX))
def test_an_id_says_where_the_stream_stands(marks):
    seal = Seal("secret", "alice/mail")
    last = next(reversed(marks))
    id = seal.id_of(marks, last)
    assert seal.marks_of(id) == marks
    assert next(iter(seal.marks_of(id))) == last
    assert id.isascii() and "\n" not in id and len(id.split()) == 1
    for other in (Seal("secret", "alice/other"), Seal("other", "alice/mail")):
        with pytest.raises(InputError):
            other.marks_of(id)


@given(st.text(max_size=60) | st.sampled_from(["a:1;", ";", "a:1;" + "0" * 18, "a:1" * 9000]))
def test_what_is_no_id_is_refused(text):
    with pytest.raises(InputError, match="not the id of a delivery"):
        Seal("secret", "alice/mail").marks_of(text)


# The window, compared with a list of what is unacknowledged.


@given(st.lists(st.tuples(st.sampled_from(["hand", "up", "alone"]), st.integers(0, 30)), max_size=80))
def test_a_window_tells_how_far_each_publisher_is_acknowledged_without_a_gap(steps):
    window, handed, done = Window(1000), [], set()
    last = {"a": 0, "b": 0}
    told = {"a": 0, "b": 0}
    for step, number in steps:
        if step == "hand":
            publisher = "ab"[number % 2]
            last[publisher] += 1 + number % 3  # events that did not match have numbers as well
            handed.append((publisher, last[publisher]))
            window.hand_out(*handed[-1])
            continue
        still = [key for key in handed if window.is_open(*key)]
        if not still:
            continue
        key = still[number % len(still)]
        if step == "up":
            done |= set(handed[: handed.index(key) + 1])
            change = window.up_to(*key)
        else:
            done.add(key)
            change = window.alone(*key)
        told |= change
        for publisher in "ab":
            acknowledged = 0
            for sequence in (sequence for name, sequence in handed if name == publisher):
                if (publisher, sequence) not in done:
                    break
                acknowledged = sequence
            assert told[publisher] == acknowledged
    assert window.marks == {name: number for name, number in last.items() if number}


# The queue, compared with a list.


@dataclass(frozen=True)
class Item:
    publisher: str
    sequence: int
    size: int


@given(
    st.lists(st.none() | st.tuples(st.sampled_from("ab"), st.integers(1, 60)), max_size=60),
    st.integers(1, 5),
    st.integers(1, 100),
)
def test_a_queue_is_bounded_and_names_all_that_it_sheds(steps, events_max, bytes_max):
    queue, put, taken, shed = DeliveryQueue(events_max, bytes_max), [], [], 0
    for number, step in enumerate(steps, 1):
        if step is None:
            if (gap := queue.gap()) is not None:
                shed += gap.count
                assert all(first <= last for first, last in gap.of.values())
            if len(queue):
                taken.append(queue.take())
            continue
        put.append(Item(step[0], number, step[1]))
        queue.put(put[-1])
        assert len(queue) <= events_max
        assert queue.bytes <= bytes_max or len(queue) == 1
    assert queue.bytes == sum(item.size for item in put[len(put) - len(queue) :])
    while len(queue):
        taken.append(queue.take())
    gap = queue.gap()
    shed += gap.count if gap else 0
    assert len(taken) + shed == len(put)
    assert shed == queue.shed
    assert taken == sorted(taken, key=lambda item: item.sequence)


def test_an_event_is_one_line_of_json():
    event = {"t": Timestamp(1_500_000_000), "f": float("-inf"), "s": "é\n\u2028", "b": True, "half": "\ud800"}
    text, size = json_of(event)
    assert (
        text
        == r'{"t":"1970-01-01T00:00:01.5Z","f":"-Infinity","s":"\u00e9\n\u2028","b":true,"half":"\ud800"}'
    )
    assert size == len(text.encode())
    assert json_of({"s": "é"}) == ('{"s":"é"}', 10)
