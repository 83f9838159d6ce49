"""Rows of blocks as batches of events, and what is left of them when a write is repeated."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from ...actors.clients.columns import batch_from
from ...actors.clients.record_batches import OWN
from ...protocol.batch import EventBatch
from ...protocol.errors import InputError
from ...protocol.extras import extra

CALL_ROWS: Final = 8_192
"""How many rows are published at once."""


def parts_of(blocks: Iterable[object]) -> Iterator[EventBatch]:
    """Return the rows of blocks as batches of events.

    Raises
    ------
    InputError
        If the blocks have no columns that events can have.
    """
    with extra("data"):
        from ray.data.block import BlockAccessor
    for block in blocks:
        yield from batches_of(BlockAccessor.for_block(block).to_arrow())


def batches_of(table: pa.Table) -> Iterator[EventBatch]:
    """Return the rows of a table as batches of events.

    Raises
    ------
    InputError
        If the table has no columns that events can have.
    """
    attributes = [name for name in table.column_names if name not in OWN]
    if table.num_rows and not attributes:
        raise InputError("the dataset has no column that is an attribute of an event")
    for first in range(0, table.num_rows, CALL_ROWS):
        yield batch_from(table.select(attributes).slice(first, CALL_ROWS))


def beyond(published: int, batches: Iterable[EventBatch]) -> Iterator[EventBatch]:
    """Return what follows after so many events."""
    for batch in batches:
        skipped = min(published, len(batch))
        published -= skipped
        if skipped < len(batch):
            yield batch.take(np.arange(skipped, len(batch)))
