"""What a game day may do to a network: kinds of faults, how often, for how long, whom to spare; and who may have one.

Rules
-----
* A network says whether it may have game days (`chaos`), and its rights say who may have one (`operate`). Where a
  network has no rights, whoever may use its Ray cluster may operate it, as with every other operation.
* Every fault but a death has an end from the beginning, so it ends whatever becomes of who caused it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from typing import Final

from ...protocol import checks
from ...protocol.errors import AccessDenied, InputError
from ...protocol.gateways import AccessConfig, digest_of
from ...protocol.ids import BrokerId
from ...protocol.messages.recovery import Recovery
from ...routing.schemes.claims import Membership

KINDS: Final = {
    "kill": "the process of a broker is killed, and started again",
    "pause": "the process of a broker stands still",
    "slow": "all links of a broker are slow",
    "reset": "all connections of a broker's process are reset",
    "cut": "a broker is cut off from all other brokers",
    "node": "a machine is ended by a command, and its brokers are started again elsewhere",
}
"""The kinds of faults, and what each does."""

USUAL_KINDS: Final = ("kill", "pause", "slow", "reset")
ENDING: Final = ("kill", "node")
"""The kinds after which brokers are dead until they are started again."""
ABSENT: Final = (*ENDING, "pause", "cut")
"""The kinds after which a broker is missing to the others, at least for a while."""

ROOT: Final = "root"
RATE_MAX: Final = 1.0
"""Faults per second: each waits until the network is whole again anyway."""
SECONDS_MAX: Final = 7 * 86_400.0
LEASE_SECONDS_MAX: Final = 30.0
"""The longest that a fault lasts: less than a call of a client may take."""
HEAL_SECONDS_MIN: Final = 60.0
HEAL_SUSPICIONS: Final = 20
"""How long healing may take, in times after which a silent broker is suspected, and at least."""
NODE_SECONDS: Final = 120.0
"""How much longer it may take if Ray has to find out that a machine is dead."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a game day may do.

    Attributes
    ----------
    seconds
        How long faults are caused. What comes after that is repair.
    per_second
        The mean number of faults per second, while the network is whole.
    kinds
        The kinds of faults.
    seed
        From which the faults are drawn.
    spare
        Brokers that are not harmed, and ``"root"`` for the present root.
    keep_members
        Whether each cluster keeps a member that is neither dead, paused nor cut off.
    lease_seconds
        The shortest and the longest time that a fault lasts, or a dead broker is dead.
    heal_seconds
        How long the network may take to be whole again.
    """

    seconds: float = 600.0
    per_second: float = 1 / 60
    kinds: tuple[str, ...] = USUAL_KINDS
    seed: int = 0
    spare: frozenset[BrokerId | str] = frozenset()
    keep_members: bool = True
    lease_seconds: tuple[float, float] = (2.0, 10.0)
    heal_seconds: float = HEAL_SECONDS_MIN

    def validate(self) -> Terms:
        """Validate the terms and return them.

        Raises
        ------
        InputError
            If one of them is out of range.
        """
        if not 1.0 <= checks.number("for", self.seconds) <= SECONDS_MAX:
            raise InputError(f"for {self.seconds:g} s: it must be from 1 s to {SECONDS_MAX / 86_400:g} days")
        if not checks.number("rate", self.per_second, above=True) <= RATE_MAX:
            raise InputError(
                f"rate {self.per_second:g}/s: it must be at most {60 * RATE_MAX:g}/min, since each fault waits until "
                "the network is whole again"
            )
        if not self.kinds:
            raise InputError(f"kinds: none is given; there are {', '.join(KINDS)}")
        for kind in self.kinds:
            if kind not in KINDS:
                raise InputError(f"kinds: there is no {checks.shown(kind)}; there are {', '.join(KINDS)}")
        checks.whole_number("seed", self.seed, 0)
        return self

    def within(self, recovery: Recovery, membership: Membership, brokers: Collection[BrokerId]) -> Terms:
        """Return the terms for a network that heals, from its times and from what its scheme promises to survive.

        Raises
        ------
        InputError
            If somebody is to be spared who is not there.
        """
        unknown = sorted(self.spare - {ROOT} - set(brokers), key=str)
        if unknown:
            raise InputError(
                f"spare: no broker {checks.shown(unknown[0])}: there are {checks.shown(sorted(brokers))}, and {ROOT}"
            )
        if ROOT in self.spare and membership is Membership.VIEWS:
            raise InputError(
                f"spare: {ROOT}: no broker of this network is above another: spare some by number"
            )
        suspicion = recovery.suspect_after_seconds + recovery.heartbeat_seconds
        most = min(2.0 * suspicion, LEASE_SECONDS_MAX)
        return replace(
            self,
            keep_members=membership is Membership.CLUSTERS,
            lease_seconds=(min(0.5 * suspicion, most), most),
            heal_seconds=max(HEAL_SECONDS_MIN, HEAL_SUSPICIONS * suspicion)
            + (NODE_SECONDS if "node" in self.kinds else 0.0),
        )


def kinds_of(words: str | Iterable[str]) -> tuple[str, ...]:
    """Return kinds that are given as a list or separated by commas, each once."""
    given = words.split(",") if isinstance(words, str) else checks.texts("kinds", words)
    return tuple(dict.fromkeys(word.strip() for word in given if word.strip()))


def spared(words: str | Iterable[BrokerId | str]) -> frozenset[BrokerId | str]:
    """Return who is spared: ``"root"`` and brokers, as a list or separated by commas.

    Raises
    ------
    InputError
        If something is neither.
    """
    if isinstance(words, str):
        words = [word.strip() for word in words.split(",")]
    given = list(words) if isinstance(words, Iterable) else [words]
    out: set[BrokerId | str] = set()
    for word in filter(lambda each: each != "", given):
        if word == ROOT or (isinstance(word, int) and not isinstance(word, bool)):
            out.add(word)
        elif isinstance(word, str) and word.isdecimal():
            out.add(int(word))
        else:
            raise InputError(f"spare: {checks.shown(word)}: write {ROOT}, or numbers of brokers")
    return frozenset(out)


def require_allowed(network: str, *, chaos: bool, access: AccessConfig | None, token: str | None) -> str:
    """Return in whose name a game day is, if the network may have one and the token has the right to operate it.

    Raises
    ------
    InputError
        If the network has no game days.
    AccessDenied
        If the right is missing.
    """
    if not chaos:
        raise InputError(
            f"network {network!r} has no game days, since none was asked for when it was started: write chaos = true "
            "in its network file, or launch(chaos=True), and start it again; --dry-run needs none of this"
        )
    if access is None:
        return ""
    if not isinstance(token, str) or not token:
        raise AccessDenied(
            f"network {network!r} has rights, and a game day takes the right to operate it: set RAYVOUS_TOKEN to the "
            "token of a principal with operate = true"
        )
    digest = digest_of(token)
    for name, principal in access.principals.items():
        if digest in principal.token_sha256:
            if principal.operate:
                return name
            raise AccessDenied(
                f"{name!r} may not operate network {network!r}: its principal has no operate = true",
                "operate",
            )
    raise AccessDenied(f"the token is not known to network {network!r}")


__all__ = [
    "ABSENT",
    "ENDING",
    "KINDS",
    "ROOT",
    "USUAL_KINDS",
    "Terms",
    "kinds_of",
    "require_allowed",
    "spared",
]
