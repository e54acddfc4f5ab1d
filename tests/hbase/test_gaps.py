"""What no stream tells: rows that come by files, and a table that is made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from databases import check, opened, vms_of_its_own
from java_source import run_java

from vms.devcluster.cluster import DevCluster
from vms.errors import ViewStopped
from vms.manager.database import Database
from vms.store.base import Family
from vms.store.hbase import HBaseStore


@pytest.fixture
def db(up: DevCluster, hbase: HBaseStore, name: str, tmp_path: Path) -> Iterator[Database]:
    with vms_of_its_own(up, hbase, name) as address, opened(address, tmp_path / "own") as db:
        db.sql(f"CREATE TABLE {name} (k VARCHAR PRIMARY KEY, s VARCHAR)")
        db.sql(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT s, count(*) AS n FROM {name} GROUP BY s")
        db.sql(f"INSERT INTO {name} VALUES ('a', 'x'), ('b', 'y')")
        check(db, f"{name}_v")
        yield db


def test_a_bulk_load_stops_the_view(up: DevCluster, db: Database, name: str, tmp_path: Path) -> None:
    run_java(up, "BulkLoad", name, str(tmp_path / "files"), "c", "d:s", "z")
    with pytest.raises(ViewStopped, match=r"files were bulk-loaded into it.*vms view rebuild"):
        db.view(f"{name}_v").read("latest")
    db.rebuild_view(f"{name}_v")
    check(db, f"{name}_v")
    assert {row["s"] for row in db.view(f"{name}_v").read().to_pylist()} == {"x", "y", "z"}


def test_a_table_that_was_made_anew_stops_the_view(hbase: HBaseStore, db: Database, name: str) -> None:
    hbase.drop_table(name)
    hbase.create_table(name, {"d": Family()}, stream=True)
    db.put(name, db.sql("SELECT 'c' AS k, 'z' AS s"))
    with pytest.raises(ViewStopped, match="it was truncated, or dropped and created again"):
        db.view(f"{name}_v").read("latest")
    db.rebuild_view(f"{name}_v")
    db.sql(f"INSERT INTO {name} VALUES ('d', 'z')")
    check(db, f"{name}_v")
    assert db.view(f"{name}_v").read().to_pylist() == [{"s": "z", "n": 2}]
