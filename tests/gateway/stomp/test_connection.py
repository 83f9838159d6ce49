"""STOMP connections to a gateway's core, in memory: publishing, delivery, slow clients, limits."""

import asyncio
import json
import time
from dataclasses import replace
from itertools import count

import pytest
from patience import PATIENCE_SECONDS
from rayvous.gateway.stomp.frames import CLIENT_COMMANDS, Frame, encode
from rayvous.gateway.stomp.session import OPENING, TRANSITIONS, State
from rayvous.protocol.gateways import AccessConfig, GatewayLimits, Principal, digest_of
from rayvous.protocol.messages.pubsub import Lost

LIMITS = GatewayLimits(heartbeat_seconds=60.0, stall_seconds=PATIENCE_SECONDS)


def send(body=b"{}", destination="/events", **headers):
    return Frame("SEND", {"destination": destination, "content-type": "application/json", **headers}, body)


def test_what_one_publishes_the_other_gets(served):
    async def work(client, core):
        one, other = await client().connect(), await client().connect()
        await one.ask("SUBSCRIBE", id="0", destination="/topic/a", selector="price > 10")
        for price in (9, 11):
            other.put(Frame("SEND", {"destination": "/topic/a", "price": str(price)}, b"hello"))
        other.put(Frame("SEND", {"destination": "/topic/b", "price": "12"}, b"hello"))
        message = await one.next("MESSAGE")
        assert (message.headers["price"], message.body) == ("11", b"hello")
        assert message.headers["message-id"] == "alice:2"
        await one.ask("DISCONNECT")
        await one.ended()
        assert one.frames.empty()

    served(work)


def test_rights_are_those_of_the_token(served):
    async def work(client, core):
        stranger = client()
        stranger.put(Frame("CONNECT", {"accept-version": "1.2", "passcode": "nobody's"}))
        assert "CONNECT: the token is not known" in (await stranger.next("ERROR")).body.decode()
        await stranger.ended()
        wrong = client()
        wrong.put(Frame("CONNECT", {"accept-version": "1.2", "login": "alice", "passcode": "token-of-bob"}))
        assert "do not go together" in (await wrong.next("ERROR")).body.decode()
        bob = await client().connect("token-of-bob", login="bob")
        bob.put(send(b'{"origin": "LGA"}', receipt="r"))
        error = await bob.next("ERROR")
        assert "the right to publish of 'bob'" in error.body.decode()
        assert error.headers["receipt-id"] == "r"
        await bob.ended()
        bob = await client().connect("token-of-bob")
        await bob.ask("SUBSCRIBE", id="0", destination="/events", narrow="true")
        bob.put(Frame("SUBSCRIBE", {"id": "1", "destination": "/events"}))
        assert "the right to subscribe of 'bob' does not cover" in (await bob.next("ERROR")).body.decode()
        bob = await client().connect("token-of-bob")
        bob.put(Frame("SUBSCRIBE", {"id": "1", "destination": "/events", "narrow": "true", "max-delay": "1"}))
        assert "has no promise of a max_delay" in (await bob.next("ERROR")).body.decode()

    served(work)


@pytest.mark.parametrize("header", ["idempotency-key", "_AMQ_DUPL_ID"])
def test_what_is_sent_again_under_its_key_is_published_once(served, header):
    """Decision 0100; also for consecutive SENDs with the same header names, which are read together."""

    async def work(client, core):
        frames = [
            Frame("SEND", {"destination": "/events", "n": str(number), header: f"k{number}"}, b"x")
            for number in range(40)
        ]
        one = await client().connect()
        await one.ask("SUBSCRIBE", id="0", destination="/events")
        for _ in range(2):
            other = await client().connect()
            other.put(*frames)
            await other.ask("DISCONNECT")
        got = [await one.next("MESSAGE") for _ in range(40)]
        assert [int(each.headers["n"]) for each in got] == list(range(40))
        assert header not in got[0].headers, "it is no attribute"
        await one.ask("DISCONNECT")
        assert one.frames.empty() and core.counts["repeated"] == 40

    served(work)


