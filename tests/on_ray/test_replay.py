"""Durable subscribers begin in the past, and are rewound, on Ray: with a store, and a broker that was killed since.

Reference: docs/replay.md and docs/last-value.md.
"""

import json
import re
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import pytest
import rayvous as rv
from rayvous.clients import last_values
from rayvous.faults.real.crash import crash
from rayvous.protocol.errors import InputError, NameTaken, TooManyKeys
from rayvous.protocol.messages.recovery import Recovery

PATIENCE_SECONDS = 300.0
"""As in `patience`, which is not on the path of the workers that import this file."""

PATIENT = Recovery.for_tests(suspect_after_seconds=4.0, client_patience_seconds=6.0, history_seconds=86_400.0)


def read(subscriber, count):
    """Return the numbers of so many notifications, and acknowledge them."""
    got = []
    for note in subscriber.notifications(timeout_seconds=PATIENCE_SECONDS):
        got.append(note.sequence)
        if len(got) == count:
            break
    subscriber.acknowledge()
    return got


@pytest.fixture(scope="module")
def net(ray_started: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[rv.Network]:
    stores = rv.Stable(str(tmp_path_factory.mktemp("stores")))
    with rv.Network.launch(rv.ClusterTree(2, 1), name="last", recovery=PATIENT, stable=stores) as net:
        yield net


def test_the_last_event_of_each_key_comes_first_also_after_its_process_and_its_broker_died(
    net: rv.Network,
) -> None:
    bob, carol = net.publisher("bob", broker=1, durable=True), net.publisher("carol", broker=0)
    bob.publish_batch([{"key": n % 4, "n": n} for n in range(20)])
    carol.publish_batch([{"key": n % 3, "n": n} for n in range(30, 36)])
    for publisher in (bob, carol):
        publisher.flush()
    bob.close()
    crash(net, 1)
    net.restart_broker(1)

    alice = net.subscriber("alice", durable=True, broker=0)
    alice.subscribe("n >= 0", last_per="key")
    first = next(alice.notifications(PATIENCE_SECONDS))
    assert (first.publisher, first.event) == ("bob", {"key": 3, "n": 19})
    alice.acknowledge(first)
    alice.abandon()
    bob = net.publisher("bob", durable=True)
    bob.publish({"key": 3, "n": 20})
    again = net.subscriber("alice", durable=True)
    got = again.notifications(PATIENCE_SECONDS)
    assert [(note.publisher, note.event["n"]) for note in islice(got, 4)] == [
        ("carol", 33), ("carol", 34), ("carol", 35), ("bob", 20),
    ]  # fmt: skip
    again.acknowledge()
    assert again.position == {"bob": 21, "carol": 6} and again.losses == []
    again.end()


def test_bad_input_and_too_many_keys(net: rv.Network, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="last_per: only a durable subscriber"):
        net.subscriber("dave").subscribe("n > 0", last_per="key")
    dave = net.subscriber("erin", durable=True)
    with pytest.raises(InputError, match="last_per"):
        dave.subscribe("n > 0", last_per="")
    with pytest.raises(InputError, match="in the future"):
        dave.subscribe("n > 0", at=time.time() + 3600, last_per="key")
    net.publisher("many").publish_batch([{"many": n} for n in range(20)])
    monkeypatch.setitem(last_values.LastValues.__init__.__kwdefaults__, "keys_max", 10)
    dave.subscribe("many >= 0", last_per="many")
    with pytest.raises(TooManyKeys, match="last_per 'many': it has more than 10 values"):
        next(dave.notifications(PATIENCE_SECONDS))
    dave.end()


def test_from_a_shell(net: rv.Network, rayvous: Callable[..., tuple[int, str, str]]) -> None:
    net.publisher("shell").publish_batch([{"shell": n, "odd": n % 2} for n in range(6)])

    def printed(*words: str) -> list[int]:
        status, out, err = rayvous("subscribe", "last", "shell >= 0", *words)
        assert status == 0, err
        return [json.loads(line)["event"]["shell"] for line in out.splitlines()]

    assert printed("--last-per", "odd", "--limit", "2") == [4, 5]
    assert printed("--from", "oldest", "--limit", "6") == [0, 1, 2, 3, 4, 5]
    assert printed("--from", "oldest", "--last-per", "odd", "--limit", "1") == [4]
    assert net.durable() == [], "what has no name is ended"


@pytest.mark.parametrize("page", ["replay.md", "last-value.md"])
def test_the_example_of_the_page_runs_as_it_stands(
    ray_started: None, capsys: pytest.CaptureFixture[str], tmp_path: Path, page: str
) -> None:
    text = (Path(rv.__file__).parent / "docs" / page).read_text("utf-8")
    code, said = re.findall(r"```(?:python|text)\n(.*?)```", text, re.DOTALL)[:2]
    exec(code.replace("/data/flights", str(tmp_path)), {})
    lines = capsys.readouterr().out.splitlines(keepends=True)
    assert "".join(line for line in lines if "(raylet)" not in line) == said


def test_a_subscriber_begins_in_the_past_after_the_broker_that_has_it_was_killed(
    ray_started: None, tmp_path: Path
) -> None:
    with rv.Network.launch(
        rv.ClusterTree(2, 1), name="replay", recovery=PATIENT, stable=rv.Stable(str(tmp_path))
    ) as net:
        bob = net.publisher("bob", broker=1, durable=True)
        bob.publish_batch([{"n": n} for n in range(20)])
        time.sleep(0.01)  # so that no event before it has the time that is asked for
        moment = time.time()
        bob.publish_batch([{"n": n} for n in range(20, 40)])
        bob.flush()
        bob.close()
        crash(net, 1)
        net.restart_broker(1)

        alice = net.subscriber("alice", durable=True, broker=0)
        alice.subscribe("n >= 10", at="oldest")
        bob = net.publisher("bob", durable=True)
        bob.publish_batch([{"n": n} for n in range(40, 50)])
        assert read(alice, 40) == list(range(11, 51)) and alice.losses == []

        carol = net.subscriber("carol", durable=True)
        carol.subscribe("n >= 0", at=moment)
        assert read(carol, 30) == list(range(21, 51))
        dave = net.subscriber("dave", durable=True)
        dave.subscribe("n >= 0", at={"bob": 45})
        assert read(dave, 5) == list(range(46, 51))

        net.rewind("alice", moment)
        with pytest.raises(NameTaken):
            alice.acknowledge_up_to({"bob": 99})
        again = net.subscriber("alice", durable=True)
        assert again.position == {"bob": 20}
        bob.publish({"n": 50})
        assert read(again, 31) == list(range(21, 52))

        for wrong, said in (
            (time.time() + 3600, "in the future"),
            ("yesterday", "it must be a time such as"),
            ({"nobody": 1}, "no broker knows a publisher 'nobody'"),
            ({"bob": 99}, "has published only 51"),
        ):
            with pytest.raises(InputError, match=said):
                net.subscriber("erin", durable=True).subscribe("n > 0", at=wrong)
            with pytest.raises(InputError, match=said):
                net.rewind("alice", wrong)
        with pytest.raises(InputError, match="has subscribed already"):
            again.subscribe("n > 0", at="oldest")
        with pytest.raises(InputError, match="only a durable subscriber"):
            net.subscriber("frank").subscribe("n > 0", at="oldest")
        with pytest.raises(InputError, match="no durable subscriber 'nobody'"):
            net.rewind("nobody", "oldest")
