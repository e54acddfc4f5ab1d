"""Two independent answers to what a view must hold: its SQL evaluated from scratch (design section 13)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Protocol

import pyarrow as pa
from datafusion import SessionConfig, SessionContext

from vms.errors import UserError
from vms.model.types import from_arrow


class Oracle(Protocol):
    """Evaluates SQL over tables that are given with each call; nothing is kept between calls."""

    def evaluate(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        """The result of one query over `tables`, in any row order."""


class DataFusionOracle:
    """DataFusion's own batch execution: its types, rounding and NULL rules are those of a view."""

    def __init__(self) -> None:
        config = SessionConfig().with_target_partitions(1)
        self._context = SessionContext(config.set("datafusion.sql_parser.parse_float_as_decimal", "true"))

    def evaluate(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        try:
            for name, table in tables.items():
                self._context.register_record_batches(name, [_batches(table)])
            result = self._context.sql(sql).to_arrow_table()
        finally:
            for name in tables:
                self._context.deregister_table(name)
        return result.cast(pa.schema([f.with_type(from_arrow(f.type).arrow) for f in result.schema]))


#: A comment by which a view says that it holds IN with a subquery where NULL is not false.
THREE_VALUES = "/* three values */"
_COUNTED = re.compile(rf"\b(?:INTERSECT|EXCEPT)\s+ALL\b|{re.escape(THREE_VALUES)}", re.IGNORECASE)


def beyond_datafusion(sql: str) -> bool:
    """Whether a view is by intent not what DataFusion answers.

    Its INTERSECT ALL and EXCEPT ALL do not count. NOT IN under OR takes NULL for false, a correlated one does not run,
    nor does a subquery with IN or EXISTS in SELECT.
    """
    return _COUNTED.search(sql) is not None


class DuckOracle:
    """DuckDB: another engine, with other types; `assert_same_rows` casts its result."""

    def __init__(self) -> None:
        try:
            import duckdb
        except ModuleNotFoundError as error:
            raise UserError("DuckDB is not installed: pip install -e '.[dev]'") from error
        self._connection = duckdb.connect(config={"threads": 1})

    def evaluate(self, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
        try:
            for name, table in tables.items():
                self._connection.register(name, table)
            return self._connection.sql(sql).to_arrow_table()
        finally:
            for name in tables:
                self._connection.unregister(name)


def _batches(table: pa.Table) -> list[pa.RecordBatch]:
    """At least one batch: an empty table has a schema too."""
    return table.to_batches() or [pa.RecordBatch.from_pylist([], schema=table.schema)]
