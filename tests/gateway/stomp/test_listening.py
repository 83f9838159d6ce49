"""What listens for STOMP, as the file of the network says; nobody connects here."""

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
        assert not stomp.url  # it serves over WebSocket alone
        for listener in (http, stomp):
            await listener.stop()
        await core.close()

    run(work())
