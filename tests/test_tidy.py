"""Style rules that a machine checks: layers, banned imports, sizes. Each failure says what to do instead."""

import ast
import hashlib
import re
import sys
import tomllib
from collections.abc import Callable, Iterator
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import Any

from sources import nodes_of, tree_of

ROOT = Path(__file__).resolve().parent.parent

FLOORS = {
    "protocol": 0,
    "routing": 1,
    "admission": 2,
    "recovery": 2,
    "broker": 3,
    "clients": 3,
    "actors": 4,
    "simulator": 4,
    "gateway": 5,
    "faults": 5,
    "pipelines": 6,
    "experiments": 7,
    "benchmarks": 7,
    "cli": 8,
}
"""The floor of each folder. A file imports from its own folder and from lower floors: neighbours meet below them."""

FOR_TYPES = {"protocol": "routing.filters.filter"}
"""What a folder names in annotations alone although it is above: a message that carries a filter says so."""

PURE = (
    "protocol/", "routing/", "admission/", "recovery/", "broker/", "clients/", "faults/plans/", "faults/checker/",
    "faults/explaining/", "faults/game_day/", "faults/stepping/", "faults/injector.py", "faults/damage.py",
    "faults/report.py",
    "faults/recovery_times.py",
    "gateway/access.py", "gateway/positions.py", "gateway/queues.py", "gateway/deliveries.py",
    "gateway/stomp/frames.py", "gateway/stomp/content.py", "gateway/stomp/acknowledging.py", "gateway/stomp/session.py",
    "gateway/stomp/requests.py", "gateway/stomp/gaps.py", "pipelines/sink/rolling.py",
)  # fmt: skip
"""Value machines: no I/O, no clock, no chance, no logging."""

ON_RAY = (
    "pipelines/", "actors/", "gateway/", "faults/real/", "faults/machines/",
    "benchmarks/bare_chains.py", "benchmarks/data.py", "benchmarks/dataplane.py",
    "benchmarks/distribution.py", "benchmarks/peers/run.py", "benchmarks/ray_nodes.py",
)  # fmt: skip
"""Where Ray may be imported; pure folders inside are pure all the same."""

BANNED_IN_PURE = {
    "time": "take the time as an argument",
    "random": "take a random.Random as an argument",
    "logging": "return an effect or raise a named error",
    "asyncio": "machines are synchronous; wait in a host",
    "threading": "machines are not entered twice",
    "socket": "hosts talk to the network",
    "subprocess": "hosts start processes",
    "ray": "Ray stands in actors/, gateway/, pipelines/ and faults/real/",
    "pyspark": "Spark stands in pipelines/",
    "raydp": "Spark stands in pipelines/",
    "pandas": "tables are read at the edge: actors/clients/columns.py",
    "sqlite3": "files are written by recovery/durability/sqlite_store.py",
    "psycopg": "a database is written to by recovery/durability/postgresql_store.py",
    "psycopg_pool": "a database is written to by recovery/durability/postgresql_store.py",
}
MAY_DO_IO = {
    ("recovery/durability/sqlite_store.py", "sqlite3"),
    ("recovery/durability/postgresql_store.py", "psycopg"),
    ("recovery/durability/postgresql_store.py", "psycopg_pool"),
}
"""The two places of the pure folders that do I/O: stores, beside their interface. Hosts call them, machines do not."""
MAY_USE_RANDOM = {
    "faults/plans/cases.py",
    "faults/plans/admission_cases.py",
    "faults/plans/connection_cases.py",
    "faults/plans/damage_cases.py",
    "faults/plans/stable_cases.py",
    "faults/plans/known_cases.py",
    "faults/plans/late_cases.py",
    "faults/plans/expiry_cases.py",
    "faults/plans/group_cases.py",
    "faults/game_day/draws.py",
    "faults/plans/replay_cases.py",
    "routing/topologies/cluster_trees.py",
    "routing/topologies/random_graph.py",
    "routing/topologies/transit_stub.py",
    "protocol/scenarios/scenario.py",
    "protocol/scenarios/workload.py",
    "recovery/membership/tree.py",
    "faults/plans/host_plans.py",
}
"""They make a `random.Random` from a seed that they are given."""

MADE_OF_PARTS = ("admission/", "recovery/membership/")
CHANGES_OF_PLACE = {
    "parent": {"parent", "path", "term", "root"},
    "children": {"children"},
    "group": {"other_members"},
    "tree": {"now"},
}
"""Who sets which attributes of the place of a broker in its tree."""

