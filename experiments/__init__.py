"""The figures and tables of the papers, reproduced."""

from typing import Final

WRITTEN: Final = "experiments.json"
"""In a folder that experiments have written: which of them, and how they were run."""
