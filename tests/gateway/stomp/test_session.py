"""A connection of STOMP 1.2, rule by rule; references are to the sections of the specification."""

import gc
import weakref

import pytest
from rayvous.gateway.deliveries import Reading
from rayvous.gateway.stomp.frames import CLIENT_COMMANDS, Frame
from rayvous.gateway.stomp.requests import (
    Acknowledge,
    Close,
    Forget,
    Open,
    Publish,
    Refuse,
    Say,
    StompLimits,
    Subscribe,
    Unsubscribe,
)
from rayvous.gateway.stomp.session import State
from rayvous.gateway.terms import Terms
from rayvous.protocol.batch import batch_of
from rayvous.protocol.gateways import GatewayLimits

LIMITS = StompLimits(
    subscriptions_max=2,
    transactions_max=2,
    transaction_frames_max=3,
    transaction_bytes_max=500,
    unacknowledged_max=3,
)
RECEIPT = Say(Frame("RECEIPT", {"receipt-id": "r1"}))
JSON = {"content_type": "application/json", "destination": "/events"}


# Connecting.


@pytest.mark.parametrize("command", ["CONNECT", "STOMP"])
def test_a_connection_opens_by_either_command(talks, command):
    """Connecting, "CONNECT or STOMP Frame", "CONNECTED Frame"."""
    talk = talks()
    assert talk(command, accept_version="1.0,1.1,1.2", host="h", login="alice", passcode="secret") == [
        Open("secret", "alice")
    ]
    (said,) = talk.session.opened()
    assert said.frame.command == "CONNECTED"
    assert said.frame.headers["version"] == "1.2"
    assert said.frame.headers["session"] == "s-1"
    assert talk.session.state is State.OPEN


def test_a_token_may_come_as_a_bearer(talks):
    assert talks()("CONNECT", accept_version="1.2", authorization="Bearer abc") == [Open("abc", None)]
    assert talks()("CONNECT", accept_version="1.2") == [Open(None, None)]


def test_a_token_of_another_kind_is_refused(talks, error):
    assert "Bearer" in error(talks()("CONNECT", accept_version="1.2", authorization="Basic abc"))


@pytest.mark.parametrize("versions", [{}, {"accept_version": "1.0"}, {"accept_version": "2.0,1.0"}])
def test_a_client_of_another_version_is_told_which_there_are(talks, error, versions):
    """Connecting, "Protocol Negotiation": an ERROR with a version header, then the connection is closed."""
    outs = talks()("CONNECT", **versions)
    assert "speaks STOMP 1.2" in error(outs)
    assert outs[0].frame.headers["version"] == "1.2,1.1"
    assert outs[-1] == Close()


@pytest.mark.parametrize("command", sorted(CLIENT_COMMANDS - {"CONNECT", "STOMP"}))
def test_nothing_goes_before_connect(talks, error, command):
    """Connecting; each command is tried before CONNECT, and before CONNECTED."""
    assert "the first frame must be CONNECT" in error(
        talks()(command, id="1", destination="/a", transaction="t")
    )
    talk = talks()
    talk("CONNECT", accept_version="1.2")
    assert "wait for CONNECTED" in error(talk(command, id="1", destination="/a", transaction="t"))


def test_a_connection_opens_once(talk, error):
    assert "open already" in error(talk("CONNECT", accept_version="1.2"))


def test_a_session_that_the_core_refuses_gets_an_error(talks, error):
    talk = talks()
    connect = Frame("CONNECT", talk.connect)
    talk.session.frame(connect)
    outs = talk.session.failed(connect, "the token is not known")
    assert "CONNECT: the token is not known" in error(outs)
    assert talk.session.opened() == []


# Heart-beating.


def test_heart_beats_are_as_slow_as_the_slower_side_says(talks):
    """Heart-beating: the interval is max(sx, cy) to the client, and max(cx, sy) from it."""
    talk = talks(StompLimits(heartbeat_seconds=10.0), **{"heart-beat": "4000,20000"}).open()
    session = talk.session
    assert session.tick(9.9) == []
    assert session.tick(10.0) == [Say(None)]
    session.said(10.0)
    assert (
        session.tick(19.9) == []
    )  # the gateway asks for 10 s, more than the client's 4 s: it waits 2 * 10 s
    session.waits(10.0, within=False)
    session.said_plain(1, 29.0)
    assert session.tick(30.0) == []
    assert session.tick(30.1)[-1] == Close()


