"""``rayvous add-broker``, ``add-cluster``, ``remove``, ``restart``, ``reoptimise`` and ``kill``: operate a network.

Each waits until the network is healthy again, and prints how long that took.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ...protocol.errors import InputError
from .. import console
from ..joined import Address, NetworkName, joined
from ..options import AsJson

if TYPE_CHECKING:
    from ...actors.network.network import Network
    from ...actors.network.rolling import Replaced

HEALED_SECONDS = 120.0

Broker = Annotated[int, typer.Argument(help="Number of the broker; see rayvous status.")]
Wait = Annotated[bool, typer.Option(help="Wait until the network has recovered.")]


def add_broker(
    network: NetworkName,
    cluster: Annotated[int, typer.Argument(help="Cluster to join.")],
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Add a broker to a cluster.

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
    brokers: Annotated[int, typer.Argument(help="Number of brokers in the new cluster.")],
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Add a cluster of brokers; it finds a parent by itself.

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
    broker: Annotated[list[int] | None, typer.Option(help="Broker to remove; may be repeated.")] = None,
    cluster: Annotated[int | None, typer.Option(help="Cluster to remove.")] = None,
    timeout: Annotated[float, typer.Option(min=0, max=1e9, help="Timeout in seconds.")] = 60.0,
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Remove brokers or a cluster without loss; their clients move first.

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
            gone = f"removed: cluster {cluster}"
        else:
            assert broker is not None
            net.remove_broker(broker, timeout)
            gone = f"removed: broker {', '.join(map(str, broker))}"
        _done(net, gone, {"brokers": broker, "cluster": cluster}, wait=wait, as_json=as_json)


def restart(
    network: NetworkName,
    broker: Annotated[int | None, typer.Argument(help="Dead broker to restart.")] = None,
    rolling: Annotated[
        bool, typer.Option("--rolling", help="Restart every broker, one process at a time, without loss.")
    ] = False,
    timeout: Annotated[
        float, typer.Option(min=0, max=1e9, help="With --rolling: timeout for each process, in seconds.")
    ] = HEALED_SECONDS,
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Restart a dead broker (if it has a store, with everything it had accepted), or all brokers in turn.

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
            _done(net, f"restarted: broker {broker}", {"broker": broker}, wait=wait, as_json=as_json)
            return
        done = net.restart_rolling(timeout, None if as_json else _say_replaced)
    if as_json:
        console.print_json({"network": network, "replaced": [asdict(each) for each in done]})


def _say_replaced(one: Replaced) -> None:
    said = f"restarted: broker {', '.join(map(str, one.brokers))}; recovered after {one.seconds:.1f} s"
    console.out.print(f"{said}; {one.left} left" if one.left else said, markup=False)


def reoptimise(network: NetworkName, address: Address = None, as_json: AsJson = False) -> None:
    """Let each cluster in turn look for a clearly nearer parent.

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
        console.out.print(
            f"cluster {cluster} has moved from parent {former} to parent {parent}", markup=False
        )
    if not moved:
        console.out.print("every cluster already has its nearest parent", markup=False)


def kill(
    network: NetworkName,
    broker: Broker,
    wait: Wait = True,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Kill a broker's actor, to see the network heal.

    Examples
    --------
      rayvous kill flights 5
    """
    with joined(network, address) as net:
        dead = net.kill_broker(broker)
        said = f"killed: broker {', '.join(map(str, dead))}"
        _done(net, said, {"killed": dead}, wait=wait and net.inspect.heals, as_json=as_json)


def _done(net: Network, said: str, result: dict[str, object], *, wait: bool, as_json: bool) -> None:
    """Print what was done, wait until the network has recovered, and print how long that took."""
    if not as_json:
        console.out.print(said, markup=False)
    healed = net.await_convergence(HEALED_SECONDS) if wait else None
    if as_json:
        console.print_json({"network": net.name, **result, "healed_after_seconds": healed})
    elif healed is not None:
        console.out.print(f"recovered after {healed:.1f} s", markup=False)
