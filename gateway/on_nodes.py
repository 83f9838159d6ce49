"""A gateway as a Ray actor: one per node, or several for STOMP. Ray restarts it when it dies.

Rules
-----
* It serves on an event loop in its own thread, since its Ray calls block.
* An error that prevents serving at the first start is reported to the supervisor of gateways, which ends the
  actor. A later error ends the process, and Ray restarts it.
* It ends permanently when it finds that the network has been ended, even if it never served.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from typing import Final

import ray

from ..actors.network.gateways import gateways_sharing
from ..actors.network.lasting_actors import end_for_good, has_ended
from ..actors.network.network import Network
from ..protocol.errors import NetworkNotFound
from .serving import Serving, serving, settle_memory

LOOK_SECONDS: Final = 5.0
"""How often an actor that cannot serve checks whether its network still exists."""

_LOG = logging.getLogger("rayvous.gateway")


class GatewayActor:
    """Serves a network that was launched with a gateway.

    Parameters
    ----------
    network
        The name of the network.
    http
        Whether it serves HTTP, too: one actor of each node does.
    """

    def __init__(self, network: str, http: bool = True) -> None:
        self._network, self._http = network, http
        self._serving: Serving | None = None
        self._sharing: int | None = None  # the last reported number of gateways
        self._turn = threading.Lock()
        self._urls: Future[list[str]] = Future()
        threading.Thread(target=self._run, name="gateway", daemon=True).start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
            end_for_good()
        except NetworkNotFound:
            _LOG.exception("there is nothing to serve")
            end_for_good()
        except BaseException as error:
            if self._urls.done() or ray.get_runtime_context().was_current_actor_reconstructed:
                _LOG.exception("the gateway has failed")
                os._exit(1)
            self._urls.set_exception(error)
            _LOG.exception("the gateway cannot serve")
            # The supervisor ends this actor, unless the supervisor has gone with the network before it got
            # the error.
            while not has_ended(self._network):
                time.sleep(LOOK_SECONDS)
            end_for_good()

    async def _serve(self) -> None:
        network = await asyncio.to_thread(Network.attach, self._network)
        config, access = network.inspect.directory.gateway, network.inspect.directory.access
        assert config is not None and access is not None
        sharing = await asyncio.to_thread(gateways_sharing, network.inspect.directory)
        async with serving(network, config, access, http=self._http) as served:
            settle_memory()
            with self._turn:
                self._loop, self._serving = asyncio.get_running_loop(), served
                # A number reported meanwhile is newer than the one it asked for.
                served.gateway.share(sharing if self._sharing is None else self._sharing)
            self._urls.set_result(served.urls)
            await served.until_ended(asyncio.Event())

    def urls(self) -> list[str]:
        """Return the URLs of the gateway, once it serves.

        Raises
        ------
        InputError
            If it cannot serve, for example because its port is taken.
        """
        return self._urls.result()

    def share(self, gateways: int) -> None:
        """Update the number of gateways that share the limits of principals."""
        with self._turn:
            self._sharing = gateways
            if self._serving is not None:
                with suppress(RuntimeError):  # the loop has ended
                    self._loop.call_soon_threadsafe(self._serving.gateway.share, gateways)

    def pid(self) -> int:
        """Return the process id."""
        return os.getpid()