def test_a_key_stands_for_a_transaction_and_other_events_under_it_are_an_error(served):
    async def work(client, core):
        for _ in range(2):
            one = await client().connect()
            one.put(Frame("BEGIN", {"transaction": "t"}), send(transaction="t"), send(transaction="t"))
            one.put(Frame("COMMIT", {"transaction": "t", "idempotency-key": "k"}))
            await one.ask("DISCONNECT")
        assert core.counts["published"] == core.counts["repeated"] == 2
        for frame, said in (
            (send(b'{"n": 1}', **{"idempotency-key": "k"}), "other events were published under this key"),
            (send(**{"idempotency-key": "k", "_AMQ_DUPL_ID": "k"}), "send only one of them"),
            (send(transaction="t", **{"idempotency-key": "l"}), "put it on the COMMIT"),
        ):
            one = await client().connect()
            one.put(Frame("BEGIN", {"transaction": "t"}), frame)
            assert said in (await one.next("ERROR")).body.decode()

    served(work)


def test_subscribes_that_come_together_are_carried_out_together(served):
    """Each is attached only when all are; what comes behind them waits for them, and receipts are in order."""

    async def work(client, core):
        attach, asked, together = core.upstream.feed, [], asyncio.Event()

        async def feed(*of):
            asked.append(of)
            if len(asked) == 3:
                together.set()
            await together.wait()
            return await attach(*of)

        core.upstream.feed = feed
        one = await client().connect()
        frames = [
            Frame("SUBSCRIBE", {"id": str(number), "destination": "/events", "receipt": str(number)})
            for number in range(3)
        ]
        one.put(*frames, send(receipt="sent"), Frame("UNSUBSCRIBE", {"id": "1", "receipt": "ended"}))
        receipts, messages = [], []
        while len(receipts) < 5:
            frame = await one.frames.get()
            if frame.command == "RECEIPT":
                receipts.append(frame.headers["receipt-id"])
            else:
                messages.append(frame.headers["subscription"])
        assert receipts == ["0", "1", "2", "sent", "ended"]
        while len(messages) < 2:
            messages.append((await one.next("MESSAGE")).headers["subscription"])
        assert {"0", "2"} <= set(messages)

    served(work)


def test_when_a_subscribe_is_refused_those_behind_it_are_closed(served):
    async def work(client, core):
        one = await client().connect()
        frames = [
            Frame("SUBSCRIBE", {"id": str(number), "destination": "/events", "selector": selector})
            for number, selector in enumerate(("x > 1", "(x > 1", "x > 2"))
        ]
        one.put(frames[0], frames[1], frames[2])
        error = await one.next("ERROR")
        assert error.body.decode().startswith("SUBSCRIBE: ")
        await one.ended()
        while core.streams or core.upstream.feeds:
            await asyncio.sleep(0)

    served(work)


def test_sends_that_come_together_are_published_together(served):
    async def work(client, core):
        one = await client().connect()
        one.put(*(send(b'{"x": %d}' % i, receipt=str(i)) for i in range(50)))
        assert [(await one.next("RECEIPT")).headers["receipt-id"] for _ in range(50)] == [
            str(i) for i in range(50)
        ]
        assert core.upstream.calls == 1
        assert core.upstream.last["alice"] == 50

    served(work)


def test_what_is_published_together_stays_within_the_limit_of_a_batch(served):
    async def work(client, core):
        one = await client().connect()
        one.put(*(send(receipt=str(i)) for i in range(7)))
        for _ in range(7):
            await one.next("RECEIPT")
        assert core.upstream.calls >= 3
        assert core.upstream.last["alice"] == 7

    served(work, replace(LIMITS, batch_events_max=3))


