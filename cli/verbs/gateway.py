"""``rayvous gateway``, ``ui`` and ``token``: access for clients outside Ray, and watching a network in a browser."""

from __future__ import annotations

import asyncio
import json
import webbrowser
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from secrets import token_urlsafe
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from ...protocol.errors import InputError, NetworkNotFound
from ...protocol.extras import require
from .. import console
from ..interrupts import SIGNALS
from ..joined import Address, NetworkName, joined
from ..options import AsJson

if TYPE_CHECKING:
    from ...actors.network.network import Network
    from ...gateway.serving import Serving
    from ...protocol.gateways import AccessConfig, GatewayConfig

TOKEN_BYTES: Final = 32


def gateway(
    network: NetworkName,
    file: Annotated[
        Path | None,
        typer.Option("-f", "--file", help=r"File with \[access] and \[gateway] \[those of the network]."),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(help="Address and port for HTTP [127.0.0.1:8080]; port 0 chooses a free one."),
    ] = None,
    stomp: Annotated[
        str | None,
        typer.Option(help="Address and port for STOMP, such as 127.0.0.1:61613 \\[no STOMP]."),
    ] = None,
    certificate: Annotated[Path | None, typer.Option(help="For TLS: certificate file (PEM).")] = None,
    private_key: Annotated[Path | None, typer.Option(help="For TLS: private key file (PEM).")] = None,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="Name by which clients address the gateway, such as a proxy's; may be repeated."),
    ] = None,
    listed: Annotated[
        bool,
        typer.Option("--list", help="List the gateways on the network's nodes, and end."),
    ] = False,
    address: Address = None,
) -> int:
    r"""Let clients outside Ray publish and subscribe over HTTP, WebSocket and STOMP, until Ctrl-C.

    The section \[access] of a network file says who may do what; rayvous token creates a token and its entry. Prints
    the gateway's addresses once it serves. A network whose file has \[gateway] has a gateway on every node anyway, also
    on nodes that join the Ray cluster later; with --list, the exit status is 0 only if all of them serve.

    Examples
    --------
      rayvous token alice --publish TRUE --subscribe TRUE >> access.toml
      rayvous gateway flights -f access.toml
      curl -H "Authorization: Bearer $TOKEN" --json '{"origin": "JFK", "dep_delay": 75}' localhost:8080/events
      curl -N -H "Authorization: Bearer $TOKEN" "localhost:8080/subscribe?selector=dep_delay>60"
      rayvous gateway flights --list
    """
    given: dict[str, Any] = {
        "http": http,
        "stomp": stomp,
        "certificate": certificate,
        "private_key": private_key,
    }
    if listed:
        if file is not None or allow_host or any(value is not None for value in given.values()):
            raise InputError("--list: it starts no gateway, so it takes no file, address or certificate")
        return _list(network, address)
    require("gateway")
    found = _found(file)
    with joined(network, address) as net:
        config, access = _settled(net, *found)
        config = replace(config, **{name: value for name, value in given.items() if value is not None})
        config = replace(config, hosts=(*config.hosts, *(allow_host or ())))
        ended = asyncio.run(_serve(net, config.validate(), access, lambda served: _print_lines(served.urls)))
    if ended:
        raise NetworkNotFound(f"network {network!r} was ended")
    return 0


def _list(network: str, address: str | None) -> int:
    from ..status_view import gateways_view

    with joined(network, address) as net:
        if net.inspect.directory.gateway is None:
            raise InputError(
                f"network {network!r} was launched without [gateway], so it has no gateways on its nodes"
            )
        found = net.status().gateways
    console.out.print(gateways_view(found))
    return 0 if found and all(one.state == "serving" for one in found) else 1


def _print_lines(lines: list[str]) -> None:
    for line in lines:
        console.out.print(line, markup=False, soft_wrap=True)


