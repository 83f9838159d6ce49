"""Mutation testing of a folder: the code is changed in one small place at a time, and some test must fail.

Rules
-----
* mutmut makes the mutants. For each it runs only the tests that execute the changed function, in a fork of a
  process that has already imported everything, so a mutant costs no more than its tests. cosmic-ray would
  start pytest anew for each mutant, which takes seconds here before the first test.
* mutmut expects the package to be a folder beside the tests, but here the root of the repository is the
  package. So it works on a copy below `out/mutants` with the expected layout.
* A folder has thousands of mutants. A random sample of them is run; its size and seed are in
  `pyproject.toml`, so the same code gives the same sample.
* `check` methods are not mutated: a weaker assertion is noticed only in a state that violates the original.
* A killed mutant is not run again until its function changes; a survivor is. So a run that was stopped
  continues where it was.

``make mutants FOLDERS=admission``; survivors are shown as diffs, and `docs/mutants.md` says what became of
those found so far.
"""

import json
import os
import random
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from mutmut.mutation.file_mutation import mutate_file_contents
from mutmut.stats import status_by_exit_code
from mutmut.utils.format_utils import get_mutant_name

ROOT = Path(__file__).resolve().parent.parent
FOUND = ("killed", "timeout")
CHECK = "\N{LATIN LETTER LATERAL CLICK}check__mutmut_"  # in the names of mutants of a method `check`
MUTMUT = [sys.executable, "-c", "from mutmut.__main__ import cli; cli()"]


def main(folders: list[str]) -> int:
    """Run the samples of the folders; return 0 if no mutant has survived."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    config = tomllib.loads(text)["tool"]["mutation"]
    for folder in folders:
        if folder not in config["folders"]:
            known = ", ".join(config["folders"])
            sys.stderr.write(f"no tests are named for {folder!r}: it must be one of {known}\n")
            return 2
    return max([_run(folder, text, config) for folder in folders])


def _run(folder: str, text: str, config: dict) -> int:
    place = _copied(folder, text, config)
    drawn = _sample(place, folder, config)
    before = _became(place, folder)
    left = [name for name in drawn if before.get(name) not in FOUND]
    if left:
        children = str(config["processes"])
        command = [*MUTMUT, "run", "--max-children", children, *left]
        done = subprocess.run(command, cwd=place, capture_output=True, text=True, check=False)
        if done.returncode:
            sys.stderr.write(done.stdout[-4000:] + done.stderr[-4000:])
            return 2
    return _report(place, folder, drawn)


def _copied(folder: str, text: str, config: dict) -> Path:
    """Make a copy in which the package is a folder, with the settings of mutmut for this folder."""
    place = ROOT / "out" / "mutants" / folder.replace("/", "-")
    for name in tomllib.loads(text)["tool"]["setuptools"]["packages"]:
        inside = name.split(".")[1:]
        files = ROOT.joinpath(*inside).glob("*.*" if inside else "*.py")
        _copy(files, place.joinpath("rayvous", *inside))
    for source in [ROOT / "tests", *(path for path in (ROOT / "tests").rglob("*") if path.is_dir())]:
        if source.name != "__pycache__":
            _copy(source.glob("*.*"), place / source.relative_to(ROOT))
    settings = {
        "source_paths": ["rayvous"],
        "only_mutate": [f"rayvous/{folder}/*.py"],
        "pytest_add_cli_args": ["-p", "no:cacheprovider", "-m", "not slow"],
        "pytest_add_cli_args_test_selection": config["folders"][folder],
        "track_dependencies": False,
        "use_git_change_detection": False,
    }
    lines = [f"{key} = {json.dumps(value)}" for key, value in settings.items()]
    (place / "pyproject.toml").write_text("\n".join([text, "[tool.mutmut]", *lines, ""]), encoding="utf-8")
    return place


def _copy(files: Iterable[Path], to: Path) -> None:
    """Make a folder hold exactly these files, with their modification times, which mutmut compares."""
    to.mkdir(parents=True, exist_ok=True)
    names = set()
    for path in files:
        if path.is_file():
            names.add(path.name)
            shutil.copy2(path, to)
    for path in to.iterdir():
        if path.is_file() and path.name not in names:
            path.unlink()


def _sample(place: Path, folder: str, config: dict) -> list[str]:
    os.chdir(place)  # mutmut reads its settings from the working directory
    names = []
    for path in sorted((place / "rayvous" / folder).glob("*.py")):
        where = path.relative_to(place)
        mutated = mutate_file_contents(str(where), path.read_text(encoding="utf-8"))
        names += [get_mutant_name(where, name) for name in mutated.mutant_names if CHECK not in name]
    drawn = random.Random(f"{config['seed']}/{folder}").sample(names, min(config["sample"], len(names)))
    sys.stdout.write(f"{folder}: {len(drawn)} of {len(names)} mutants, seed {config['seed']}\n")
    return sorted(drawn)


def _became(place: Path, folder: str) -> dict[str, str]:
    """Return the current status of each mutant by name."""
    codes: dict[str, int | None] = {}
    for path in (place / "mutants" / "rayvous" / folder).glob("*.meta"):
        codes |= json.loads(path.read_text(encoding="utf-8"))["exit_code_by_key"]
    return {name: status_by_exit_code[code] for name, code in codes.items()}


def _report(place: Path, folder: str, drawn: list[str]) -> int:
    became = {name: status for name, status in _became(place, folder).items() if name in drawn}
    kept = [name for name, status in became.items() if status not in FOUND]
    for name in kept:
        shown = subprocess.run([*MUTMUT, "show", name], cwd=place, capture_output=True, text=True, check=True)
        sys.stdout.write(f"\n{shown.stdout}")
    counts = ", ".join(f"{count} {status}" for status, count in sorted(Counter(became.values()).items()))
    sys.stdout.write(f"\n{folder}: {len(drawn)} mutants, {counts}\n")
    return int(bool(kept))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
