"""No traceback when standard output is closed or full."""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow  # each runs in a process of its own
SCRIPT = "import sys; sys.argv[0] = 'rayvous'; from rayvous.cli import main; main()"


def ran(redirection, *words):
    shell = f'exec "$@" {redirection}'
    return subprocess.run(
        ["sh", "-c", shell, "sh", sys.executable, "-c", SCRIPT, *words],
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_verb_whose_output_is_closed_does_its_work():
    done = ran(">&-", "selector", "a = 1")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_output_that_cannot_be_written_is_one_line():
    done = ran(">/dev/full", "selector", "a = 1", "--json")
    said = "rayvous: the output could not be written: No space left on device\n"
    assert (done.returncode, done.stderr) == (1, said)