FORMER_WORDS = {
    "Cube(Seat|View|Beat|Died|Leave|Message|Rendezvous|Wants)": "View..., for every list of members",
    "Doubt|doubt_(seconds|from|since)|doubted(_seconds)?": "repair window; FailureNotice for the message",
    "Forecast|(.*_)?forecasts?(_.*)?|(.*_)?weather(_.*)?": "link faults, in a LinkFaultTable",
    "Parcel|(.*_)?parcels?(_.*)?": "delivery batch",
    "Wish|(.*_)?wish(es)?(_.*)?": "request",
    "(.*_)?(come|coming)_back": "reattach",
    "Again|_on_again|AGAIN_(KIND|EVENTS_MAX)|SENT_AGAIN": "Resend, retransmitted",
    "group_ways|_ways_back|_forget_ways": "connections of a host, next hops of a route, links",
    "told_(at|first|to|lost)|_to_be_told|_Told": "ticked, announced, reported; a broadcast",
    "(Core|Session)(Session|Limits)": "Session of a gateway, StompSession, ProcessSession of a host, ClientSession",
    "Standing|_?standings?(_by|_of)?": "guarantee, current position, survey; a standing heartbeat",
    "(.*_)?fellows?(_.*)?": "member; other members, for those of a broker's cluster but itself",
    "(.*_)?heirs?(_.*)?": "successor",
    "(.*_)?(un)?seat(s|ed)?(_.*)?": "hosted broker",
    "(.*_)?(climbs?|gates|lingers)(_.*)?": "goes up, upward links, expiring",
    "(.*_)?(ears|untold|vouched)(_.*)?": "receivers, unconfirmed, unannounced, alive by host",
    "((next|own|other|source|target|broken)_)?life|life_of|lives": "incarnation",
    "tak(e|ing)_up": "resume, resume_from_store",
}
"""Patterns of names that the code had for what now has another, which docs/glossary.md explains."""

ANY_FORMER_WORD = re.compile("|".join(FORMER_WORDS))
WORD = re.compile(r"\b[A-Za-z_]\w*")
NAMED = ("id", "attr", "arg", "name")

OTHER_MEANINGS = {
    "standing": ("actors/host/standing.py", "actors/host/resting.py"),
    "life": ("faults/checker/", "pipelines/audit/", "protocol/traces/", "clients/subscriber.py"),
    "lives": (
        "faults/checker/",
        "faults/model_checking/",
        "pipelines/audit/",
        "protocol/traces/",
        "actors/network/",
    ),
}
"""Where such a name stands for something else: subscriptions in traces have lives, a stored record has the key."""

CONFIGURATIONS = ("recovery", "admission")
LOOKS_AT_CONFIGURATIONS = {
    "protocol/features.py": 6,
    "faults/plans/cases.py": 4,
    "faults/plans/case_files.py": 1,
    "faults/shrinking/reductions.py": 1,
    "broker/books.py": 1,
    "experiments/admission.py": 1,
    "faults/report.py": 1,
}
"""How often a file may ask whether a configuration is there: the one that answers, those that draw, read and change the
configurations of cases, two that ask a broker whether it has the layer, and one that has figures of that name."""

FILE_LINES_MAX = 800
"""A file longer than that is looked at again; whether it is two things is not a matter of lines."""
FUNCTION_LINES_MAX = 60


@cache
def package_files() -> list[Path]:
    return sorted({path for folder in FLOORS for path in (ROOT / folder).rglob("*.py")})


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def of_every(chosen: Callable[[Path], bool] = lambda path: True) -> Callable[[Callable[[Path], None]], Any]:
    """Turn a rule for one file into one test of all chosen files, which reports every violation."""

    def decorate(rule: Callable[[Path], None]) -> Callable[[], None]:
        def test() -> None:
            broken = []
            for path in filter(chosen, package_files()):
                try:
                    rule(path)
                except AssertionError as error:
                    broken.append(str(error))
            assert not broken, "\n".join(broken)

        test.__name__, test.__doc__ = rule.__name__, rule.__doc__
        return test

    return decorate