def test_of_sends_that_come_together_those_before_a_refused_one_are_published(served):
    async def work(client, core):
        bob = await client().connect("token-of-bob")
        good, bad = send(b'{"origin": "JFK"}', receipt="good"), send(b'{"origin": "EWR"}', receipt="bad")
        bob.put(good, bad, good)
        assert (await bob.next("RECEIPT")).headers["receipt-id"] == "good"
        assert (await bob.next("ERROR")).headers["receipt-id"] == "bad"
        await bob.ended()
        assert core.upstream.last["bob"] == 1

    served(work)


def test_what_stands_before_a_mistake_is_done(served):
    async def work(client, core):
        for mistake in (b"NONSENSE\n\n\0", encode(send(b"[")), encode(Frame("ACK", {"id": "9"}))):
            one = await client().connect()
            one.coming.put_nowait(encode(send(receipt="r")) + mistake)
            assert (await one.next("RECEIPT")).headers["receipt-id"] == "r"
            await one.next("ERROR")
            await one.ended()
        assert core.upstream.last["alice"] == 3

    served(work)


def test_a_network_that_is_gone_is_an_error_about_the_send_and_nothing_is_sent_twice(served):
    async def work(client, core):
        one = await client().connect()
        core.upstream.broken = True
        one.put(send(receipt="1"), send(receipt="2"), Frame("DISCONNECT", {"receipt": "3"}))
        error = await one.next("ERROR")
        assert "the broker is gone" in error.body.decode()
        assert error.headers["receipt-id"] == "1"
        await one.ended()

    served(work)


def test_a_transaction_is_one_batch(served):
    async def work(client, core):
        one = await client().connect()
        await one.ask("BEGIN", transaction="t")
        for _ in range(3):
            await one.ask("SEND", b"x", destination="/a", transaction="t")
        assert core.upstream.calls == 0
        await one.ask("COMMIT", transaction="t")
        assert (core.upstream.calls, core.upstream.last["alice"]) == (1, 3)

    served(work)


DURABLE = {"id": "0", "destination": "/events", "durable-subscription-name": "news", "ack": "client"}


@pytest.mark.parametrize(
    ("mode", "answer", "again"),
    [
        ("client", 2, [4, 5]),
        ("client-individual", 2, [1, 2, 3, 4, 5]),
        ("client-individual", 0, [2, 3, 4, 5]),
    ],
)
def test_a_durable_subscriber_that_is_cut_off_gets_what_it_has_not_acknowledged(served, mode, answer, again):
    """In mode client-individual the position stays before a publisher's first unacknowledged message."""

    async def work(client, core):
        bob, alice = await client().connect(), await client().connect()
        headers = DURABLE | {"ack": mode}
        await bob.ask("SUBSCRIBE", **headers)
        for x in range(1, 4):
            await alice.publish(x=x)
        messages = [await bob.next("MESSAGE") for _ in range(3)]
        await bob.ask("ACK", id=messages[answer].headers["ack"])
        bob.coming.put_nowait(b"")  # the connection breaks
        await bob.task
        for x in (4, 5):
            await alice.publish(x=x)
        bob = await client().connect()
        bob.put(Frame("SUBSCRIBE", headers))
        came = [json.loads((await bob.next("MESSAGE")).body)["x"] for _ in again]
        assert (
            came == ([1, 2, 3, 4, 5] if mode == "client-individual" and answer == 2 else again)[: len(came)]
        )

    served(work)


def test_what_is_discarded_is_counted_and_does_not_come_again(served):
    async def work(client, core):
        bob, alice = await client().connect(), await client().connect()
        await bob.ask("SUBSCRIBE", **DURABLE)
        await alice.publish(x=1)
        await bob.ask("NACK", id=(await bob.next("MESSAGE")).headers["ack"])
        await bob.ask("UNSUBSCRIBE", id="0")
        await alice.publish(x=2)
        bob.put(Frame("SUBSCRIBE", DURABLE))
        assert json.loads((await bob.next("MESSAGE")).body) == {"x": 2}
        bob.coming.put_nowait(b"")
        await bob.task
        assert core.counts["nacked"] == 1

    served(work)


