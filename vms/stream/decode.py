"""Cells to source rows: the first step of a change on its way to the views (design section 9).

A source row is one row of a record batch: the key columns and the value columns by name (NULL where the
change does not name them), then

| column | type | meaning |
|---|---|---|
| `_seq` | int64 | sequence id of the stream entry; 0 for rows read from the store |
| `_ts` | int64 | timestamp of the cells |
| `_kind` | int8 | PUT, DELETE_ROW, DELETE_COLUMN, DELETE_VERSION or UNDECODABLE |
| `_present` | uint64 | which value columns are named, see `vms.model.changes.RowChanges` |

Nothing that a client wrote into a cell stops the stream (design section 3): what is not declared is ignored,
as HBase rows are schemaless, and what cannot be decoded becomes a `DeadLetter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from vms.model.changes import DELETE_ROW, PUT, UNDECODABLE
from vms.model.encoding import decode_column
from vms.model.rowkey import try_decode_keys
from vms.model.table import BaseTable
from vms.store.base import Mutation, Row

SEQ, TS, KIND, PRESENT = "_seq", "_ts", "_kind", "_present"
#: Bit of `_present` that stands for the marker cell.
MARKER_BIT = 63


class DeadLetter(NamedTuple):
    """A value (or, with `column` = "", a row key) that could not be decoded, and where it stood."""

    table: str
    row: bytes
    column: str
    seq: int
    ts: int
    value: bytes
    reason: str


def source_schema(table: BaseTable) -> pa.Schema:
    """The schema of the table's source rows."""
    declared = [(c.name, c.type.arrow) for c in (*table.key_columns, *table.value_columns)]
    return pa.schema([*declared, (SEQ, pa.int64()), (TS, pa.int64()), (KIND, pa.int8()), (PRESENT, pa.uint64())])


class RowDecoder:
    """Turns the mutations of one table into source rows. Keeps nothing between calls."""

    def __init__(self, table: BaseTable) -> None:
        self._table = table
        self._family = table.qualifier("")
        self._bit_of = {table.qualifier(c.name): j for j, c in enumerate(table.value_columns)}
        self._bit_of[table.marker] = MARKER_BIT

    def decode(self, mutations: Sequence[tuple[int, Mutation]]) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """Source rows in stream order, and what could not be decoded.

        A mutation becomes one row for each kind and timestamp of its cells, lower timestamps first and, at
        one timestamp, the put first: a delete masks it. Of two puts of one cell the later wins. A put with an
        undecodable value is of kind UNDECODABLE; a mutation with an undecodable row key gives no row.
        """
        cells = _Cells()
        bit_of, family = self._bit_of, self._family
        put_at, put_values, deleted_at = cells.put_at, cells.put_values, cells.deleted_at
        for seq, (key, row_cells) in mutations:
            row_of: dict[tuple[int, int], int] = {}
            row, row_ts, row_kind = -1, -1, -1
            for column, ts, kind, value in row_cells:
                bit = bit_of.get(column, -1)
                if column != family if kind == DELETE_ROW else bit < 0:
                    continue
                if ts != row_ts or kind != row_kind:
                    row_ts, row_kind = ts, kind
                    row = row_of.get((ts, kind), -1)
                    if row < 0:
                        row = row_of[ts, kind] = cells.add(ts, kind)
                if kind == PUT:
                    put_at[bit].append(row)
                    put_values[bit].append(value)
                elif kind != DELETE_ROW:
                    deleted_at[bit].append(row)
            if row_of:
                cells.keys.append(key)
                cells.seqs.append(seq)
        return cells.source_rows(self._table)

    def read(self, rows: Iterable[tuple[bytes, Row]]) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """See `read_rows`."""
        cells = _Cells()
        bit_of, put_at, put_values = self._bit_of, cells.put_at, cells.put_values
        found: list[Row] = []
        for key, row_cells in rows:
            declared = [(bit_of[c], version) for c, version in row_cells.items() if c in bit_of]
            if not declared:
                continue
            row = cells.add(max(version.ts for _, version in declared), PUT)
            for bit, version in declared:
                put_at[bit].append(row)
                put_values[bit].append(version.value)
            cells.keys.append(key)
            cells.seqs.append(0)
            found.append(row_cells)
        batch, letters = cells.source_rows(self._table)
        row_of_key = dict(zip(cells.keys, found))
        return batch, [
            letter._replace(ts=row_of_key[letter.row][self._table.qualifier(letter.column)].ts)
            if letter.column
            else letter
            for letter in letters
        ]


