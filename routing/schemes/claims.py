"""What each scheme claims, as data: the conformance suite holds it to this, and docs/schemes.md says it in words.

Every scheme claims promises 1 to 3 as long as nothing fails: each event once, to all who want it, in order. What is
here is what they differ in.
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
        It sends one message to all of a cluster.
    wanted_only
        An event goes to no broker that neither wants it nor lies on the way to one that does.
    told_first
        A subscription is confirmed when others have answered, so losing messages may leave it unconfirmed.
    survives_deaths
        Without `recovery`: what living brokers publish reaches living subscribers when other brokers die.
    heals
        With `recovery` it mends itself (decisions 0011, 0017).
    views
        With `recovery` the rendezvous point says by views who is in, and brokers may leave (decision 0017).
    flat
        With `recovery` each broker is a node of the tree by itself, and has no fellows that take its place.
    rings
        Brokers pass events on in a ring of links that may all be full at once; so there, waits for room have an end.
    fans_out
        What is multicast to all of a cluster goes from member to member instead.
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
    """Return what a scheme claims, its options included; one that is not listed claims nothing more."""
    base, options = bare(scheme)
    claims: Claims = getattr(own(base), "claims", Claims()) if is_own(base) else CLAIMS.get(base, Claims())
    if options:
        claims = replace(claims, wanted_only="quench" in options)
    if "fanout" in options:
        claims = replace(claims, multicast=False, rings=True, fans_out=True)
    return claims
