"""The experiments by name, in the order of the papers; `TITLES` has their titles, without importing them."""

from __future__ import annotations

from typing import Final

from ..pipelines.figures import cubes
from ..pipelines.figures.experiments import (
    admission_by_point,
    aed_by_point,
    distribution_by_point,
    healing_by_victim,
    reliability_by_point,
    tct_by_point,
    trees_by_point,
)
from ..pipelines.figures.schemes import schemes_by_size
from . import admission, clusters
from .admission_plots import figure_9, figure_10
from .admission_statements import judge_discards, judge_utilisation
from .clusters_figures import draw_aed, draw_tct
from .clusters_statements import judge_aed, judge_tct
from .experiment import Experiment, Runs
from .hypercube import hops, load, migration, saving
from .hypercube import pictures as cube_pictures
from .hypercube import statements as cube_says
from .lbdd import pictures as lbdd_pictures
from .lbdd import plans, twelve
from .lbdd import statements as lbdd_says
from .reliability import runs as reliability
from .reliability.pictures import draw_reliability
from .reliability.statements import judge_reliability
from .schemes import runs as schemes
from .schemes.pictures import draw_compare, draw_scale
from .schemes.statements import judge_compare, judge_scale
from .selfconfig import runs as healing
from .selfconfig.pictures import draw_healing
from .selfconfig.statements import judge_healing

CLUSTERS: Final = Runs("clusters", clusters.PRESETS, clusters.measure)
HEALING: Final = Runs("selfconfig", healing.PRESETS, healing.measure)
BROADCASTS: Final = Runs("hypercube-broadcasts", load.PRESETS[load.BROADCASTS], load.measure)
REPLIES: Final = Runs("hypercube-replies", load.PRESETS[load.REPLIES], load.measure)
HOPS: Final = Runs("hypercube-hops", hops.PRESETS, hops.measure)
MOVES: Final = Runs("hypercube-migration", migration.PRESETS, migration.measure)
SAVING: Final = Runs("hypercube-saving", saving.PRESETS, saving.measure)
TWELVE: Final = Runs("lbdd-twelve", twelve.PRESETS, twelve.measure)
ADMISSION: Final = Runs("admission", admission.PRESETS, admission.measure)
RELIABILITY: Final = Runs("reliability", reliability.PRESETS, reliability.measure)
COMPARE: Final = Runs("compare", schemes.COMPARE, schemes.measure)
SCALE: Final = Runs("scale", schemes.SCALE, schemes.measure)
PLANS: Final = Runs("lbdd-plans", plans.PRESETS, plans.measure)

EXPERIMENTS: Final = {
    "tct": Experiment("paper 1, figure 4", CLUSTERS, "links", tct_by_point, judge_tct, draw_tct),
    "aed": Experiment("paper 1, figure 5", CLUSTERS, "heard", aed_by_point, judge_aed, draw_aed),
    "selfconfig": Experiment(
        "paper 1, section 4",
        HEALING,
        "subscribers",
        healing_by_victim,
        judge_healing,
        draw_healing,
    ),
    "hypercube-load": Experiment(
        "paper 2, figure 6",
        BROADCASTS,
        "brokers",
        cubes.loads_by_point,
        cube_says.judge_load,
        cube_pictures.draw_loads,
    ),
    "hypercube-replies": Experiment(
        "paper 2, figure 7",
        REPLIES,
        "brokers",
        cubes.loads_by_point,
        cube_says.judge_replies,
        cube_pictures.draw_loads,
    ),
    "hypercube-hops": Experiment(
        "paper 2, formula (1)",
        HOPS,
        "ways",
        cubes.hops_by_cube,
        cube_says.judge_hops,
        cube_pictures.draw_hops,
    ),
    "hypercube-migration": Experiment(
        "paper 2, figure 5",
        MOVES,
        "phases",
        cubes.migrations_by_phase,
        cube_says.judge_migration,
        cube_pictures.draw_migration,
    ),
    "hypercube-saving": Experiment(
        "paper 2, abstract",
        SAVING,
        "brokers",
        cubes.savings_by_network,
        cube_says.judge_saving,
        cube_pictures.draw_saving,
    ),
    "admission-discard": Experiment(
        "paper 3, figure 9",
        ADMISSION,
        "figures",
        admission_by_point,
        judge_discards,
        figure_9,
    ),
    "admission-utilisation": Experiment(
        "paper 3, figure 10",
        ADMISSION,
        "figures",
        admission_by_point,
        judge_utilisation,
        figure_10,
    ),
    "reliability": Experiment(
        "paper 4, section 3",
        RELIABILITY,
        "totals",
        reliability_by_point,
        judge_reliability,
        draw_reliability,
    ),
    "lbdd-delay": Experiment(
        "paper 5, figure 1",
        TWELVE,
        "nodes",
        distribution_by_point,
        lbdd_says.judge_delay,
        lbdd_pictures.draw_delay,
    ),
    "lbdd-rate": Experiment(
        "paper 5, figure 2",
        TWELVE,
        "nodes",
        distribution_by_point,
        lbdd_says.judge_rate,
        lbdd_pictures.draw_rate,
    ),
    "lbdd-load": Experiment(
        "paper 5, figure 3",
        TWELVE,
        "nodes",
        distribution_by_point,
        lbdd_says.judge_load,
        lbdd_pictures.draw_load,
    ),
    "lbdd-depth": Experiment(
        "paper 5, table 1",
        PLANS,
        "nodes",
        trees_by_point,
        lbdd_says.judge_depth,
        lbdd_pictures.draw_depth,
    ),
    "lbdd-contribution": Experiment(
        "paper 5, figure 4",
        PLANS,
        "nodes",
        trees_by_point,
        lbdd_says.judge_contribution,
        lbdd_pictures.draw_contribution,
    ),
    "compare": Experiment(
        "all schemes on one load",
        COMPARE,
        "figures",
        schemes_by_size,
        judge_compare,
        draw_compare,
    ),
    "scale": Experiment(
        "all schemes as networks grow",
        SCALE,
        "figures",
        schemes_by_size,
        judge_scale,
        draw_scale,
    ),
}
"""The experiments by name, in the order of the papers."""
