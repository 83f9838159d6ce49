"""The routing schemes by name.

A scheme is a class with the methods and class attributes of `router.Router`: one of `SCHEMES`, or a class that is
referred to by module and name (`own`). It may have options, which follow its name with plus signs:
``hybrid+quench+merge``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ...protocol.errors import InputError
from .flooding import Flooding
from .hierarchical import Hierarchical
from .hybrid import Hybrid
from .hypercube import Hypercube
from .lbdd import Lbdd
from .match_first import MatchFirst
from .own import bare, is_own, own, own_layers
from .point_to_point import PointToPoint
from .router import Router

SCHEMES: Final[dict[str, type[Router]]] = {
    "hybrid": Hybrid,
    "hierarchical": Hierarchical,
    "flooding": Flooding,
    "match-first": MatchFirst,
    "point-to-point": PointToPoint,
    "lbdd": Lbdd,
    "hypercube": Hypercube,
}

_EXPECTED: Final = sorted(
    name for name in {*vars(Router), *Router.__annotations__} - {"position"} if not name.startswith("_")
)


def _options_of(made: type[Router]) -> Mapping[str, type[Router]]:
    """Return the options that the class itself declares: those of a base class would not be options of this one."""
    options: Mapping[str, type[Router]] = vars(made).get("options", {})
    return options


NAMES: Final = (
    *SCHEMES,
    *(f"{base}+{option}" for base, made in SCHEMES.items() for option in _options_of(made)),
)
"""All built-in schemes, and then each with its options."""


def scheme(name: str, *, heals: bool = False) -> type[Router]:
    """Return the scheme of that name.

    Parameters
    ----------
    name
        Its name, with options.
    heals
        Whether it is for a network with `recovery`.

    Raises
    ------
    InputError
        If the scheme or the option does not exist; the message lists those that exist. If a class of the user lacks
        what a scheme has; the message names it. If nothing is known that would repair a network under the scheme.
    """
    base, options = bare(name)
    own_layers(name)
    if base not in SCHEMES and not is_own(base):
        raise InputError(
            f"no routing scheme {base!r}: there are {', '.join(SCHEMES)}, and classes of your own as module:Class"
        )
    made = _own_scheme(base) if is_own(base) else SCHEMES[base]
    if options:
        made = _with_options(made, base, options)
    if heals and not made.membership.heals:
        raise InputError(
            f"scheme {name!r} cannot heal: the `membership` of {made.__name__} is fixed, so nothing is "
            f"known that would mend it; {', '.join(each for each in NAMES if scheme(each).membership.heals)} can"
        )
    return made


def _with_options(made: type[Router], base: str, options: list[str]) -> type[Router]:
    known = _options_of(made)
    for option, with_option in known.items():
        if sorted(option.split("+")) == sorted(options):
            return with_option
    there = ", ".join(f"{base}+{option}" for option in known) or f"{base} only"
    raise InputError(f"no routing scheme {'+'.join((base, *options))!r}: there is {there}")


def _own_scheme(name: str) -> type[Router]:
    """Return the user's class, which must have everything that a scheme has."""
    found: type[Router] = own(name)
    missing = [each for each in _EXPECTED if not hasattr(found, each)]
    if missing:
        raise InputError(
            f"{name} is not a routing scheme, as it has no {', '.join(missing)}: derive it from ViewedRouter, "
            "ClusterRouter or a scheme that is there (docs/extending.md)"
        )
    return found
