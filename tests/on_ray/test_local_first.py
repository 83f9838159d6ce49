"""Publishers at a subscriber's own broker satisfy it, on real actors (paper 2, 2.3(1) and 2.4)."""

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS, until
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.interest.affinity import EVENTS_MIN


def recorded(net: rv.Network) -> int:
    """Return how many filters of other brokers the brokers have recorded in total."""
    return sum(sizes["recorded"] for _, sizes in net.inspect.describe().nodes(data=True))


def test_a_subscriber_moves_to_its_publishers_and_takes_nothing_elsewhere_any_more(ray_started: None) -> None:
    """Alice's broker proposes a move to Bob's broker, where she is served locally; nothing is lost."""
    recovery = Recovery.for_tests(heartbeat_seconds=0.1)
    with rv.Network.launch(
        rv.ClusterTree(4, 1), scheme="hypercube", recovery=recovery, brokers_per_actor=2
    ) as net:
        bob, alice = net.publisher("bob", broker=3), net.subscriber("alice", broker=0)
        bob.advertise("x >= 0")
        with pytest.raises(rv.InputError, match="no admission control"):
            bob.advertise("x >= 0", max_rate=10.0)
        number = alice.subscribe("x >= 0", local_first=True)
        (answer,) = alice.answers(number).known
        assert (answer.publisher, answer.broker) == ("bob", 3) and not alice.answers(number).here
        assert recorded(net) == 3

        def moves() -> bool:
            bob.publish_batch([{"x": x} for x in range(EVENTS_MIN)])
            return alice.broker == 3

        until(moves, "its broker proposes that it moves")
        until(lambda: recorded(net) == 0, "no broker is told of what is satisfied locally")
        assert alice.answers(number).here
        carol = net.publisher("carol", broker=1)
        carol.publish({"x": 1})

        bob.move_to(1)  # in another actor
        bob.publish({"x": 0})
        until(lambda: not alice.answers(number).here, "bob has gone")
        bob.flush()
        net.settle(PATIENCE_SECONDS)
        assert recorded(net) == 3
        heard = [note.sequence for note in alice.notifications(0) if note.publisher == "bob"]
        assert heard == list(range(1, bob.published + 1))
        net.inspect.check()
