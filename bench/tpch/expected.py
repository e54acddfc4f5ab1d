"""What a TPC-H view must hold: DuckDB's answer over the base tables, exact to the last digit.

DuckDB is asked in words that leave it no choice of its own. Its AVG and its division of decimals are binary doubles;
a view's are DataFusion's, decimals of four more digits, the exact quotient cut towards zero: so DuckDB is asked for
that quotient, in whole numbers. And where the text leaves open which of several equal rows are the first ones, a
view takes them by the columns of the SELECT: so these are added to ORDER BY.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

import pyarrow as pa
import sqlglot
from sqlglot import exp

from bench.tpch import queries
from vms.testing.oracle import DuckOracle

#: Digits after the point of the one division that a query has: those of the dividend, and four more.
_QUOTIENT_DIGITS = {"q08": 8, "q14": 10, "q17": 6}
#: Millionths: every average of TPC-H is over DECIMAL(15, 2), so it has 2 + 4 digits after the point.
_AVERAGE_DIGITS = 6
#: Dividend and divisor as whole numbers: none of TPC-H has more digits after the point.
_WHOLE = "CAST(CAST({} AS DECIMAL(38, 6)) * 1000000 AS HUGEINT)"


def expected(query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of the view, to be compared with `vms.testing.compare.assert_same_rows`."""
    return _duck().evaluate(statement(query), tables)


def statement(query: str) -> str:
    """What DuckDB is asked for this query."""
    return exact(queries.text(query), _QUOTIENT_DIGITS.get(query, 0))


@cache
def _duck() -> DuckOracle:
    return DuckOracle()


@cache
def exact(sql: str, quotient_digits: int = 0) -> str:
    """The query in DuckDB's dialect, with ties, averages and quotients written out as above."""

    def write_out(node: exp.Expr) -> exp.Expr:
        if isinstance(node, exp.Avg):
            return _quotient(exp.Sum(this=node.this.copy()), exp.Count(this=node.this.copy()), _AVERAGE_DIGITS)
        if isinstance(node, exp.Div):
            return _quotient(node.left.transform(write_out), node.right.transform(write_out), quotient_digits)
        return node

    return _without_ties(sql).transform(write_out).sql(dialect="duckdb")


def without_ties(sql: str) -> str:
    """The query with ORDER BY written out as above, and nothing else."""
    return _without_ties(sql).sql(dialect="postgres")


def _without_ties(sql: str) -> exp.Expr:
    tree: exp.Expr = sqlglot.parse_one(sql, dialect="postgres")
    for select in tree.find_all(exp.Select):
        order = select.args.get("order")
        if order is not None and select.args.get("limit") is not None:
            columns = (exp.column(name) for name in select.named_selects)
            order.set("expressions", [*order.expressions, *(exp.Ordered(this=c, nulls_first=False) for c in columns)])
    return tree


def _quotient(dividend: exp.Expr, divisor: exp.Expr, digits: int) -> exp.Expr:
    """The quotient with so many digits after the point, cut towards zero; NULL for a divisor of 0."""
    a, b = (_WHOLE.format(part.sql(dialect="duckdb")) for part in (dividend, divisor))
    quotient = f"CAST({a} * 1{'0' * digits} // nullif({b}, 0) AS DECIMAL(28, 0))"
    return sqlglot.parse_one(f"({quotient} * CAST(1e-{digits} AS DECIMAL(10, {digits})))", dialect="duckdb")
