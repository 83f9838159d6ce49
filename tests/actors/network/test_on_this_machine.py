"""The process of a broker can be signalled if it runs on this machine, also on another node of Ray."""

from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.host.group import machine_here
from rayvous.actors.network import hosts as hosts_file
from rayvous.actors.network.hosts import Hosts
from rayvous.protocol.errors import InputError

HERE = "node-here"


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
    ray = SimpleNamespace(
        get=lambda answer, timeout=None: answer,
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: HERE),
    )
    monkeypatch.setattr(hosts_file, "ray", ray)
    actor = SimpleNamespace(
        pid=SimpleNamespace(remote=lambda: (node, 4711)), machine=SimpleNamespace(remote=lambda: machine)
    )
    directory: Any = SimpleNamespace(name="net", hosts={0: actor}, recovery=None)
    hosts = Hosts(directory, None)
    if reached:
        assert hosts.pid_of(0) == 4711
    else:
        with pytest.raises(InputError, match="another machine"):
            hosts.pid_of(0)
