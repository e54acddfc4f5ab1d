"""Tables whose changes carry the rows before and after them: no DeltaView is needed (thesis 4.1, Design 3).

The images of a row are taken while nobody else can change it, so the row after one change is the row before the
next, and -before +after of all changes sum up to -old +new whatever is remembered: nothing.

While a generation of views is being built, the rows that a scan has read may be ahead of the stream. Until the
stream has passed the scan, a DeltaView holds what was emitted of each row (`settling`); after that nobody does.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.errors import ProtocolViolation
from vms.kernels.consolidate import consolidate
from vms.kernels.keys import KeyIndex, key_width, key_words
from vms.model.changes import AFTER, BEFORE, DELETE_ROW, PUT, Bool, Changes, Int64, RowChanges
from vms.model.table import BaseTable
from vms.model.types import SqlType


def split(changes: RowChanges) -> tuple[RowChanges, RowChanges | None]:
    """The changes that carry no image, and the images, if there are some."""
    images = changes.kinds >= BEFORE
    if not images.any():
        return changes, None
    return _take(changes, np.flatnonzero(~images)), _take(changes, np.flatnonzero(images))


def _take(changes: RowChanges, at: Int64) -> RowChanges:
    return RowChanges(
        tuple(c.take(at) for c in changes.keys),
        changes.kinds[at],
        changes.ts[at],
        changes.present[at],
        tuple(c.take(at) for c in changes.values),
    )


def settling(changes: RowChanges, key_types: Sequence[SqlType]) -> RowChanges:
    """The last image of each row, as a DeltaView takes rows that were read from the store.

    A row whose last image is the one before a change is not there after it.
    """
    words = key_words(changes.keys, tuple(key_types), len(changes), nullable=False)
    ids, _ = KeyIndex(key_width(tuple(key_types), nullable=False)).upsert(words)
    last = np.full(int(ids.max(initial=-1)) + 1, -1, np.int64)
    last[ids] = np.arange(len(ids))  # of several the later one
    found = _take(changes, np.sort(last[last >= 0]))
    kinds = np.where(found.kinds == AFTER, PUT, DELETE_ROW).astype(np.int8)
    return RowChanges(found.keys, kinds, found.ts, found.present, found.values)


class RowImages:
    """In the place of a DeltaView, for a table that is settled. Keeps nothing."""

    def __init__(self, table: BaseTable, columns: Sequence[str]) -> None:
        self.table, self.columns = table, tuple(columns)
        #: Where a column is among those that are emitted.
        self.position = {name: i for i, name in enumerate((*table.key, *columns))}
        keys = tuple(c.type for c in table.key_columns)
        self.types: tuple[SqlType, ...] = keys + tuple(table.by_name[c].type for c in columns)

    def unresolved(self, changes: RowChanges) -> Int64:
        """Nothing must be read from the store."""
        return np.empty(0, np.int64)

    def step(self, changes: RowChanges, reread: RowChanges | None = None) -> Changes:
        """-before +after of every row whose columns differ.

        A change without images is left out: the views over the table are stopped by it, and say so.
        """
        _, images = split(changes)
        if images is None:
            return Changes.empty(len(self.types))
        weights = np.where(images.kinds == AFTER, 1, -1)
        return consolidate(Changes(images.keys + images.values, weights), self.types)

    def contents(self) -> Changes:
        raise ProtocolViolation(
            f"table {self.table.name} is followed by its images alone: who needs its rows must build the views anew"
        )

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        return []

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        """Nothing: a checkpoint of a settled table holds nothing of it."""

    def drop(self, slots: Bool) -> None:
        pass

    def live_text(self) -> list[Int64]:
        return []

    def memory_bytes(self) -> int:
        return 0
