"""Rows to mutations: what our own writers send to the store; `vms.stream.decode` is the inverse.

The writer chooses the timestamps, strictly increasing per row: HBase masks a put by a delete of the same
millisecond (design section 9). A whole row therefore takes two, `ts - 1` and `ts`, or, where a store's calls
have one timestamp each, only one: then it names every column.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vms.errors import InvalidValue, UnknownName
from vms.model.arrow import cast_to
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, PUT
from vms.model.encoding import encode_column
from vms.model.rowkey import encode_keys
from vms.model.table import BaseTable, TableColumn
from vms.store.base import Cell, Mutation

#: `Cell(*fields)` from a tuple, at half the cost: a batch has a cell for every value.
_cell = partial(tuple.__new__, Cell)

Timestamps = int | npt.NDArray[np.int64]


class RowEncoder:
    """Turns Arrow tables into mutations of one table. Every error names the column."""

    def __init__(self, table: BaseTable, *, one_timestamp: bool = False) -> None:
        self._table, self._one = table, one_timestamp
        self._names = [c.name for c in table.columns]

    def puts(self, rows: pa.Table, ts: Timestamps, *, whole: bool = True) -> list[Mutation]:
        """One mutation for each row, in order.

        `whole`: the row replaces what was there (INSERT): everything up to `ts - 1` is deleted, and every
        value that is not NULL is put at `ts`; with `one_timestamp` every column is put or deleted at `ts`, and cells
        that are not declared stay. Otherwise only the columns of `rows` are written (UPDATE): a
        NULL deletes the column up to `ts`. Either way the marker cell is put, so that the row exists.

        Raises UnknownName for a column that is not declared, InvalidValue for a missing or NULL key column, a
        NULL in a NOT NULL column, and a value that does not fit its column.
        """
        keys = self._keys(rows)
        stamps = _stamps(ts, rows.num_rows)
        columns = [c for c in self._table.value_columns if c.name in rows.column_names]
        if whole:
            for column in self._table.value_columns:
                if not column.nullable and column not in columns:
                    raise InvalidValue(f"{self._at(column.name)} is NOT NULL and has no value")
            if self._one:
                for column in self._table.value_columns:
                    if column not in columns:
                        rows = rows.append_column(column.name, pa.nulls(rows.num_rows, column.type.arrow))
                columns, whole = list(self._table.value_columns), False
        cells = [self._column_cells(c, self._array(rows, c), stamps, drop_nulls=whole) for c in columns]
        marker = self._table.marker
        heads: list[tuple[Cell, ...]] = [(_cell((marker, t, PUT, b"")),) for t in stamps]
        if whole:
            family = self._table.qualifier("")
            heads = [(_cell((family, t - 1, DELETE_ROW, b"")), *head) for t, head in zip(stamps, heads)]
        return [
            Mutation(key, head + tuple(filter(None, values)))
            for key, head, values in zip(keys, heads, zip(*cells) if cells else [()] * len(keys))
        ]

    def deletes(self, keys: pa.Table, ts: Timestamps) -> list[Mutation]:
        """One mutation for each key, in order: everything up to `ts` is deleted."""
        encoded = self._keys(keys)
        surplus = [name for name in keys.column_names if name not in self._table.key]
        if surplus:
            raise InvalidValue(
                f"table {self._table.name}: a delete takes the key columns alone "
                f"({', '.join(self._table.key)}), not {', '.join(surplus)}"
            )
        family = self._table.qualifier("")
        return [
            Mutation(key, (_cell((family, t, DELETE_ROW, b"")),)) for key, t in zip(encoded, _stamps(ts, keys.num_rows))
        ]

    def _keys(self, rows: pa.Table) -> list[bytes]:
        """The row keys, after a check of all column names."""
        for name in rows.column_names:
            if name not in self._names:
                raise UnknownName("column", f"{self._table.name}.{name}", self._qualified())
            if rows.column_names.count(name) > 1:
                raise InvalidValue(f"{self._at(name)} is given twice")
        for name in self._table.key:
            if name not in rows.column_names:
                raise InvalidValue(f"{self._at(name)} is part of the key and has no value")
        columns = self._table.key_columns
        return encode_keys([c.type for c in columns], [self._array(rows, c, key=True) for c in columns])

    def _array(self, rows: pa.Table, column: TableColumn, *, key: bool = False) -> pa.Array:
        """A column's values, cast to its type and checked for NULLs."""
        try:
            array = cast_to(column.type, rows.column(column.name))
        except InvalidValue as error:
            raise InvalidValue(f"{self._at(column.name)}, {error}") from error
        if array.null_count and (key or not column.nullable):
            row = array.is_valid().index(False).as_py()
            why = "is part of the key" if key else "is NOT NULL"
            raise InvalidValue(f"{self._at(column.name)} {why} but is NULL in row {row}")
        return array

    def _column_cells(
        self, column: TableColumn, array: pa.Array, stamps: Sequence[int], *, drop_nulls: bool
    ) -> list[Cell | None]:
        """The cell of each row; a NULL is None with `drop_nulls`, else a delete of the column."""
        name = self._table.qualifier(column.name)
        values = encode_column(self._table.encoding, column.type, array)
        if drop_nulls:
            return [None if v is None else _cell((name, t, PUT, v)) for v, t in zip(values, stamps)]
        return [
            _cell((name, t, DELETE_COLUMN, b"") if v is None else (name, t, PUT, v)) for v, t in zip(values, stamps)
        ]

    def _at(self, column: str) -> str:
        return f"table {self._table.name}: column {column}"

    def _qualified(self) -> list[str]:
        return [f"{self._table.name}.{name}" for name in self._names]


def _stamps(ts: Timestamps, rows: int) -> list[int]:
    return [ts] * rows if isinstance(ts, int) else ts.tolist()
