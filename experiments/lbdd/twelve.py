"""Figures 1 to 3 of paper 5: 8 GB in slices of 64 KB from one computer to eleven, by LBDD and point-to-point.

Method
------
* The paper's twelve addresses are used, so that its tree is known; each step adds a subscriber, up to eleven.
  Every slice takes its time on every link that it crosses (`bandwidth`).
* The delay ends when the last subscriber has everything; the rate is the payload over the delay; the load of
  the publisher is the share of the delay for which its link is sending.

Open in the paper, and our choice
---------------------------------
* *The links.* The paper names hardware of 1 Gbit/s, on which eleven copies of 8 GB take 756 s; it measured
  7,810 s, which requires links of 100 Mbit/s. So 100 Mbit/s are used; 1 Gbit/s is reported, too.
* *What one computer takes in.* Only its link limits it; that is the plain reading. But then a publisher's
  link is full with one subscriber, and the paper says with six. So there is a second reading, in which a
  computer takes in at most the 24 Mbit/s that the paper measured, whatever the sender; and a third, with the
  23 Mbit/s by which LBDD takes the published 3,020 s. That number is fitted to one sentence, and to no other.
* *What a GB is.* 2^30 bytes; 10^9 is reported, too.
* *The first subscribers.* In run 0 those that the paper names first, in other runs drawn at random.

Source: paper 5, sections 4.1 and 4.2.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...routing.topologies.lbdd_plan import plan
from ..experiment import Repeated, Tables, in_columns
from .bandwidth import transfer

SOURCE: Final = "10.3.17.74"
TARGETS: Final = tuple(f"10.3.17.{last}" for last in (97, 234, 90, 98, 64, 61, 184, 72, 88, 44, 68))
SLICE_BYTES: Final = 65_536
GIB: Final = 2**30
GB: Final = 10**9
LINK_MBIT: Final = 100.0
FAST_MBIT: Final = 1_000.0
TAKEN_MBIT: Final = 24.0
"""The rate that the paper measured at a subscriber."""

FITTED_MBIT: Final = 23.0
"""The rate at which LBDD takes 3,020 s, in whole Mbit/s: 8 GiB take 2,988 s."""

WAYS: Final = ("point-to-point", "LBDD")


@dataclass(frozen=True, slots=True)
class Point:
    """One kind of network.

    Attributes
    ----------
    link_mbit
        The bandwidth of every computer's link, in either direction.
    taken_mbit
        The maximum rate at which a computer receives.
    payload_bytes
        The size of the payload.
    run
        In run 0 subscribers come in the paper's order, in other runs in a random order.
    """

    link_mbit: float
    taken_mbit: float
    payload_bytes: int = 8 * GIB
    run: int = 0


POINTS: Final = (
    Point(LINK_MBIT, LINK_MBIT),
    Point(LINK_MBIT, TAKEN_MBIT),
    Point(LINK_MBIT, FITTED_MBIT),
    Point(FAST_MBIT, FAST_MBIT),
    Point(FAST_MBIT, TAKEN_MBIT),
    Point(LINK_MBIT, LINK_MBIT, 8 * GB),
)
PRESETS: Final = {"quick": Repeated(POINTS, 4), "paper": Repeated(POINTS, 20)}


def measure(point: Point) -> Tables:
    """Distribute the payload to one subscriber, then to two, and so on; return the work of each computer.

    Returns
    -------
    dict
        ``nodes``: for each `way` and number of `subscribers`, for each `node` when it had everything
        (`finished`, in seconds), how many `copies` it sent, and whether it is the `publisher`. `order` says
        whether the subscribers came as ``"named"`` or as ``"drawn"``.
    """
    targets = list(TARGETS)
    if point.run:
        random.Random(f"twelve/{point.run}").shuffle(targets)
    rows = []
    for count in range(1, len(targets) + 1):
        for way in WAYS:
            sent = children_of(way, tuple(targets[:count]))
            done = transfer(
                SOURCE,
                sent,
                nbytes=point.payload_bytes,
                slice_bytes=SLICE_BYTES,
                send_bits_per_second=point.link_mbit * 1e6,
                receive_bits_per_second=point.taken_mbit * 1e6,
            )
            rows += [
                (way, count, node, at, len(sent[node]), node == SOURCE) for node, at in done.finished.items()
            ]
    names = ("way", "subscribers", "node", "finished", "copies", "publisher")
    return {
        "nodes": {
            **in_columns(names, rows),
            "order": np.full(len(rows), "drawn" if point.run else "named", object),
        }
    }


def children_of(way: str, targets: tuple[str, ...]) -> dict[str, tuple[str, ...]]:
    """Return the receivers of each computer, the publisher and all targets (figure 1)."""
    if way == "LBDD":
        return plan(SOURCE, targets).children
    return {SOURCE: targets} | dict.fromkeys(targets, ())
