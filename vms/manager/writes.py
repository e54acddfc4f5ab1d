"""Rows of INSERT and UPDATE: checked against the table, and cast to its columns.

A value is stored as it is or refused. One exception, which SQL makes too: digits that DECIMAL(p, s) has no
place for after the point are rounded, half away from zero, so that `SET price = price * 1.1` works.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from vms.errors import InvalidValue, SqlError, UnknownName, UserError
from vms.model.arrow import cast_to
from vms.model.catalog import Catalog
from vms.model.table import BaseTable, TableColumn
from vms.model.types import Kind


def table_for_writing(catalog: Catalog, name: str) -> BaseTable:
    """The table of that name; a view follows its tables and cannot be written."""
    if name in catalog.views:
        raise UserError(f"{name} is a view and follows its tables; change the rows of those instead")
    if name not in catalog.tables:
        raise UnknownName("table", name, catalog.tables)
    return catalog.tables[name]


def check_insert(table: BaseTable, columns: tuple[str, ...] | None) -> tuple[TableColumn, ...]:
    """The columns that an INSERT gives values for, in that order."""
    if columns is None:
        return table.visible_columns
    _check_known(table, columns)
    for column in table.visible_columns:
        if column.name not in columns and not column.nullable:
            raise InvalidValue(f"INSERT INTO {table.name} leaves out {column.name}, which cannot be NULL")
    return tuple(table.by_name[c] for c in columns)


def check_update(table: BaseTable, columns: tuple[str, ...]) -> None:
    _check_known(table, columns)
    for column in columns:
        if column in table.key:
            raise UserError(
                f"{column} is a key column of {table.name}, and a key does not change;"
                " DELETE the row and INSERT it under the new key"
            )


def _check_known(table: BaseTable, columns: tuple[str, ...]) -> None:
    known = [c.name for c in table.visible_columns]
    for column in columns:
        if column not in known:
            raise UnknownName(f"column of table {table.name}", column, known)


def insert_rows(table: BaseTable, columns: tuple[TableColumn, ...], answer: pa.Table) -> pa.Table:
    """Whole rows of the visible columns, from an answer that has `columns` by position; the rest is NULL."""
    if answer.num_columns != len(columns):
        raise SqlError(
            f"INSERT INTO {table.name} takes {len(columns)} values a row"
            f" ({', '.join(c.name for c in columns)}), {answer.num_columns} are given"
        )
    given = {c.name: _cast(c, answer.column(i)) for i, c in enumerate(columns)}
    return pa.table(
        {
            c.name: given[c.name] if c.name in given else pa.nulls(answer.num_rows, c.type.arrow)
            for c in table.visible_columns
        }
    )


def update_rows(table: BaseTable, columns: tuple[str, ...], answer: pa.Table) -> pa.Table:
    """Key columns and new values, from an answer that has the key columns first, then `columns`."""
    rows = {k: answer.column(i) for i, k in enumerate(table.key)}
    for i, name in enumerate(columns, start=len(table.key)):
        rows[name] = _cast(table.by_name[name], answer.column(i))
    return pa.table(rows)


def _cast(column: TableColumn, values: pa.ChunkedArray) -> pa.Array:
    try:
        if (
            column.type.kind is Kind.DECIMAL
            and pa.types.is_decimal(values.type)
            and values.type.scale > column.type.scale
        ):
            values = pc.round(values, ndigits=column.type.scale, round_mode="half_towards_infinity")
        array = cast_to(column.type, values)
    except InvalidValue as error:
        raise InvalidValue(f"column {column.name}: {error.reason}") from None
    if array.null_count and not column.nullable:
        raise InvalidValue(f"column {column.name}: it cannot be NULL")
    return array
