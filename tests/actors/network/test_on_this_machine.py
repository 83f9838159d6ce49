"""The process of a broker can be signalled if it runs on this machine, also on another node of Ray."""

from types import SimpleNamespace
from typing import Any

import pytest
from fakes import HERE, Actor, Ray
from rayvous.actors.host.group import machine_here
from rayvous.actors.host.host import BrokerHost
from rayvous.actors.network import hosts as hosts_file
from rayvous.actors.network.hosts import Hosts
from rayvous.protocol.errors import InputError
from rayvous.protocol.features import Features


@pytest.mark.parametrize(
    ("node", "machine", "reached"),
    [
        (HERE, "", True),
        ("another-node", machine_here(), True),
        ("another-node", "another boot", False),
        ("another-node", "", False),
    ],
    ids=["same-node", "another-node-here", "another-machine", "unknown-machine"],
)
def test_a_process_is_named_only_if_a_signal_from_here_reaches_it(
    monkeypatch: pytest.MonkeyPatch, node: str, machine: str, reached: bool
) -> None:
    if not machine_here():
        pytest.skip("this machine does not say which it is")
    Ray(monkeypatch, hosts_file)
    actor = Actor(BrokerHost, pid=(node, 4711), machine=machine)
    directory: Any = SimpleNamespace(name="net", hosts={0: actor}, features=Features())
    hosts = Hosts(directory, None)
    if reached:
        assert hosts.pid_of(0) == 4711
    else:
        with pytest.raises(InputError, match="another machine"):
            hosts.pid_of(0)
