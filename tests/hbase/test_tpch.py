"""The TPC-H views over HBase: rows that were there, then changes by two kinds of clients, compared with DuckDB."""

from __future__ import annotations

from pathlib import Path

import pytest
from databases import opened, vms_of_its_own

from bench.tpch import queries
from bench.tpch.changes import ChangeStream, TableBatch
from bench.tpch.data import tables
from bench.tpch.expected import expected
from bench.tpch.schema import TABLES, ddl, relaxed
from vms.devcluster.cluster import DevCluster
from vms.manager.database import Database
from vms.store import hbase_commands as commands
from vms.store.base import Mutation
from vms.store.hbase import HBaseStore
from vms.testing.compare import assert_same_rows

SCALE, CHANGES, STEP = 0.01, 5_000, 500


def _mutations(db: Database, batch: TableBatch) -> list[Mutation]:
    encoder = db.backend.encoder(db.catalog.table(batch.table))
    if batch.kind == "delete":
        return encoder.deletes(batch.rows, db.clock.stamps(1))
    return encoder.puts(batch.rows, db.clock.stamps(1), whole=batch.kind == "put")


def _compare(db: Database, stream: ChangeStream, changes: int) -> None:
    token = db.latest()
    assert db.wait(token)
    rows = stream.final_tables(changes)
    for query in queries.names():
        assert_same_rows(db.view(query).read(), expected(query, rows), query)


@pytest.mark.timeout(600)
def test_the_views_of_tpch(up: DevCluster, hbase: HBaseStore, name: str, tmp_path: Path) -> None:
    definitions = relaxed(TABLES)
    stream = ChangeStream(tables(SCALE, tmp_path), seed=22, definitions=definitions, load_share=1.0)
    end = stream.loaded + CHANGES
    assert len(stream) >= end
    with vms_of_its_own(up, hbase, name) as address, opened(address, tmp_path / "vms") as db:
        db.sql(ddl(definitions.values()))
        for step in stream.batches(20_000, stop=stream.loaded):
            for batch in step:
                hbase.mutate(batch.table, _mutations(db, batch))
        for query in queries.names():
            db.create_view(query, queries.text(query))
        _compare(db, stream, stream.loaded)
        for number, step in enumerate(stream.batches(STEP, stream.loaded, end)):
            for batch in step:
                if number % 2:
                    hbase.mutate(batch.table, _mutations(db, batch))
                else:
                    hbase.admin.run(commands.mutate(batch.table, _mutations(db, batch)))
        _compare(db, stream, end)