def read_rows(table: BaseTable, rows: Iterable[tuple[bytes, Row]]) -> tuple[pa.RecordBatch, list[DeadLetter]]:
    """Source rows of rows read from the store: kind PUT, `_seq` 0, `_ts` the highest of the declared cells.

    Rows without any declared cell are left out; undecodable values and keys as in `RowDecoder.decode`.
    """
    return RowDecoder(table).read(rows)


class _Cells:
    """The cells of a batch by column, on their way to source rows. Lists are indexed by the column's bit."""

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.seqs: list[int] = []
        self.ts: list[int] = []
        self.kinds: list[int] = []
        self.key_at: list[int] = []
        self.put_at: list[list[int]] = [[] for _ in range(MARKER_BIT + 1)]
        self.put_values: list[list[bytes]] = [[] for _ in range(MARKER_BIT + 1)]
        self.deleted_at: list[list[int]] = [[] for _ in range(MARKER_BIT + 1)]

    def add(self, ts: int, kind: int) -> int:
        """The position of a new source row; its key and sequence id are appended after the key's last row."""
        self.ts.append(ts)
        self.kinds.append(kind)
        self.key_at.append(len(self.keys))
        return len(self.ts) - 1

    def source_rows(self, table: BaseTable) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """Each column decoded at once, the rows in order, without those of undecodable keys."""
        key_at, ts = np.array(self.key_at, np.int64), np.array(self.ts, np.int64)
        kinds = np.array(self.kinds, np.int8)
        key_arrays, bad_keys = try_decode_keys([c.type for c in table.key_columns], self.keys)
        order = np.lexsort((kinds, ts, key_at))
        letters: list[tuple[int, DeadLetter]] = []
        for k, reason in bad_keys:
            last = int(ts[key_at == k].max())
            letters.append((k, DeadLetter(table.name, self.keys[k], "", self.seqs[k], last, b"", reason)))
        lost = np.zeros(len(self.keys), np.bool_)
        lost[[k for k, _ in bad_keys]] = True
        order = order[~lost[key_at[order]]]

        present = np.zeros(len(ts), np.uint64)
        values = []
        for bit, column in enumerate(table.value_columns):
            array, bad = decode_column(table.encoding, column.type, self.put_values[bit])
            at = np.array(self.put_at[bit], np.int64)
            cell_of = np.full(len(ts), -1, np.int64)
            cell_of[at] = np.arange(len(at))  # of two puts of one cell the later
            for cell, reason in bad:
                row = int(at[cell])
                k = int(key_at[row])
                if cell_of[row] == cell and not lost[k]:
                    kinds[row] = UNDECODABLE
                    value = self.put_values[bit][cell]
                    letter = DeadLetter(
                        table.name, self.keys[k], column.name, self.seqs[k], int(ts[row]), value, reason
                    )
                    letters.append((k, letter))
            cells = cell_of[order]
            values.append(array.take(pa.array(cells, mask=cells < 0)))
        for bit, rows in enumerate(zip(self.put_at, self.deleted_at)):
            present[[*rows[0], *rows[1]]] |= np.uint64(1 << bit)

        keys = key_at[order]
        batch = pa.record_batch(
            [
                *(array.take(pa.array(keys)) for array in key_arrays),
                *values,
                pa.array(np.array(self.seqs, np.int64)[keys]),
                pa.array(ts[order]),
                pa.array(kinds[order]),
                pa.array(present[order]),
            ],
            schema=source_schema(table),
        )
        return batch, [letter for _, letter in sorted(letters, key=lambda pair: pair[0])]
