"""The links of the hosts, from inside: reading their byte counts, and changing them during a run.

Rules
-----
* The switch is in the namespace of the first process, so its ports are reached through that namespace.
* Byte counts are the kernel's counts at a host's port, headers included.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Final

from .layout import Layout, Words

LAYOUT_VARIABLE: Final = "RAYVOUS_HOSTS"
"""The environment variable that describes the hosts to processes inside."""

AT_THE_SWITCH: Final[Words] = ("nsenter", "--target", "1", "--net", "--")
COMMAND_SECONDS: Final = 20.0


def hosts_here() -> Layout | None:
    """Return the hosts among which this process runs; None if it runs outside."""
    text = os.environ.get(LAYOUT_VARIABLE)
    return None if text is None else Layout.from_json(text)


def cut(layout: Layout, host: int) -> None:
    """Cut a host's link: it carries nothing."""
    for command in layout.cutting(host):
        _at_the_switch(command)


def change(layout: Layout, host: int, megabits_per_second: float | None = None, drop: float = 0.0) -> None:
    """Set a host's bandwidth and the share of its packets that are lost; by default, restore the initial link."""
    for command in layout.changing(host, megabits_per_second, drop):
        _at_the_switch(command)


@dataclass(frozen=True, slots=True)
class Crossed:
    """Bytes that a host has sent and received so far."""

    sent: int
    received: int


def crossed(layout: Layout) -> list[Crossed]:
    """Return the bytes that have crossed the link of each host."""
    return counts(layout, _at_the_switch(("ip", "-json", "-statistics", "link", "show")))


def counts(layout: Layout, shown: str) -> list[Crossed]:
    """Return the bytes that have crossed the link of each host, from the output of `ip` for the switch's ports."""
    ports = {link["ifname"]: link["stats64"] for link in json.loads(shown)}
    found = [ports[layout.port(host)] for host in range(layout.hosts)]
    return [Crossed(sent=port["rx"]["bytes"], received=port["tx"]["bytes"]) for port in found]


def _at_the_switch(command: Words) -> str:
    done = subprocess.run(
        [*AT_THE_SWITCH, *command], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
    )
    return done.stdout
