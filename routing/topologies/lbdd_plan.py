"""The dissemination tree of LBDD: subscribers take part in distributing the events (paper 5, section 3).

Rules
-----
* The digest of an address is the highest 32 bits of its MD5. The distance of two nodes is the XOR of their digests.
* Bucket m holds the targets at a distance from the source in ``[2**(m - 1), 2**m)``; the source is bucket 0.
* The members of a bucket are ranked by digest, and together serve the next bucket that is not empty: the ranks take
  equal shares of it, in order. The paper's ratio of the two sizes is rarely an integer. Here share r of n ends at
  ``(r + 1) * size // n``, so that the shares are a partition for any sizes.
* So a copy only goes to a higher bucket (one-way), every target has one parent (a tree), n targets take n copies, and
  no path is longer than the number of buckets: 32.
* The source and the targets determine the whole plan; no agreement between nodes is needed.

Nodes with equal digests are ordered by address. A target with the digest of the source counts as distance 1.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, Generic, TypeVar

import numpy as np

DIGEST_BITS: Final = 32

T = TypeVar("T", int, str)
"""What names a node: an address, or a broker."""


def digest(address: int | str) -> int:
    """Return the highest 32 bits of the MD5 of an address."""
    whole = hashlib.md5(str(address).encode(), usedforsecurity=False).digest()
    return int.from_bytes(whole[: DIGEST_BITS // 8], "big")


def bucket_of(source: int | str, target: int | str) -> int:
    """Return the bucket of a target, 1 to 32, as seen from the source (paper 5, algorithm 1)."""
    return max(1, (digest(source) ^ digest(target)).bit_length())


def may_relay(here: int, brokers: Iterable[int]) -> dict[int, tuple[int, ...]]:
    """Return, by source, the brokers to which `here` may have to send a copy, for any set of targets.

    These are the brokers in a higher bucket than `here`: copies only go to a higher bucket, and if `here` and
    such a broker are the only targets, the plan has `here` send to it.
    """
    others = [each for each in brokers if each != here]
    digests = np.array([digest(each) for each in others], np.uint32)
    out = {}
    for place, source in enumerate(others):
        buckets = np.frexp((digests ^ digests[place]).astype(np.float64))[1]
        mine = bucket_of(source, here)
        out[source] = tuple(
            other
            for other, bucket in zip(others, np.maximum(buckets, 1).tolist(), strict=True)
            if bucket > mine and other != source
        )
    return out


def shares(size: int, senders: int) -> list[range]:
    """Partition `size` places among the senders, in order, and return the range of each."""
    ends = [rank * size // senders for rank in range(senders + 1)]
    return [range(low, high) for low, high in pairwise(ends)]


@dataclass(frozen=True)
class Plan(Generic[T]):
    """The dissemination tree for one source and its targets; made by :func:`plan`.

    Attributes
    ----------
    source
        The source of the copies.
    buckets
        ``{number: its members by rank}``, in rising order, without empty buckets.
    """

    source: T
    buckets: Mapping[int, tuple[T, ...]]

    @cached_property
    def children(self) -> dict[T, tuple[T, ...]]:
        """The children of each node; the keys are the source and all targets (paper 5, algorithm 2)."""
        out: dict[T, tuple[T, ...]] = {}
        senders: tuple[T, ...] = (self.source,)
        for bucket in self.buckets.values():
            for sender, share in zip(senders, shares(len(bucket), len(senders)), strict=True):
                out[sender] = bucket[share.start : share.stop]
            senders = bucket
        return out | dict.fromkeys(senders, ())

    @cached_property
    def targets(self) -> frozenset[T]:
        """All nodes that get a copy."""
        return frozenset(target for bucket in self.buckets.values() for target in bucket)

    @property
    def depth(self) -> int:
        """The number of hops of the longest path: one for each bucket that is not empty."""
        return len(self.buckets)

    def below(self, node: T) -> list[T]:
        """Return the nodes that get their copy through a node, parents before children."""
        out = list(self.children[node])
        for each in out:
            out.extend(self.children[each])
        return out

    def without(self, gone: T) -> Plan[T]:
        """Return the plan after a target has failed or left (paper 5, algorithm 3).

        Only members of its own bucket and of the previous one change their receivers. If its bucket becomes
        empty, the next bucket is served by other nodes as well.
        """
        return plan(self.source, self.targets - {gone})

    def joined_by(self, new: T) -> Plan[T]:
        """Return the plan after a target has joined."""
        return plan(self.source, self.targets | {new})

    def contributions(self) -> dict[T, float]:
        """Return the share of all copies that each node sends; they sum to 1 (paper 5, section 4.3)."""
        return {node: len(below) / len(self.targets) for node, below in self.children.items()}


def plan(source: T, targets: Iterable[T]) -> Plan[T]:
    """Return the dissemination tree from a source to its targets."""
    buckets: dict[int, list[T]] = {}
    for target in targets:
        if target != source:
            buckets.setdefault(bucket_of(source, target), []).append(target)
    ranked = {
        number: tuple(sorted(buckets[number], key=lambda each: (digest(each), str(each))))
        for number in sorted(buckets)
    }
    return Plan(source, ranked)
