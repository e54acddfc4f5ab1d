"""Before-images: with the plug-in every change carries its rows, and nothing of the table has to be remembered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random

import pyarrow as pa
import pytest
from click.testing import CliRunner
from databases import check, opened, vms_of_its_own
from processes import Managers, ring
from random_rows import FAMILY, OTHER, SPLIT, RandomRows, declared
from test_row_semantics import at_once, scanned
from wal_stream import Stream, attached

import vms
from vms.cli.main import cli
from vms.devcluster.cluster import DevCluster
from vms.errors import InvalidValue, StoreError
from vms.maintenance.operations.delta_view import DeltaView
from vms.maintenance.operations.row_images import RowImages, settling
from vms.maintenance.source_rows import row_changes
from vms.manager.database import Database
from vms.manager.ddl import parse_create_table
from vms.manager.hbase_backend import HBaseBackend
from vms.model.arrow import from_column
from vms.model.changes import Changes, RowChanges
from vms.model.table import BaseTable
from vms.model.text import TextPool
from vms.store import hbase_commands as commands
from vms.store.base import Cell, Family, Mutation
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress
from vms.store.java import plugin_jar
from vms.stream.decode import DeadLetter, RowDecoder


def with_images(hbase: HBaseStore, name: str, versions: int) -> BaseTable:
    """A new table whose changes carry images."""
    table = replace(declared(name), images=1)
    hbase.create_table(name, {FAMILY: Family(versions=versions), OTHER: Family()}, [SPLIT], stream=True)
    columns = [table.marker, *(table.qualifier(c.name) for c in table.value_columns)]
    qualifiers = [column.partition(b":")[2] for column in columns]
    hbase.admin.run(commands.attach_images(name, f"file://{plugin_jar(print)}", FAMILY, qualifiers))
    return table


class Imaged:
    """The rows of a table by the sum of their images, and by a DeltaView that settles."""

    def __init__(self, table: BaseTable) -> None:
        self._table, self._pool, self._decoder = table, TextPool(), RowDecoder(table)
        columns = [c.name for c in table.value_columns]
        self.images, self.settling = RowImages(table, columns), DeltaView(table, columns, self._pool)
        self.rows: Counter = Counter()
        self.letters: list[DeadLetter] = []

    def take(self, stream: Stream) -> None:
        """Everything that was written until now, as one epoch."""
        found = []
        for batch in stream.until_now(self._table.name, self._table.family):
            assert batch.gap is None and batch.has_images
            rows, letters = batch.decode(self._decoder)
            self.letters += letters
            found.append(rows)
        changes = row_changes(self._table, self.images.columns, pa.concat_batches(found), self._pool)
        assert not len(self.images.unresolved(changes))
        self.rows.update(self._counted(self.images.step(changes)))
        self.rows = Counter({row: n for row, n in self.rows.items() if n})
        nothing = row_changes(self._table, self.images.columns, found[0].slice(0, 0), self._pool)
        self.settling.step(nothing, self._settled(changes))

    def _settled(self, changes: RowChanges) -> RowChanges | None:
        return settling(changes, self.settling.key_types) if len(changes) else None

    def held(self) -> Counter:
        return self._counted(self.settling.contents())

    def _counted(self, changes: Changes) -> Counter:
        types: Sequence = self.images.types
        columns = [from_column(t, c, self._pool).to_pylist() for t, c in zip(types, changes.columns)]
        found: Counter = Counter()
        for row, weight in zip(zip(*columns), changes.weights.tolist()):
            found[row] += weight
        return found


@pytest.mark.parametrize(("seed", "versions"), [(1, 1), (2, 3), (3, 1)])
def test_the_images_tell_what_a_scan_reads(
    up: DevCluster, hbase: HBaseStore, name: str, seed: int, versions: int
) -> None:
    table, rng = with_images(hbase, name, versions), Random(seed)
    changes = RandomRows(up, hbase, name, rng)
    with attached(up, hbase, [name]) as stream:
        imaged = Imaged(table)
        for step in range(50):
            for _ in range(rng.choice([1, 1, 1, 4])):
                changes.change()
            if rng.random() < 0.02:
                hbase.admin.run(commands.flush(name))
            imaged.take(stream)
            story = "\n".join(changes.story[-12:])
            expected = scanned(hbase, table)
            assert imaged.rows == expected, f"seed {seed}, step {step}:\n{story}"
            assert imaged.held() == expected
    assert imaged.letters and imaged.images.memory_bytes() == 0
    changes.close()


def test_writers_at_once(up: DevCluster, hbase: HBaseStore, name: str) -> None:
    """HBase lets puts of one row pass its lock together; their images follow each other all the same."""
    table = with_images(hbase, name, 3)
    writers = [RandomRows(up, hbase, name, Random(seed)) for seed in range(4)]
    with attached(up, hbase, [name]) as stream:
        imaged = Imaged(table)
        for _ in range(8):
            at_once([writer.many for writer in writers])
            imaged.take(stream)
            assert imaged.rows == imaged.held() == scanned(hbase, table)
    for writer in writers:
        writer.close()


def test_changes_without_images_are_told(up: DevCluster, hbase: HBaseStore, name: str) -> None:
    """So are puts with a time to live refused: they would vanish between two images."""
    table = with_images(hbase, name, 1)
    hbase.admin.run(commands.detach_images(name))
    with attached(up, hbase, [name]) as stream:
        hbase.mutate(name, [Mutation(b"a", (Cell(b"d:s", 5, value=b"x"),))])
        found = [batch.has_images for batch in stream.until_now(name, table.family)]
        assert not all(found)


def test_a_time_to_live_is_refused(up: DevCluster, hbase: HBaseStore, name: str) -> None:
    with_images(hbase, name, 1)
    rows = [{"row": "YQ==", "cells": [["put", "ZDpz", 5, "eA=="]], "ttl": 60_000}]
    with pytest.raises((StoreError, InvalidValue), match="cannot have a time to live: views follow this table"):
        hbase.admin.run(commands.Command({"do": "rows.mutate", "table": name, "rows": rows}, ""))


@pytest.fixture
def address(up: DevCluster, hbase: HBaseStore, name: str) -> Iterator[HBaseAddress]:
    with vms_of_its_own(up, hbase, name) as address:
        yield address


def test_views_over_a_table_with_images(
    up: DevCluster, hbase: HBaseStore, address: HBaseAddress, name: str, tmp_path: Path
) -> None:
    """Nothing is held of the table once it is settled; a new view needs its rows once more."""
    hbase.create_table(name, {FAMILY: Family(versions=3), OTHER: Family()}, [SPLIT], stream=True)
    changes = RandomRows(up, hbase, name, Random(5))
    with opened(address, tmp_path / "own") as db:
        db.create_table(declared(name))
        sums = "count(*) AS rows, sum(n) AS n, max(s) AS s"
        db.sql(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT b, {sums} FROM {name} GROUP BY b")
        for _ in range(20):
            changes.change()
        told = CliRunner().invoke(cli, ["--store", str(address), "hbase", "attach", "--before-images", name])
        assert told.stdout == f"attached; no table is new\nwith before-images: {name}\n", told.stderr
        db.settle_images()
        assert _held(db, name) == ("settled", 0)
        for _ in range(3):
            for _ in range(8):
                changes.change()
            check(db, f"{name}_v")
        assert _held(db, name) == ("settled", 0)
        db.sql(f"CREATE MATERIALIZED VIEW {name}_w AS SELECT k, n FROM {name} WHERE n > 0")
        check(db, f"{name}_w")
        while _held(db, name) != ("settled", 0):
            changes.change()
            check(db, f"{name}_w")  # the manager settles it by itself
        check(db, f"{name}_v")
        check(db, f"{name}_w")
        assert _held(db, name) == ("settled", 0)
    with opened(address, tmp_path / "own") as db:
        changes.change()
        check(db, f"{name}_v")
        check(db, f"{name}_w")
        assert _held(db, name) == ("settled", 0)
    changes.close()


def _held(db: Database, name: str) -> tuple:
    found = db.status()["tables"][name]
    return found["images"], found["memory_bytes"]


def test_managers_settle_a_table_by_themselves(up: DevCluster, name: str, tmp_path: Path) -> None:
    """Two processes; the client only says what it wants."""
    managers = Managers(up, f"/{name}", tmp_path)
    try:
        with vms.connect(f"{up.address}&root=/{name}") as db:
            assert isinstance(db.backend, HBaseBackend)
            managers.start("m1")
            managers.start("m2")
            managers.wait(lambda: len(ring(db)) == 2, "a ring of two")
            db.create_table(parse_create_table(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, price BIGINT)"))
            db.backend.attachments.attach([db.catalog.table(name)])
            db.sql(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT price, count(*) AS n FROM {name} GROUP BY price")
            db.sql(f"INSERT INTO {name} VALUES (1, 1), (2, 1), (3, 2)")
            db.backend.attachments.want_images(db.catalog.table(name), None)
            managers.wait(lambda: db.status()["tables"][name]["images"] == "settled", "settled")
            db.sql(f"UPDATE {name} SET price = 2 WHERE id = 1; DELETE FROM {name} WHERE id = 2")
            db.sql(f"INSERT INTO {name} VALUES (4, 5)")
            check(db, f"{name}_v")
            db.backend.attachments.detach()
    finally:
        managers.stop()