def test_auto_is_acknowledged_as_it_is_sent(served):
    async def work(client, core):
        bob, alice = await client().connect(), await client().connect()
        await bob.ask("SUBSCRIBE", **(DURABLE | {"ack": "auto"}))
        await alice.publish(x=1)
        await bob.next("MESSAGE")
        await bob.ask("UNSUBSCRIBE", id="0")
        await alice.publish(x=2)
        bob.put(Frame("SUBSCRIBE", DURABLE))
        assert json.loads((await bob.next("MESSAGE")).body) == {"x": 2}
        bob.put(Frame("UNSUBSCRIBE", DURABLE | {"receipt": "end"}))  # ends the durable subscription
        await bob.next("RECEIPT")
        assert core.upstream.kept == {}

    served(work)


@pytest.mark.parametrize("leaving", ["unsubscribes", "is cut off"])
def test_what_was_sent_is_acknowledged_before_its_stream_ends(served, leaving):
    async def work(client, core):
        bob, alice = await client().connect(), await client().connect()
        await bob.ask("SUBSCRIBE", **(DURABLE | {"ack": "auto"}))
        (feed,) = core.upstream.feeds
        write, slow = feed.acknowledge, asyncio.Event()

        async def acknowledge(marks):
            await slow.wait()
            await write(marks)

        feed.acknowledge = acknowledge
        await alice.publish(x=1)
        await bob.next("MESSAGE")
        if leaving == "unsubscribes":
            bob.put(Frame("UNSUBSCRIBE", {"id": "0", "receipt": "r"}))
        else:
            bob.coming.put_nowait(b"")
        for _ in range(50):
            await asyncio.sleep(0)
        assert core.upstream.feeds == [feed] and bob.frames.empty()
        slow.set()
        if leaving == "unsubscribes":
            await bob.next("RECEIPT")
        else:
            await bob.ended()
        assert feed.kept.position == {"alice": 1}
        assert core.upstream.feeds == []

    served(work)


def test_a_stomp_connection_that_ends_while_its_publisher_is_made_stops_nobody(served, slow):
    async def work(client, core):
        one = await client().connect()
        await one.ask("SUBSCRIBE", id="1", destination="/events", durable="true")
        network = slow(core.upstream)
        one.put(Frame("SEND", {"destination": "/events"}, b"hello"))
        await network.asked.wait()
        async with await core.open("token-of-alice") as alice:
            await alice.unsubscribe("1")  # so the connection ends
            await one.next("ERROR")
            await one.ended()
            network.may_attach.set()
            assert (await alice.publish([{"n": 2}])).last == 1

    served(work)


def test_a_durable_name_that_comes_elsewhere_ends_here(served):
    async def work(client, core):
        one, other = await client().connect(), await client().connect()
        await one.ask("SUBSCRIBE", **DURABLE)
        await other.ask("SUBSCRIBE", **DURABLE)
        assert "opened again elsewhere" in (await one.next("ERROR")).body.decode()
        await one.ended()

    served(work)


def test_the_receipt_of_a_doubtful_subscription_tells_the_doubt(served):
    async def work(client, core):
        one = await client().connect()
        doubtful = Frame(
            "SUBSCRIBE", {"id": "1", "destination": "/", "selector": 'n = 1 OR s = "x"', "receipt": "r1"}
        )
        plain = Frame("SUBSCRIBE", {"id": "2", "destination": "/", "selector": "n = 1", "receipt": "r2"})
        one.put(doubtful, plain, Frame("UNSUBSCRIBE", {"id": "2", "receipt": "r3"}))
        assert (await one.next("RECEIPT")).headers == {
            "receipt-id": "r1", "doubt": "s = x compares two attributes: a string is written 'x'",
        }  # fmt: skip
        assert (await one.next("RECEIPT")).headers == {"receipt-id": "r2"}
        assert (await one.next("RECEIPT")).headers == {"receipt-id": "r3"}
        one.put(Frame("SEND", {"destination": "/", "content-type": "application/json"}, b'{"n": 1}'))
        assert (await one.next("MESSAGE")).headers["subscription"] == "1"

    served(work)


