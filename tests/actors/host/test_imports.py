"""What a process with brokers imports: hundreds are started, and a second at each start matters."""

import subprocess
import sys

NEVER = {"networkx", "pandas", "matplotlib", "pyspark", "pydantic", "starlette", "lark", "IPython"}


def test_a_host_loads_what_brokers_need_and_nothing_more():
    """A host also imports the collector's class with its handle."""
    code = (
        "import sys, ray; before = set(sys.modules); "
        "import rayvous.actors.host.host, rayvous.actors.telemetry.collector, rayvous.actors.network.rendezvous; "
        f"print(sorted({NEVER!r} & (set(sys.modules) - before)))"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]", said.stderr
