"""The recipe for a scheme of one's own in docs/extending.md works literally, and mistakes are answered."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from rayvous.protocol.errors import InputError
from rayvous.protocol.messages.recovery import Recovery
from rayvous.routing.schemes.claims import Claims, Membership
from rayvous.routing.schemes.registry import scheme
from rayvous.routing.topologies.cluster_trees import ClusterTree
from rayvous.simulator.simulation import Simulation

PAGE = Path(__file__).resolve().parents[2] / "docs" / "extending.md"
SECTION = PAGE.read_text(encoding="utf-8").split("\n## A scheme\n")[1].split("\n## ")[0]
CODE = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)[0]
COMMANDS = re.findall(r"^\$ (.*)$", SECTION, re.MULTILINE)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the module of the page, which is current and importable."""
    (tmp_path / "mine.py").write_text(CODE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    return tmp_path


def test_it_is_ten_lines():
    assert len([line for line in CODE.splitlines() if line]) <= 10


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.split()[1])
def test_what_the_page_shows_runs_as_it_stands(command, folder):
    rayvous = Path(sys.executable).with_name("rayvous")
    done = subprocess.run(
        [rayvous, *shlex.split(command)[1:]], cwd=folder, capture_output=True, text=True, check=False
    )
    assert command.startswith("rayvous ") and done.returncode == 0, done.stdout + done.stderr
    assert "mine:Broadcast" in done.stdout or "verdict: holds" in done.stdout


def test_its_events_reach_every_broker_and_those_who_want_them(folder):
    net = Simulation(ClusterTree(3, 1).positions(), "mine:Broadcast", recovery=Recovery.for_simulator())
    net.run_until_installed("alice", net.subscribe("alice", 2, "price > 10"))
    net.publish("bob", 0, [{"price": 12}, {"price": 8}])
    net.advance(1.0)
    assert net.notifications("alice") == [("bob", 1)]
    assert scheme("mine:Broadcast", heals=True).claims == Claims(survives_deaths=True)


def test_options_are_of_the_class_that_lists_them(folder):
    (folder / "more.py").write_text(
        "from mine import Broadcast\n"
        "class Twice(Broadcast): merges = True\n"
        "class Optional(Broadcast): options = {'twice': Twice}\n"
        "class Derived(Optional): pass\n"
    )
    sys.modules.pop("more", None)
    assert scheme("more:Optional+twice").__name__ == "Twice"
    with pytest.raises(
        InputError, match=r"no routing scheme 'more:Derived\+twice': there is more:Derived only"
    ):
        scheme("more:Derived+twice")
    assert scheme("more:Derived", heals=True).membership is Membership.VIEWS


def test_a_class_that_is_not_a_scheme_is_told_what_it_lacks(folder):
    (folder / "poor.py").write_text("class Poor:\n    claims = membership = options = None\n")
    sys.modules.pop("poor", None)
    with pytest.raises(InputError, match=r"poor:Poor .* has no announced, beside, .*: derive it from"):
        scheme("poor:Poor")