def test_connected_says_what_the_gateway_can_and_wants(talks):
    talk = talks(StompLimits(heartbeat_seconds=2.5))
    talk("CONNECT", accept_version="1.2")
    (said,) = talk.session.opened()
    assert said.frame.headers["heart-beat"] == "2500,2500"


def test_nought_on_a_side_means_no_heart_beats_there(talks):
    """Heart-beating: 0 means that it cannot send, or does not want any."""
    talk = talks(**{"heart-beat": "0,0"}).open()
    assert talk.session.tick(1e6) == []


@pytest.mark.parametrize("given", ["30000, 20000", " 30000 ,\t20000 "])
def test_blanks_around_heart_beats_and_versions_do_not_matter(talks, given):
    talk = talks(StompLimits(heartbeat_seconds=1.0))
    assert [type(out) for out in talk("CONNECT", accept_version="1.0, 1.1 , 1.2 ", heart_beat=given)] == [
        Open
    ]
    (said,) = talk.session.opened()
    assert said.frame.headers["version"] == "1.2"
    assert talk.session.tick(9.9) == [] and talk.session.tick(10.0) == [Say(None)]


def test_a_client_gets_the_interval_that_it_asks_for_down_to_the_limit(talks):
    """Heart-beating: 15 s are for who asks for no less; the limit protects the gateway."""
    limits = StompLimits.of(GatewayLimits())
    fast = talks(limits, **{"heart-beat": "1000,10"}).open().session
    assert fast.tick(0.4) == [] and fast.tick(0.5) == [Say(None)]
    assert fast.tick_seconds <= 0.25
    assert fast.tick(2.1)[-1] == Close()
    slow = talks(limits, **{"heart-beat": "0,20000"}).open().session
    assert slow.tick(9.9) == [] and slow.tick(10.0) == [Say(None)] and slow.tick_seconds == 5.0


def test_the_limit_of_stomp_is_never_above_the_interval_of_the_gateway():
    assert StompLimits.of(GatewayLimits(heartbeat_seconds=0.5)).heartbeat_seconds == 0.5
    assert StompLimits.of(GatewayLimits(stomp_heartbeat_seconds=5.0)).heartbeat_seconds == 5.0


@pytest.mark.parametrize("given", ["1", "a,b", "-1,0", "1,2,3", "", "1.5,2", "٣,٣"])
def test_heart_beats_are_two_numbers(talks, error, given):
    assert "heart-beat" in error(talks()("CONNECT", accept_version="1.2", heart_beat=given))


def test_who_does_not_connect_in_time_is_let_go(talks, error):
    session = talks().session
    assert session.tick(10.0) == []
    assert "no CONNECT" in error(session.tick(10.1))


def test_a_frame_has_to_come_whole_in_time_however_it_drips(talk, error):
    session = talk.session
    for now in range(31):
        session.took()
        session.waits(float(now), within=True)
        assert session.tick(float(now)) == []
    late = session.tick(30.1, Frame("ACK", {"receipt": "7"}))
    assert "did not come whole" in error(late) and late[0].frame.headers["receipt-id"] == "7"


def test_a_frame_that_came_whole_starts_the_time_anew(talk):
    session = talk.session
    session.waits(0.0, within=True)
    talk("BEGIN", transaction="t")
    session.waits(20.0, within=True)
    assert session.tick(45.0) == []


def test_a_client_is_not_waited_for_while_its_frames_are_worked_on(talks):
    """Otherwise a slow network would look like a silent client."""
    session = talks(StompLimits(heartbeat_seconds=1.0), **{"heart-beat": "1000,0"}).open().session
    session.took()
    assert session.tick(100.0) == []
    session.waits(100.0, within=False)
    assert session.tick(102.0) == []
    assert session.tick(102.1)[-1] == Close()


# SEND, receipts, DISCONNECT, ERROR.


def test_a_send_is_published_and_then_receipted(talk):
    """SEND; Standard Headers, "Header receipt": processed, not only received."""
    assert talk("SEND", b'{"x": 1}', receipt="r1", **JSON) == [Publish(({"x": 1},)), RECEIPT]
    assert talk("SEND", b'{"x": 1}', **JSON) == [Publish(({"x": 1},))]


