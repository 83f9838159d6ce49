"""The listeners for STOMP that the network's file asks for; no client connects here."""

from dataclasses import replace
from types import SimpleNamespace
from urllib.parse import urlsplit

import pytest
from rayvous.gateway.serving import listeners_of
from rayvous.protocol.errors import InputError
from rayvous.protocol.gateways import GatewayConfig

NETWORK = SimpleNamespace(status=None, kill_broker=None)
"""Nobody looks at it here."""


def test_stomp_is_listened_for_where_the_file_says_so(gateway, run):
    async def work():
        core = gateway()
        http, stomp = listeners_of(core, GatewayConfig("127.0.0.1:0", "127.0.0.1:0"), NETWORK)
        assert stomp.url.startswith("stomp://127.0.0.1:")
        await stomp.start()
        taken = GatewayConfig("127.0.0.1:0", f"127.0.0.1:{urlsplit(stomp.url).port}")
        with pytest.raises(InputError, match=r"gateway stomp 127\.0\.0\.1:"):
            listeners_of(core, taken, NETWORK)
        for listener in (http, stomp):
            await listener.stop()
        http, stomp = listeners_of(core, GatewayConfig("127.0.0.1:0"), NETWORK)
        assert http.url
        assert not stomp.url  # it serves over WebSocket only
        for listener in (http, stomp):
            await listener.stop()
        await core.close()

    run(work())


def test_processes_of_a_node_share_an_address_and_one_of_them_serves_http(gateway, run):
    async def work():
        core = gateway()
        (alone,) = listeners_of(core, GatewayConfig("127.0.0.1:0", "127.0.0.1:0"), NETWORK, http=False)
        address = f"127.0.0.1:{urlsplit(alone.url).port}"
        await alone.stop()
        config = GatewayConfig("127.0.0.1:0", address, stomp_processes=2)
        _, first = listeners_of(core, config, NETWORK)
        (second,) = listeners_of(core, config, NETWORK, http=False)
        assert first.url == second.url == f"stomp://{address}"
        with pytest.raises(InputError, match=r"gateway stomp 127\.0\.0\.1:"):
            listeners_of(core, replace(config, stomp_processes=1), NETWORK)
        for listener in (first, second):
            await listener.stop()
        await core.close()

    run(work())


@pytest.mark.parametrize("stomp", [None, "127.0.0.1:0"])
def test_several_processes_take_a_port_that_they_share(stomp):
    with pytest.raises(InputError, match="several take stomp with a port"):
        GatewayConfig(stomp=stomp, stomp_processes=2).validate()
    with pytest.raises(InputError, match="stomp_processes is 0"):
        GatewayConfig(stomp="127.0.0.1:61613", stomp_processes=0).validate()
