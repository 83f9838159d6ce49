"""The files of the package as trees, read once for all tests that look at them."""

import ast
from functools import cache
from pathlib import Path


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


@cache
def nodes_of(tree: ast.Module) -> list[ast.AST]:
    """Return all nodes of a file, which every rule looks at."""
    return [*ast.walk(tree)]
