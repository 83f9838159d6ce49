"""What stands for a host's actor in a test, called as an actor is: with bytes."""

import inspect
from types import SimpleNamespace
from typing import Any

from rayvous.actors.host.frames import packed, unpacked


class PackedCalls:
    """Has `call.remote`: a call is unpacked, and made at the `remote` of its method; its answer is packed."""

    @property
    def call(self) -> Any:
        return SimpleNamespace(remote=self._call)

    def _call(self, *pieces: bytes) -> Any:
        method, arguments = unpacked(pieces)
        answer = getattr(self, method).remote(*arguments)
        return self._packed(answer) if inspect.isawaitable(answer) else None

    async def _packed(self, answer: Any) -> bytes:
        return packed(await answer)
