"""View tables are plain HBase tables: read with happybase, and with HBase's own Java client."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path

import happybase
import msgpack
import pytest
from java_source import run_java

import vms
from vms.clock import wall_ms
from vms.devcluster.cluster import DevCluster
from vms.store import hbase_commands as commands
from vms.store.base import DELETE_ROW, Cell, Mutation
from vms.store.hbase import HBaseStore
from vms.viewtable.layout import FAMILIES, TTL_MS

ROWS = """
CREATE TABLE t (k BIGINT PRIMARY KEY, n BIGINT, i INTEGER, p DECIMAL(9, 2), s VARCHAR);
INSERT INTO t VALUES (-1, -5, 7, -12.50, 'ü'), (2, 9, -7, 0.01, NULL)
"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[vms.Database]:
    with vms.connect(f"embedded:{tmp_path}") as db:
        db.sql(ROWS)
        yield db


def copied(db: vms.Database, hbase: HBaseStore, name: str, select: str, form: str) -> int:
    """A view as it is written, in a table of HBase with the settings of view tables; returns its epoch."""
    db.sql(f"CREATE MATERIALIZED VIEW v WITH ({form}) AS {select}")
    hbase.create_table(name, FAMILIES)
    table = db.catalog.views["v"].table(db.runtime.readable.point.generation)
    for row, cells in db.store.scan(table):
        hbase.mutate(name, [Mutation(row, tuple(Cell(c, v.ts, value=v.value) for c, v in cells.items()))])
    return db.runtime.readable.point.epoch


def scanned(up: DevCluster, name: str, epoch: int) -> list[tuple[bytes, dict[bytes, bytes]]]:
    connection = happybase.Connection("127.0.0.1", up.ports.thrift)
    found = list(connection.table(name).scan(timestamp=epoch + 1))
    connection.close()
    return found


def test_happybase_reads_a_view(up: DevCluster, hbase: HBaseStore, name: str, db: vms.Database) -> None:
    epoch = copied(db, hbase, name, "SELECT k, n, s FROM t", "encoding = 'phoenix'")
    found = scanned(up, name, epoch)
    flipped = [struct.unpack(">Q", row[-8:])[0] - 2**63 for row, _ in found]
    assert flipped == [-1, 2]
    assert [struct.unpack(">Q", cells[b"v:n"])[0] - 2**63 for _, cells in found] == [-5, 9]
    assert [cells.get(b"v:s", b"").decode() for _, cells in found] == ["ü", ""]
    assert all(cells[b"v:_0"] == b"" for _, cells in found)
    assert scanned(up, name, 1) == []


def test_happybase_reads_a_packed_view(up: DevCluster, hbase: HBaseStore, name: str, db: vms.Database) -> None:
    epoch = copied(db, hbase, name, "SELECT k, n, p, s FROM t", "layout = 'packed'")
    found = [msgpack.unpackb(cells[b"v:_row"]) for _, cells in scanned(up, name, epoch)]
    assert found == [[-5, "-12.50", "ü"], [9, "0.01", None]]


def test_java_reads_views(up: DevCluster, hbase: HBaseStore, name: str, db: vms.Database) -> None:
    copied(db, hbase, f"{name}_1", "SELECT k, n, s FROM t", "encoding = 'phoenix'")
    db.sql("DROP MATERIALIZED VIEW v")
    epoch = copied(db, hbase, f"{name}_2", "SELECT k, p, i FROM t", "encoding = 'bytes'")
    lines = run_java(up, "ReadView", f"{name}_1,{name}_2", str(epoch))
    assert lines == ["-1 -5 ü", "2 9 null", "-1 -12.50 7", "2 0.01 -7"]


def test_what_hbase_purges_are_rows_that_an_epoch_deleted_long_ago(hbase: HBaseStore, name: str) -> None:
    """So a view is read at any age, but not while an epoch older than the time to live is under way."""
    now = wall_ms()
    epoch, begun = now - 5 * TTL_MS, now - 2 * TTL_MS
    hbase.create_table(name, FAMILIES)
    rows = {row: Cell(b"v:n", epoch, value=b"old") for row in (b"idle", b"changed", b"deleted")}
    hbase.mutate(name, [Mutation(row, (cell,)) for row, cell in rows.items()])
    _compact(hbase, name)
    assert {row for row, _ in hbase.scan(name, before=epoch + 1)} == rows.keys()
    changes = {b"changed": Cell(b"v:n", begun, value=b"new"), b"deleted": Cell(b"v:", begun, DELETE_ROW)}
    hbase.mutate(name, [Mutation(row, (cell,)) for row, cell in changes.items()])
    assert {row for row, _ in hbase.scan(name, before=epoch + 1)} == rows.keys()
    _compact(hbase, name)
    while b"deleted" in dict(hbase.scan(name, before=epoch + 1)):
        _compact(hbase, name)
    for bound, value in ((epoch + 1, b"old"), (begun + 1, b"new")):
        read = {row: cells[b"v:n"].value for row, cells in hbase.scan(name, before=bound)}
        assert read == {b"idle": b"old", b"changed": value}
    hbase.drop_table(name)


def _compact(hbase: HBaseStore, name: str) -> None:
    hbase.admin.run(commands.flush(name))
    hbase.admin.run(commands.compact(name))
