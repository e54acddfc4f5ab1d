"""Values of every type, mostly near limits, and what engines and our evaluator make of them, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from vms.maintenance.expressions import Evaluator
from vms.maintenance.expressions.evaluator import Evaluated
from vms.model.arrow import decimals_of, from_column
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Kind, SqlType, decimal
from vms.plan.expr import Expr

DECIMALS = [decimal(1, 0), decimal(5, 2), decimal(18, 4), decimal(19, 0), decimal(30, 15), decimal(38, 2)]
TYPES = [BOOLEAN, INTEGER, BIGINT, DOUBLE, DATE, TIMESTAMP, VARCHAR, *DECIMALS]
TEXTS = [
    "",
    "a",
    "A",
    "ab",
    "a%b",
    "a_b",
    "a\\b",
    "ä",
    "Ä",
    "日本",
    "😀",
    "%",
    "\\",
    "\n",
    "\u017f",
    "\u212a",
    "1",
]
#: Whether the row failed, and its value if not.
Answer = tuple[bool, Any]
#: Words of an engine's message by which it says that a row has no value, and not that the query is wrong.
_FAILURES = (
    "cast error", "parser error", "overflow", "too large", "too small", "divide by zero", "out of range",
    "negative count", "could not convert", "conversion error", "invalid input", "negative substring",
    "did not compile",
)  # fmt: skip


def integers(low: int, top: int) -> st.SearchStrategy[int]:
    return st.one_of(st.integers(-3, 3), st.integers(low, top), st.sampled_from([low, low + 1, top - 1, top]))


def values(type_: SqlType) -> st.SearchStrategy[Any]:
    """Codes as `Literal` has them, mostly near limits."""
    match type_.kind:
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.INTEGER:
            return integers(-(1 << 31), (1 << 31) - 1)
        case Kind.BIGINT:
            return integers(-(1 << 63), (1 << 63) - 1)
        case Kind.DECIMAL:
            limit = 10**type_.precision - 1
            return st.one_of(integers(-limit, limit), st.integers(max(-limit, -999), min(limit, 999)))
        case Kind.DOUBLE:
            special = [
                0.0,
                1.0,
                -1.5,
                0.1,
                math.nan,
                math.inf,
                -math.inf,
                1e15,
                1e16,
                1e-5,
                1e-6,
                5e-324,
                2.675,
            ]
            return st.one_of(st.sampled_from(special), st.floats(), st.floats(-1e6, 1e6))
        case Kind.DATE:
            return integers(-25000, 50000)
        case Kind.TIMESTAMP:
            return integers(-(10**15), 2 * 10**15)
    return st.one_of(st.sampled_from(TEXTS), st.text(max_size=4).filter(lambda t: "\0" not in t))


def arrow_array(type_: SqlType, codes: list[Any]) -> pa.Array:
    if type_.kind is Kind.DECIMAL:
        return decimals_of(type_, codes)
    return pa.array(codes, type_.arrow)


def plain(column: pa.ChunkedArray | pa.Array) -> list[Any]:
    """Comparable values: one NaN, one zero, times as integers."""
    if pa.types.is_temporal(column.type):
        column = column.cast(pa.int32() if pa.types.is_date32(column.type) else pa.int64())
    if pa.types.is_floating(column.type):
        return [None if v is None else "NaN" if v != v else v + 0.0 for v in column.to_pylist()]
    return column.to_pylist()


def row_by_row(ask: Callable[[pa.Table], pa.ChunkedArray], table: pa.Table) -> list[Answer]:
    """The answers of an engine, which fails for all rows together: where it does, each row is asked alone."""
    try:
        return [(False, v) for v in plain(ask(table))]
    except Exception as error:
        if not any(w in str(error).lower() for w in _FAILURES):
            raise
    if table.num_rows == 1:
        return [(True, None)]
    return [row for i in range(table.num_rows) for row in row_by_row(ask, table.slice(i, 1))]


def evaluated(e: Expr, changes: Changes, pool: TextPool) -> tuple[list[Answer], Evaluated]:
    """Our answers, and the result that they were taken from, after a check of its form."""
    result = Evaluator([e], pool).evaluate(changes)
    column, count = result.columns[0], len(changes)
    assert len(column) == count
    if column.valid is not None:
        assert not column.codes[~column.valid].any()
        assert not column.valid.all()
    if column.high is not None:
        assert (column.high != column.codes >> 63).any()
    failed = np.zeros(count, np.bool_) if result.failed is None else result.failed
    found = iter(plain(from_column(e.type, column.take(~failed), pool)))
    return [(True, None) if f else (False, next(found)) for f in failed.tolist()], result
