"""The command line: ``rayvous demo``, ``rayvous bench``, ``rayvous run``, ``rayvous selector``."""

from .app import main

__all__ = ["main"]
