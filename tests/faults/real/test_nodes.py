"""The machines that a game day may end: neither Ray's head nor its own, and by a command without a shell."""

from pathlib import Path
from types import SimpleNamespace

import pytest
from rayvous.faults.real import nodes
from rayvous.faults.real.nodes import HEAD, Nodes
from rayvous.protocol.errors import BrokerUnavailable

PLACES = {"a": "head", "b": "here", "c": "far", "d": "far", "e": "further"}
"""The machine of each host."""


@pytest.fixture(autouse=True)
def _ray(monkeypatch: pytest.MonkeyPatch) -> None:
    known = [
        {
            "NodeID": node,
            "NodeManagerHostname": f"pod-{node}",
            "Resources": {HEAD: 1.0} if node == "head" else {},
        }
        for node in ("head", "here", "far", "further")
    ]
    monkeypatch.setattr(nodes, "HostHandle", lambda host: SimpleNamespace(pid=lambda: (PLACES[host], 7)))
    monkeypatch.setattr(nodes, "ray", SimpleNamespace(
        get=lambda answers, timeout: answers, nodes=lambda: known,
        get_runtime_context=lambda: SimpleNamespace(get_node_id=lambda: "here"),
    ))  # fmt: skip


def test_brokers_are_grouped_by_machine_and_two_machines_are_spared() -> None:
    hosts = {"a": [0], "b": [1], "c": [2, 3], "d": [4], "e": [5]}
    assert Nodes("true").of(hosts) == [[2, 3, 4], [5]]


def test_a_machine_is_ended_by_its_name_and_what_goes_wrong_is_told(tmp_path: Path) -> None:
    ended = tmp_path / "ended"
    found = Nodes(f"""sh -c 'echo "$0" > {ended}' '{{node}}; rm -r /'""")
    found.of({"c": [2]})
    assert found.end("c") == "" and ended.read_text() == "pod-far; rm -r /\n", "no shell reads the name"
    with pytest.raises(BrokerUnavailable, match="not known any more"):
        Nodes("true {node}").end("c")
    for command, said in (("false {node}", "exit status 1"), ("/nowhere {node}", "No such file")):
        failing = Nodes(command)
        failing.of({"c": [2]})
        assert said in failing.end("c")