def test_a_window_that_is_full_waits_for_an_answer(served):
    async def work(client, core):
        one = await client().connect()
        await one.ask("SUBSCRIBE", id="0", destination="/events", ack="client-individual", prefetch_count="2")
        other = await client().connect()
        for x in range(3):
            await other.publish(x=x)
        first, _ = await one.next("MESSAGE"), await one.next("MESSAGE")
        await one.ask("BEGIN", transaction="t")  # any further MESSAGE would arrive before this receipt
        await one.ask("ACK", id=first.headers["ack"])
        assert json.loads((await one.next("MESSAGE")).body) == {"x": 2}

    served(work)


def test_a_slow_reader_disturbs_nobody_and_is_told_what_was_shed(served):
    async def work(client, core):
        slow, fast, publisher = await client().connect(), await client().connect(), await client().connect()
        for one in (slow, fast):
            await one.ask("SUBSCRIBE", id="0", destination="/events")
        slow.reads.clear()
        for x in range(300):
            await publisher.publish(x=x, filler="x" * 4000)
            assert json.loads((await fast.next("MESSAGE")).body)["x"] == x
        slow.reads.set()
        count = told = 0
        while count + told < 300:
            message = await slow.next("MESSAGE")
            count += 1
            told += sum(gap["count"] for gap in json.loads(message.headers.get("gaps", "[]")))
        assert told > 0
        assert count + told == 300

    served(work, replace(LIMITS, queue_events_max=10))


def test_of_what_comes_at_once_no_more_is_put_out_than_there_is_room_for(served):
    """One message may exceed the limit of what may wait."""

    async def work(client, core):
        slow, publisher = await client().connect(), await client().connect()
        await slow.ask("SUBSCRIBE", id="0", destination="/events")
        out = next(each for each in slow.server._connections if each._wire is slow)._out
        slow.reads.clear()
        event = json.dumps({"filler": "x" * 40_000}).encode()
        publisher.put(*(send(event, receipt=str(x)) for x in range(8)))
        for _ in range(8):
            await publisher.next("RECEIPT")
        for _ in range(9):
            await asyncio.sleep(0)
        assert 40_000 < len(out) < 100_000
        slow.reads.set()
        for _ in range(8):
            await slow.next("MESSAGE")

    served(work)


def test_what_the_network_lost_is_told_with_the_next_message(served):
    async def work(client, core):
        one = await client().connect()
        await one.ask("SUBSCRIBE", id="0", destination="/events")
        (name,) = core.upstream.kept
        core.upstream.lose(name, Lost("bob", 3, 4))
        core.upstream.lose(name, Lost("bob", 7, 9))
        other = await client().connect()
        await other.publish(x=1)
        (gap,) = json.loads((await one.next("MESSAGE")).headers["gaps"])
        assert gap == {
            "reason": "network",
            "count": None,
            "of": [{"publisher": "bob", "first": 3, "last": 9}],
        }
        await other.publish(x=2)
        assert "gaps" not in (await one.next("MESSAGE")).headers

    served(work)


def test_a_slow_reader_is_cut_off_where_the_limits_say_so(served):
    async def work(client, core):
        slow, publisher = await client().connect(), await client().connect()
        await slow.ask("SUBSCRIBE", id="0", destination="/events")
        slow.reads.clear()
        for x in range(60):
            await publisher.publish(x=x, filler="x" * 4000)
        slow.reads.set()
        frames = []
        while (frame := await slow.frames.get()) is not None:
            frames.append(frame)
        assert frames[-1].command == "ERROR"
        assert "too slow" in frames[-1].body.decode()

    served(work, replace(LIMITS, queue_events_max=10, slow="cut"))