def ui(
    network: NetworkName,
    port: Annotated[
        int, typer.Option(min=0, max=65_535, help="Port on this machine; 0 chooses a free one.")
    ] = 0,
    kill: Annotated[bool, typer.Option("--kill", help="Allow the page to kill brokers.")] = False,
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
    address: Address = None,
) -> None:
    """Watch a network live in a browser, until Ctrl-C: its tree, rates, latencies, queues, deaths and healing.

    The page is served on this machine only. The printed link opens it once, within five minutes; a page that is open
    may be loaded again. The gateways of a network serve it at /ui, to principals with the right to watch.

    Examples
    --------
      rayvous ui flights
      rayvous ui flights --kill
      rayvous ui flights --port 8090 --no-browser
    """
    from ...protocol.gateways import AccessConfig, GatewayConfig, Principal, digest_of

    require("gateway")
    secret = token_urlsafe(TOKEN_BYTES)
    me = Principal((digest_of(secret),), subscribe="TRUE", watch=True, operate=kill)

    def show(served: Serving) -> None:
        _print_lines([_link(served, secret)])
        if browser:
            webbrowser.open(_link(served, secret))  # of its own: the printed one stays good

    with joined(network, address) as net:
        config = GatewayConfig(f"127.0.0.1:{port}").validate()
        ended = asyncio.run(_serve(net, config, AccessConfig({"me": me}).validate(), show))
    if ended:
        raise NetworkNotFound(f"network {network!r} was ended")


def _link(served: Serving, secret: str) -> str:
    """Return a link to the page, with a code: the arguments of a browser can be listed by every user of the machine."""
    return f"{served.urls[0]}/ui/#{served.codes.issue(secret)}"


def _found(file: Path | None) -> tuple[GatewayConfig | None, AccessConfig | None]:
    """Return the configuration in a file, before connecting to Ray."""
    from ...actors.network.network_file import read_gateway_file

    if file is None:
        return None, None
    config, access = read_gateway_file(file)
    if access is None:
        raise InputError(f"{file}: access is missing, so nobody could connect; rayvous token creates entries")
    return config, access


def _settled(
    net: Network, config: GatewayConfig | None, access: AccessConfig | None
) -> tuple[GatewayConfig, AccessConfig]:
    from ...protocol.gateways import GatewayConfig as Config

    access = access or net.inspect.directory.access
    if access is None:
        raise InputError(
            f"network {net.name!r} does not say who may connect: give a file with [access] (-f); "
            "rayvous token creates entries"
        )
    return config or net.inspect.directory.gateway or Config(), access


async def _serve(
    net: Network, config: GatewayConfig, access: AccessConfig, tell: Callable[[Serving], None]
) -> bool:
    """Serve until a signal, or the end of the network; return True in the second case."""
    from ...gateway.serving import serving, settle_memory

    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in SIGNALS:
        loop.add_signal_handler(number, stop.set)
    async with serving(net, config, access) as served:
        settle_memory()
        tell(served)
        return await served.until_ended(stop)


def token(
    principal: Annotated[str, typer.Argument(metavar="NAME", help="Name of the principal.")],
    publish: Annotated[str, typer.Option(help="Selector of the events that it may publish.")] = "FALSE",
    subscribe: Annotated[str, typer.Option(help="Selector; it may subscribe to what this covers.")] = "FALSE",
    watch: Annotated[bool, typer.Option("--watch", help="Allow it to watch the live page.")] = False,
    operate: Annotated[
        bool, typer.Option("--operate", help="Allow it to kill brokers on the live page.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Create a token for a client outside Ray, and the entry that grants it access.

    The entry for a network file, with the token's digest, is printed on standard output. The token itself is printed on
    standard error only: keep it.

    Examples
    --------
      rayvous token alice --publish "origin = 'JFK'" --subscribe TRUE >> network.toml
      rayvous token dashboard --subscribe "public = TRUE" --json
    """
    from ...actors.network.rights import check_rights
    from ...protocol.gateways import AccessConfig, Principal, digest_of

    secret = token_urlsafe(TOKEN_BYTES)
    digest = digest_of(secret)
    check_rights(
        AccessConfig({principal: Principal((digest,), publish, subscribe, watch, operate)}).validate()
    )
    if as_json:
        console.print_json({"principal": principal, "token": secret, "token_sha256": digest})
        return
    console.err.print(f"token of {principal}: {secret}", markup=False, soft_wrap=True)
    lines = [f"[access.principals.{json.dumps(principal) if '.' in principal else principal}]"]
    lines.append(f'token_sha256 = ["{digest}"]')
    lines += [
        f"{right} = {json.dumps(text)}" for right, text in (("publish", publish), ("subscribe", subscribe))
    ]
    lines += [f"{right} = true" for right, given in (("watch", watch), ("operate", operate)) if given]
    console.out.file.write("\n".join(["", *lines]) + "\n")