@pytest.mark.parametrize(
    ("command", "headers"),
    [
        ("BEGIN", {"transaction": "t"}),
        ("SUBSCRIBE", {"id": "0", "destination": "/a"}),
        ("UNSUBSCRIBE", {"id": "9"}),
        ("ACK", {"id": "1"}),
        ("NACK", {"id": "1"}),
        ("COMMIT", {"transaction": "s"}),
        ("ABORT", {"transaction": "s"}),
    ],
)
def test_every_frame_may_ask_for_a_receipt_and_gets_it_last(talk, delivered, command, headers):
    """Standard Headers, "Header receipt"."""
    talk("BEGIN", transaction="s")
    assert talk.ack_of(talk.subscribe(id="9", ack="client"), delivered(1))
    assert talk(command, receipt="r1", **headers)[-1] == RECEIPT


def test_disconnect_is_receipted_before_the_end(talk):
    """DISCONNECT, "Connection Lingering"."""
    assert talk("DISCONNECT", receipt="r1") == [RECEIPT, Close()]
    assert talk("SEND", b"late", destination="/a") == []
    assert talk.session.tick(1e6) == []


def test_an_error_says_what_was_wrong_names_the_receipt_and_ends(talk, error):
    """ERROR."""
    outs = talk("SEND", b"[1]", receipt="r1", **JSON)
    assert "SEND: the body is not a JSON object" in error(outs)
    assert outs[0].frame.headers["receipt-id"] == "r1"
    assert "not a JSON object" in outs[0].frame.headers["message"]
    assert outs[1] == Close()
    assert talk("SEND", b"{}", **JSON) == []


@pytest.mark.parametrize(
    ("command", "lacks"),
    [
        ("SEND", "destination"),
        ("SUBSCRIBE", "id"),
        ("UNSUBSCRIBE", "id"),
        ("ACK", "id"),
        ("NACK", "id"),
        ("BEGIN", "transaction"),
        ("COMMIT", "transaction"),
        ("ABORT", "transaction"),
    ],
)
def test_a_header_that_is_missing_is_named(talk, error, command, lacks):
    """Frames and Headers."""
    assert f"{command} needs a header {lacks}" in error(talk(command))


# Subscriptions.


def test_a_subscription_is_a_destination_and_a_selector(talk):
    """SUBSCRIBE."""
    (request,) = talk("SUBSCRIBE", id="0", destination="/topic/a", selector="x > 1")
    assert request == Subscribe(1, "JMSDestination = '/topic/a' AND x > 1", None, narrow=False)


def test_a_selector_that_is_none_is_refused_before_the_core_is_asked(talk, error):
    assert "SUBSCRIBE: " in error(talk("SUBSCRIBE", id="0", destination="/a", selector="x >"))


def test_priority_and_max_delay_of_a_subscription_are_headers(talk, error):
    headers = {"id": "0", "destination": "/topic/a"}
    (request,) = talk("SUBSCRIBE", **headers, priority="5", max_delay="0.5")
    assert request.terms == Terms(5, 0.5)
    (request,) = talk("SUBSCRIBE", **headers | {"id": "past"}, at='{"faa": 1}', last_per="k")
    assert request.terms == Terms(at={"faa": 1}, last_per="k")
    headers["id"] = "1"
    assert "priority is 'high'" in error(talk("SUBSCRIBE", **headers, priority="high"))


def test_ids_of_subscriptions_are_of_the_connection_and_may_come_again(talk, error):
    """SUBSCRIBE, "SUBSCRIBE id Header"; UNSUBSCRIBE."""
    first = talk.subscribe()
    assert talk("UNSUBSCRIBE", id="0") == [Unsubscribe(first)]
    assert talk.subscribe() != first
    assert "is in use" in error(talk("SUBSCRIBE", id="0", destination="/a"))


def test_nothing_is_delivered_to_a_subscription_that_has_ended(talk, delivered):
    number = talk.subscribe()
    talk("UNSUBSCRIBE", id="0")
    assert talk.session.deliver(number, delivered(1)) == []
    assert not talk.session.room(number)


def test_who_unsubscribes_from_nothing_is_told(talk, error):
    assert "no subscription with id" in error(talk("UNSUBSCRIBE", id="0"))


