"""The views of TPC-H over seeded histories, each compared with DuckDB after every epoch.

The queries are the standard's; the rows are made so that they find something (`bench/tpch/dense.py`). Every value
column may be NULL. Rows are inserted, overwritten with the values of other rows (so that they change groups and join
partners, and regions and nations change their names), changed in part, deleted, and come back. What is compared is
the view table: what all epochs together wrote, each checked against what was there.
"""

from __future__ import annotations

from itertools import cycle

import pyarrow as pa
import pytest

from bench.tpch import dense, queries
from bench.tpch.changes import ChangeStream
from bench.tpch.encoded import EncodedStream
from bench.tpch.expected import expected
from bench.tpch.schema import relaxed
from vms.maintenance.engine import Engine
from vms.plan.frontend import plan_view
from vms.testing.compare import assert_same_rows
from vms.testing.plan_run import ViewTable

CHANGES = 5_000
SHARES = {"delete_share": 0.15, "update_share": 0.2, "partial_share": 0.15, "reinsert_share": 0.12}
#: Changes in an epoch, in turn: alone, a few, many.
EPOCHS = (1, 3, 10, 80, 150)
TABLES = relaxed()


def is_filled(rows: pa.Table) -> bool:
    """Whether there is anything to see: a row with a value in it."""
    return any(len(column) > column.null_count for column in rows.columns)


@pytest.mark.parametrize("query", queries.names())
def test_a_view_follows_its_history(query: str) -> None:
    plan = plan_view(query, queries.text(query), TABLES).plan
    sizes = dense.sizes_for(plan.sources, round(CHANGES * (1 - sum(SHARES.values()))) + 100)
    seed = int(query[1:])
    rows = {name: table for name, table in dense.rows(seed, sizes).items() if name in plan.sources}
    stream = ChangeStream(rows, seed, **SHARES, definitions=TABLES, load_share=0.6)
    assert len(stream) >= CHANGES
    engine = Engine(plan, {name: TABLES[name] for name in plan.sources})
    changes = EncodedStream(stream, {name: engine.source_columns(name) for name in plan.sources}, engine.pool)
    view, held = ViewTable(plan.outputs[query]), pa.table({})
    position = filled = different = 0
    for size in cycle(EPOCHS):
        stop = min(position + size, len(stream))
        view.write(engine.step(changes.batch(position, stop))[query], engine.pool)
        now = view.arrow()
        where = f"{query} after {stop} changes, the epoch from {position}"
        assert_same_rows(now, expected(query, stream.final_tables(stop)), where)
        different += now != held
        filled += is_filled(now)
        position, held = stop, now
        if position == len(stream):
            break
    assert filled >= 20 and different >= 8, f"{filled} epochs with rows, {different} with other rows"
