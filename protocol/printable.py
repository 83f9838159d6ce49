"""Text of others (events, names, selectors, errors about them) in a form that can be printed anywhere. Pure.

A terminal obeys escape sequences, a line end begins a line that seems to come from the program, and controls of
writing direction make a text look like another one. A half of a surrogate pair cannot be encoded at all.
"""

from __future__ import annotations


def printable(text: str, keep: str = "") -> str:
    r"""Return a text on one line in which whatever is not printable is written as an escape: ``\x1b``, ``\u202e``.

    Controls, line ends, tabs, formatting characters, unusual blanks, private and unassigned characters and halves of
    surrogate pairs are not printable (`str.isprintable`). The characters in `keep` are left as they are.
    """
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() or each in keep else each.encode("unicode_escape").decode("ascii")
        for each in text
    )
