"""What `rayvous bench peers` sends to all servers, and how it finds losses; servers run in tests/on_ray."""

import numpy as np
import pika.frame
import pytest
from rayvous.benchmarks.peers import servers
from rayvous.benchmarks.peers.load import Alert, Load
from rayvous.benchmarks.peers.swarm import Client, judged
from rayvous.benchmarks.peers.wires import Amqp, Nats, Redis, Stomp, money
from rayvous.gateway.stomp.content import event_of, selector_of
from rayvous.gateway.stomp.frames import Decoder, FrameLimits
from rayvous.routing.filters.filter import to_filter


@pytest.fixture
def load():
    return Load(41, 5)


def test_who_has_to_get_a_trade_is_who_asked_for_it(load):
    """The columns agree with each alert by itself, as a selector that the gateway understands."""
    symbols, prices = (column[:200] for column in load.trades(0))
    trades, clients = load.wanted(symbols, prices)
    filters = [
        (client, to_filter(f"symbol = '{alert.symbol}' AND price > {money(alert.floor)}"))
        for client in range(load.clients)
        for alert in load.alerts_of(client)
    ]
    assert len(filters) == load.alerts
    events = [
        {"symbol": f"S{symbol}", "price": float(money(price))}
        for symbol, price in zip(symbols.tolist(), prices.tolist(), strict=True)
    ]
    expected = {
        (trade, client)
        for trade, event in enumerate(events)
        for client, wanted in filters
        if wanted.matches(event)
    }
    found = list(zip(trades.tolist(), clients.tolist(), strict=True))
    assert set(found) == expected and len(found) == len(expected), "each once: alerts of a symbol are apart"


@pytest.mark.parametrize("alerts", [100, 10_000])
def test_a_trade_is_wanted_by_one_alert_in_the_mean(alerts):
    load = Load(alerts, 200)
    wanted = len(load.wanted(*load.trades(0))[0])
    assert 0.9 < wanted / len(load.trades(0)[0]) < 1.1


def test_what_is_missing_unwanted_or_comes_again_is_counted(load):
    symbols, prices = load.trades(0)
    trades, clients = load.wanted(symbols, prices)
    had = list(zip(clients.tolist(), trades.tolist(), strict=True))
    assert judged(load, symbols, prices, had) == (0, 0)
    assert judged(load, symbols, prices, had[2:]) == (2, 0)
    stranger = next(each for each in range(5) if (each, had[0][1]) not in set(had))
    assert judged(load, symbols, prices, [*had, had[0], (stranger, had[0][1])]) == (0, 2)


@pytest.mark.parametrize(
    "said",
    [
        b'MESSAGE\nsymbol:S1\nprice:7.50\n\n{"n":7}\0MESSAGE\n\n{"n":8}\0',
        b'MSG trades 1 9\r\n{"symbol":"S1","price":0.07,"n":7}\r\n{"symbol":"S1","price":0.07,"n":8}\r\n',
    ],
)
def test_however_bytes_are_cut_the_numbers_are_the_same(load, said):
    for size in (1, 2, 9, len(said)):
        client = Client(None, 0, load, filters=False)
        count = sum(client.take(said[start : start + size]) for start in range(0, len(said), size))
        assert (count, client.had) == (2, [b"7", b"8"]), size


def test_a_client_that_filters_keeps_what_it_asked_for(load):
    (alert, *_) = load.alerts_of(2)
    client = Client(None, 2, load, filters=True)
    said = b"".join(
        Nats().trade(number, symbol, cents)
        for number, (symbol, cents) in enumerate(
            [(alert.symbol, alert.floor), (alert.symbol, alert.floor + 1), ("S999", 9_999)]
        )
    )
    assert client.take(said) == 3 and client.had == [b"1"]


def test_a_trade_is_the_same_in_every_protocol():
    number, symbol, cents = 12, "S3", 1_205
    (frame,) = Decoder(FrameLimits()).feed(Stomp().trade(number, symbol, cents))
    event = event_of(frame)
    assert event == {
        "symbol": "S3", "price": 12.05, "body": '{"n":12}', "content-type": "text/plain",
        "JMSDestination": "/topic/trades",
    }  # fmt: skip
    assert to_filter(selector_of("/topic/trades", "symbol = 'S3' AND price > 12.04")).matches(event)
    body = b'{"symbol":"S3","price":12.05,"n":12}'
    assert Nats().trade(number, symbol, cents) == b"PUB trades %d\r\n%b\r\n" % (len(body), body)
    assert Redis().trade(number, symbol, cents).endswith(b"$%d\r\n%b\r\n" % (len(body), body))
    said = Amqp().trade(number, symbol, cents)
    frames = []
    while said:
        size, one = pika.frame.decode_frame(said)
        frames.append(one)
        said = said[size:]
    method, header, content = frames
    assert (method.method.exchange, header.properties.headers) == ("trades", {"symbol": "S3"})
    assert (header.body_size, content.fragment) == (len(body), body)


def test_what_is_not_installed_is_left_out_and_named(monkeypatch, tmp_path):
    monkeypatch.setattr(servers.shutil, "which", lambda name: None)
    monkeypatch.setattr(servers, "RABBITMQ", tmp_path / "none")
    for name in ("activemq", "rabbitmq", "nats"):
        assert servers.missing(name).startswith(f"{name} is not installed: apt-get install")


def test_alerts_are_as_many_as_asked_for():
    load = Load(10, 200)
    assert load.clients == 10 and load.alerts_of(3) == [Alert("S3", load.alerts_of(3)[0].floor)]
    assert np.array_equal(load.trades(1)[0], Load(10, 200).trades(1)[0]), "the same for every server"
