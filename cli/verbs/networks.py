"""``rayvous init``, ``up``, ``networks``, ``status``, ``top`` and ``down``: the life of a network from a shell."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from contextlib import nullcontext
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.live import Live

from ...protocol.errors import BrokerUnavailable, InputError, NetworkNotFound
from .. import console
from ..interrupts import ends_interrupt, interrupts_set
from ..joined import Address, NetworkName, joined, use_ray
from ..options import AsJson, Cpus, Labels, Resources, at_most, node_place

if TYPE_CHECKING:
    from ...actors.network.status import NetworkStatus
    from ..status_view import Order

LOOK_SECONDS: Final = 1.0
NAME: Final = "flights"


def init(
    path: Annotated[Path, typer.Argument(help="File to write; it must not exist.")] = Path("network.toml"),
) -> None:
    """Write a network file with every key, its meaning, and its default.

    Examples
    --------
      rayvous init
      rayvous up -f network.toml
    """
    text = resources.files("rayvous.cli").joinpath("network.toml").read_text(encoding="utf-8")
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise InputError(f"{path}: already exists, and was not changed") from None
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    console.out.print(f"written: {path}; start it with: rayvous up -f {path}", markup=False)


def up(
    file: Annotated[
        Path | None, typer.Option("-f", "--file", help="Network file; rayvous init writes one.")
    ] = None,
    name: Annotated[
        str | None, typer.Option(help=f"Name of the network \\[{NAME}, or the name in the file].")
    ] = None,
    clusters: Annotated[
        int | None, typer.Option(callback=at_most(10_000), help="Number of clusters in the tree [4].")
    ] = None,
    brokers_per_cluster: Annotated[
        int | None, typer.Option(callback=at_most(10_000), help="Brokers per cluster, each a Ray actor [3].")
    ] = None,
    scheme: Annotated[
        str | None, typer.Option(help=r"Routing scheme \[hybrid]; see docs/schemes.md.")
    ] = None,
    label: Labels = None,
    resource: Resources = None,
    num_cpus: Cpus = None,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """Start a network that keeps running after this command; start Ray if none is running.

    Without a file, the network heals. If Ray was started for it, Ray ends with the last network. --label, --resource
    and --num-cpus say where brokers run, and what each process of them takes there; if no node has that, nothing is
    started.

    Examples
    --------
      rayvous up --name flights --clusters 4 --brokers-per-cluster 3
      rayvous up -f network.toml
      rayvous up -f network.toml --address ray://head:10001
      rayvous up --label pool=brokers --num-cpus 0.5
    """
    from ...actors.network.lasting_ray import end_lasting_ray, start_lasting_ray
    from ...actors.network.launching import starts_ray
    from ...actors.network.network import Network
    from ...actors.network.network_file import read_network_file
    from ...actors.network.settings import Settings
    from ...protocol.messages.recovery import Recovery
    from ...routing.topologies.cluster_trees import ClusterTree

    use_ray(address)
    given = {
        "--clusters": clusters, "--brokers-per-cluster": brokers_per_cluster, "--scheme": scheme, "--label": label,
        "--resource": resource, "--num-cpus": num_cpus,
    }  # fmt: skip
    arguments: dict[str, Any] = {"name": name}
    topology: ClusterTree | Path
    if file is not None:
        if named := [option for option, value in given.items() if value is not None]:
            raise InputError(f"{named[0]}: set it in the network file, {file}")
        read_network_file(file)  # validate before starting Ray
        topology = file
    else:
        topology = ClusterTree(
            4 if clusters is None else clusters, 3 if brokers_per_cluster is None else brokers_per_cluster
        )
        arguments = {
            "name": NAME if name is None else name,
            "scheme": "hybrid" if scheme is None else scheme,
            "recovery": Recovery(),
            "place": node_place(label, resource, num_cpus),
        }
        Settings(topology, **arguments).validate()
    with console.steps() as steps:
        begun = starts_ray()
        if begun:
            steps.show("starting Ray", 0, 1)
            start_lasting_ray()
            steps.show("starting Ray", 1, 1)
        try:
            with ends_interrupt():
                net = Network.launch(topology, detached=True, progress=steps, **arguments)
        except BaseException:
            if begun:
                end_lasting_ray()
            raise
    with net:
        result: dict[str, object] = {
            "network": net.name,
            "scheme": net.inspect.scheme,
            "brokers": len(net.inspect.positions),
            "clusters": len({place.cluster for place in net.inspect.positions}),
            "heals": net.inspect.heals,
            "launches": net.inspect.directory.launches,
            "ray_started": begun,
            "gateways": net.gateways(),
        }
    if as_json:
        console.print_json(result)
        return
    _tell_started(result)


def _tell_started(result: Mapping[str, Any]) -> None:
    """Print what was started, and the next commands."""
    heals = "heals" if result["heals"] else "does not heal"
    lines = [
        f"network {result['network']}: {result['brokers']} brokers in {result['clusters']} clusters, "
        f"{result['scheme']}, {heals}"
    ]
    lines += ["restored from its stores"] * (result["launches"] > 1)
    lines += ["Ray was started, and ends with the last network"] * bool(result["ray_started"])
    lines += [f"gateway: {url}" for url in result["gateways"]]
    for line in (*lines, f"next: rayvous status {result['network']} | subscribe | publish | down"):
        console.out.print(line, markup=False)


def networks(address: Address = None, as_json: AsJson = False) -> None:
    """List the networks on the Ray cluster.

    Examples
    --------
      rayvous networks
      rayvous networks --address ray://head:10001 --json
    """
    from ...actors.network.launching import networks as running

    use_ray(address)
    names = sorted(running())
    if as_json:
        console.print_json({"networks": names})
        return
    for name in names:
        console.out.print(name, markup=False)
    if not names:
        console.err.print("none is running; rayvous up starts one", markup=False)


def down(
    network: NetworkName,
    keep_ray: Annotated[
        bool, typer.Option("--keep-ray", help="Keep Ray running, even if rayvous up started it.")
    ] = False,
    address: Address = None,
    as_json: AsJson = False,
) -> None:
    """End a network for all its clients; with the last network, also the Ray started for it.

    It ends whatever bears that name, also a network that is half launched or has lost its rendezvous point. Brokers'
    stores, and telemetry written to a folder, are kept.

    Examples
    --------
      rayvous down flights
    """
    from ...actors.network.lasting_ray import end_lasting_ray
    from ...actors.network.launching import starts_ray
    from ...actors.network.network import Network
    from ...actors.network.remains import all_parts, end_remains

    use_ray(address)
    try:
        Network.attach(network).shutdown()
    except (NetworkNotFound, BrokerUnavailable):
        if starts_ray() or not end_remains(network):
            raise
    end_remains(network)
    ended = not keep_ray and not all_parts() and end_lasting_ray()
    if as_json:
        console.print_json({"network": network, "ray_ended": ended})
    else:
        console.out.print(
            f"ended: {network}" + (", and the Ray that was started for it" if ended else ""), markup=False
        )


def status(
    network: NetworkName,
    watch: Annotated[bool, typer.Option("--watch", help="Refresh until Ctrl-C.")] = False,
    every: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between refreshes.")
    ] = LOOK_SECONDS,
    address: Address = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; with --watch, one line per refresh.")
    ] = False,
) -> int:
    """Show a network: its tree, and each broker's role, state, clients, filters, rates, queue and losses.

    Rates are measured between two refreshes. Exit status 0 only if every broker answers and nothing awaits repair.

    Examples
    --------
      rayvous status flights
      rayvous status flights --watch
      rayvous status flights --json
    """
    return _show(network, address, every, watch=watch, order="id", as_json=as_json)


def top(
    network: NetworkName,
    every: Annotated[
        float, typer.Option(min=0.1, max=3600, help="Seconds between refreshes.")
    ] = LOOK_SECONDS,
    address: Address = None,
) -> int:
    """Show a network, its busiest brokers first, until Ctrl-C.

    Examples
    --------
      rayvous top flights
    """
    return _show(network, address, every, watch=True, order="load", as_json=False)


def _show(
    network: str, address: str | None, every: float, *, watch: bool, order: Order, as_json: bool
) -> int:
    stop = threading.Event()
    screen = Live(console=console.out, auto_refresh=False) if watch and not as_json else None
    with joined(network, address) as net, interrupts_set(stop), screen or nullcontext():
        before = net.status()
        unhealthy_since: float | None = None
        while not stop.wait(every):  # rates are measured over this interval
            now = net.status()
            unhealthy_since = None if now.healthy else unhealthy_since or now.at_seconds
            _tell(now, before, unhealthy_since, screen, order, as_json=as_json)
            if not watch:
                return 0 if now.healthy else 1
            before = now
    return 0


def _tell(
    now: NetworkStatus,
    before: NetworkStatus,
    since: float | None,
    screen: Live | None,
    order: Order,
    *,
    as_json: bool,
) -> None:
    from ..status_view import status_view

    rates = now.rates(before)
    if as_json:
        console.print_json(now.to_dict(rates))
        return
    healing = None if since is None or screen is None else now.at_seconds - since
    rows = 40 if screen is None else max(5, console.out.height - 12)
    view = status_view(now, rates, healing_seconds=healing, order=order, rows=rows)
    if screen is None:
        console.out.print(view)
    else:
        screen.update(view, refresh=True)
