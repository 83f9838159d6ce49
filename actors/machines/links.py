"""The links of the hosts, from inside: what has crossed each, and changing them while something runs.

Rules
-----
* The switch stands in the namespace of the first process, so its ports are reached through that.
* What is counted is the kernel's own count of bytes at a host's port, headers and all.
"""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass
from typing import Final

from .layout import Layout, Words

LAYOUT_VARIABLE: Final = "RAYVOUS_HOSTS"
"""The environment variable that tells processes inside what hosts there are."""

AT_THE_SWITCH: Final[Words] = ("nsenter", "--target", "1", "--net", "--")
COMMAND_SECONDS: Final = 20.0


def hosts_here() -> Layout | None:
    """Return the hosts among which this process runs; None when it runs among none."""
    text = os.environ.get(LAYOUT_VARIABLE)
    return None if text is None else Layout.from_json(text)


def cut(layout: Layout, host: int) -> None:
    """Let a host's link carry nothing."""
    for command in layout.cutting(host):
        _at_the_switch(command)


def change(layout: Layout, host: int, megabits_per_second: float | None = None, drop: float = 0.0) -> None:
    """Let a host's link carry so much and lose such a share of its packets; as at first if neither is given."""
    for command in layout.changing(host, megabits_per_second, drop):
        _at_the_switch(command)


@dataclass(frozen=True, slots=True)
class Crossed:
    """Bytes that a host has sent and received so far."""

    sent: int
    received: int


def crossed(layout: Layout) -> list[Crossed]:
    """Return what has crossed the link of each host."""
    return counts(layout, _at_the_switch(("ip", "-json", "-statistics", "link", "show")))


def counts(layout: Layout, shown: str) -> list[Crossed]:
    """Return what has crossed the link of each host, from what `ip` shows of the switch's ports."""
    ports = {link["ifname"]: link["stats64"] for link in json.loads(shown)}
    found = [ports[layout.port(host)] for host in range(layout.hosts)]
    return [Crossed(sent=port["rx"]["bytes"], received=port["tx"]["bytes"]) for port in found]


def _at_the_switch(command: Words) -> str:
    done = subprocess.run(
        [*AT_THE_SWITCH, *command], capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True
    )
    return done.stdout