@pytest.mark.parametrize(
    ("client_id", "headers", "name"),
    [
        ("me", {"activemq.subscriptionName": "news"}, "me.news"),
        ("me", {"durable-subscription-name": "news"}, "me.news"),
        ("me", {"durable-subscriber-name": "news"}, "me.news"),
        ("", {"durable": "true", "auto-delete": "false"}, "0"),
        ("", {"persistent": "true"}, "0"),
        ("", {"durable": "false"}, None),
        ("me", {}, None),
    ],
)
def test_durable_subscriptions_are_named_as_brokers_name_them(talks, client_id, headers, name):
    """As in ActiveMQ, Artemis and RabbitMQ; only UNSUBSCRIBE with the same headers forgets the name."""
    talk = talks(**({"client-id": client_id} if client_id else {})).open()
    (request,) = talk("SUBSCRIBE", id="0", destination="/events", **headers)
    assert request.durable == name
    assert talk("UNSUBSCRIBE", id="0") == [Unsubscribe(request.number)]
    if name is not None:
        assert talk("UNSUBSCRIBE", id="0", **headers) == [Forget(name)]
        (again,) = talk("SUBSCRIBE", id="0", destination="/events", **headers)
        assert talk("UNSUBSCRIBE", id="0", **headers) == [Unsubscribe(again.number), Forget(name)]


def test_a_durable_name_is_used_once_on_a_connection(talk, error):
    talk.subscribe(id="0", **{"durable-subscription-name": "news"})
    outs = talk("SUBSCRIBE", id="1", destination="/a", **{"durable-subscription-name": "news"})
    assert "is in use here" in error(outs)


# Acknowledgements.


def test_a_message_says_what_it_is(talk, delivered, frame_said):
    """MESSAGE: destination, message-id, subscription, and ack where it has to be acknowledged."""
    auto, client = talk.subscribe(id="a"), talk.subscribe(id="b", ack="client")
    (one,) = talk.session.deliver(auto, delivered(7))
    assert frame_said(one).headers["message-id"] == "alice:7"
    assert frame_said(one).headers["subscription"] == "a"
    assert frame_said(one).headers["destination"] == "/events"
    assert "ack" not in frame_said(one).headers
    assert frame_said(one).body == b'{"x":1}'
    (two,) = talk.session.deliver(client, delivered(7), gaps='[{"count":3}]')
    assert frame_said(two).headers["ack"]
    assert frame_said(two).headers["gaps"] == '[{"count":3}]'


def test_auto_is_acknowledged_when_it_is_sent(talk, delivered):
    """SUBSCRIBE, "SUBSCRIBE ack Header": auto."""
    number = talk.subscribe(durable="true")
    _, request = talk.session.deliver(number, delivered(1))
    assert request == Acknowledge(number, delivered(1).id, alone=False)


def test_client_is_cumulative(talk, delivered):
    """SUBSCRIBE, "SUBSCRIBE ack Header": client; all messages sent before on that subscription."""
    number = talk.subscribe(durable="true", ack="client")
    other = talk.subscribe(id="1", **{"durable-subscription-name": "o"}, ack="client")
    acks = [talk.ack_of(number, delivered(i)) for i in (1, 2, 3)]
    kept = talk.ack_of(other, delivered(1))
    assert talk("ACK", id=acks[1]) == [Acknowledge(number, delivered(2).id, alone=False)]
    assert talk("ACK", id=acks[0]) == []  # was acknowledged with the one after it
    assert talk("ACK", id=acks[2]) == [Acknowledge(number, delivered(3).id, alone=False)]
    assert talk("ACK", id=kept) == [Acknowledge(other, delivered(1).id, alone=False)]


def test_client_individual_is_for_one(talk, delivered):
    """SUBSCRIBE, "SUBSCRIBE ack Header": client-individual."""
    number = talk.subscribe(durable="true", ack="client-individual")
    acks = [talk.ack_of(number, delivered(i)) for i in (1, 2)]
    assert talk("ACK", id=acks[1]) == [Acknowledge(number, delivered(2).id, alone=True)]
    assert talk("ACK", id=acks[0]) == [Acknowledge(number, delivered(1).id, alone=True)]


def test_what_is_not_durable_has_no_position_to_go_on(talk, delivered):
    number = talk.subscribe(ack="client")
    assert talk("ACK", id=talk.ack_of(number, delivered(1))) == []


def test_in_1_1_an_answer_names_subscription_and_message(talks, delivered):
    """STOMP 1.1, "ACK": both headers; of the versions that a client accepts, the highest is chosen."""
    talk = talks(**{"accept-version": "1.0,1.1"})
    talk.session.frame(Frame("CONNECT", talk.connect))
    assert talk.session.opened()[0].frame.headers["version"] == "1.1"
    number = talk.subscribe(durable="true", ack="client-individual")
    for i in (1, 2):
        talk.ack_of(number, delivered(i))
    assert talk("ACK", subscription="0", message_id="alice:2") == [
        Acknowledge(number, delivered(2).id, alone=True)
    ]
    assert talk("ACK", subscription="0", message_id="alice:2") == []
    talk("BEGIN", transaction="t")
    talk("NACK", subscription="0", message_id="alice:1", transaction="t")
    assert talk("COMMIT", transaction="t") == [Acknowledge(number, delivered(1).id, alone=True)]
    assert talk.session.rejected == 1


