"""``rayvous add-broker``, ``add-cluster``, ``remove``, ``restart``, ``reoptimise`` and ``kill``: operate a network.

Each waits until the network is whole again, and prints how long that took.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ...protocol.errors import InputError
from .. import console
from ..joined import Address, NetworkName, joined
from ..options import AsJson

if TYPE_CHECKING:
    from ...actors.network.network import Network
    from ...actors.network.rolling import Replaced

HEALED_SECONDS = 120.0

Broker = Annotated[int, typer.Argument(help="Its number; see rayvous status.")]
Wait = Annotated[bool, typer.Option(help="Wait until the network is whole again.")]


def add_broker(
    network: NetworkName,
    cluster: Annotated[int, typer.Argument(help="The cluster that it joins.")],
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Let a broker join a cluster.

    Examples
    --------
      rayvous add-broker flights 1
    """
    with joined(network, address) as net:
        broker = net.add_broker(cluster)
        _done(
            net,
            f"broker {broker} has joined cluster {cluster}",
            {"broker": broker},
            wait=wait,
            as_json=as_json,
        )


def add_cluster(
    network: NetworkName,
    brokers: Annotated[int, typer.Argument(help="How many brokers it has.")],
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Let a cluster of brokers join; it finds a parent by itself.

    Examples
    --------
      rayvous add-cluster flights 3
    """
    with joined(network, address) as net:
        cluster, members = net.add_cluster(brokers)
        said = f"cluster {cluster} has joined: brokers {', '.join(map(str, members))}"
        _done(net, said, {"cluster": cluster, "brokers": members}, wait=wait, as_json=as_json)


def remove(
    network: NetworkName,
    broker: Annotated[list[int] | None, typer.Option(help="A broker; may be repeated.")] = None,
    cluster: Annotated[int | None, typer.Option(help="A whole cluster.")] = None,
    timeout: Annotated[float, typer.Option(min=0, max=1e9, help="Seconds that it may take.")] = 60.0,
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Let brokers, or a cluster, leave in good order: their clients go first, and nothing is lost.

    Examples
    --------
      rayvous remove flights --broker 7
      rayvous remove flights --cluster 2
    """
    if (broker is None) == (cluster is None):
        raise InputError("remove: give --broker, or --cluster")
    with joined(network, address) as net:
        if cluster is not None:
            net.remove_cluster(cluster, timeout)
            gone = f"cluster {cluster} has left"
        else:
            assert broker is not None
            net.remove_brokers(broker, timeout)
            gone = f"gone: broker {', '.join(map(str, broker))}"
        _done(net, gone, {"brokers": broker, "cluster": cluster}, wait=wait, as_json=as_json)


def restart(
    network: NetworkName,
    broker: Annotated[int | None, typer.Argument(help="A dead broker.")] = None,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="Every broker, one process after the other, without a loss.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0, max=1e9, help="Seconds that each process may take with --rolling.")
    ] = HEALED_SECONDS,
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Start a dead broker again, with a store with all that it had accepted; or every broker, one after the other.

    Examples
    --------
      rayvous restart flights 5
      rayvous restart flights --rolling
    """
    if (broker is None) != rolling:
        raise InputError("restart: give a broker, or --rolling")
    with joined(network, address) as net:
        if broker is not None:
            net.restart_broker(broker)
            _done(net, f"broker {broker} was started again", {"broker": broker}, wait=wait, as_json=as_json)
            return
        done = net.restart_rolling(timeout, None if as_json else _say_replaced)
    if as_json:
        console.print_json({"network": network, "replaced": [asdict(each) for each in done]})


def _say_replaced(one: Replaced) -> None:
    said = f"started again: broker {', '.join(map(str, one.brokers))}; whole after {one.seconds:.1f} s"
    console.out.print(f"{said}; {one.left} left" if one.left else said, markup=False)


def reoptimise(network: NetworkName, address: Address = None, as_json: AsJson = False) -> None:
    """Let one cluster after another look for a clearly nearer parent.

    Examples
    --------
      rayvous reoptimise flights
    """
    with joined(network, address) as net:
        moved = net.reoptimise()
    if as_json:
        names = ("cluster", "former_parent", "parent")
        console.print_json({"moved": [dict(zip(names, each, strict=True)) for each in moved]})
        return
    for cluster, former, parent in moved:
        console.out.print(f"cluster {cluster} hangs below {parent} now, before below {former}", markup=False)
    if not moved:
        console.out.print("every cluster has the parent that is nearest", markup=False)


def kill(
    network: NetworkName,
    broker: Broker,
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Kill the actor of a broker, to see the network heal.

    Examples
    --------
      rayvous kill flights 5
    """
    with joined(network, address) as net:
        dead = net.kill_broker(broker)
        said = f"killed: broker {', '.join(map(str, dead))}"
        _done(net, said, {"killed": dead}, wait=wait and net.heals, as_json=as_json)


def _done(net: Network, said: str, result: dict[str, Any], *, wait: bool, as_json: bool) -> None:
    """Print what was done, wait until the network is whole again, and print how long that took."""
    if not as_json:
        console.out.print(said, markup=False)
    healed = net.await_convergence(HEALED_SECONDS) if wait else None
    if as_json:
        console.print_json({"network": net.name, **result, "healed_after_seconds": healed})
    elif healed is not None:
        console.out.print(f"whole again after {healed:.1f} s", markup=False)
