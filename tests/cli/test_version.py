"""`rayvous --version` prints one line, with the version of the installed package."""

import platform
from importlib import metadata

import rayvous as rv


def test_the_version_is_one_line_and_that_of_the_package(rayvous):
    status, out, err = rayvous("--version")
    assert (status, err) == (0, "")
    python, ray = platform.python_version(), metadata.version("ray")
    assert out.startswith(f"rayvous {rv.__version__}, Python {python}, Ray {ray}, match index ")
    assert out.count("\n") == 1
    assert rv.__version__ == metadata.version("rayvous")
