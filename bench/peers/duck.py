"""DuckDB as a peer: the base tables are kept, and the query is evaluated anew after every batch.

That is what one does without maintained views, by an engine that is among the fastest for it. One thread, as the
engine has one; tables in memory; rows come as Arrow tables, which DuckDB reads without copying.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import duckdb
import pyarrow as pa

from bench.tpch.changes import ChangeStream, TableBatch
from bench.tpch.expected import expected, statement
from bench.tpch.schema import TABLES
from vms.testing.compare import assert_same_rows


def measure(query: str, stream: ChangeStream, batch: int, seconds: float) -> dict[str, Any]:
    """One cell like the engine's. The first half of the stream is loaded before the clock starts."""
    peer = _Duck(query, stream.tables)
    start = len(stream) // 2
    for calls in stream.batches(100_000, 0, start):
        peer.apply(calls)
    stop, cpu, wall = start, 0.0, 0.0
    result = peer.evaluate()
    while stop + batch <= len(stream) and wall < seconds:
        ready = next(stream.batches(batch, stop, stop + batch))
        wall_before, cpu_before = time.perf_counter(), time.process_time()
        peer.apply(ready)
        result = peer.evaluate()
        cpu += time.process_time() - cpu_before
        wall += time.perf_counter() - wall_before
        stop += batch
    cell = {
        "peer": "DuckDB, evaluated anew",
        "version": duckdb.__version__,
        "query": query,
        "batch": batch,
        "tuples": stop - start,
        "cpu_s": round(cpu, 6),
        "wall_s": round(wall, 6),
        "tuples_per_cpu_s": round((stop - start) / cpu),
        "exact": True,
    }
    try:
        assert_same_rows(result, expected(query, stream.final_tables(stop)))
    except AssertionError as difference:
        cell |= {"exact": False, "difference": str(difference)}
    return cell


class _Duck:
    """Base tables in DuckDB, and one query over them."""

    def __init__(self, query: str, tables: Mapping[str, pa.Table]) -> None:
        self._query = statement(query)
        self._db = duckdb.connect()
        self._db.execute("SET threads = 1")
        for name, rows in tables.items():
            self._with_rows(rows.slice(0, 0), f"CREATE TABLE {name} AS SELECT * FROM given")

    def apply(self, calls: Sequence[TableBatch]) -> None:
        """Puts of whole new rows, and deletes by key."""
        for call in calls:
            if call.kind == "put":
                columns = ", ".join(call.rows.column_names)
                self._with_rows(call.rows, f"INSERT INTO {call.table} ({columns}) SELECT {columns} FROM given")
            else:
                same = " AND ".join(f"{call.table}.{k} = given.{k}" for k in TABLES[call.table].key)
                self._with_rows(call.rows, f"DELETE FROM {call.table} USING given WHERE {same}")

    def evaluate(self) -> pa.Table:
        return self._db.sql(self._query).to_arrow_table()

    def _with_rows(self, rows: pa.Table, statement: str) -> None:
        self._db.register("given", rows)
        self._db.execute(statement)
        self._db.unregister("given")
