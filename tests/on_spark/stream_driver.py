"""Run by test_events.py in its own process, and killed: the driver of a Spark query over a stream of a network.

``stream_driver.py NETWORK FOLDER OUT`` writes the identities of each micro-batch to a file of its number, which a
repeated one replaces, with the checkpoint in the folder of the stream; it ends only when it is killed.
"""

import json
import sys
from pathlib import Path
from typing import Any

import rayvous as rv


def main() -> None:
    network, folder, out = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])
    net = rv.Network.attach(network)

    def take(rows: Any, batch: int) -> None:
        found = [(row["_publisher"], row["_sequence"]) for row in rows.collect()]
        (out / f"{batch}.part").write_text(json.dumps(found))
        (out / f"{batch}.part").replace(out / f"{batch}.json")

    rows = rv.spark_stream(
        net, "lot = 1", columns={"lot": "integer"}, folder=folder, name="driven", roll_seconds=0.05
    )
    writer = rows.writeStream.foreachBatch(take).option("checkpointLocation", str(folder / "query"))
    query = writer.trigger(processingTime="0 seconds").start()
    (out / "begun").touch()
    query.awaitTermination()


if __name__ == "__main__":
    main()
