"""Codes that let a page in once, in place of a token.

Rules
-----
* A URL that opens a browser is an argument of a process, which every user of the machine can list. It has a code, which
  is of no use once the page has exchanged it for the token, or `CODE_SECONDS` after it was made.
* Codes are bounded in number: the oldest one is dropped.
* A code has 256 random bits. It is looked up by its digest, so the time of a look-up tells nothing about others.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from secrets import token_urlsafe
from typing import Final

from ...protocol.errors import AccessDenied
from ...protocol.gateways import digest_of

CODE_SECONDS: Final = 300.0
CODES_MAX: Final = 16
_BYTES: Final = 32


class Codes:
    """The codes of one gateway.

    Parameters
    ----------
    clock
        Returns seconds of any monotonic clock.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._made: dict[str, tuple[float, str]] = {}

    def __len__(self) -> int:
        return len(self._made)

    def issue(self, token: str) -> str:
        """Return a new code for a token."""
        self._forget()
        while len(self._made) >= CODES_MAX:
            del self._made[next(iter(self._made))]
        code = token_urlsafe(_BYTES)
        self._made[digest_of(code)] = (self._clock() + CODE_SECONDS, token)
        return code

    def redeem(self, code: str) -> str:
        """Return the token of a code, which is of no use from then on.

        Raises
        ------
        AccessDenied
            If there is no such code any more.
        """
        self._forget()
        try:
            return self._made.pop(digest_of(code))[1]
        except (KeyError, UnicodeEncodeError):
            raise AccessDenied(
                f"a link opens the page once, within {CODE_SECONDS:.0f} s: run rayvous ui again"
            ) from None

    def _forget(self) -> None:
        now = self._clock()
        self._made = {digest: made for digest, made in self._made.items() if now < made[0]}
