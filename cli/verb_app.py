"""An application of verbs whose help texts fit any width of terminal.

Typer shows the lines of a docstring as they are in the source. Here lines of a paragraph are joined, so that they are
wrapped where the terminal ends; indented lines (examples) stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from inspect import cleandoc
from typing import Any, TypeVar

import typer

Verb = TypeVar("Verb", bound=Callable[..., object])


class VerbApp(typer.Typer):
    """A `typer.Typer` that joins the lines of paragraphs in docstrings."""

    def command(self, name: str | None = None, **options: Any) -> Callable[[Verb], Verb]:
        """Return the decorator that adds a function as a verb, with its docstring as help."""

        def add(verb: Verb) -> Verb:
            return typer.Typer.command(self, name, help=flowing(verb.__doc__ or ""), **options)(verb)

        return add


def flowing(text: str) -> str:
    """Return a docstring with each paragraph on one line; indented paragraphs and headings stay."""
    return "\n\n".join(
        part if "\n  " in part or "\n---" in part else part.replace("\n", " ")
        for part in cleandoc(text).split("\n\n")
    )
