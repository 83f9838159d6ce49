"""The claims of each scheme, as data; the conformance suite verifies them, and docs/schemes.md describes them.

Every scheme claims promises 1 to 3 as long as nothing fails: each event exactly once, to all subscribers that
want it, in order. This module has the claims in which schemes differ.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from .own import bare, is_own, own


@dataclass(frozen=True, slots=True)
class Claims:
    """What one scheme claims beyond promises 1 to 3.

    Attributes
    ----------
    multicast
        It sends one message to all members of a cluster.
    wanted_only
        An event goes only to brokers that want it or lie on the path to one that does.
    told_first
        A subscription is confirmed when others have answered, so lost messages may leave it unconfirmed.
    survives_deaths
        Without `recovery`: events of live brokers reach subscribers of live brokers when other brokers die.
    heals
        With `recovery` the network repairs itself (decisions 0011, 0017).
    views
        With `recovery` the rendezvous point defines the membership in views, and brokers may leave (decision 0017).
    flat
        With `recovery` each broker is a node of the tree by itself, and has no fellow members that replace it.
    rings
        Brokers pass events on in cycles of links that may all be full at once; so waits for free space are limited
        there.
    fans_out
        Messages to all members of a cluster go from member to member instead of by multicast.
    """

    multicast: bool = False
    wanted_only: bool = False
    told_first: bool = True
    survives_deaths: bool = False
    heals: bool = False
    views: bool = False
    flat: bool = False
    rings: bool = False
    fans_out: bool = False


CLAIMS: Final[dict[str, Claims]] = {
    "hybrid": Claims(multicast=True, heals=True),
    "hierarchical": Claims(heals=True, flat=True),
    "flooding": Claims(told_first=False, heals=True, flat=True),
    "match-first": Claims(wanted_only=True, heals=True, flat=True),
    "point-to-point": Claims(wanted_only=True, survives_deaths=True, heals=True, views=True),
    "lbdd": Claims(wanted_only=True, survives_deaths=True, heals=True, views=True, rings=True),
    "hypercube": Claims(wanted_only=True, heals=True, views=True),
}


def claims_of(scheme: str) -> Claims:
    """Return the claims of a scheme with its options; an unlisted scheme claims nothing beyond promises 1 to 3."""
    base, options = bare(scheme)
    claims: Claims = getattr(own(base), "claims", Claims()) if is_own(base) else CLAIMS.get(base, Claims())
    if options:
        claims = replace(claims, wanted_only="quench" in options)
    if "fanout" in options:
        claims = replace(claims, multicast=False, rings=True, fans_out=True)
    return claims
