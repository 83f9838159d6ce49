"""The program run by `test_strangers`: a network on a Ray that uses TLS, and what its connections are."""

import json
import sys
from itertools import islice
from pathlib import Path

import ray
import rayvous as rv
from rayvous.protocol.messages.recovery import Recovery

EVENTS = 50
BOUND_SECONDS = 60.0


def main(found: Path) -> None:
    ray.init(
        num_cpus=2, namespace="rayvous", include_dashboard=False, log_to_driver=False, logging_level="error"
    )
    with rv.Network.launch(rv.ClusterTree(2, 1), recovery=Recovery.for_tests(), links="direct") as net:
        net.await_convergence(BOUND_SECONDS)
        subscriber, publisher = net.subscriber("s", broker=0), net.publisher("p", broker=1)
        subscriber.subscribe("x >= 0")
        for x in range(EVENTS):
            publisher.publish({"x": x})
        notes = islice(subscriber.notifications(BOUND_SECONDS), EVENTS)
        came = [note.event["x"] for note in notes]
        channels = net._process._channels.opened()
        ciphers = [each.transport.get_extra_info("cipher") for each in channels]
        sizes = net.inspect.describe().nodes(data="hosts_by_ray")
        by_ray = [count for _, count in sizes]
    ray.shutdown()
    protocols = [cipher and cipher[1] for cipher in ciphers]
    found.write_text(json.dumps({"came": came, "protocols": protocols, "by_ray": by_ray}))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
