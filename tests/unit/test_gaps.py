"""What happened to a table that its stream does not tell: the views over it stop and say so, until they are rebuilt."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from vms.cli.main import cli
from vms.errors import UnknownName, ViewStopped
from vms.manager.backend import EmbeddedBackend
from vms.manager.database import Database
from vms.manager.gaps import Gap, Gaps
from vms.stream.base import SourceBatch
from vms.stream.encode import RowEncoder
from vms.stream.scripted import ScriptedSource

TABLES = """
CREATE TABLE sales (id BIGINT PRIMARY KEY, price BIGINT);
CREATE TABLE shops (id BIGINT PRIMARY KEY, name VARCHAR);
CREATE MATERIALIZED VIEW total AS SELECT sum(price) AS total FROM sales;
CREATE MATERIALIZED VIEW names AS SELECT id, name FROM shops;
"""
REASON = "files were bulk-loaded into it"


class GapBackend(EmbeddedBackend):
    """The embedded store, whose stream is what a test scripts."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, log="local")
        self.source.close()
        self.source = ScriptedSource()  # type: ignore[assignment]

    def load_files(self, db: Database, ids: list[int]) -> None:
        """Rows that come into table sales without an entry in its stream, and the mark that says so."""
        rows = pa.table({"id": ids, "price": [10] * len(ids)})
        positions = self.store.mutate("sales", RowEncoder(db.catalog.tables["sales"]).puts(rows, self.clock.now()))
        for region, seq in positions.items():
            self.store.acknowledge(region, seq)
            self.source.append(SourceBatch("sales", region, seq, seq, (), REASON))


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with Database(GapBackend(tmp_path), epoch_interval=0.01) as db:
        db.sql(TABLES)
        yield db


def stop(db: Database) -> None:
    """Load files; a watch ends with it, or refuses to begin."""
    db.backend.load_files(db, [1, 2, 3])
    with pytest.raises(ViewStopped):
        list(db.view("total").watch())


def test_a_view_over_a_gap_says_so_and_others_go_on(db: Database) -> None:
    stop(db)
    for look in (db.view("total").read, db.view("total").watch, lambda: db.sql("SELECT * FROM total")):
        with pytest.raises(ViewStopped, match=f"{REASON}.*vms view rebuild total"):
            look()
    assert db.view("names").read().num_rows == 0
    found = db.status()
    assert found["views"]["total"]["stopped"] == f"table sales: {REASON}"
    assert found["views"]["names"]["stopped"] is None
    assert any("views to rebuild: total" in warning for warning in found["warnings"])


def test_a_rebuild_makes_it_right(db: Database) -> None:
    stop(db)
    generation = db.runtime.readable.point.generation
    assert db.rebuild_view("total") == ["total", "names"]
    assert db.runtime.readable.point.generation == generation + 1
    assert db.view("total").read().to_pylist() == [{"total": 30}]
    assert db.status()["views"]["total"]["stopped"] is None
    stop(db)  # and the next one is told again
    with pytest.raises(UnknownName):
        db.rebuild_view("nobody")


def test_a_gap_outlives_a_restart(tmp_path: Path) -> None:
    with Database(GapBackend(tmp_path), epoch_interval=0.01) as db:
        db.sql(TABLES)
        stop(db)
    runner, store = CliRunner(), f"embedded:{tmp_path}"
    refused = runner.invoke(cli, ["--store", store, "view", "read", "total"])
    assert refused.exit_code == 1 and "vms view rebuild total" in refused.stderr
    assert "rebuild it" in runner.invoke(cli, ["--store", store, "status"]).stdout
    assert "rebuild it" in runner.invoke(cli, ["--store", store, "view", "show", "total"]).stdout
    assert runner.invoke(cli, ["--store", store, "view", "rebuild", "total"]).stdout == "made anew: total, names\n"
    assert "30" in runner.invoke(cli, ["--store", store, "view", "read", "total"]).stdout


def test_the_first_gap_of_a_generation_is_kept(tmp_path: Path) -> None:
    backend = EmbeddedBackend(tmp_path, log="off")
    gaps = Gaps(backend.store)
    gaps.add(Gap("t", 1, "r1", 5, "first"))
    gaps.add(Gap("t", 1, "r2", 9, "second"))
    gaps.add(Gap("u", 2, "r3", 1, "other"))
    assert gaps.of(1)["t"].reason == "first" and "u" not in gaps.of(1)
    gaps.add(Gap("t", 2, "r2", 9, "third"))
    gaps.add(Gap("t", 1, "r2", 10, "late"))
    assert {t: gap.reason for t, gap in Gaps(backend.store).of(2).items()} == {"t": "third", "u": "other"}
    backend.close()
