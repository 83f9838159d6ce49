"""The network on the live page: what `draw.js` draws, in Node with a stand-in of the browser's document."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import rayvous.gateway.ui

NODE = shutil.which("node") or shutil.which("nodejs")
DRAW = Path(rayvous.gateway.ui.__file__).with_name("page") / "draw.js"
LETTER, HEIGHT = 7.0, 10.0
"""The most that a letter of a label takes, in pixels."""

SCRIPT = """
import { readFileSync } from "node:fs";
class Node {
  constructor(name) { this.name = name; this.attributes = {}; this.children = []; this.textContent = ""; }
  setAttribute(key, value) { this.attributes[key] = String(value); }
  append(...more) { this.children.push(...more); }
  replaceChildren(...all) { this.children = all; }
}
globalThis.document = { createElementNS: (_, name) => new Node(name) };
const [brokers, links] = JSON.parse(readFileSync(0, "utf-8"));
const { drawNetwork } = await import(process.argv[1]);
const root = new Node("svg");
drawNetwork(root, brokers, links);
console.log(JSON.stringify(root));
"""


def drawn(tmp_path: Path, brokers: list[dict[str, Any]], links: list[Any]) -> list[dict[str, Any]]:
    module = tmp_path / "draw.mjs"
    module.write_bytes(DRAW.read_bytes())
    done = subprocess.run(
        [NODE or "node", "--input-type=module", "-e", SCRIPT, module.as_uri()],
        input=json.dumps([brokers, links]),
        capture_output=True,
        text=True,
        check=True,
    )
    children: list[dict[str, Any]] = json.loads(done.stdout)["children"]
    return children


def tree(clusters: int, members: int, degree: int) -> list[dict[str, Any]]:
    """Return the brokers of a tree of clusters; the first of each speaks for it."""
    out = []
    for cluster in range(clusters):
        first = cluster * members
        for broker in range(first, first + members):
            above = (cluster - 1) // degree * members if cluster and broker == first else None
            role = "NEB" if broker != first else "DEB" if cluster else "REB"
            one = {"broker": broker, "cluster": cluster, "role": role, "state": "alive", "parent": above}
            out.append({**one, "label": f"{role} {broker}", "name": f"{role} {broker}"})
    return out


def crossed(line: dict[str, str], box: tuple[float, float, float, float]) -> bool:
    """Return whether a line goes through a rectangle; looked at in steps of less than a pixel."""
    x1, y1, x2, y2 = (float(line[key]) for key in ("x1", "y1", "x2", "y2"))
    left, top, right, bottom = box
    steps = 2 * int(abs(x2 - x1) + abs(y2 - y1)) + 1
    points = ((x1 + (x2 - x1) * i / steps, y1 + (y2 - y1) * i / steps) for i in range(steps + 1))
    return any(left < x < right and top < y < bottom for x, y in points)


@pytest.mark.skipif(NODE is None, reason="no Node: apt-get install nodejs")
@pytest.mark.parametrize(
    ("clusters", "members", "degree"), [(1, 4, 1), (3, 2, 1), (3, 2, 2), (4, 4, 3), (7, 3, 2), (9, 1, 8)]
)
def test_no_link_crosses_the_label_of_a_broker_that_speaks_for_a_cluster(
    tmp_path: Path, clusters: int, members: int, degree: int
) -> None:
    parts = drawn(tmp_path, tree(clusters, members, degree), [])
    lines = [part["attributes"] for part in parts if part["name"] == "line"]
    labels = 0
    for part in parts:
        texts = [child for child in part["children"] if child["name"] == "text"]
        if part["name"] != "g" or not texts[0]["textContent"].startswith(("REB", "DEB")):
            continue
        place, text = part["attributes"]["transform"], texts[0]
        x, y = map(float, place.removeprefix("translate(").removesuffix(")").split())
        x += float(text["attributes"].get("x", 0))
        y += float(text["attributes"]["y"])
        width = LETTER * len(text["textContent"])
        before = {"behind": 0.0, "": 0.5, "before": 1.0}[text["attributes"].get("class", "")] * width
        box = (x - before, y - HEIGHT, x - before + width, y)
        assert not any(crossed(line, box) for line in lines), text["textContent"]
        labels += 1
    assert labels == clusters and len(lines) == clusters * members - 1
