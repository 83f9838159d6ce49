"""``rayvous sink`` with a network that is a stand-in."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from rayvous.actors.network import sinks
from rayvous.cli.verbs import sink
from rayvous.protocol.node_places import NodePlace

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What the network, and a sink that runs, were asked."""
    found: list[object] = []

    def start(to: str, selector: str, **how: object) -> SimpleNamespace:
        found.append((to, selector, how))
        return SimpleNamespace(name=how["name"], target="/data/lake")

    @contextmanager
    def joined(name: str, address: str | None) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(name=name, sink=start)

    def running(network: str, name: str) -> SimpleNamespace:
        return SimpleNamespace(
            close=lambda: found.append(("close", network, name)),
            end=lambda: found.append(("end", network, name)),
        )

    monkeypatch.setattr(sink, "joined", joined)
    monkeypatch.setattr(sinks, "running_sink", running)
    return found


def test_a_sink_is_started_as_asked_and_doubts_are_told(rayvous: Run, asked: list[object]) -> None:
    status, out, err = rayvous("sink", "flights", 'country = "UK"', "--to", "lake", "--format", "jsonl")
    assert (status, out) == (0, "sink files: writes to /data/lake\n")
    assert "doubtful: country = UK compares two attributes" in err
    how = {
        "name": "files",
        "format": "jsonl",
        "partition": None,
        "roll_seconds": 60.0,
        "roll_events": 1_000_000,
        "place": None,
    }
    assert asked == [("lake", 'country = "UK"', how)]


def test_a_sink_is_placed_by_what_its_node_has(rayvous: Run, asked: list[Any]) -> None:
    words = (
        "--label",
        "disk=in(large, huge)",
        "--label",
        "zone=!b",
        "--resource",
        "slot=2",
        "--num-cpus",
        "0.5",
    )
    assert rayvous("sink", "flights", "x > 0", "--to", "lake", *words)[0] == 0
    ((_, _, how),) = asked
    assert how["place"] == NodePlace({"disk": "in(large, huge)", "zone": "!b"}, {"slot": 2.0}, 0.5)


@pytest.mark.parametrize("word", ["close", "end"])
def test_a_sink_is_ended_by_its_name(rayvous: Run, asked: list[object], word: str) -> None:
    assert rayvous("sink", "flights", "--name", "lake", f"--{word}")[:2] == (0, "ended: lake\n")
    assert asked == [(word, "flights", "lake")]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("x > 0",), "a selector and --to are needed"),
        (("--to", "lake"), "a selector and --to are needed"),
        (("x > 0", "--to", "lake", "--end"), "--close and --end take the --name"),
        (("--close", "--end"), "--close and --end take the --name"),
        (("--close", "--label", "a=b"), "--close and --end take the --name"),
        (("x > 0", "--to", "lake", "--label", "disk"), "--label disk: write KEY=VALUE"),
        (("x > 0", "--to", "lake", "--label", "disk=!!"), "place labels disk is '!!'"),
        (("x > 0", "--to", "lake", "--resource", "slot=many"), "--resource slot=many: 'many' is no number"),
        (("x > 0", "--to", "lake", "--num-cpus", "-1"), "place num_cpus is -1"),
        (("x >", "--to", "lake"), "expected a value after '>'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_before_a_network_is_asked(
    rayvous: Run, asked: list[object], words: tuple[str, ...], said: str
) -> None:
    status, out, err = rayvous("sink", "flights", *words)
    assert (status, out, asked) == (2, "", [])
    assert said in err and err.startswith("rayvous: ")
