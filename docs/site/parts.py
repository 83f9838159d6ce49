"""Shows the reference a method that an object has of one of its parts (`actors/parts.py`) where the object has it.

`settle = of("_convergence", Convergence.settle)` is an assignment to who only reads the source; here it becomes the
method of that part, with its signature and its docstring.
"""

from __future__ import annotations

from copy import copy
from typing import Any, Final

import griffe

MAKERS: Final = ("of", "async_of")


class Parts(griffe.Extension):
    """Puts methods of parts in the place of the assignments that make them."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Look through all classes of a package once it is read."""
        self._look(pkg, pkg)

    def _look(self, pkg: griffe.Module, here: griffe.Module | griffe.Class) -> None:
        for name, member in list(here.members.items()):
            if member.is_alias:
                continue
            if isinstance(member, griffe.Module | griffe.Class):
                self._look(pkg, member)
            elif isinstance(member, griffe.Attribute) and isinstance(here, griffe.Class):
                method = _method_of(pkg, member)
                if method is not None:
                    here.set_member(name, method)


def _method_of(pkg: griffe.Module, member: griffe.Attribute) -> griffe.Function | None:
    """Return the method that an assignment makes; None when it makes none."""
    made = member.value
    if not isinstance(made, griffe.ExprCall) or made.function.canonical_name not in MAKERS:
        return None
    path = made.arguments[1].canonical_path  # type: ignore[union-attr]
    found = pkg[path.removeprefix(f"{pkg.path}.")]
    if not isinstance(found, griffe.Function):
        raise LookupError(f"{member.path}: {path} is no method")
    method = copy(found)
    method.name, method.lineno = member.name, member.lineno  # it stands among the members of that class
    return method