def test_in_1_1_headers_have_no_escape_for_cr(talks, delivered, frame_said):
    """STOMP 1.1, "Value Encoding": an event with a CR in a header is sent as JSON."""
    talk = talks(**{"accept-version": "1.1"}).open()
    one = delivered(1, event={"content-type": "text/plain", "h": "a\rb", "body": "a\r\nb"})
    (said,) = talk.session.deliver(talk.subscribe(), one)
    assert frame_said(said).headers["content-type"].startswith("application/json")
    one = delivered(2, event={"content-type": "text/plain", "body": "a\r\nb"})
    (said,) = talk.session.deliver(talk.subscribe(id="1"), one)
    assert frame_said(said).body == b"a\r\nb"


def test_nack_discards_and_is_counted(talk, delivered):
    """NACK: a server may discard the message; cumulative where ACK is."""
    number = talk.subscribe(durable="true", ack="client")
    acks = [talk.ack_of(number, delivered(i)) for i in (1, 2)]
    assert talk("NACK", id=acks[1]) == [Acknowledge(number, delivered(2).id, alone=False)]
    assert talk.session.rejected == 2


def test_nack_with_requeue_sends_it_again(talk, delivered, frame_said):
    """As in RabbitMQ; the message stays unacknowledged."""
    number = talk.subscribe(durable="true", ack="client-individual")
    ack = talk.ack_of(number, delivered(1))
    (said,) = talk("NACK", id=ack, requeue="true")
    assert frame_said(said).headers["redelivered"] == "true"
    assert frame_said(said).headers["ack"] == ack
    assert talk("ACK", id=ack) == [Acknowledge(number, delivered(1).id, alone=True)]
    assert talk.session.rejected == 0


@pytest.mark.parametrize("id", ["99", "0", "-1", "x", "9" * 5000, "٣"])
def test_an_answer_to_what_was_never_sent_is_an_error(talk, error, id):
    assert "no message has ack id" in error(talk("ACK", id=id))


def test_what_is_open_is_bounded(talks, delivered):
    """ACK, and promise 9: a client that does not acknowledge is sent no more."""
    talk = talks(LIMITS).open()
    number, session = talk.subscribe(ack="client-individual"), talk.session
    acks = [talk.ack_of(number, delivered(i)) for i in range(3)]
    assert not session.room(number)
    talk("ACK", id=acks[1])
    assert session.room(number)


def test_what_is_open_is_bounded_in_bytes(talks, delivered):
    talk = talks(StompLimits(unacknowledged_bytes_max=100)).open()
    number = talk.subscribe(ack="client")
    talk.ack_of(number, delivered(1, event={"s": "x" * 100}))
    assert not talk.session.room(number)


def test_of_what_is_open_nothing_is_kept_but_what_was_sent(talk, frame_said):
    """Otherwise one unacknowledged message would keep the whole batch in memory."""
    number = talk.subscribe(ack="client-individual")
    one, _ = Reading(batch_of([{"x": 1}, {"x": 2}], publisher="alice")).deliveries()
    batch = weakref.ref(one._reading)
    (sent,) = talk.session.deliver(number, one)
    gc.collect()
    assert batch() is not None
    del one, _
    gc.collect()
    assert batch() is None
    (again,) = talk("NACK", id=frame_said(sent).headers["ack"], requeue="true")
    assert frame_said(again).body == frame_said(sent).body == b'{"x":1}'


@pytest.mark.parametrize("header", ["prefetch-count", "activemq.prefetchSize"])
def test_a_client_may_ask_for_less_at_a_time(talk, delivered, error, header):
    number = talk.subscribe(ack="client", **{header: "1"})
    assert talk.session.room(number)
    talk.ack_of(number, delivered(1))
    assert not talk.session.room(number)
    assert header in error(talk("SUBSCRIBE", id="1", destination="/a", ack="client", **{header: "none"}))


# Transactions.


