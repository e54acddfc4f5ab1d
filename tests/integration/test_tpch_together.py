"""All 22 views of TPC-H as one plan with shared state, over a long history at scale factor 0.1.

10 % of all changes are deletes and 20 % overwrite rows with the values of others. At the end every view equals DuckDB's
answer to the last digit, and none is empty.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.tpch import data, queries
from bench.tpch.changes import ChangeStream
from bench.tpch.encoded import EncodedStream
from bench.tpch.expected import expected
from bench.tpch.schema import TABLES
from vms.maintenance.engine import Engine
from vms.plan.frontend import plan_view
from vms.plan.plan import MaintenancePlan
from vms.testing.compare import assert_same_rows

SCALE, BATCH = 0.1, 20_000


@pytest.mark.slow
def test_all_views_in_one_plan_over_a_long_history(tmp_path: Path) -> None:
    rows = data.tables(SCALE, tmp_path)
    counts = {name: table.num_rows for name, table in rows.items()}
    plans = {name: plan_view(name, queries.text(name), TABLES, counts).plan for name in queries.names()}
    merged = MaintenancePlan.merge(plans.values())
    assert len(plans) == 22 and len(merged.nodes) < sum(len(p.nodes) for p in plans.values())
    stream = ChangeStream(rows, 4, delete_share=0.1, update_share=0.2, partial_share=0.0, reinsert_share=0.0)
    engine = Engine(merged, TABLES)
    changes = EncodedStream(stream, {name: engine.source_columns(name) for name in TABLES}, engine.pool)
    for batch in changes.batches(BATCH):
        engine.step(batch)
    final = stream.final_tables()
    for name in plans:
        wanted = expected(name, final)
        assert any(len(column) > column.null_count for column in wanted.columns), f"{name} is empty"
        assert_same_rows(engine.contents(name), wanted, name)
