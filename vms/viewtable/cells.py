"""The values of a view's row as cells: one for each column, or all of them packed into one.

| layout | cells of a row, in family `v` |
|---|---|
| columns | one for each value that is not NULL, in the view's encoding, and the marker, so that a row of NULLs exists |
| packed | `_row`: a msgpack array of all values, in the order of the view's columns without those of its key |

A packed cell is written three to six times as fast, as HBase counts cells; who reads it needs msgpack. In it BOOLEAN
is a boolean, INTEGER and BIGINT are integers, DOUBLE is a float, VARCHAR a string, DECIMAL a string ("12.50"), DATE
days since 1970-01-01, TIMESTAMP microseconds since then, NULL nil.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgpack
import pyarrow as pa

from vms.errors import CorruptState
from vms.model.catalog import Layout, ViewForm
from vms.model.changes import DELETE_ROW
from vms.model.encoding import decode_column, encode_column
from vms.model.table import MARKER, Encoding
from vms.model.types import Kind, SqlType
from vms.plan.plan import Field
from vms.store.base import Cell, Row

FAMILY = "v"
PACKED = "_row"
_FAMILY = f"{FAMILY}:".encode()
_MARKER = _FAMILY + MARKER.encode()
_PACKED = _FAMILY + PACKED.encode()


class RowCells(Protocol):
    """Value columns of rows to cells and back."""

    def encode(self, arrays: Sequence[pa.Array], rows: int, epoch: int) -> list[tuple[Cell, ...]]:
        """The cells of each row; with them the row is what it is, whatever it was before."""

    def decode(self, rows: Sequence[Row]) -> list[pa.Array]:
        """The columns of rows as they were read."""

    def decode_one(self, rows: Sequence[Row], column: int) -> pa.Array:
        """One of these columns."""


def row_cells(form: ViewForm, fields: Sequence[Field]) -> RowCells:
    """For the value columns of a view of this form."""
    return _Packed(fields) if form.layout is Layout.PACKED else _Columns(fields, form.encoding)


class _Columns:
    """One cell a column. Columns that are NULL now vanish by a delete one millisecond before the epoch."""

    def __init__(self, fields: Sequence[Field], encoding: Encoding) -> None:
        self._encoding = encoding
        self._types = [field.type for field in fields]
        self._names = [_FAMILY + field.name.encode() for field in fields]

    def encode(self, arrays: Sequence[pa.Array], rows: int, epoch: int) -> list[tuple[Cell, ...]]:
        columns = []
        for name, type_, array in zip(self._names, self._types, arrays):
            values = encode_column(self._encoding, type_, array)
            columns.append([None if v is None else Cell(name, epoch, value=v) for v in values])
        marker, clear = Cell(_MARKER, epoch), Cell(_FAMILY, epoch - 1, DELETE_ROW)
        found = []
        for cells in zip(*columns) if columns else [()] * rows:
            present = tuple(c for c in cells if c is not None)
            found.append((marker, *present) if len(present) == len(cells) else (clear, marker, *present))
        return found

    def decode(self, rows: Sequence[Row]) -> list[pa.Array]:
        return [self.decode_one(rows, column) for column in range(len(self._names))]

    def decode_one(self, rows: Sequence[Row], column: int) -> pa.Array:
        cells = [cells.get(self._names[column]) for cells in rows]
        values = [None if c is None else c.value for c in cells]
        return decode_column(self._encoding, self._types[column], values)[0]


class _Packed:
    """All values in one cell."""

    def __init__(self, fields: Sequence[Field]) -> None:
        self._types = [field.type for field in fields]

    def encode(self, arrays: Sequence[pa.Array], rows: int, epoch: int) -> list[tuple[Cell, ...]]:
        columns = [_plain(type_, array).to_pylist() for type_, array in zip(self._types, arrays)]
        pack = msgpack.Packer().pack
        values = zip(*columns) if columns else [()] * rows
        return [(Cell(_PACKED, epoch, value=pack(row)),) for row in values]

    def decode(self, rows: Sequence[Row]) -> list[pa.Array]:
        columns = list(zip(*self._unpacked(rows))) if rows else [()] * len(self._types)
        return [_from_plain(type_, column) for type_, column in zip(self._types, columns)]

    def decode_one(self, rows: Sequence[Row], column: int) -> pa.Array:
        return _from_plain(self._types[column], [row[column] for row in self._unpacked(rows)])

    def _unpacked(self, rows: Sequence[Row]) -> list[list]:
        found = [msgpack.unpackb(cells[_PACKED].value) for cells in rows]
        if any(len(row) != len(self._types) for row in found):
            raise CorruptState(f"a packed row of a view does not have its {len(self._types)} values; rebuild the view")
        return found


#: What stands for a value of a type in a packed cell, where that is not the value itself.
_FORMS = {Kind.DECIMAL: pa.string(), Kind.DATE: pa.int32(), Kind.TIMESTAMP: pa.int64()}


def _plain(type_: SqlType, array: pa.Array) -> pa.Array:
    return array.cast(_FORMS[type_.kind]) if type_.kind in _FORMS else array


def _from_plain(type_: SqlType, values: Sequence) -> pa.Array:
    return pa.array(values, _FORMS.get(type_.kind, type_.arrow)).cast(type_.arrow)
