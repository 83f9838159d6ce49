"""Durable subscribers begin in the past, and are rewound, on Ray: with a store, and a broker that was killed since.

Reference: docs/replay.md.
"""

import time
from pathlib import Path

import pytest
import rayvous as rv
from rayvous.faults.real.crash import crash
from rayvous.protocol.errors import InputError, NameTaken
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
