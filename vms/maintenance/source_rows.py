"""Source rows: decoded base-table changes as Arrow, on their way from the stream to a DeltaView.

Columns: the table's key and value columns by name, then `_seq`, `_ts`, `_kind`, `_present`
(`vms.stream.decode`) and `_slot`. They stay Arrow, with text as content, in buffers, messages and the log, and
become codes only when the cut is applied.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.kernels.hashing import slot_of
from vms.maintenance.timeline import SLOT_FIELD
from vms.model.arrow import from_column, to_column
from vms.model.changes import DELETE_ROW, Column, Int64, RowChanges
from vms.model.table import BaseTable
from vms.model.text import TextPool


def with_slots(table: BaseTable, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows with the slot of their key, which decides who owns them."""
    pool = TextPool()
    types = [c.type for c in table.key_columns]
    keys = [to_column(t, rows.column(name), pool) for t, name in zip(types, table.key)]
    slots = slot_of(keys, types, pool, rows.num_rows)
    return rows.append_column(SLOT_FIELD, pa.array(slots, pa.int64()))


def row_changes(table: BaseTable, columns: Sequence[str], rows: pa.RecordBatch, pool: TextPool) -> RowChanges:
    """Source rows as codes: the table's key columns and the given value columns."""
    return RowChanges(
        tuple(to_column(c.type, rows.column(c.name), pool) for c in table.key_columns),
        rows.column("_kind").to_numpy(zero_copy_only=False).astype(np.int8, copy=False),
        rows.column("_ts").to_numpy(zero_copy_only=False).astype(np.int64, copy=False),
        rows.column("_present").to_numpy(zero_copy_only=False).astype(np.uint64, copy=False),
        tuple(to_column(table.by_name[c].type, rows.column(c), pool) for c in columns),
    )


def absent_rows(table: BaseTable, columns: Sequence[str], keys: pa.RecordBatch, pool: TextPool) -> RowChanges:
    """Rows that were looked for in the store and not found at `_ts`, as a DeltaView takes them."""
    n = keys.num_rows
    nothing = Column(np.zeros(n, np.int64), np.zeros(n, np.bool_))
    return RowChanges(
        tuple(to_column(c.type, keys.column(c.name), pool) for c in table.key_columns),
        np.full(n, DELETE_ROW, np.int8),
        keys.column("_ts").to_numpy(zero_copy_only=False),
        np.zeros(n, np.uint64),
        tuple(nothing for _ in columns),
    )


def key_batch(table: BaseTable, changes: RowChanges, at: Int64, pool: TextPool) -> pa.RecordBatch:
    """The keys of the changes at these positions, by column name."""
    arrays = [from_column(c.type, k.take(at), pool) for c, k in zip(table.key_columns, changes.keys)]
    return pa.RecordBatch.from_arrays(arrays, names=list(table.key))


def either(one: pa.RecordBatch, other: pa.RecordBatch) -> pa.RecordBatch:
    """The keys that are in one of two batches of keys, each once."""
    if not one.num_rows or not other.num_rows:
        return one if one.num_rows else other
    both = pa.Table.from_batches([one, other])
    return both.group_by(both.column_names).aggregate([]).combine_chunks().to_batches()[0]
