"""Moments of one run or two as a page that plays them: the network as a picture, tables, clients, what is under way.

Rules
-----
* The file is self-contained (:mod:`~.pages`), readable on light and dark screens and on a phone, and works by keyboard.
* The page draws what it is given, and works out nothing about brokers: it adds differences up, forward from the last
  frame that it knows.
"""

from __future__ import annotations

from collections.abc import Mapping

from .pages import filled, plain_data, text


def page_of(data: Mapping[str, object], title: str) -> str:
    """Return the page.

    Parameters
    ----------
    data
        ``kinds`` and ``texts``; ``runs``, each with ``name``, ``note`` and ``moments``: microseconds, the bits of the
        kinds, the number of a text, ``[from, to]`` or 0, and the changes of the frame by key; and ``here``, where it
        begins.
    title
        The heading.
    """
    return filled("player", {"title": text(title), "data": plain_data(data)})


__all__ = ["page_of"]
