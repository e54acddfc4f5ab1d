"""The 22 views of TPC-H together in the simulated cluster, with faults from seeds (vms/testing/simulate.py).

All of them are one plan with shared state on up to five members. After every commit each view equals DuckDB's answer
at that cut. The rows are made for the queries (`bench/tpch/dense.py`), with keys so few that writes meet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from functools import cache
from random import Random
from typing import Any

import pyarrow as pa

from bench.tpch import dense, queries
from bench.tpch.expected import expected
from bench.tpch.schema import relaxed
from vms.model.table import TableColumn
from vms.model.types import DATE
from vms.testing.simulate import simulate
from vms.testing.workload import Workload

TABLES = relaxed()
SIZES = {
    "region": 5, "nation": 9, "supplier": 5, "customer": 8, "part": 4, "partsupp": 18, "orders": 24, "lineitem": 90
}  # fmt: skip
NULL_SHARE = 0.05
#: Simulated milliseconds of writes and faults.
BUSY = 2_500
#: For each view, how many commits of all runs showed rows of it.
filled: Counter[str] = Counter()


@cache
def _values(column: TableColumn) -> list[Any]:
    values = dense.values(column, SIZES)
    return (values.cast(pa.int32()) if column.type == DATE else values).to_pylist()


def _value(random: Random, column: TableColumn) -> Any:
    return None if column.nullable and random.random() < NULL_SHARE else random.choice(_values(column))


def _rows(random: Random) -> dict[str, pa.Table]:
    return dense.rows(random.getrandbits(32), SIZES)


def _answer(view: str, sql: str, tables: Mapping[str, pa.Table]) -> pa.Table:
    rows = expected(view, tables)
    filled[view] += any(len(column) > column.null_count for column in rows.columns)
    return rows


TPCH = Workload(
    TABLES,
    {name: queries.text(name) for name in queries.names()},
    ("nation", "region", "supplier", "customer", "part", *["partsupp"] * 2, *["orders"] * 3, *["lineitem"] * 6),
    _value,
    (_answer,),
    share=1.0,
    loaded=_rows,
)


def test_all_views_keep_the_guarantees_under_faults() -> None:
    commits = 0
    for seed in range(6):
        try:
            commits += simulate(seed, workload=TPCH, busy=BUSY).commits
        except Exception as wrong:
            wrong.add_note(f"seed {seed}")
            raise
    seldom = {view: filled[view] for view in TPCH.views if filled[view] < 2}
    assert commits > 30 and not seldom, f"of {commits} commits these views showed rows in so few: {seldom}"
