"""How a view is stored in a table of the key-value store (design section 6).

Row key: order-preserving encoding of the view's key columns (a grand total has one row, `total`). The other columns
are cells of family `v` (vms/viewtable/cells.py). A key that is too long for a row key is cut, told apart by a digest,
and stands whole in a cell. Cell timestamp = epoch: a read below E + 1 is a read as of epoch E.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
import pyarrow as pa

from vms.maintenance.messages import ViewRows
from vms.model.arrow import from_column
from vms.model.catalog import USUAL_FORM, ViewForm
from vms.model.changes import DELETE_ROW, Changes
from vms.model.rowkey import decode_keys, encode_keys
from vms.model.table import MARKER
from vms.model.text import TextPool
from vms.plan.plan import Node, Output
from vms.store.base import Cell, Family, Mutation, Row
from vms.viewtable.cells import FAMILY, row_cells

#: Versions kept of each cell: epochs that may be issued during the longest consistent read, plus 2. Not higher,
#: because every version slows scans (measured on HBase: 1 version 237k, 10 146k, 100 41k rows/s).
VERSIONS = 32
#: How long a deleted row stays readable at older epochs.
TTL_MS = 24 * 3600 * 1000
FAMILIES = {FAMILY: Family(versions=VERSIONS, min_versions=VERSIONS, ttl_ms=TTL_MS, keep_deleted=True)}
#: Last column of the changed rows that a watcher gets.
CHANGE = "_change"
#: The longest key that is a row key as it stands. Not higher: with the digest it must stay below HBase's limit
#: of 32767 bytes. Not lower, because the rows of longer keys are in order only up to here.
LONGEST_KEY = 32_000
_WHOLE_KEY = "_key"
#: No column of a view can have these names.
RESERVED = (MARKER, _WHOLE_KEY, CHANGE)
_TOTAL = b"total"
_KEY = f"{FAMILY}:{_WHOLE_KEY}".encode()


class ViewLayout:
    """Rows of one view to mutations and back."""

    def __init__(self, output: Node, form: ViewForm = USUAL_FORM) -> None:
        assert isinstance(output.spec, Output)
        self.fields, self.bag = output.fields, output.spec.bag
        self._key = output.spec.key
        self._values = [i for i in range(len(output.fields)) if i not in self._key]
        self._cells = row_cells(form, [output.fields[i] for i in self._values])

    @property
    def schema(self) -> pa.Schema:
        """What readers get: for a bag, without the count."""
        shown = self.fields[:-1] if self.bag else self.fields
        return pa.schema([pa.field(f.name, f.type.arrow) for f in shown])

    def keys(self, rows: Changes, pool: TextPool) -> list[bytes]:
        """The whole encoded keys."""
        if not self._key:
            return [_TOTAL] * len(rows)
        types = [self.fields[k].type for k in self._key]
        arrays = [from_column(t, rows.columns[k], pool) for t, k in zip(types, self._key)]
        return encode_keys(types, arrays, nullable=[True] * len(types))

    def mutations(self, changed: ViewRows, epoch: int, pool: TextPool) -> list[Mutation]:
        """One mutation a row."""
        puts = changed.puts
        arrays = [from_column(self.fields[i].type, puts.columns[i], pool) for i in self._values]
        mutations = []
        for key, cells in zip(self.keys(puts, pool), self._cells.encode(arrays, len(puts), epoch)):
            if len(key) > LONGEST_KEY:
                cells = (*cells, Cell(_KEY, epoch, value=key))
            mutations.append(Mutation(_row(key), cells))
        gone = (Cell(f"{FAMILY}:".encode(), epoch, DELETE_ROW),)
        mutations += [Mutation(_row(key), gone) for key in self.keys(changed.deletes, pool)]
        return mutations

    def changes(self, changed: ViewRows, pool: TextPool) -> pa.Table:
        """The changed rows as Arrow: all fields, and `_change`, 1 for a row's new content, -1 for one that is gone."""
        tables = []
        for rows, sign in ((changed.puts, 1), (changed.deletes, -1)):
            arrays = [from_column(f.type, c, pool) for f, c in zip(self.fields, rows.columns)]
            table = pa.Table.from_arrays(arrays, names=[f.name for f in self.fields])
            tables.append(table.append_column(CHANGE, pa.array(np.full(len(rows), sign), pa.int8())))
        return pa.concat_tables(tables)

    def table(self, rows: Iterable[tuple[bytes, Row]]) -> pa.Table:
        """Rows as read from the store, as Arrow; a bag's rows as often as they occur."""
        read = list(rows)
        arrays: dict[int, pa.Array] = {}
        if self._key:
            types = [self.fields[k].type for k in self._key]
            whole_keys = [cells[_KEY].value if _KEY in cells else row for row, cells in read]
            keys = decode_keys(types, whole_keys, nullable=[True] * len(types))
            arrays.update(zip(self._key, keys))
        arrays.update(zip(self._values, self._cells.decode([cells for _, cells in read])))
        names = [f.name for f in self.fields]
        whole = pa.Table.from_arrays([arrays[i] for i in range(len(self.fields))], names=names)
        if not self.bag:
            return whole
        counts = whole.column(len(names) - 1).to_numpy()
        return whole.select(range(len(names) - 1)).take(pa.array(np.repeat(np.arange(len(counts)), counts)))

    def count(self, rows: Iterable[tuple[bytes, Row]]) -> int:
        """How many rows `table` would give."""
        if not self.bag:
            return sum(1 for _ in rows)
        counts = self._cells.decode_one([cells for _, cells in rows], len(self._values) - 1)
        return int(counts.to_numpy().sum())


def _row(key: bytes) -> bytes:
    """The row key of a key: a cut one is longer than any that is not."""
    return key if len(key) <= LONGEST_KEY else key[:LONGEST_KEY] + hashlib.sha256(key).digest()
