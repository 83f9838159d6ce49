"""Schemes and layers of the user's own, named ``module:Class`` where names of ours stand.

Rules
-----
* ``my_module:MyScheme`` is a routing scheme: a class as `schemes.Router` says, with `claims` (a `claims.Claims`).
* ``hybrid+my_module:MyLayer`` is a scheme whose brokers have one more layer, made of the broker's `Position`: a class
  as `protocol.layers.RecordedLayer` says. It stands around admission control and what is inside, the first name
  outermost. Both together: ``my_module:MyScheme+my_module:MyLayer``.
* The module is imported by name in every process that hosts brokers, so it has to be found there.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from ...protocol.checks import instance
from ...protocol.errors import InputError


def is_own(name: str) -> bool:
    """Return whether a name is that of a class of the user's own."""
    return ":" in name


def own(name: str) -> Any:
    """Return the class that a name ``module:Class`` stands for.

    Raises
    ------
    InputError
        If there is no such module, or no such class in it.
    """
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute, None) if module else None
    except ImportError as error:
        raise InputError(
            f"{name}: cannot import {module!r} ({error}); the module has to be on sys.path, here and where brokers run"
        ) from None
    if not isinstance(found, type):
        raise InputError(f"{name}: there is no class {attribute!r} in {module!r}")
    return found


def bare(scheme: str) -> tuple[str, list[str]]:
    """Return the base of a scheme's name and its options, without layers of the user's own."""
    base, *options = instance("scheme", scheme, str, "the name of a routing scheme").split("+")
    return base, [option for option in options if not is_own(option)]


def own_layers(scheme: str) -> list[Any]:
    """Return the layers of the user's own that a scheme's name asks for, the outermost first."""
    return [own(option) for option in scheme.split("+")[1:] if is_own(option)]
