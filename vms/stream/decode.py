"""Cells to source rows: the first step of a change on its way to the views (design section 9).

A source row is one row of a record batch: the key columns and the value columns by name (NULL where the
change does not name them), then

| column | type | meaning |
|---|---|---|
| `_seq` | int64 | sequence id of the stream entry; 0 for rows read from the store |
| `_ts` | int64 | timestamp of the cells |
| `_kind` | int8 | PUT, DELETE_ROW, DELETE_COLUMN, DELETE_VERSION or UNDECODABLE; with images BEFORE or AFTER |
| `_present` | uint64 | which value columns are named, see `vms.model.changes.RowChanges` |

Nothing that a client wrote into a cell stops the stream (design section 3): what is not declared is ignored,
as HBase rows are schemaless, and what cannot be decoded becomes a `DeadLetter`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vms.kernels.cell_block import (
    EXPIRES,
    QUALIFIER_AT,
    QUALIFIER_LEN,
    ROW_AT,
    ROW_LEN,
    VALUE_AT,
    VALUE_LEN,
    copy_bytes,
    group_cells,
)
from vms.kernels.cell_block import TS as CELL_TS
from vms.model.changes import DELETE_ROW, PUT, UNDECODABLE, Int64
from vms.model.encoding import decode_column
from vms.model.rowkey import try_decode_keys
from vms.model.table import MARKER, BaseTable
from vms.store.base import Mutation, Row

SEQ, TS, KIND, PRESENT = "_seq", "_ts", "_kind", "_present"
#: Bit of `_present` that stands for the marker cell.
MARKER_BIT = 63


#: Why a put with a time to live of its own cannot be followed.
EXPIRING = "the cell has a time to live of its own, and nobody tells when it ends; write it without one"


class CellColumns(NamedTuple):
    """Cells of one table, in stream order, as `vms.kernels.cell_block` decodes them: places in `block`.

    `seqs` are the sequence ids of their entries; `entry_of` tells which cells are of one entry.
    """

    block: npt.NDArray[np.uint8]
    cells: Int64
    entry_of: Int64
    seqs: Int64

    def none(self) -> CellColumns:
        """The same without any cell."""
        return CellColumns(self.block[:0], self.cells[:, :0], self.entry_of[:0], self.seqs[:0])

    def bytes_at(self, at: int, length: int, cell: int) -> bytes:
        """The bytes of a cell whose place the fields `at` and `length` give."""
        start = int(self.cells[at, cell])
        return self.block[start : start + int(self.cells[length, cell])].tobytes()

    def gather(self, at: int, length: int, cells: Int64) -> pa.BinaryArray:
        """The same of many cells."""
        starts, lengths = self.cells[at, cells], self.cells[length, cells]
        offsets, data = np.empty(len(cells) + 1, np.int32), np.empty(int(lengths.sum()), np.uint8)
        copy_bytes(self.block, starts, lengths, offsets, data)
        return pa.BinaryArray.from_buffers(pa.binary(), len(cells), [None, pa.py_buffer(offsets), pa.py_buffer(data)])


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
        names = [*(c.name.encode() for c in table.value_columns), MARKER.encode()]
        self._names = np.frombuffer(b"".join(names), np.uint8)
        self._name_len = np.array([len(name) for name in names], np.int64)
        self._name_at = np.cumsum(self._name_len) - self._name_len
        self._family_name = np.frombuffer(table.family.encode(), np.uint8)
        self._all_bits = np.int64((1 << len(table.value_columns)) - 1 - (1 << MARKER_BIT))

    @property
    def images(self) -> bool:
        """Whether the changes of the table are decoded from the images that they carry."""
        return self._table.imaged

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

    def decode_cells(self, columns: CellColumns) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """As `decode`, from cells as HBase writes them into its WAL."""
        n = columns.cells.shape[1]
        bit_of, row_of, row_keys = np.empty((3, n), np.int64)
        rows = np.empty((4, n), np.int64)
        mutations, found = group_cells(
            columns.block,
            columns.cells,
            columns.entry_of,
            self._family_name,
            self._names,
            self._name_at,
            self._name_len,
            self._all_bits,
            bit_of,
            row_of,
            row_keys,
            rows,
        )
        key_cells, rows = row_keys[:mutations], rows[:, :found]
        cells = _Cells()
        cells.keys = columns.gather(ROW_AT, ROW_LEN, key_cells).to_pylist()
        cells.seqs, cells.key_at, cells.ts, cells.kinds = columns.seqs[key_cells], rows[0], rows[1], rows[2]
        cells.present = rows[3].view(np.uint64)
        marker = len(self._name_len) - 1
        for bit in range(marker):
            puts = np.flatnonzero(bit_of == bit)
            if len(puts):
                cells.put_at[bit] = row_of[puts]
                cells.put_values[bit] = columns.gather(VALUE_AT, VALUE_LEN, puts)
        batch, letters = cells.source_rows(self._table)
        return batch, letters + self._expiring(columns, row_of)

    def _expiring(self, columns: CellColumns, row_of: Int64) -> list[DeadLetter]:
        """The puts of declared columns that will vanish without a word."""
        found = []
        for i in np.flatnonzero((columns.cells[EXPIRES] == 1) & (row_of >= 0)).tolist():
            name = columns.bytes_at(QUALIFIER_AT, QUALIFIER_LEN, i).decode()
            key, value = columns.bytes_at(ROW_AT, ROW_LEN, i), columns.bytes_at(VALUE_AT, VALUE_LEN, i)
            found.append(
                DeadLetter(
                    self._table.name, key, name, int(columns.seqs[i]), int(columns.cells[CELL_TS, i]), value, EXPIRING
                )
            )
        return found

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
    """The cells of a batch by column, on their way to source rows. Lists are indexed by the column's bit.

    What is collected one by one is lists; what a kernel found comes as arrays.
    """

    def __init__(self) -> None:
        self.keys: list[bytes] = []
        self.seqs: Any = []
        self.ts: Any = []
        self.kinds: Any = []
        self.key_at: Any = []
        self.put_at: list[Any] = [[] for _ in range(MARKER_BIT + 1)]
        self.put_values: list[Any] = [[] for _ in range(MARKER_BIT + 1)]
        self.deleted_at: list[list[int]] = [[] for _ in range(MARKER_BIT + 1)]
        #: The named columns of each row, where that is known already.
        self.present: npt.NDArray[np.uint64] | None = None

    def add(self, ts: int, kind: int) -> int:
        """The position of a new source row; its key and sequence id are appended after the key's last row."""
        self.ts.append(ts)
        self.kinds.append(kind)
        self.key_at.append(len(self.keys))
        return len(self.ts) - 1

    def source_rows(self, table: BaseTable) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        """Each column decoded at once, the rows in order, without those of undecodable keys."""
        key_at, ts = np.asarray(self.key_at, np.int64), np.asarray(self.ts, np.int64)
        kinds = np.array(self.kinds, np.int8)
        key_arrays, bad_keys = try_decode_keys([c.type for c in table.key_columns], self.keys)
        order = np.lexsort((kinds, ts, key_at))
        letters: list[tuple[int, DeadLetter]] = []
        for k, reason in bad_keys:
            last = int(ts[key_at == k].max())
            letters.append((k, DeadLetter(table.name, self.keys[k], "", int(self.seqs[k]), last, b"", reason)))
        lost = np.zeros(len(self.keys), np.bool_)
        lost[[k for k, _ in bad_keys]] = True
        order = order[~lost[key_at[order]]]

        values = []
        for bit, column in enumerate(table.value_columns):
            array, bad = decode_column(table.encoding, column.type, self.put_values[bit])
            at = np.asarray(self.put_at[bit], np.int64)
            cell_of = np.full(len(ts), -1, np.int64)
            cell_of[at] = np.arange(len(at))  # of two puts of one cell the later
            for cell, reason in bad:
                row = int(at[cell])
                k = int(key_at[row])
                if cell_of[row] == cell and not lost[k]:
                    kinds[row] = UNDECODABLE
                    value = self.put_values[bit][cell]
                    value = value if isinstance(value, bytes) else value.as_py()
                    letter = DeadLetter(
                        table.name, self.keys[k], column.name, int(self.seqs[k]), int(ts[row]), value, reason
                    )
                    letters.append((k, letter))
            cells = cell_of[order]
            values.append(array.take(pa.array(cells, mask=cells < 0)))
        present = self._present(len(ts))

        keys = key_at[order]
        batch = pa.record_batch(
            [
                *(array.take(pa.array(keys)) for array in key_arrays),
                *values,
                pa.array(np.asarray(self.seqs, np.int64)[keys]),
                pa.array(ts[order]),
                pa.array(kinds[order]),
                pa.array(present[order]),
            ],
            schema=source_schema(table),
        )
        return batch, [letter for _, letter in sorted(letters, key=lambda pair: pair[0])]

    def _present(self, rows: int) -> npt.NDArray[np.uint64]:
        if self.present is not None:
            return self.present
        present = np.zeros(rows, np.uint64)
        for bit, at in enumerate(zip(self.put_at, self.deleted_at)):
            present[[*at[0], *at[1]]] |= np.uint64(1 << bit)
        return present
