"""The program run by `test_nodes`: one Ray cluster to which parts add nodes, one part after the other, to lose them.

``nodes.py NUMBER`` reads a part and its words from each line of standard input, as JSON, and writes what the part
found, as a line, to the file descriptor of that number: Ray itself prints to standard output. A part begins on the
node of this process alone.
"""

import json
import os
import sys
import tempfile
import traceback
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1]))

import fork_server
import game_day_node
import gateway_nodes
import node_lost
import node_under_load
import placed_nodes
from ray_nodes import Nodes

PARTS = {
    "heals": node_lost.heals,
    "numbered": node_lost.numbered,
    "game day": game_day_node.run,
    "gateways": gateway_nodes.run,
    "under load": node_under_load.run,
    "places": placed_nodes.run,
}


def main():
    with (
        os.fdopen(int(sys.argv[1]), "w", encoding="utf-8", buffering=1) as out,
        tempfile.TemporaryDirectory(prefix="rv", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        fork_server.prepare(patch, Path(folder))
        nodes = Nodes()
        try:
            with fork_server.opened():
                for line in sys.stdin:
                    part, *words = json.loads(line)
                    try:
                        found = PARTS[part](nodes, *words)
                    except Exception:
                        found = {"raised": traceback.format_exc()}
                    nodes.clear()
                    out.write(f"{json.dumps(found)}\n")
        finally:
            nodes.end()


if __name__ == "__main__":
    sys.exit(main())
