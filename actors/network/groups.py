"""The consumer groups of a network: actors that share a durable subscription among workers.

Rules
-----
* A group is a detached actor with a name of its own in the network, which its first worker starts and every other one
  finds. Ray restarts it when its process or its node dies. It ends with the network, and runs on one of its nodes.
* All workers of a group ask for the same group; another one of its name is refused.

What they do stands in `actors/groups`; this names it (`protocol.groups.ACTOR`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Final

import ray

from ...protocol.errors import InputError
from ...protocol.groups import ACTOR, GroupConfig
from ...protocol.ids import ClientId
from ...routing.schemes.own import own
from ..host.errors import broker_errors
from .directory import Directory, group_name
from .lasting_actors import close_actors, require_same, running
from .launching import actor
from .node_options import near_network

if TYPE_CHECKING:
    from ..groups.worker import GroupWorker
    from .hosts import Hosts

START_SECONDS: Final = 120.0
"""How long a group may take until it has its name."""
END_SECONDS: Final = 10.0
"""How long a group may take to leave."""


class Groups:
    """The workers of groups of one network that this process has."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts
        self._workers: dict[GroupWorker, None] = {}

    def workers(
        self, names: Iterable[ClientId], shared: Mapping[str, object], *without: object
    ) -> list[GroupWorker]:
        """Join groups that have the same settings, all of them or none; a name may occur more than once.

        `without` are arguments that a group takes none of: broker, place and take_over.
        """
        if any(each is not None and each is not False for each in without):
            raise InputError("group: a group goes without broker, place and take_over")
        configs = [GroupConfig.of(name, shared) for name in names]
        joined: list[GroupWorker] = []
        try:
            joined += map(self.worker, configs)
        except BaseException:
            for worker in joined:
                worker.close()
            raise
        return joined

    def worker(self, config: GroupConfig) -> GroupWorker:
        """Join a group, and start it if it does not run.

        Raises
        ------
        InputError
            If the configuration is wrong, a group of that name has another one, or the network does not heal.
        BrokerUnavailable
            If the group does not begin in time.
        """
        from ..groups.worker import GroupWorker

        self._hosts.require_open()
        directory = self._hosts.directory
        config.validate()
        if not directory.features.heals:
            raise InputError("a group is a durable subscriber: launch the network with recovery=Recovery()")
        lasting = actor(
            own(ACTOR), group_name(directory.name, config.name), True,
            get_if_exists=True, max_restarts=-1, max_task_retries=-1, **near_network(directory, config.name),
        )  # fmt: skip
        with broker_errors(f"group {config.name!r}", "the group"):
            made = lasting.remote(directory.name, config)
            known: GroupConfig = ray.get(made.config.remote(), timeout=START_SECONDS)
            require_same(directory.name, "group", config, known, "End")
            ray.get(made.ready.remote(), timeout=START_SECONDS)
        worker = GroupWorker(config, made, lambda one: self._workers.pop(one, None))
        self._workers[worker] = None
        return worker

    def end(self, name: str) -> bool:
        """End a group of this name for good, if it runs; return whether it did."""
        network = self._hosts.directory.name
        found = running(network, "group", group_name(network, name))
        if found is None:
            return False
        with broker_errors(f"group {name!r}", "the group"):
            ray.get(found.finish.remote("end"), timeout=START_SECONDS)
        ray.kill(found)
        return True

    def close(self) -> None:
        """Let all workers of this process leave their groups."""
        for worker in list(self._workers):
            worker.close()

    def abandon(self) -> None:
        """Record that this process has left Ray."""
        for worker in self._workers:
            worker.abandon()
        self._workers.clear()


def end_groups(directory: Directory) -> None:
    """End the groups of a network; their subscriptions stay in its stores."""
    close_actors(
        directory, "group", lambda each: each.finish.options(max_task_retries=0).remote("close"), END_SECONDS
    )
