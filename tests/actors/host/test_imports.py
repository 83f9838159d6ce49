"""What a process with brokers imports: hundreds are started, and a second at each start matters."""

import subprocess
import sys

NEVER = {
    "networkx", "pandas", "matplotlib", "pyspark", "pyarrow", "pydantic", "starlette", "lark", "IPython"
}  # fmt: skip


def imported(code):
    """Return what of `NEVER` a process has imported after this code, beside what Ray imports."""
    code = f"import sys, ray; before = set(sys.modules); {code}; print(sorted({NEVER!r} & (set(sys.modules) - before)))"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return said.stdout.strip()


def test_a_host_loads_what_brokers_need_and_nothing_more():
    """A host also imports the collector's class with its handle."""
    parts = ("host.host", "telemetry.collector_actor", "network.rendezvous")
    assert imported("; ".join(f"import rayvous.actors.{part}" for part in parts)) == "[]"


def test_a_collector_takes_rows_without_pandas():
    rows = "{'time_seconds': np.zeros(3), 'broker': np.zeros(3, np.int32), 'publisher': np.array(['p'] * 3, object), "
    rows += "'sequence': np.arange(3)}"
    code = f"import numpy as np; from rayvous.actors.telemetry.arrow import to_arrow; to_arrow('published', {rows})"
    assert imported(code) == "['pyarrow']"
