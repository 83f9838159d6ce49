"""The experiments by name, in the order of the papers; `TITLES` says what each is, without importing them."""

from __future__ import annotations

from typing import Final

from ..pipelines.figures.experiments import (
    aed_by_point,
    distribution_by_point,
    tct_by_point,
    trees_by_point,
)
from . import clusters
from .clusters_figures import draw_aed, draw_tct
from .clusters_statements import judge_aed, judge_tct
from .experiment import Experiment, Runs
from .lbdd import pictures as lbdd_pictures
from .lbdd import plans, twelve
from .lbdd import statements as lbdd

CLUSTERS: Final = Runs("clusters", clusters.PRESETS, clusters.measure)
TWELVE: Final = Runs("lbdd-twelve", twelve.PRESETS, twelve.measure)
PLANS: Final = Runs("lbdd-plans", plans.PRESETS, plans.measure)

EXPERIMENTS: Final[dict[str, Experiment]] = {
    "tct": Experiment("paper 1, figure 4", CLUSTERS, "links", tct_by_point, judge_tct, draw_tct),
    "aed": Experiment("paper 1, figure 5", CLUSTERS, "heard", aed_by_point, judge_aed, draw_aed),
    "lbdd-delay": Experiment(
        "paper 5, figure 1",
        TWELVE,
        "nodes",
        distribution_by_point,
        lbdd.judge_delay,
        lbdd_pictures.draw_delay,
    ),
    "lbdd-rate": Experiment(
        "paper 5, figure 2",
        TWELVE,
        "nodes",
        distribution_by_point,
        lbdd.judge_rate,
        lbdd_pictures.draw_rate,
    ),
    "lbdd-load": Experiment(
        "paper 5, figure 3",
        TWELVE,
        "nodes",
        distribution_by_point,
        lbdd.judge_load,
        lbdd_pictures.draw_load,
    ),
    "lbdd-depth": Experiment(
        "paper 5, table 1",
        PLANS,
        "nodes",
        trees_by_point,
        lbdd.judge_depth,
        lbdd_pictures.draw_depth,
    ),
    "lbdd-contribution": Experiment(
        "paper 5, figure 4",
        PLANS,
        "nodes",
        trees_by_point,
        lbdd.judge_contribution,
        lbdd_pictures.draw_contribution,
    ),
}
