"""A change stream as the engine takes it: columns of codes, made once, outside of what is timed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from bench.tpch.changes import DELETE, PARTIAL, ChangeStream, Events
from vms.model.arrow import to_column
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, PUT, Column, Int64, RowChanges
from vms.model.table import BaseTable
from vms.model.text import TextPool

_MARKER = np.uint64(1 << 63)


class EncodedStream:
    """All changes of some tables as `RowChanges` with strictly increasing timestamps, to be cut anywhere.

    Whole rows are puts with the marker cell, partial puts name some columns; a column set to NULL is a
    deleted column, as it is in HBase. What a change does not write has code 0. Text codes are those of
    `pool`, which must keep them while the stream is in use.
    """

    def __init__(self, stream: ChangeStream, columns: Mapping[str, Sequence[str]], pool: TextPool) -> None:
        """`columns`: the tables to encode, with their value columns in the order of `RowChanges.values`."""
        self._length = len(stream)
        self._changes: dict[str, RowChanges] = {}
        self._index: dict[str, Int64] = {}
        for name, wanted in columns.items():
            table, rows = stream.definitions[name], stream.tables[name]
            self._changes[name], self._index[name] = _encode(table, rows, stream.events[name], wanted, pool)

    def __len__(self) -> int:
        """The number of changes of the stream."""
        return self._length

    def batch(self, start: int, stop: int) -> dict[str, RowChanges]:
        """Changes start..stop-1 of the stream by table; tables without any are left out. Copies nothing."""
        found = {}
        for name, changes in self._changes.items():
            low, high = np.searchsorted(self._index[name], (start, stop))
            if low < high:
                found[name] = _cut(changes, slice(low, high))
        return found

    def batches(self, size: int, start: int = 0, stop: int | None = None) -> Iterator[dict[str, RowChanges]]:
        """The stream from `start` to `stop` in steps of `size` changes."""
        stop = len(self) if stop is None else stop
        for low in range(start, stop, size):
            yield self.batch(low, min(low + size, stop))


def _cut(changes: RowChanges, part: slice) -> RowChanges:
    """Some of the changes. Columns here have neither NULLs (those are deleted columns) nor high words."""
    return RowChanges(
        tuple(Column(k.codes[part]) for k in changes.keys),
        changes.kinds[part],
        changes.ts[part],
        changes.present[part],
        tuple(Column(v.codes[part]) for v in changes.values),
    )


def _encode(
    table: BaseTable, rows: pa.Table, events: Events, wanted: Sequence[str], pool: TextPool
) -> tuple[RowChanges, Int64]:
    """The changes of one table, and for each the index of its event in the stream."""
    puts = (events.kind != PARTIAL) | (events.named != events.nulls)
    nulls = events.nulls != 0
    event = np.repeat(np.arange(len(events.kind)), puts.astype(np.int64) + nulls)
    second = np.concatenate([[False], event[1:] == event[:-1]]) if len(event) else np.empty(0, np.bool_)
    clears = nulls[event] & (second | ~puts[event])

    kind = events.kind[event]
    present = np.where(clears, events.nulls[event], events.named[event] & ~events.nulls[event])
    present[(kind != PARTIAL) & (kind != DELETE)] |= _MARKER
    kinds = np.where(kind == DELETE, DELETE_ROW, np.where(clears, DELETE_COLUMN, PUT)).astype(np.int8)

    keys = tuple(to_column(c.type, rows[c.name], pool).take(events.row[event]) for c in table.key_columns)
    position = {c.name: j for j, c in enumerate(table.value_columns)}
    values = []
    for name in wanted:
        written = (kinds == PUT) & ((present & np.uint64(1 << position[name])) != 0)
        codes = to_column(table.by_name[name].type, rows[name], pool).codes[events.donor[event]]
        values.append(Column(np.where(written, codes, 0)))
    index = events.index[event]
    return RowChanges(keys, kinds, 2 * index + second + 1, present, tuple(values)), index