def test_who_takes_nothing_at_all_is_let_go(served):
    async def work(client, core):
        one = await client().connect()
        await one.ask("SUBSCRIBE", id="0", destination="/events")
        one.reads.clear()
        other = await client().connect()
        await other.publish(x=1)
        await one.ended()

    served(work, replace(LIMITS, stall_seconds=0.05))


def test_who_asks_and_never_reads_is_asked_no_more(served):
    """Otherwise the receipts for such a client would grow without bound."""

    async def work(client, core):
        one = await client().connect()
        one.reads.clear()
        frame = encode(Frame("BEGIN", {"transaction": "t"})) + encode(
            Frame("ABORT", {"transaction": "t", "receipt": "r" * 1000})
        )
        for _ in range(400):
            one.coming.put_nowait(frame)
        connection = next(iter(one.server._connections))
        before = -1
        while one.coming.qsize() != before:  # until the server reads no more
            before = one.coming.qsize()
            for _ in range(200):
                await asyncio.sleep(0)
        assert one.coming.qsize() > 200
        assert len(connection._out) < 70_000
        one.reads.set()
        for _ in range(400):
            await one.next("RECEIPT")

    served(work)


def test_a_publisher_above_its_rate_is_slowed_and_not_refused(served):
    principal = Principal((digest_of("t"),), publish="TRUE", events_per_second=100.0, burst_events=1)

    async def work(client, core):
        core.clock = map(
            (0.002).__mul__, count()
        ).__next__  # each look takes a fifth of what an event has to wait
        one = await client().connect("t")
        for x in range(12):
            one.put(send(b'{"x": %d}' % x, receipt=str(x)))
        for x in range(12):
            assert (await one.next("RECEIPT")).headers["receipt-id"] == str(x)
        assert core.counts["refused.events_per_second"] > 0

    served(work, replace(LIMITS, rate_wait_seconds=0.001), access=AccessConfig({"alice": principal}))


def test_heart_beats_are_sent_and_missed(served):
    async def work(client, core):
        now = 0.0
        core.clock = lambda: now
        one = await client().connect(heart_beat="50,50")
        now = 0.05
        await one.beats.wait()
        now = 9.0
        assert "nothing was heard" in (await one.next("ERROR")).body.decode()
        await one.ended()

    served(work, replace(LIMITS, heartbeat_seconds=0.05))


def test_an_error_about_an_invalid_frame_has_its_receipt(served):
    async def work(client, core):
        one = await client().connect()
        one.coming.put_nowait(b"ACK\nid:1\ncontent-length:4\nreceipt:r-7\n\nbody\0")
        error = await one.next("ERROR")
        assert error.headers["receipt-id"] == "r-7" and "ACK: it has a body" in error.body.decode()

    served(work)


def test_a_half_open_connection_and_one_that_drips_are_let_go(served):
    async def work(client, core):
        silent, dripping = client(), await client().connect()
        dripping.coming.put_nowait(b"SEND\ndestination")
        assert "no CONNECT" in (await silent.next("ERROR")).body.decode()
        assert "did not come whole" in (await dripping.next("ERROR")).body.decode()

    served(work, replace(LIMITS, request_seconds=0.05))


def test_connections_have_a_limit(served):
    async def work(client, core):
        await client().connect()
        other = client()
        assert "1 connections are open" in (await other.next("ERROR")).body.decode()
        await other.ended()

    served(work, replace(LIMITS, connections_max=1))


def test_what_all_connections_hold_together_has_a_limit(served):
    async def work(client, core):
        clients = [await client().connect() for _ in range(3)]
        for one in clients[:2]:
            one.coming.put_nowait(b"SEND\ndestination:/a\n\n" + b"x" * 40_000)
        clients[2].coming.put_nowait(b"SEND\ndestination:/a\n\n" + b"x" * 40_000)
        assert "bodies_bytes_max" in (await clients[2].next("ERROR")).body.decode()
        clients[0].coming.put_nowait(b"\0")
        await clients[0].ask("BEGIN", transaction="t")

    served(work, replace(LIMITS, bodies_bytes_max=100_000))


