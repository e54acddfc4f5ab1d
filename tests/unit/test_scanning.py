"""A table that is read whole tells how far it is."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import vms


def test_the_status_tells_how_many_rows_were_read(tmp_path: Path) -> None:
    with vms.connect(f"embedded:{tmp_path}") as db:
        db.sql("CREATE TABLE t (id BIGINT PRIMARY KEY)")
        db.put("t", pa.table({"id": pa.array(range(2_500), pa.int64())}))
        told: list[int] = []

        class Told(dict):
            def __setitem__(self, table: str, rows: int) -> None:
                super().__setitem__(table, rows)
                told.append(db.status()["scanning"]["t"])

        db.manager.epochs.performer.scanning = Told()
        db.sql("CREATE MATERIALIZED VIEW n AS SELECT count(*) AS n FROM t")
        assert told == [0, 1_000, 2_000]
        assert db.status()["scanning"] == {}
