"""What the shell loads before it knows which verb is meant: `--help` and every completion wait for it."""

import subprocess
import sys

HEAVY = {
    "ray",
    "raydp",
    "pyspark",
    "pandas",
    "matplotlib",
    "networkx",
    "pydantic",
    "starlette",
    "lark",
    "IPython",
}


def test_the_shell_starts_without_what_only_some_verbs_need():
    code = f"import sys, rayvous.cli; print(sorted({HEAVY!r} & set(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]", said.stderr
