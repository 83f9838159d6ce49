"""The time of a payload along a plan when links have a bandwidth (paper 5, section 4.2): a pure computation, no clock.

Rules
-----
* A node has one link, which sends and receives at the same time, each at its own bandwidth; the switch
  between has no limit.
* A node sends one slice at a time: the first slice to each child in the plan's order, then the second to
  each, and so on. So first slices are forwarded while the last are still to come, and children finish nearly
  together.
* A node can forward a slice once it has the whole slice; the source has all slices from the start.
* A slice occupies the receiver's link for the slice's time there, after all earlier slices. Nothing is lost,
  and headers cost nothing.

Slices that leave one after the other, slice k not before it is ready, end at ``e[k] = max(e[k - 1], ready[k])
+ s``, which is ``s * (k + 1) + max(ready[j] - s * j for j <= k)``: a running maximum. So 8 GB in slices of 64
KB are computed in milliseconds, and no number is an estimate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

T = TypeVar("T", int, str)

Times = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Transfer(Generic[T]):
    """The result of a transfer.

    Attributes
    ----------
    finished
        When each node had the whole payload, in seconds; the source has it from the start.
    sent
        Bytes that each node has sent.
    seconds
        The delay: when the last node had the payload.
    bits_per_second
        The sending bandwidth of each node's link.
    """

    finished: Mapping[T, float]
    sent: Mapping[T, int]
    seconds: float
    bits_per_second: float

    def utilisation(self, node: T) -> float:
        """Return the share of the delay for which a node's link was sending."""
        return self.sent[node] * 8 / self.bits_per_second / self.seconds


def transfer(
    source: T,
    children: Mapping[T, Sequence[T]],
    *,
    nbytes: int,
    slice_bytes: int,
    send_bits_per_second: float,
    receive_bits_per_second: float | None = None,
) -> Transfer[T]:
    """Return when each node of a tree has a payload.

    Parameters
    ----------
    source
        The node that has it at first.
    children
        The receivers of each node; every node is in it.
    nbytes, slice_bytes
        The sizes of the payload and of a slice; the last slice counts as a whole one.
    send_bits_per_second, receive_bits_per_second
        The bandwidths of every node's link; None receives as fast as it sends.
    """
    slices = -(-nbytes // slice_bytes)
    sending = slice_bytes * 8 / send_bits_per_second
    receiving = slice_bytes * 8 / (receive_bits_per_second or send_bits_per_second)
    has: dict[T, Times] = {source: np.zeros(slices)}
    finished: dict[T, float] = {}
    waiting = [source]
    for node in waiting:
        below = children[node]
        ready = has.pop(node)
        finished[node] = float(ready[-1])
        if below:
            left = one_after_the_other(np.repeat(ready, len(below)), sending)
            for place, child in enumerate(below):
                # Its first bit arrives a slice's sending time before its last.
                came = left[place :: len(below)]
                has[child] = np.maximum(came, one_after_the_other(came - sending, receiving))
        waiting.extend(below)
    sent = {node: len(children[node]) * nbytes for node in waiting}
    return Transfer(finished, sent, max(finished.values()), send_bits_per_second)


def one_after_the_other(ready: Times, seconds: float) -> Times:
    """Return when each slice has passed a link that takes `seconds` per slice, none before it is ready."""
    turns = np.arange(len(ready)) * seconds
    return np.asarray(np.maximum.accumulate(ready - turns) + turns + seconds, np.float64)
