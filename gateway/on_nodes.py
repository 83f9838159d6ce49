"""A gateway as a Ray actor: one a node, or several for STOMP; Ray starts it again when it dies.

Rules
-----
* It serves on an event loop in a thread of its own, since what it does of Ray waits.
* What keeps it from serving at its first start is told to the supervisor of gateways, who ends it. Later it ends its
  process, and Ray starts it again.
* It ends for good when it sees that the network has been ended, also when it never served.
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
from ray.exceptions import RayError

from ..actors.network.directory import NAMESPACE, rendezvous_name
from ..actors.network.gateways import gateways_sharing
from ..actors.network.network import Network
from ..protocol.errors import NetworkNotFound
from .serving import Serving, serving, settle_memory

LOOK_SECONDS: Final = 5.0
"""How often one that cannot serve looks whether its network is there."""

_LOG = logging.getLogger("rayvous.gateway")


class GatewayActor:
    """Serves a network that was launched with a gateway.

    Parameters
    ----------
    network
        Its name.
    http
        Whether it serves HTTP, too: one of each node does.
    """

    def __init__(self, network: str, http: bool = True) -> None:
        self._network, self._http = network, http
        self._serving: Serving | None = None
        self._sharing: int | None = None  # what it was told last
        self._turn = threading.Lock()
        self._urls: Future[list[str]] = Future()
        threading.Thread(target=self._run, name="gateway", daemon=True).start()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
            _end_for_good()
        except NetworkNotFound:
            _LOG.exception("there is nothing to serve")
            _end_for_good()
        except BaseException as error:
            if self._urls.done() or ray.get_runtime_context().was_current_actor_reconstructed:
                _LOG.exception("the gateway has failed")
                os._exit(1)
            self._urls.set_exception(error)
            _LOG.exception("the gateway cannot serve")
            # The supervisor ends it, unless that has gone before it was told, with the network.
            while not _has_ended(self._network):
                time.sleep(LOOK_SECONDS)
            _end_for_good()

    async def _serve(self) -> None:
        network = await asyncio.to_thread(Network.attach, self._network)
        config, access = network.directory.gateway, network.directory.access
        assert config is not None and access is not None
        sharing = await asyncio.to_thread(gateways_sharing, network.directory)
        async with serving(network, config, access, http=self._http) as served:
            settle_memory()
            with self._turn:
                self._loop, self._serving = asyncio.get_running_loop(), served
                # What it was told meanwhile is newer than what it has asked for.
                served.gateway.share(sharing if self._sharing is None else self._sharing)
            self._urls.set_result(served.urls)
            await served.until_ended(asyncio.Event())

    def urls(self) -> list[str]:
        """Return where it is to be reached, once it serves.

        Raises
        ------
        InputError
            If it cannot serve: its port is taken, say.
        """
        return self._urls.result()

    def share(self, gateways: int) -> None:
        """Take in how many gateways share the limits of principals now."""
        with self._turn:
            self._sharing = gateways
            if self._serving is not None:
                with suppress(RuntimeError):  # it ends
                    self._loop.call_soon_threadsafe(self._serving.gateway.share, gateways)

    def pid(self) -> int:
        """Return the process that it is."""
        return os.getpid()


def _has_ended(network: str) -> bool:
    """Return whether Ray knows that a network has no rendezvous point any more."""
    try:
        ray.get_actor(rendezvous_name(network), namespace=NAMESPACE)
    except ValueError:
        return True
    except RayError:
        return False
    return False


def _end_for_good() -> None:
    """End this actor, so that Ray does not start it again."""
    ray.kill(ray.get_runtime_context().current_actor, no_restart=True)
