"""`rayvous demo` as a user runs it: a process, with a Ray and a Spark of its own."""

import json
import subprocess
import sys
from pathlib import Path

from patience import PATIENCE_SECONDS

RAYVOUS = Path(sys.executable).with_name("rayvous")
BOUND_SECONDS = 40.0


def test_the_demo_takes_files_kills_and_spark_writes_the_report(tmp_path):
    rows = [f"{'AB'[place % 2]},{place % 7}.5" for place in range(3_000)]
    (tmp_path / "events.csv").write_text("\n".join(["sym,price", *rows]))
    (tmp_path / "alerts.txt").write_text("# two alerts\nsym = 'A'\n\nprice > 2\n")
    words = [RAYVOUS, "demo", "--events", "events.csv", "--subscriptions", "alerts.txt", "--clusters", "2",
             "--brokers-per-cluster", "2", "--degree", "1", "--kill", "deb", "--out", "report", "--json"]  # fmt: skip
    done = subprocess.run(
        words, capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "gcs_client" not in done.stderr and "Setting default log level" not in done.stderr
    result = json.loads(done.stdout)
    wanted = 1_500 + sum(place % 7 >= 2 for place in range(3_000))
    assert result["verdict"] == "holds" and result["events_published"] == 3_000
    assert result["notifications_delivered"] == result["notifications_expected"] == wanted
    assert result["missing"] == result["duplicates"] == result["spurious"] == 0
    assert len(result["killed"]) == 1 and 0 < result["recovery_seconds"] < BOUND_SECONDS
    said = [moment["what"] for moment in result["timeline"]]
    assert said[0] == f"killed broker {result['killed'][0]}"
    assert said[-1] == "everything published was delivered"
    assert any("speaks for cluster" in what for what in said)
    # Computed by Spark, from the rows that were not lost with the broker.
    assert 0 < result["tct"]["publish"] <= 3_000 and result["tct"]["deliver"] > 0
    assert result["aed_seconds"] > 0 and result["latency_p50_seconds"] > 0
    assert result["seconds_per_notification"] > 0
    carried_out = result["multicasts"]["all"]
    assert 0 < carried_out["events"] <= result["tct"]["multicast"] and carried_out["calls"] > 0
    for name in ("summary.json", "tree.png", "latency.png", "load.png", "aggregates/tct.parquet"):
        assert (tmp_path / "report" / name).stat().st_size > 0
