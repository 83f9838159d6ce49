"""What `rayvous doctor` is told about the running Ray."""

import psutil
import ray
import rayvous as rv
from rayvous.actors.network.ray_here import seen
from rayvous.cli.doctor.tools import ray_here


def test_actors_have_names_that_say_what_they_are_and_of_which_network(net: rv.Network) -> None:
    named = ray.util.list_named_actors(all_namespaces=True)
    ours = {entry["name"] for entry in named if entry["name"].startswith(f"{net.name}:")}
    hosts = {f"brokers:{first}-{first + 1}" for first in range(0, len(net.inspect.positions), 2)}
    assert ours == {f"{net.name}:{title}" for title in ("rendezvous", "collector", *hosts)}
    assert {entry["namespace"] for entry in named if entry["name"] in ours} == {"rayvous"}


def test_the_ray_that_runs_is_seen(net: rv.Network) -> None:
    told = seen()
    assert told["address"] == ray.get_runtime_context().gcs_address
    assert (told["nodes"], told["cpus"], told["version"]) == (1, 4, ray.__version__)
    assert net.name in told["networks"]
    there, dashboard = ray_here(told, None)
    assert there.state == "ok" and net.name in there.said
    assert dashboard.state == "missing"  # the Ray of these tests is started without one


def test_processes_of_tests_are_forked_from_one_that_has_imported_what_they_need(net: rv.Network) -> None:
    """Else a network costs three times as much, which nothing else tells."""
    parents = {psutil.Process(net.inspect.pid_of(broker)).parent() for broker in net.inspect.brokers()}
    (server,) = parents
    assert server is not None and server.cmdline()[1].endswith("fork_server.py")
