"""The figures and tables of the papers, reproduced."""

from typing import Final

WRITTEN: Final = "experiments.json"
"""In a folder that experiments have written: which of them, and how they were run."""

TITLES: Final = {
    "tct": "Paper 1, figure 4: what hybrid and hierarchical routing cost, by subscribers and publishers.",
    "aed": "Paper 1, figure 5: how long events take under both, by subscribers and publishers.",
}
"""What each experiment of `catalogue` is, in its order."""