@cache
@cache
def all_imports(tree: ast.Module) -> list[tuple[ast.stmt, int, str, bool]]:
    """Return (statement, level, module, whether only for types) of every import."""
    skipped = {
        id(inner)
        for node in nodes_of(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for inner in ast.walk(node)
    }
    found: list[tuple[ast.stmt, int, str, bool]] = []
    for node in nodes_of(tree):
        if isinstance(node, ast.Import):
            found += [(node, 0, alias.name, id(node) in skipped) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found.append((node, node.level, node.module or "", id(node) in skipped))
    return found


def imports(tree: ast.Module, *, types: bool = False) -> list[tuple[ast.stmt, int, str]]:
    """Return (statement, level, module) of every import; those under `TYPE_CHECKING` only with `types`."""
    found = all_imports(tree)
    return [(node, level, module) for node, level, module, only in found if types or not only]


@of_every()
def test_imports_point_down(path: Path) -> None:
    inside = path.relative_to(ROOT).parts[:-1]
    home = inside[0]
    at_run_time = {id(node) for node, _, _ in imports(tree_of(path))}
    for node, level, module in imports(tree_of(path), types=True):
        assert not module.startswith("rayvous"), f"{path}:{node.lineno}: inside the package import relatively"
        if level == 0:
            continue
        target = ".".join((*inside[: len(inside) - level + 1], *module.split(".") * bool(module)))
        if id(node) not in at_run_time and FOR_TYPES.get(home) == target:
            continue
        there = target.split(".")[0]
        assert there == home or FLOORS[there] < FLOORS[home], (
            f"{path}:{node.lineno}: {home} may not import {target}: it is not below"
        )


def files_imported_by(path: Path) -> set[Path]:
    """Return the files of the package that a file imports anywhere in it, also for types only."""
    found: set[Path] = set()
    for node, level, module in imports(tree_of(path), types=True):
        if level and isinstance(node, ast.ImportFrom):
            base = path.parents[level - 1].joinpath(*module.split(".") * bool(module))
            found.update(file_of(base / alias.name) or file_of(base) or path for alias in node.names)
    return found - {path}


def file_of(module: Path) -> Path | None:
    files = (module.with_suffix(".py"), module / "__init__.py")
    return next((file for file in files if file.exists()), None)


def test_no_files_import_each_other_in_a_circle() -> None:
    try:
        TopologicalSorter({path: files_imported_by(path) for path in package_files()}).prepare()
    except CycleError as error:
        circle = " <- ".join(map(name_of, error.args[1]))
        raise AssertionError(
            f"{circle}: move what both need below both, or let one know a protocol that stands below"
        ) from None


@of_every(lambda path: name_of(path).startswith(PURE))
def test_value_machines_are_pure(path: Path) -> None:
    for node, level, module in imports(tree_of(path)):
        top = module.split(".")[0]
        allowed = (top == "random" and name_of(path) in MAY_USE_RANDOM) or (name_of(path), top) in MAY_DO_IO
        if level == 0 and top in BANNED_IN_PURE and not allowed:
            raise AssertionError(f"{path}:{node.lineno}: imports {top}: {BANNED_IN_PURE[top]}")


@of_every()
def test_heavy_imports_stand_where_they_belong(path: Path) -> None:
    for node, level, module in imports(tree_of(path)):
        top = module.split(".")[0]
        if level:
            continue
        if top in ("pyspark", "raydp"):
            assert name_of(path).startswith("pipelines/"), (
                f"{path}:{node.lineno}: {top} belongs in pipelines/"
            )
        if top == "ray":
            assert name_of(path).startswith(ON_RAY), (
                f"{path}:{node.lineno}: ray belongs in actors/, gateway/, pipelines/ and faults/real/"
            )


@of_every()
def test_files_and_functions_are_short(path: Path) -> None:
    lines = path.read_text(encoding="utf-8").count("\n")
    assert lines <= FILE_LINES_MAX, (
        f"{path}: {lines} lines: look whether two things stand in it. Split it only where they do, each under a name "
        "of its own; a file that is one thing and longer is a reason to raise the limit"
    )
    for node in nodes_of(tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            body = [statement for statement in node.body if not is_text(statement)]
            length = (node.end_lineno or 0) - body[0].lineno + 1 if body else 0
            # The lines of a class inside a function do not count as lines of the function.
            length -= sum(
                (inner.end_lineno or 0) - inner.lineno
                for inner in ast.walk(node)
                if isinstance(inner, ast.ClassDef)
            )
            assert length <= FUNCTION_LINES_MAX, f"{path}:{node.lineno}: {node.name} has {length} lines"


def is_text(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


@of_every()
def test_every_file_begins_with_its_law(path: Path) -> None:
    text = ast.get_docstring(tree_of(path))
    assert text, f"{path}: begin with a docstring that says what it is for"
    assert "TODO" not in text, f"{path}: finish it"


@of_every(lambda path: name_of(path).startswith(MADE_OF_PARTS))
def test_parts_own_their_state(path: Path) -> None:
    """Decision 0085."""
    nodes = [*nodes_of(tree_of(path))]
    here = {"self", *(node.name for node in nodes if isinstance(node, ast.ClassDef))}
    for node in nodes:
        if not isinstance(node, ast.Attribute):
            continue
        owner = node.value.id if isinstance(node.value, ast.Name) else getattr(node.value, "attr", "")
        at = f"{path}:{node.lineno}: {owner}.{node.attr}"
        private = node.attr.startswith("_") and not node.attr.startswith("__")
        assert not private or owner in here, f"{at}: ask its owner for it"
        if owner in ("place", "_place") and isinstance(node.ctx, ast.Store):
            assert node.attr in CHANGES_OF_PLACE.get(path.stem, ()), f"{at}: let whoever changes it do so"


@of_every()
def test_whether_a_feature_is_there_is_asked_in_one_place(path: Path) -> None:
    """Decision 0162."""
    found = [
        ast.unparse(node)
        for node in nodes_of(tree_of(path))
        for asked in looked_at(node)
        if (getattr(asked, "id", None) or getattr(asked, "attr", "")).lstrip("_") in CONFIGURATIONS
    ]
    allowed = LOOKS_AT_CONFIGURATIONS.get(name_of(path), 0)
    assert len(found) <= allowed, f"{path}: {found}: ask `Features` (protocol/features.py)"
    assert len(found) == allowed, (
        f"{path}: only {len(found)} now: lower its number in LOOKS_AT_CONFIGURATIONS"
    )


def looked_at(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what an expression compares with None, and the attributes that it takes for truth values."""
    match node:
        case ast.Compare(left, [ast.Is() | ast.IsNot()], [ast.Constant(None)]):
            yield left
        case ast.If(ast.Attribute() as test) | ast.IfExp(ast.Attribute() as test):
            yield test
        case ast.BoolOp(values=values):
            yield from (value for value in values if isinstance(value, ast.Attribute))
        case ast.UnaryOp(ast.Not(), ast.Attribute() as operand):
            yield operand


def test_each_way_to_look_at_a_configuration_is_seen() -> None:
    for text in (
        "a.recovery is None", "recovery is not None", "1 if self._recovery else 2", "x.recovery or 3",
        "not x.admission",
    ):  # fmt: skip
        nodes = [each for node in ast.walk(ast.parse(text)) for each in looked_at(node)]
        names = {getattr(each, "id", None) or getattr(each, "attr", "") for each in nodes}
        assert names & {"recovery", "_recovery", "admission"}, text
    assert not [*looked_at(ast.parse("recovery == 1", mode="eval").body)]


MODULE_NAMED = re.compile(r":mod:`~?([.\w]+)`")


def named_module(path: Path, name: str) -> Path:
    """Return where a module is that the text of a file names, without the suffix of a file."""
    bare = name.lstrip(".")
    start = path.parents[max(len(name) - len(bare) - 1, 0)]
    if bare.startswith("rayvous."):
        start, bare = ROOT, bare.removeprefix("rayvous.")
    return start / bare.replace(".", "/")


@of_every()
def test_modules_that_a_text_names_exist(path: Path) -> None:
    for name in MODULE_NAMED.findall(path.read_text(encoding="utf-8")):
        place = named_module(path, name)
        known = place.with_suffix(".py").is_file() or place.is_dir() or name in sys.stdlib_module_names
        assert known, f"{path}: there is no module {name}: name the one that is meant"


@of_every()
def test_former_words_do_not_come_back(path: Path) -> None:
    for bare in {word.lstrip("_") for word in (path.stem, *WORD.findall(path.read_text(encoding="utf-8")))}:
        if ANY_FORMER_WORD.fullmatch(bare) and not name_of(path).startswith(OTHER_MEANINGS.get(bare, ())):
            names = {getattr(node, field, None) for node in nodes_of(tree_of(path)) for field in NAMED}
            now = next(now for former, now in FORMER_WORDS.items() if re.fullmatch(former, bare))
            found = {path.stem, *names} & {bare, f"_{bare}"}
            assert not found, f"{path}: {found}: call it {now}"


def test_importing_the_package_starts_nothing_heavy() -> None:
    for path in (ROOT / "__init__.py", ROOT / "actors" / "__init__.py"):
        heavy = {"ray", "pyspark", "raydp", "pandas", "matplotlib"}
        found = {module.split(".")[0] for _, level, module in imports(tree_of(path)) if level == 0}
        assert not found & heavy, f"{path}: imports {found & heavy}"


def test_every_folder_of_code_is_in_what_is_installed() -> None:
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    packaged = set(declared["tool"]["setuptools"]["packages"])
    folders = {path.relative_to(ROOT).parent.parts for path in package_files()}
    there = {"rayvous", *(".".join(("rayvous", *folder)) for folder in folders)}
    assert there == packaged, "list it in pyproject.toml"


def test_the_kernel_says_of_which_sources_it_was_built():
    """A compiled kernel of before would be used by newer sources, with other rules than theirs."""
    folder = ROOT / "routing" / "matching"
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("kernel.c", "kernel_hot.h")]
    line = re.compile(r'^#define FORM "(.*)".*\n', re.MULTILINE)
    (built,) = line.findall(texts[0])
    (wanted,) = re.findall(
        r'^FORM: Final = "(.*)"$', (folder / "kernels.py").read_text(encoding="utf-8"), re.MULTILINE
    )
    digest = hashlib.sha256("".join(line.sub("", text) for text in texts).encode()).hexdigest()[:16]
    assert built == wanted == digest, (
        f"set FORM to {digest!r} in kernel.c and kernels.py, and build the kernel again"
    )
