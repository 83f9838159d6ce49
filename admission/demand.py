"""The demand of a subscription: the rate of its events and the number of their publishers (paper 3, section 3.4).

Rules
-----
* ``"printed"``: if a node equals the filter, the demand is exact. Otherwise it lies between the largest
  successor and the smallest predecessor (formula 1). Without a successor the lower bound is 0. Without a
  predecessor, which the paper does not treat, the upper bound is everything that is advertised.
* Theorem 1 is false as printed. A publisher of all prices also publishes those above 5. It stands *above* the
  node that bounds the filter, and is not in that node's rate. The same holds for publishers that only
  overlap, and where a node equals the filter: the node has only what it covers.
* ``"paper"``: as printed, plus what the bounding node does not cover but the filter meets, which is added to
  the upper bound. If nothing covers the filter, its upper bound is everything that it meets. With this the
  theorem holds.
* ``"tight"``: between everything that the filter covers and everything that it meets. Both bounds are over
  distinct advertisements. ``"measured"`` does the same here, and the books charge less of it (`sampling`).
* The lower bounds hold for publishers that publish as fast as they advertised; the upper bounds hold for all.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ..protocol.ids import BrokerLink
from ..protocol.messages.admission import Estimator
from ..routing.filters.filter import Filter
from .advertisements import AdvertisementDag, Micros
from .columns import Mask, Relations


@dataclass(frozen=True, slots=True)
class Demand:
    """Bounds of the rate, in micro-events a second, and of the number of advertisements."""

    rate_min: int
    rate_max: int
    count_min: int
    count_max: int

    @property
    def exact(self) -> bool:
        """Whether the rate is known exactly."""
        return self.rate_min == self.rate_max


def demand(
    dag: AdvertisementDag, item: Filter, estimator: Estimator = "paper", without: Iterable[BrokerLink] = ()
) -> Demand:
    """Return the demand of a subscription.

    Parameters
    ----------
    dag
        The advertisements that the broker knows.
    item
        The filter of the subscription.
    estimator
        ``"paper"``, ``"printed"``, ``"tight"`` or ``"measured"``.
    without
        Links whose advertisements do not count, since the events would not come from there.
    """
    left_out = [dag.rows[link] for link in without if link in dag.rows]
    relations = dag.relations(item)
    bounds = {"paper": _paper, "printed": _printed, "tight": _tight, "measured": _tight}[estimator]
    rates = bounds(dag, relations, _but(dag.own_rate, left_out), _but(dag.rate, left_out))
    counts = bounds(dag, relations, _but(dag.own_count, left_out), _but(dag.count, left_out))
    return Demand(*rates, *counts)


def _but(values: Micros, rows: list[int]) -> Micros:
    """Return the sums over all links, without those of some rows."""
    total: Micros = values.sum(axis=0)
    for row in rows:
        total = total - values[row]
    return total


def _tight(dag: AdvertisementDag, relations: Relations, own: Micros, all_covered: Micros) -> tuple[int, int]:
    covered = relations.below
    if relations.same >= 0:
        covered = covered.copy()
        covered[relations.same] = True
    return _sum(own, covered), _sum(own, relations.meets)


def _printed(
    dag: AdvertisementDag, relations: Relations, own: Micros, all_covered: Micros
) -> tuple[int, int]:
    if relations.same >= 0:
        exact = int(all_covered[relations.same])
        return exact, exact
    below, above = all_covered[relations.below], all_covered[relations.above]
    return int(below.max(initial=0)), int(above.min()) if len(above) else int(own.sum())


def _paper(dag: AdvertisementDag, relations: Relations, own: Micros, all_covered: Micros) -> tuple[int, int]:
    if relations.same >= 0:
        exact = int(all_covered[relations.same])
        outside = relations.meets & ~relations.below
        outside[relations.same] = False
        return exact, exact + _sum(own, outside)
    below, above = np.flatnonzero(relations.below), np.flatnonzero(relations.above)
    least = int(all_covered[below].max()) if len(below) else 0
    if not len(above):
        return least, _sum(own, relations.meets)
    smallest = int(above[np.argmin(all_covered[above])])
    theirs = dag.relations(dag.columns.filter(smallest))
    outside = relations.meets & ~theirs.below
    outside[smallest] = False
    return least, int(all_covered[smallest]) + _sum(own, outside)


def _sum(values: Micros, mask: Mask) -> int:
    return int(values[mask].sum())
