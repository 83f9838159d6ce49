"""What a network offers to its users: few names, each documented; what is looked at stands behind `inspect`."""

import inspect
from typing import Any

import pytest
import rayvous as rv
from rayvous.actors.network.inspection import Inspection

LIFE = {"launch", "attach", "close", "shutdown", "name"}
CLIENTS = {
    "publisher",
    "publishers",
    "subscriber",
    "subscribers",
    "release",
    "dead_letters",
    "would_admit",
    "end_durable",
    "request",
    "request_async",
    "reply",
    "reply_async",
    "rewind",
}
WAITING = {"settle", "await_convergence"}
OPERATIONS = {
    "add_broker", "add_cluster", "kill_broker", "remove_broker", "remove_cluster", "reoptimise", "restart_broker",
    "restart_rolling",
}  # fmt: skip
VIEWS = {"status", "telemetry", "draw", "gateways", "inspect", "durable"}
FILES = {"sink"}
HARNESS = {"inject"}

LOOKS = {
    "accepted", "admission", "books", "brokers", "check", "converged", "cpu_seconds", "describe", "directory",
    "dropped_replies", "heals", "host_of", "hosts", "node_of", "pid_of", "positions", "problems", "rendezvous",
    "routes", "scheme", "survey", "timeline",
}  # fmt: skip


def public(kind: type) -> dict[str, Any]:
    return {name: member for name, member in inspect.getmembers(kind) if not name.startswith("_")}


def test_a_network_has_what_users_call_and_two_doors() -> None:
    names = LIFE | CLIENTS | WAITING | OPERATIONS | VIEWS | FILES | HARNESS
    assert set(public(rv.Network)) == names
    assert len(names) == 36, "before adding one: is it a look (`inspect`), or a fault (`inject`)?"


def test_what_can_be_looked_at() -> None:
    assert set(public(Inspection)) == LOOKS


@pytest.mark.parametrize("kind", [rv.Network, Inspection], ids=lambda kind: kind.__name__)
def test_each_name_is_documented(kind: type) -> None:
    without = [name for name, member in public(kind).items() if not inspect.getdoc(member)]
    assert not without
