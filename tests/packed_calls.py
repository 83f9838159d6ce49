"""A base for fakes of a host's actor, which are called with bytes as the real actor is."""

import inspect
from types import SimpleNamespace
from typing import Any

from fakes import Actor
from rayvous.actors.host.frames import call_of, packed
from rayvous.actors.network.rendezvous import Rendezvous


class PackedCalls:
    """Provides `call.remote`, which unpacks a call, calls the `remote` of its method and packs the answer."""

    @property
    def call(self) -> Any:
        return SimpleNamespace(remote=self._call)

    def _call(self, *pieces: bytes) -> Any:
        method, arguments = call_of(b"".join(pieces))
        answer = getattr(self, method).remote(*arguments)
        return self._packed(answer) if inspect.isawaitable(answer) else None

    async def _packed(self, answer: Any) -> bytes:
        return packed(await answer)


def rendezvous_that_sends_to(broker: int, host: Any) -> Any:
    """Return a fake of the rendezvous point, which sends every client that has to move to one broker."""

    async def relocate(*_: Any) -> Any:
        return broker, host

    async def renew(name: str, life: int, broker: int) -> int:
        return life + 1

    return Actor(Rendezvous, relocate=relocate, renew=renew)
