"""Tables compared as multisets, both ways (design section 13)."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

#: Sums of doubles may be taken in any order; everything else is exact.
RELATIVE_TOLERANCE = 1e-9
_SHOWN = 10
Row = tuple[Any, ...]


def assert_same_rows(actual: pa.Table, expected: pa.Table, context: str = "") -> None:
    """Raise AssertionError unless both tables hold the same rows equally often, in any order.

    Column names must be equal; `expected` is cast to the types of `actual`. Doubles are equal within
    1e-9 of each other, relatively, and NaN equals NaN; every other value must be equal. The message lists
    rows that only one side has.
    """
    where = f"{context}: " if context else ""
    if actual.column_names != expected.column_names:
        raise AssertionError(f"{where}columns {actual.column_names}, expected {expected.column_names}")
    floats = [i for i, t in enumerate(actual.schema.types) if pa.types.is_floating(t)]
    got = Counter(_rows(actual, floats))
    wanted = Counter(_rows(_cast(expected, actual.schema, where), floats))
    if got == wanted:
        return
    surplus, lacking = got - wanted, wanted - got
    if floats:
        surplus, lacking = _match_close(surplus, lacking, floats)
    if surplus or lacking:
        raise AssertionError(
            f"{where}{sum(surplus.values())} rows too many and {sum(lacking.values())} rows missing, "
            f"of {expected.num_rows} expected\n"
            f"columns: {', '.join(actual.column_names)}\n{_listing('+', surplus)}{_listing('-', lacking)}"
        )


def _rows(table: pa.Table, floats: list[int]) -> list[Row]:
    """Rows as tuples; all NaN are one object, so that they are equal inside of tuples."""
    if not table.num_columns:
        return [()] * table.num_rows
    columns = [c.to_pylist() for c in table.columns]
    for i in floats:
        columns[i] = [math.nan if x is not None and x != x else x for x in columns[i]]
    return list(zip(*columns))


def _cast(table: pa.Table, schema: pa.Schema, where: str) -> pa.Table:
    columns = []
    for field, column in zip(schema, table.columns):
        try:
            columns.append(_cast_column(column, field.type))
        except pa.ArrowInvalid as error:
            message = f"{where}column {field.name} of type {column.type} does not fit {field.type}: {error}"
            raise AssertionError(message) from error
    return pa.table(columns, schema=schema) if columns else table


def _cast_column(column: pa.ChunkedArray, type_: pa.DataType) -> pa.ChunkedArray:
    """A decimal of more digits is rounded half away from zero, as SQL rounds it."""
    if column.type == type_:
        return column
    if pa.types.is_decimal(column.type) and pa.types.is_decimal(type_) and column.type.scale > type_.scale:
        column = pc.round(column, type_.scale, "half_towards_infinity")
    elif pa.types.is_integer(column.type) and pa.types.is_decimal(type_):
        column = column.cast(pa.decimal256(76, type_.scale))
    return column.cast(type_)


def _match_close(surplus: Counter[Row], lacking: Counter[Row], floats: list[int]) -> tuple[Counter[Row], Counter[Row]]:
    """What stays when rows with close doubles and otherwise equal values are taken as pairs.

    Rows that agree in all exact columns are sorted by their doubles and paired in that order. Where that
    leaves rows (a tie within the tolerance in a column that another column orders), each is tried with each.
    """
    exact = [i for i in range(len(next(iter(surplus or lacking)))) if i not in floats]
    groups: defaultdict[Row, tuple[list[Row], list[Row]]] = defaultdict(lambda: ([], []))
    for at, rows in enumerate((surplus, lacking)):
        for row in rows.elements():
            groups[tuple(row[i] for i in exact)][at].append(row)
    left: Counter[Row] = Counter()
    right: Counter[Row] = Counter()
    for ours, theirs in groups.values():
        for side in (ours, theirs):
            side.sort(key=lambda row: [_sort_key(row[i]) for i in floats])
        pairs = [_close(a, b, floats) for a, b in zip(ours, theirs)]
        alone = [b for b, fits in zip(theirs, pairs) if not fits] + theirs[len(pairs) :]
        for a in [a for a, fits in zip(ours, pairs) if not fits] + ours[len(pairs) :]:
            partner = next((b for b in alone if _close(a, b, floats)), None)
            if partner is None:
                left[a] += 1
            else:
                alone.remove(partner)
        right.update(alone)
    return left, right


def _sort_key(x: float | None) -> tuple[int, float]:
    return (0, 0.0) if x is None else (2, 0.0) if x != x else (1, x)


def _close(a: Row, b: Row, floats: list[int]) -> bool:
    for i in floats:
        x, y = a[i], b[i]
        if x is y or x == y:
            continue
        if x is None or y is None or not math.isclose(x, y, rel_tol=RELATIVE_TOLERANCE):
            return False
    return True


def _listing(sign: str, rows: Counter[Row]) -> str:
    lines = [f"{sign} {count} x ({', '.join(map(str, row))})\n" for row, count in list(rows.items())[:_SHOWN]]
    return "".join(lines) + (f"{sign} and {len(rows) - _SHOWN} more\n" if len(rows) > _SHOWN else "")
