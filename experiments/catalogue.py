"""The experiments by name, in the order of the papers; `TITLES` says what each is, without importing them."""

from __future__ import annotations

from typing import Final

from ..pipelines.figures.experiments import aed_by_point, tct_by_point
from . import clusters
from .clusters_figures import draw_aed, draw_tct
from .clusters_statements import judge_aed, judge_tct
from .experiment import Experiment, Runs

CLUSTERS: Final = Runs("clusters", clusters.PRESETS, clusters.measure)

EXPERIMENTS: Final[dict[str, Experiment]] = {
    "tct": Experiment("paper 1, figure 4", CLUSTERS, "links", tct_by_point, judge_tct, draw_tct),
    "aed": Experiment("paper 1, figure 5", CLUSTERS, "heard", aed_by_point, judge_aed, draw_aed),
}
