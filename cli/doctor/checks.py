"""All checks, in the order in which they are shown."""

from __future__ import annotations

from typing import Final

from . import machine, packages, tools
from .findings import Check

CHECKS: Final = (
    Check("packages", packages.look),
    Check("Ray", tools.look_at_ray),
    Check("Java", tools.look_at_java, needed=False),
    Check("memory", machine.look_at_memory),
    Check("Ray's folder", machine.look_at_disk),
    Check("ports", machine.look_at_ports, needed=False),
    Check("kernel", tools.look_at_kernel, needed=False),
    Check("match index", tools.look_at_index, needed=False),
    Check("compiler", tools.look_at_compiler, needed=False),
    Check("Chromium", tools.look_at_browser, needed=False),
)
