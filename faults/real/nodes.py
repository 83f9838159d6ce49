"""The machines of a Ray cluster, which a command of the user ends: on Kubernetes it deletes a pod."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from typing import Final, TypeVar

import ray

from ...actors.host.errors import broker_errors
from ...actors.host.handle import HostHandle
from ...protocol.errors import BrokerUnavailable

COMMAND_SECONDS: Final = 60.0
ANSWER_SECONDS: Final = 5.0
HEAD: Final = "node:__internal_head__"
"""The resource that the head of a Ray cluster has: with it all actors end."""

One = TypeVar("One")


class Nodes:
    """The machines that a game day may end.

    Parameters
    ----------
    command
        Ends one: ``{node}`` in it is its name. It is run without a shell.
    """

    def __init__(self, command: str) -> None:
        self._command = shlex.split(command)
        self._of: dict[object, str] = {}  # the node of each host that was asked

    def of(self, hosts: Mapping[object, Sequence[One]]) -> list[list[One]]:
        """Return what is on each machine that may be ended, by what is in each of these living hosts."""
        unknown = [host for host in hosts if host not in self._of]
        with broker_errors("asking brokers for their machines"):
            answers = ray.get([HostHandle(host).pid() for host in unknown], timeout=ANSWER_SECONDS)
        for host, (node, _) in zip(unknown, answers, strict=True):
            self._of[host] = node
        here = ray.get_runtime_context().get_node_id()
        spared = {here, *(node["NodeID"] for node in ray.nodes() if HEAD in node["Resources"])}
        found: dict[str, list[One]] = {}
        for host, ones in hosts.items():
            if self._of[host] not in spared:
                found.setdefault(self._of[host], []).extend(ones)
        return list(found.values())

    def end(self, host: object) -> str:
        """End the machine of a host; return what went wrong, or an empty text.

        Raises
        ------
        BrokerUnavailable
            If its machine is not known any more.
        """
        names = {node["NodeID"]: node["NodeManagerHostname"] for node in ray.nodes()}
        if (
            name := names.get(self._of.get(host, ""))
        ) is None:  # its brokers were started elsewhere meanwhile
            raise BrokerUnavailable("the machine is not known any more")
        words = [word.replace("{node}", name) for word in self._command]
        return run(words)


def run(words: Sequence[str]) -> str:
    """Run a command, and return what went wrong, or an empty text. Ctrl-C at the terminal does not reach it."""
    shown = shlex.join(words)
    try:
        done = subprocess.run(
            words, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False,
            errors="replace", start_new_session=True,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{shown}: {error}"
    return f"{shown}: exit status {done.returncode}: {done.stderr.strip()[-300:]}" if done.returncode else ""


__all__ = ["Nodes", "run"]
