"""Memory stays with what is live, however much has come and gone (design section 5)."""

from __future__ import annotations

import contextlib
import multiprocessing
from multiprocessing.connection import Connection

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from vms.maintenance.engine import Engine
from vms.model.arrow import to_column
from vms.model.changes import DELETE_ROW, PUT, Column, Int64, RowChanges
from vms.model.table import BaseTable, TableColumn
from vms.model.types import BIGINT, VARCHAR, Kind, SqlType, decimal
from vms.plan.frontend import plan_view
from vms.plan.plan import MaintenancePlan

#: Insert/delete pairs over both tables; rows that each holds at any time; rows that come and go in one epoch.
PAIRS, LIVE, BATCH = 10_000_000, 250_000, 250_000
#: Pairs after which everything has found its size: the measure for the rest.
SETTLED = 500_000
ORDERS = BaseTable("orders", (TableColumn("o", BIGINT, nullable=False), TableColumn("customer", VARCHAR)), ("o",))
ITEMS = BaseTable(
    "items",
    (
        TableColumn("o", BIGINT, nullable=False),
        TableColumn("flag", VARCHAR),
        TableColumn("price", decimal(15, 2)),
    ),
    ("o",),
)
TABLES = {t.name: t for t in (ORDERS, ITEMS)}
VIEWS = {
    "by_flag": "SELECT flag, count(*) AS n, sum(price) AS total, min(price) AS least FROM items GROUP BY flag",
    "by_customer": """SELECT customer, sum(price) AS total, max(flag) AS newest
                      FROM orders JOIN items ON orders.o = items.o GROUP BY customer""",
}


def run(tells: Connection) -> None:
    """Let rows with new keys and new text take the place of all others, over and over; tell the memory."""
    plan = MaintenancePlan.merge([plan_view(n, sql, TABLES).plan for n, sql in VIEWS.items()])
    engine, process = Engine(plan, TABLES), psutil.Process()
    for pairs in range(0, PAIRS + 1, 2 * BATCH):
        new = np.arange(BATCH) + pairs // 2
        engine.step({name: _changes(engine, table, new) for name, table in TABLES.items()})
        tells.send((pairs, engine.memory_bytes(), process.memory_info().rss))
    tells.send({view: engine.contents(view).num_rows for view in VIEWS})


def _changes(engine: Engine, table: BaseTable, new: Int64) -> RowChanges:
    """These rows come, and those that came LIVE rows before go."""
    old = new[new >= LIVE] - LIVE
    wanted = engine.source_columns(table.name)
    values = tuple(_values(engine, table.by_name[c].type, new, len(old)) for c in wanted)
    everything = (1 << 63) | ((1 << len(table.value_columns)) - 1)
    return RowChanges(
        (Column(np.concatenate([new, old])),),
        np.repeat([PUT, DELETE_ROW], [len(new), len(old)]).astype(np.int8),
        np.repeat(new[0] + [1, 2], [len(new), len(old)]),
        np.repeat(np.array([everything, 0], np.uint64), [len(new), len(old)]),
        values,
    )


def _values(engine: Engine, type_: SqlType, new: Int64, deleted: int) -> Column:
    """Text that was never there before, in groups of ten; prices that come again. Deletes carry nothing."""
    if type_.kind is not Kind.VARCHAR:
        return Column(np.concatenate([new % 9973, np.zeros(deleted, np.int64)]))
    text = pc.binary_join_element_wise("a customer of ours", pa.array(new // 10).cast(pa.string()), " ")
    codes = to_column(type_, text, engine.pool).codes
    return Column(np.concatenate([codes, np.zeros(deleted, np.int64)]))


@pytest.mark.slow
def test_ten_million_pairs() -> None:
    """In a process of its own, whose memory is nothing but this."""
    context = multiprocessing.get_context("spawn")
    heard, tells = context.Pipe(duplex=False)
    process = context.Process(target=run, args=(tells,))
    process.start()
    tells.close()
    told = []
    with contextlib.suppress(EOFError):
        while True:
            told.append(heard.recv())
    process.join()
    assert process.exitcode == 0
    rows = told.pop()
    assert rows == {"by_flag": LIVE // 10, "by_customer": LIVE // 10}
    assert told[-1][0] == PAIRS
    settled = [t for t in told if t[0] <= SETTLED]
    for at, name in ((1, "state"), (2, "resident")):
        before, after = max(t[at] for t in settled), max(t[at] for t in told)
        assert after <= 1.5 * before, f"{name} memory went from {before >> 20} to {after >> 20} MB"
