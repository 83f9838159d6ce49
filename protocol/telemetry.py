"""What a broker's host writes down: bounded columns, handed to the collector a chunk at a time.

Rules
-----
* Two tables are always kept, one row an effect, however many events it carries: `transfers` (what went over which
  link) and `deliveries` (what was handed to subscribers). Two are kept when a network traces events, one row an
  event: `published` and `notified`.
* A buffer that is full drops the new rows and counts them (`dropped_rows`); it never grows and never blocks.
* Times are seconds since 1970 on the host's clock, or virtual seconds in the simulator.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np

LINK_KINDS: Final = ("publish", "up", "down", "multicast", "deliver")
"""Over what a transfer went: publisher to broker, child to parent, parent to child, group, broker to subscriber."""

SCHEMAS: Final[dict[str, dict[str, Any]]] = {
    "transfers": {
        "time_seconds": np.float64,
        "broker": np.int32,  # who sent it; for "publish", who received it
        "cluster": np.int32,
        "link_kind": str,  # one of LINK_KINDS
        "peer": np.int32,  # the broker at the other end; -1 for a group or a client
        "messages": np.int64,  # 1 for each message, control messages included
        "events": np.int64,  # events carried; 0 for a control message
        "nbytes": np.int64,
    },
    "deliveries": {
        "time_seconds": np.float64,
        "broker": np.int32,
        "notifications": np.int64,
        "latency_sum_seconds": np.float64,  # sum over the notifications of (now - published_at)
    },
    "published": {
        "time_seconds": np.float64,
        "broker": np.int32,
        "publisher": str,
        "sequence": np.int64,
    },
    "notified": {
        "time_seconds": np.float64,
        "broker": np.int32,
        "subscriber": str,
        "publisher": str,
        "sequence": np.int64,
        "published_at": np.float64,
    },
}
"""``{table: {column: numpy dtype, or str}}``."""

Table: TypeAlias = dict[str, Any]
"""One chunk of one table: ``{column: numpy array}``; a string column is an object array."""
