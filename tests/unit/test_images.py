"""Tables whose changes carry images, through a whole View Manager: nothing is held of them, and views stay exact."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest

from vms.errors import ViewStopped
from vms.manager.backend import EmbeddedBackend
from vms.manager.database import Database
from vms.model.changes import AFTER, BEFORE
from vms.model.table import BaseTable
from vms.store.base import Cell, Row
from vms.store.resolve import gather, newest
from vms.stream.base import SourceBatch
from vms.stream.decode import KIND, SEQ, DeadLetter, RowDecoder
from vms.stream.embedded import EmbeddedSource

TABLES = """
CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price BIGINT);
CREATE MATERIALIZED VIEW totals AS SELECT shop, count(*) AS n, sum(price) AS total FROM sales GROUP BY shop;
"""
QUERY = "SELECT shop, count(*) AS n, sum(price) AS total FROM sales GROUP BY shop"


class Imaged:
    """A batch with the rows before and after each of its mutations, as the plug-in of HBase attaches them."""

    has_images = True

    def __init__(self, batch: SourceBatch, rows: list[tuple[int, bytes, Row, Row]]) -> None:
        self.table, self.region, self.first, self.last = batch.table, batch.region, batch.first, batch.last
        self.mutations, self.gap, self.batch, self._rows = batch.mutations, None, batch, rows

    def decode(self, decoder: RowDecoder) -> tuple[pa.RecordBatch, list[DeadLetter]]:
        if not decoder.images:
            return self.batch.decode(decoder)
        parts = []
        for seq, key, before, after in self._rows:
            for kind, row in ((BEFORE, before), (AFTER, after)):
                rows, _ = decoder.read([(key, row)])
                kinds, seqs = np.full(rows.num_rows, kind, np.int8), np.full(rows.num_rows, seq, np.int64)
                rows = rows.set_column(rows.schema.get_field_index(KIND), KIND, pa.array(kinds))
                parts.append(rows.set_column(rows.schema.get_field_index(SEQ), SEQ, pa.array(seqs)))
        return pa.concat_batches(parts), []


class ImagingSource(EmbeddedSource):
    """The stream of the embedded store with images."""

    def __init__(self, backend: EmbeddedBackend) -> None:
        super().__init__(backend.store)
        #: All cells of each row, as far as the stream has told, and what was made of a batch.
        self._cells: dict[bytes, list[Cell]] = {}
        self._made: dict[tuple[str, int], Imaged] = {}
        self.broken = False

    def poll(self, limit: int) -> Sequence:
        found = super().poll(limit)
        return found if self.broken else [self._imaged(batch) for batch in found]

    def _imaged(self, batch: SourceBatch) -> Imaged:
        name = batch.region, batch.first
        if name not in self._made:
            rows = []
            for entry in batch.entries:
                for key, cells in entry.mutations:
                    known = self._cells.setdefault(key, [])
                    before = newest(gather(known))
                    known.extend(cells)
                    rows.append((entry.seq, key, before, newest(gather(known))))
            self._made[name] = Imaged(batch, rows)
        return self._made[name]

    def acknowledge(self, batch) -> None:  # type: ignore[no-untyped-def]
        super().acknowledge(batch.batch if isinstance(batch, Imaged) else batch)

    def unread(self, regions: Collection[str]) -> Collection[str]:
        return super().unread(regions)


class ImagingBackend(EmbeddedBackend):
    """The embedded store with such a stream."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, log="local")
        self.source.close()
        self.source = ImagingSource(self)

    def attach_images(self, table: BaseTable, jar: str | None) -> None:
        pass


def opened(path: Path) -> Database:
    return Database(ImagingBackend(path), epoch_interval=0.005)


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Database]:
    with opened(tmp_path / "db") as db:
        db.sql(TABLES)
        yield db


def change(db: Database, rng: Random) -> None:
    key, price = rng.randrange(6), rng.randrange(100)
    shop = rng.choice(["'a'", "'b'", "NULL"])
    db.sql(
        rng.choice(
            [
                f"INSERT INTO sales VALUES ({key}, {shop}, {price})",
                f"UPDATE sales SET price = {price} WHERE id = {key}",
                f"UPDATE sales SET shop = {shop}, price = NULL WHERE id <= {key}",
                f"DELETE FROM sales WHERE id = {key}",
            ]
        )
    )


def assert_right(db: Database, view: str, query: str) -> None:
    columns = ", ".join(db.view(view).schema.names)
    found, expected = db.sql(f"SELECT {columns} FROM {view}"), db.sql(query)
    assert found is not None and expected is not None
    assert sorted(found.to_pylist(), key=repr) == sorted(expected.to_pylist(), key=repr)


def sales(db: Database) -> tuple:
    found = db.status()["tables"]["sales"]
    return found["images"], found["memory_bytes"]


@pytest.mark.parametrize("seed", range(3))
def test_a_settled_table_is_followed_with_nothing_held(db: Database, seed: int) -> None:
    rng = Random(seed)
    for _ in range(10):
        change(db, rng)
    assert sales(db)[0] is None and sales(db)[1] > 0
    assert "DeltaView of sales:" in db.explain("totals")
    db.use_images("sales")
    assert sales(db) == ("settled", 0)
    assert "nothing of sales: its changes carry the rows" in db.explain("totals")
    assert "DeltaView of sales" not in db.explain("totals")
    assert db.explain_data("totals")["delta_views"] == []
    for _ in range(25):
        change(db, rng)
        assert_right(db, "totals", QUERY)
    assert sales(db) == ("settled", 0)


def test_a_new_view_needs_the_rows_once_more(db: Database) -> None:
    rng = Random(7)
    db.use_images("sales")
    for _ in range(10):
        change(db, rng)
    generation = db.runtime.readable.point.generation
    db.sql("CREATE MATERIALIZED VIEW dear AS SELECT id, price FROM sales WHERE price > 50")
    assert db.runtime.readable.point.generation == generation + 1
    assert sales(db)[0] == "settling"
    for _ in range(10):
        change(db, rng)
    db.settle_images()
    assert sales(db) == ("settled", 0)
    for _ in range(10):
        change(db, rng)
        assert_right(db, "totals", QUERY)
        assert_right(db, "dear", "SELECT id, price FROM sales WHERE price > 50")


def test_a_restart_finds_it_settled(tmp_path: Path) -> None:
    rng = Random(11)
    with opened(tmp_path) as db:
        db.sql(TABLES)
        db.use_images("sales")
        for _ in range(10):
            change(db, rng)
        db.wait(db.session)
        cells = db.backend.source._cells
    with opened(tmp_path) as db:
        db.backend.source._cells.update(cells)
        assert sales(db) == ("settled", 0)
        for _ in range(10):
            change(db, rng)
            assert_right(db, "totals", QUERY)


def test_a_change_without_images_stops_the_views(db: Database) -> None:
    db.use_images("sales")
    db.sql("INSERT INTO sales VALUES (1, 'a', 1)")
    assert_right(db, "totals", QUERY)
    db.backend.source.broken = True
    db.sql("INSERT INTO sales VALUES (2, 'a', 2)")
    db.wait(db.session)
    with pytest.raises(ViewStopped, match="without the row before it; attach the table with --before-images again"):
        db.view("totals").read()
    db.backend.source.broken = False
    db.rebuild_view("totals")
    assert_right(db, "totals", QUERY)
