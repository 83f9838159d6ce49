"""The Dockerfile: two stages, a pinned image, no root user, and nothing that is not in the project."""

import json
import re
import tomllib
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def stages():
    """Return the stages, each a list of (instruction, rest), with continued lines joined."""
    text = (ROOT / "deploy/docker/Dockerfile").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    whole = re.sub(r"\\\n\s*", "", "\n".join(lines)).splitlines()
    found = []
    for line in whole:
        word, _, rest = line.partition(" ")
        if word == "FROM":
            found.append([])
        found[-1].append((word, rest))
    return found


def of(stage, word):
    return [rest for each, rest in stage if each == word]


def test_there_are_two_stages_and_the_second_has_no_source(stages):
    build, last = stages
    assert of(build, "FROM")[0].endswith(" AS build")
    assert "--from=build /opt/rayvous /opt/rayvous" in of(last, "COPY")
    assert len(of(last, "COPY")) == 1
    assert not any("pip" in rest for rest in of(last, "RUN"))


def test_images_are_pinned_to_a_python_that_the_project_takes(stages):
    images = {of(stage, "FROM")[0].split()[0] for stage in stages}
    assert len(images) == 1  # an environment needs the same Python
    (image,) = images
    version = re.fullmatch(r"python:(\d+\.\d+)-slim-\w+", image)
    assert version is not None, image
    assert SpecifierSet(PROJECT["requires-python"]).contains(version[1])


def test_it_does_not_run_as_root(stages):
    last = stages[-1]
    assert int(of(last, "USER")[-1]) == 1000  # numeric, so that runAsNonRoot can be checked
    assert any("useradd" in rest and "--uid 1000" in rest for rest in of(last, "RUN"))
    words = [word for word, _ in last]
    assert "RUN" not in words[words.index("USER") :]


def test_packages_leave_nothing_behind(stages):
    for rest in (rest for stage in stages for rest in of(stage, "RUN")):
        if "apt-get install" in rest:
            assert "apt-get update" in rest and "--no-install-recommends" in rest
            assert rest.rstrip().endswith("rm -rf /var/lib/apt/lists/*")
    assert "PIP_NO_CACHE_DIR=1" in of(stages[0], "ENV")[0]


def test_extras_are_those_of_the_project_and_serve_what_the_manifests_start(stages):
    (given,) = of(stages[0], "ARG")
    extras = given.removeprefix("EXTRAS=").strip('"').split(",")
    assert set(extras) <= PROJECT["optional-dependencies"].keys()
    assert ("gateway" in extras) == ("[gateway]" in (ROOT / "deploy/kubernetes/network.yaml").read_text())


def test_its_command_is_one_of_ours(stages):
    (command,) = of(stages[-1], "CMD")
    assert json.loads(command)[0] in PROJECT["scripts"]  # in the form without a shell
    assert any(rest.startswith("PATH=/opt/rayvous/bin:") for rest in of(stages[-1], "ENV"))


def test_what_is_built_has_what_the_project_file_names():
    ignored = (ROOT / ".dockerignore").read_text().split()
    for needed in (PROJECT["readme"], *PROJECT["license-files"], "pyproject.toml", "deploy"):
        assert (ROOT / needed).exists()
        assert needed not in ignored
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert not folders & set(ignored)
