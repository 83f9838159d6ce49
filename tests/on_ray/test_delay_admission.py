"""On real actors a subscription is refused if events have waited longer than it asks for; the verdict names the broker.

Reference: paper 3, section 6 (admission by delay, further work).
"""

import pytest
import rayvous as rv
from patience import PATIENCE_SECONDS
from rayvous.faults.real.burden import Burden


def test_who_cannot_wait_is_refused_by_the_broker_at_which_events_have_waited(ray_started) -> None:
    config = rv.AdmissionConfig(None, delay_window_seconds=10 * PATIENCE_SECONDS)
    with rv.Network.launch(rv.ClusterTree(2, 1), admission=config) as net:
        publisher, early = net.publisher("p", broker=0), net.subscriber("early", broker=1)
        publisher.advertise("k = 1", max_rate=1_000)
        early.subscribe("k = 1", max_delay=10 * PATIENCE_SECONDS)
        assert net.would_admit("k = 1", broker=1, max_delay=10 * PATIENCE_SECONDS).admitted
        net.inject(Burden({0: 0.02}))
        publisher.publish_batch([{"k": 1}] * 40)  # 0.8 s of CPU time, at least
        assert len([next(early.notifications(timeout_seconds=PATIENCE_SECONDS)) for _ in range(40)]) == 40

        late = net.subscriber("late", broker=1)
        with pytest.raises(rv.SubscriptionRejected, match=r"broker 0.*: delay: events wait") as caught:
            late.subscribe("k = 1", max_delay=0.5)
        (refusal,) = caught.value.refusals
        assert (refusal.broker, refusal.resource) == (0, "delay")
        assert refusal.asked >= 0.8 and refusal.free < 0.5
        assert net.would_admit("k = 2", broker=1, max_delay=0.5).admitted, "no events of it come from there"
        late.subscribe("k = 1", max_delay=10 * PATIENCE_SECONDS)
        late.subscribe("k = 1")
        for wrong in (-1, float("nan"), "soon"):
            with pytest.raises(rv.InputError, match="max_delay"):
                late.subscribe("k = 1", max_delay=wrong)
        net.settle()
        net.inspect.check()
