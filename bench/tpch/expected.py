"""What a TPC-H view must hold: DuckDB's answer over the base tables.

DuckDB's AVG of decimals is a binary double. A view's is DataFusion's: a decimal of four more digits, the
exact quotient cut towards zero. So DuckDB is asked for that quotient, in whole numbers; nothing is rounded
and everything is compared exactly.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa
import sqlglot
from sqlglot import exp

from bench.tpch import queries
from vms.testing.oracle import DuckOracle

#: Millionths: every average of TPC-H is over DECIMAL(15, 2), so it has 2 + 4 digits after the point.
_AVERAGE = """
    CAST(CAST(sum(x) * 1000000 AS HUGEINT) // nullif(count(x), 0) AS DECIMAL(30, 0))
    * CAST(0.000001 AS DECIMAL(8, 6))
"""


def expected(query: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    """The rows of the view, to be compared with `vms.testing.compare.assert_same_rows`."""
    return DuckOracle().evaluate(exact_averages(queries.text(query)), tables)


def exact_averages(sql: str) -> str:
    """The query in DuckDB's dialect, with every AVG written out as above."""
    return sqlglot.parse_one(sql, dialect="duckdb").transform(_write_out).sql(dialect="duckdb")


def _write_out(node: exp.Expression) -> exp.Expression:
    if not isinstance(node, exp.Avg):
        return node
    average = exp.paren(sqlglot.parse_one(_AVERAGE, dialect="duckdb"))
    return average.transform(lambda n: node.this.copy() if isinstance(n, exp.Column) else n)
