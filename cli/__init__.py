"""The command line, ``rayvous VERB``: ``app`` puts the verbs together, ``verbs`` has a file for each."""

from .app import main

__all__ = ["main"]