def test_a_transaction_goes_out_as_one_batch_and_then_positions_go_on(talk, delivered):
    """BEGIN, COMMIT."""
    number = talk.subscribe(durable="true", ack="client")
    ack = talk.ack_of(number, delivered(1))
    talk("BEGIN", transaction="t")
    assert talk("SEND", b'{"x": 1}', transaction="t", **JSON) == []
    assert talk("ACK", id=ack, transaction="t") == []
    assert talk("SEND", b'{"x": 2}', transaction="t", receipt="r1", **JSON) == [RECEIPT]
    assert talk("COMMIT", transaction="t") == [
        Publish(({"x": 1}, {"x": 2})),
        Acknowledge(number, delivered(1).id, alone=False),
    ]


def test_what_is_aborted_never_was(talk, delivered, error):
    """ABORT: no message is sent, and what was acknowledged is unacknowledged again."""
    number = talk.subscribe(durable="true", ack="client")
    ack = talk.ack_of(number, delivered(1))
    talk("BEGIN", transaction="t")
    talk("SEND", b"{}", transaction="t", **JSON)
    talk("ACK", id=ack, transaction="t")
    assert talk("ABORT", transaction="t") == []
    assert talk("ACK", id=ack) == [Acknowledge(number, delivered(1).id, alone=False)]
    assert "has not begun" in error(talk("COMMIT", transaction="t"))


def test_a_transaction_begins_once_and_must_have_begun(talk, error):
    """BEGIN: the identifier is unique on a connection."""
    talk("BEGIN", transaction="t")
    assert "has begun already" in error(talk("BEGIN", transaction="t"))


def test_a_mistake_in_a_transaction_is_told_where_it_is_made(talk, error):
    talk("BEGIN", transaction="t")
    assert "not JSON" in error(talk("SEND", b"{", transaction="t", **JSON))


# Limits.


def test_what_a_connection_keeps_is_bounded(talks, error):
    """Size Limits: servers may limit what is not bounded by the protocol."""
    talk = talks(LIMITS).open()
    talk.subscribe(id="0"), talk.subscribe(id="1")
    assert "2 subscriptions" in error(talk("SUBSCRIBE", id="2", destination="/a"))
    talk = talks(LIMITS).open()
    talk("BEGIN", transaction="a"), talk("BEGIN", transaction="b")
    assert "2 transactions" in error(talk("BEGIN", transaction="c"))
    talk = talks(LIMITS).open()
    talk("BEGIN", transaction="a"), talk("BEGIN", transaction="b")
    for name in "aba":
        talk("SEND", b"{}", transaction=name, **JSON)
    assert "3 frames" in error(talk("SEND", b"{}", transaction="b", **JSON))
    talk = talks(LIMITS).open()
    talk("BEGIN", transaction="a")
    assert "500 bytes" in error(talk("SEND", b"x" * 600, destination="/a", transaction="a"))


# Consumer groups.


def test_a_subscription_may_be_a_worker_of_a_group_whose_nack_gives_an_event_to_others(
    talk, delivered, frame_said
):
    (request,) = talk(
        "SUBSCRIBE", id="0", destination="/events", durable="true", ack="client-individual", group="true",
        group_key="flight",
    )  # fmt: skip
    assert request.group == {"group_key": "flight"}
    (said,) = talk.session.deliver(request.number, delivered(1).given(1))
    headers = frame_said(said).headers
    assert headers["deliveries"] == "1" and "redelivered" not in headers
    assert talk("NACK", id=headers["ack"], seconds="2.5", requeue="true") == [
        Refuse(request.number, delivered(1).id, 2.5)
    ]
    (said,) = talk.session.deliver(request.number, delivered(1).given(2))
    headers = frame_said(said).headers
    assert (headers["deliveries"], headers["redelivered"]) == ("2", "true")
    assert talk("ACK", id=headers["ack"]) == [Acknowledge(request.number, delivered(1).id, alone=True)]
    assert talk("UNSUBSCRIBE", id="0", durable="true", group="true") == [
        Unsubscribe(request.number),
        Forget("0", group=True),
    ]


@pytest.mark.parametrize(
    ("headers", "words"),
    [({"group_key": "x"}, "group-key: only a group has it"), ({"seconds": "soon"}, "seconds is 'soon'")],
)
def test_what_belongs_to_groups_is_refused_elsewhere_with_words(talk, delivered, error, headers, words):
    if "seconds" in headers:
        number = talk.subscribe(durable="true", ack="client", group="true")
        assert words in error(talk("NACK", id=talk.ack_of(number, delivered(1)), **headers))
    else:
        assert words in error(talk("SUBSCRIBE", id="0", destination="/events", durable="true", **headers))
