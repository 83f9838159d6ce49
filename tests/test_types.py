"""How often each folder says `Any`: a ceiling, which is lowered when there are fewer.

`Any` switches the type checker off. A value of which nothing is asked is an `object`; a mapping with known keys is a
`TypedDict`; what several classes can do is a `Protocol`; what is compared with others of its group is `Ordered`. A
table of handlers by the type of a message has handlers that take `Never`: each row is checked, and the one call says
that its row tells the type. Some `Any` stays: numbers of numpy whose type is only known when the program runs, rows of
pandas, Spark and Ray, which have no types, and JSON that others wrote, until it is checked. Folders at 0 are checked by
mypy itself (`disallow_any_explicit` in pyproject.toml).
"""

import ast
import tomllib
from functools import cache
from pathlib import Path

import pytest
from sources import nodes_of, tree_of

ROOT = Path(__file__).resolve().parent.parent

CEILINGS = {
    "protocol": 60,
    "routing": 30,
    "admission": 5,
    "recovery": 35,
    "broker": 15,
    "clients": 0,
    "actors": 500,
    "simulator": 20,
    "gateway": 45,
    "faults": 50,
    "pipelines": 70,
    "experiments": 30,
    "benchmarks": 35,
    "cli": 35,
}
"""The most mentions in annotations and elsewhere, without imports."""

FACING_RAY = ("actors", "gateway", "pipelines")
"""Folders that call Ray, whose remote methods and references have no types."""
ELSEWHERE_MAX = 300


@cache
def mentions(folder: Path) -> int:
    return sum(
        isinstance(node, ast.Name) and node.id == "Any"
        for path in folder.rglob("*.py")
        if "Any" in path.read_text(encoding="utf-8")
        for node in nodes_of(tree_of(path))
    )


@pytest.mark.parametrize("folder", CEILINGS)
def test_a_folder_does_not_say_any_more_often(folder: str) -> None:
    found = mentions(ROOT / folder)
    assert found <= CEILINGS[folder], f"{folder}: {found} times Any: say what it is, or `object`"
    assert found > CEILINGS[folder] - 20, f"{folder}: only {found} times Any now: lower the ceiling"


def test_folders_that_do_not_face_ray_have_a_ceiling_together() -> None:
    found = sum(mentions(ROOT / folder) for folder in CEILINGS if folder not in FACING_RAY)
    assert found <= ELSEWHERE_MAX, f"{found} times Any: say what it is, or `object`"


def test_every_folder_has_a_ceiling() -> None:
    folders = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert folders == CEILINGS.keys()


def test_folders_without_any_are_checked_by_mypy() -> None:
    mypy = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["mypy"]
    checked = [
        name for rule in mypy["overrides"] if rule.get("disallow_any_explicit") for name in rule["module"]
    ]
    assert checked
    for name in checked:
        folder = ROOT.joinpath(*name.removesuffix(".*").split(".")[1:])
        assert folder.is_dir() and not mentions(folder), name
