"""How a view is stored in a table of the key-value store (design section 6).

Row key: order-preserving encoding of the view's key columns (a grand total has one row, `total`). One cell a
column, in family `v`, in the encoding of HBase's Bytes class; a NULL has no cell. Every row has the marker
cell, so that a row of NULLs exists. Cell timestamp = epoch: a read below E + 1 is a read as of epoch E.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from vms.maintenance.messages import ViewRows
from vms.model.arrow import from_column
from vms.model.changes import DELETE_ROW, Changes
from vms.model.encoding import decode_column, encode_column
from vms.model.rowkey import decode_keys, encode_keys
from vms.model.table import MARKER, Encoding
from vms.model.text import TextPool
from vms.plan.plan import Node, Output
from vms.store.base import Cell, Family, Mutation, Row

FAMILY = "v"
#: Versions kept of each cell: epochs that may be issued during the longest consistent read, plus 2. Not higher,
#: because every version slows scans (measured on HBase: 1 version 237k, 10 146k, 100 41k rows/s).
VERSIONS = 32
#: How long a deleted row stays readable at older epochs.
TTL_MS = 24 * 3600 * 1000
FAMILIES = {FAMILY: Family(versions=VERSIONS, min_versions=VERSIONS, ttl_ms=TTL_MS, keep_deleted=True)}
_TOTAL = b"total"
_MARKER = f"{FAMILY}:{MARKER}".encode()


class ViewLayout:
    """Rows of one view to mutations and back."""

    def __init__(self, output: Node) -> None:
        assert isinstance(output.spec, Output)
        self.fields, self.bag = output.fields, output.spec.bag
        self._key = output.spec.key
        self._values = [i for i in range(len(output.fields)) if i not in self._key]
        self._columns = {i: f"{FAMILY}:{output.fields[i].name}".encode() for i in self._values}

    @property
    def schema(self) -> pa.Schema:
        """What readers get: for a bag, without the count."""
        shown = self.fields[:-1] if self.bag else self.fields
        return pa.schema([pa.field(f.name, f.type.arrow) for f in shown])

    def row_keys(self, rows: Changes, pool: TextPool) -> list[bytes]:
        if not self._key:
            return [_TOTAL] * len(rows)
        types = [self.fields[k].type for k in self._key]
        arrays = [from_column(t, rows.columns[k], pool) for t, k in zip(types, self._key)]
        return encode_keys(types, arrays, nullable=[True] * len(types))

    def mutations(self, changed: ViewRows, epoch: int, pool: TextPool) -> list[Mutation]:
        """One mutation a row. Columns that are NULL now vanish by a delete one millisecond before the epoch."""
        puts = changed.puts
        encoded = []
        for i in self._values:
            array = from_column(self.fields[i].type, puts.columns[i], pool)
            values = encode_column(Encoding.BYTES, self.fields[i].type, array)
            encoded.append([None if v is None else Cell(self._columns[i], epoch, value=v) for v in values])
        marker = Cell(_MARKER, epoch)
        clear = Cell(f"{FAMILY}:".encode(), epoch - 1, DELETE_ROW)
        mutations = []
        for row, *cells in zip(self.row_keys(puts, pool), *encoded):
            present = tuple(c for c in cells if c is not None)
            first = (marker,) if len(present) == len(cells) else (clear, marker)
            mutations.append(Mutation(row, (*first, *present)))
        gone = (Cell(f"{FAMILY}:".encode(), epoch, DELETE_ROW),)
        mutations += [Mutation(row, gone) for row in self.row_keys(changed.deletes, pool)]
        return mutations

    def table(self, rows: Iterable[tuple[bytes, Row]]) -> pa.Table:
        """Rows as read from the store, as Arrow; a bag's rows as often as they occur."""
        read = list(rows)
        arrays: dict[int, pa.Array] = {}
        if self._key:
            types = [self.fields[k].type for k in self._key]
            keys = decode_keys(types, [row for row, _ in read], nullable=[True] * len(types))
            arrays.update(zip(self._key, keys))
        for i, column in self._columns.items():
            cells = [cells.get(column) for _, cells in read]
            values = [None if c is None else c.value for c in cells]
            arrays[i], _ = decode_column(Encoding.BYTES, self.fields[i].type, values)
        names = [f.name for f in self.fields]
        whole = pa.Table.from_arrays([arrays[i] for i in range(len(self.fields))], names=names)
        if not self.bag:
            return whole
        counts = whole.column(len(names) - 1).to_numpy()
        return whole.select(range(len(names) - 1)).take(pa.array(np.repeat(np.arange(len(counts)), counts)))
