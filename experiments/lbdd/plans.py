"""Table 1 and figure 4 of paper 5: the depth of the trees of 100 to 500 subscribers, and the copies of each node.

Method
------
* Addresses are drawn at random, and the tree of one publisher and its subscribers is planned, as brokers plan
  it.
* The depth is the number of hops of the longest path; a contribution is a node's share of all copies.

Open in the paper, and our choice
---------------------------------
* *Which addresses.* Any addresses; and in separate runs those of one network, which begin like the paper's
  (10.3). By MD5 it should not matter.
* *How many trees.* The paper does not say that it drew more than one. Here a figure is the mean of many, and
  the range of depths is reported, too.

Source: paper 5, sections 3.5 and 4.3. The numbers of its table are lost in our copy.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

from ...routing.topologies.lbdd_plan import Plan, plan
from ..experiment import Repeated, Tables, in_columns

SIZES: Final = (100, 200, 300, 400, 500)


@dataclass(frozen=True, slots=True)
class Point:
    """Trees of all sizes, with a common prefix of addresses; the run is the seed."""

    prefix: str
    run: int = 0


POINTS: Final = (Point(""), Point("10.3."))
PRESETS: Final = {"quick": Repeated(POINTS, 20), "paper": Repeated(POINTS, 200)}


def measure(point: Point) -> Tables:
    """Plan a tree of each size and return the task of each node.

    Returns
    -------
    dict
        ``nodes``: for each number of `subscribers`, for each node its `depth` and `bucket` (0 is the
        publisher), how many `copies` it sends, and whether it is `inner`: not in the last bucket, so that it
        has nodes to send to.
    """
    rows = []
    for size in SIZES:
        made = draw_plan(size, random.Random(f"lbdd/{point.prefix}/{point.run}/{size}"), point.prefix)
        buckets = [(0, (made.source,)), *made.buckets.items()]
        for depth, (bucket, nodes) in enumerate(buckets):
            rows += [
                (size, depth, bucket, len(made.children[node]), depth < len(buckets) - 1) for node in nodes
            ]
    names = ("subscribers", "depth", "bucket", "copies", "inner")
    return {"nodes": in_columns(names, rows)}


def draw_plan(size: int, rng: random.Random, prefix: str = "") -> Plan[str]:
    """Return the plan for a publisher and that many subscribers with random addresses."""
    given = prefix.count(".")
    addresses: dict[str, None] = {}
    while len(addresses) <= size:
        addresses[prefix + ".".join(str(rng.randrange(1, 255)) for _ in range(4 - given))] = None
    source, *targets = addresses
    return plan(source, targets)
