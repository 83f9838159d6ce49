"""Brokers are killed with SIGKILL, and nobody gets what had been delivered before it subscribed (promise 1).

Reference: paper 4, definition 9; docs/exactly-once.md. The same in virtual time: tests/simulator/test_positions.py.
"""

from pathlib import Path

import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.real.crash import crash
from rayvous.protocol.messages.recovery import Recovery

RECOVERY = Recovery.for_tests(suspect_after_seconds=2.0, client_patience_seconds=4.0)


def received(subscriber: rv.Subscriber, last: tuple[str, int]) -> list[tuple[str, int]]:
    """Return what a subscriber receives up to the last one, and what has arrived behind that."""
    found: list[tuple[str, int]] = []
    for note in subscriber.notifications(timeout_seconds=PATIENCE_SECONDS):
        found.append((note.publisher, note.sequence))
        if found[-1] == last:
            break
    return [
        *found,
        *((note.publisher, note.sequence) for note in subscriber.notifications(timeout_seconds=0)),
    ]


def test_brokers_are_killed_after_somebody_subscribed_to_what_others_had(
    ray_started: None, tmp_path: Path
) -> None:
    """The new subscriber is durable, and its own broker dies too and is restarted; the root dies for good."""
    tree = rv.ClusterTree(2, 2, degree=1)
    with rv.Network.launch(tree, recovery=RECOVERY, stable=rv.Stable(tmp_path)) as net:
        net.await_convergence(PATIENCE_SECONDS)
        survey = net.inspect.survey()
        root = next(broker for broker, one in survey.items() if one["root"])
        beside = next(broker for broker in survey if broker != root and survey[broker]["cluster"] == 0)
        below = [broker for broker in survey if survey[broker]["cluster"] != survey[root]["cluster"]]
        first = net.subscriber("first", broker=beside)
        first.subscribe("x >= 0")
        old = net.publisher("old", broker=below[0])
        for number in range(50):
            old.publish({"x": number})
        old.flush()
        net.release(old)
        assert len(received(first, ("old", 50))) == 50
        new = net.subscriber("new", broker=below[1], durable=True)
        new.subscribe("x >= 0")
        crash(net, root)
        crash(net, below[1])
        net.restart_broker(below[1])
        net.await_convergence(PATIENCE_SECONDS)
        follower = net.publisher("next", broker=beside)
        follower.publish({"x": 1})
        follower.flush(timeout_seconds=PATIENCE_SECONDS)
        assert received(new, ("next", 1)) == [("next", 1)], "and nothing of what was sent again"
        assert received(first, ("next", 1)) == [("next", 1)]