def test_what_a_client_holds_is_free_when_it_has_gone(served):
    async def work(client, core):
        for _ in range(3):
            one = await client().connect()
            one.coming.put_nowait(b"SEND\ndestination:/a\n\n" + b"x" * 40_000)
            one.coming.put_nowait(b"")
            await one.task

    served(work, replace(LIMITS, bodies_bytes_max=50_000))


def test_a_gateway_that_ends_says_so(served):
    async def work(client, core):
        one = await client().connect()
        await one.server.stop()
        assert "the gateway ends" in (await one.next("ERROR")).body.decode()
        await one.ended()

    served(work)


def test_every_command_is_known_to_the_table():
    named = {command for state, command in TRANSITIONS if state is State.OPEN} | set(OPENING)
    assert named == CLIENT_COMMANDS


def test_workers_of_a_group_share_and_get_what_others_refuse_or_leave(served):
    async def work(client, core):
        asked = DURABLE | {"ack": "client-individual", "group": "true", "group-key": "x"}
        bob, carol, alice = [await client().connect() for _ in range(3)]
        for each in (bob, carol):
            await each.ask("SUBSCRIBE", **asked)
        await alice.publish(x=1)
        first = await bob.next("MESSAGE")
        assert first.headers["deliveries"] == "1"
        bob.put(Frame("NACK", {"id": first.headers["ack"]}))
        again = await bob.next("MESSAGE")
        assert (again.headers["deliveries"], again.headers["redelivered"]) == ("2", "true")
        bob.coming.put_nowait(b"")  # the connection breaks
        await bob.task
        (group,) = core.upstream.groups.values()
        other = await carol.next("MESSAGE")
        assert json.loads(other.body) == {"x": 1} and other.headers["deliveries"] == "2"
        group.machine.tick(60.5)  # carol stood still
        carol.put(Frame("ACK", {"id": other.headers["ack"]}))
        other = await carol.next("MESSAGE")
        assert group.machine.position == {}, "it was another one's by then, and the connection goes on"
        await carol.ask("ACK", id=other.headers["ack"])
        assert group.machine.position == {"alice": 1}
        await carol.ask("UNSUBSCRIBE", **asked)
        assert core.upstream.groups == {}

    served(work)


def test_an_event_expires_when_its_header_says_so(served):
    async def work(client, core):
        alice, bob = await client().connect(), await client().connect()
        await bob.ask("SUBSCRIBE", id="1", destination="/events", selector="price > 10")
        soon, past = str(round(time.time() * 1e3) + 60_000), str(round(time.time() * 1e3) - 60_000)
        for price, until in ((11, "0"), (12, past), (13, soon)):
            await alice.ask("SEND", destination="/events", price=str(price), expires=until)
        await alice.ask("BEGIN", transaction="t")
        for price, until in ((14, past), (15, soon)):
            await alice.ask("SEND", destination="/events", price=str(price), expires=until, transaction="t")
        await alice.ask("COMMIT", transaction="t")
        got = [(await bob.next("MESSAGE")).headers for _ in range(3)]
        assert [each["price"] for each in got] == ["11", "13", "15"]
        assert [abs(int(each.get("expires", soon)) - int(soon)) < 100 for each in got] == [True] * 3
        assert ["expires" in each for each in got] == [False, True, True]
        for one in (alice, bob):
            await one.ask("DISCONNECT")
            await one.ended()
        assert core.counts["past_ttl"] == 2

    served(work)


@pytest.mark.parametrize(
    "expires", ["tomorrow", "-5", "1.5", "nan", "9" * 30, "0" * 20 + "9" * 400, "\u0665"]
)
def test_a_time_that_is_none_is_refused(served, expires):
    async def work(client, core):
        alice = await client().connect()
        alice.put(Frame("SEND", {"destination": "/events", "expires": expires}))
        assert "expires is" in (await alice.next("ERROR")).body.decode()
        await alice.ended()

    served(work)
