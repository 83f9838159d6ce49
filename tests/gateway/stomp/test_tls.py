"""STOMP with TLS over a pair of sockets, where asyncio behaves differently than without TLS."""

import asyncio
import socket
import ssl
import subprocess

import pytest
from patience import PATIENCE_SECONDS
from rayvous.gateway.stomp.server import StompServer, tls_of
from rayvous.protocol.gateways import AccessConfig, GatewayConfig, GatewayLimits, Principal

ANYBODY = AccessConfig({}, anonymous=Principal(subscribe="TRUE"))
GOODBYES = [b"DISCONNECT\nreceipt:1\n\n\0", b"nonsense\n\n\0"]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    paths = folder / "cert.pem", folder / "key.pem"
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:P-256",
        "-nodes",
        "-days",
        "2",
    ]
    made += ["-subj", "/CN=localhost", "-out", str(paths[0]), "-keyout", str(paths[1])]
    subprocess.run(made, check=True, capture_output=True)
    return paths


@pytest.mark.parametrize("goodbye", GOODBYES)
def test_a_connection_with_tls_ends_when_all_is_said(gateway, run, certificate, goodbye, monkeypatch):
    """STOMP 1.2, "Connection Lingering"."""
    monkeypatch.setattr(
        "rayvous.gateway.stomp.server.LINGER_SECONDS", 0.05
    )  # the client waits for the gateway
    cert, key = certificate
    limits = GatewayLimits(stall_seconds=3600.0)  # nothing stalls here, so waiting for this would not end

    async def work():
        server = StompServer(gateway(limits, ANYBODY))
        ours, theirs = socket.socketpair()
        tls = tls_of(GatewayConfig(certificate=cert, private_key=key))
        loop = asyncio.get_running_loop()

        def accepted():
            return asyncio.StreamReaderProtocol(asyncio.StreamReader(), server._accepted)

        accepting = loop.create_task(loop.connect_accepted_socket(accepted, ours, ssl=tls))
        trusting = ssl.create_default_context(cafile=cert)
        reader, writer = await asyncio.open_connection(sock=theirs, ssl=trusting, server_hostname="localhost")
        await accepting
        writer.write(b"CONNECT\naccept-version:1.2\n\n\0" + goodbye)
        said = await asyncio.wait_for(reader.read(), PATIENCE_SECONDS)
        writer.close()
        return said

    said = run(work())
    assert said.startswith(b"CONNECTED\n") and (b"RECEIPT\n" in said or b"ERROR\n" in said)
