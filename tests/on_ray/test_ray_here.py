"""What `rayvous doctor` is told of the Ray that runs."""

import ray
import rayvous as rv
from rayvous.actors.network.ray_here import seen
from rayvous.cli.doctor.tools import ray_here


def test_the_ray_that_runs_is_seen(net: rv.Network) -> None:
    told = seen()
    assert told["address"] == ray.get_runtime_context().gcs_address
    assert (told["nodes"], told["cpus"], told["version"]) == (1, 4, ray.__version__)
    assert net.name in told["networks"]
    there, dashboard = ray_here(told, None)
    assert there.state == "ok" and net.name in there.said
    assert dashboard.state == "missing"  # the Ray of these tests is started without
