"""User-defined schemes and layers, named ``module:Class`` in place of a built-in name.

Rules
-----
* ``my_module:MyScheme`` is a routing scheme: a class that implements `schemes.Router`, with `claims` (a
  `claims.Claims`).
* ``hybrid+my_module:MyLayer`` is a scheme whose brokers have an additional layer, constructed with the broker's
  `Position`: a class that implements `protocol.layers.RecordedLayer`. It is outside of admission control and the
  layers inside that; the first name is outermost. Both can be combined: ``my_module:MyScheme+my_module:MyLayer``.
* Every process that hosts brokers imports the module by name, so it must be importable there.
"""

from __future__ import annotations

from importlib import import_module

from ...protocol.checks import instance
from ...protocol.errors import InputError


def is_own(name: str) -> bool:
    """Return whether a name refers to a user-defined class."""
    return ":" in name


def own(name: str) -> type:
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
    """Return the base of a scheme's name and its options, without user-defined layers."""
    base, *options = instance("scheme", scheme, str, "the name of a routing scheme").split("+")
    return base, [option for option in options if not is_own(option)]


def own_layers(scheme: str) -> list[type]:
    """Return the user-defined layers in a scheme's name, the outermost first."""
    return [own(option) for option in scheme.split("+")[1:] if is_own(option)]
