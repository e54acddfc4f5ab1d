"""Audits: Spark SQL against the view tables, right ones and such that were damaged on purpose."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

import vms
from vms.bulk.audit import audit
from vms.cli.main import cli
from vms.errors import UserError, ViewHasErrors
from vms.model.changes import DELETE_ROW, PUT
from vms.store.base import Cell, Mutation

VIEWS = {
    "totals": """SELECT shop, count(*) AS n, sum(price) AS total, avg(price) AS mean, sum(weight) AS w
                 FROM sales WHERE sold >= DATE '2023-12-11' + INTERVAL '1 month' GROUP BY shop""",
    "shown": "SELECT shop, price FROM sales",
    "big": "SELECT shop, n FROM totals WHERE n > 20",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[vms.Database]:
    with vms.connect(f"embedded:{tmp_path / 'db'}", epoch_interval=0.005) as db:
        db.sql(
            "CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2), weight DOUBLE, sold DATE)"
        )
        for view, sql in VIEWS.items():
            db.create_view(view, sql)
        put(db, range(400))
        yield db


def put(db: vms.Database, ids: range) -> None:
    shops = [None if i % 13 == 0 else f"s{i % 9}" for i in ids]
    prices, days = [f"{i % 31}.25" for i in ids], [f"2024-0{1 + i % 4}-11" for i in ids]
    weights = [float("nan") if i % 101 == 0 else (i % 7) / 3 for i in ids]
    db.put("sales", pa.table({"id": list(ids), "shop": shops, "price": prices, "weight": weights, "sold": days}))


def damage(db: vms.Database, view: str, cells: dict[str, list[Cell]]) -> None:
    """Write cells into rows of the view's table, as some other program might: by the shop that is the row's key."""
    definition, point = db.catalog.view(view), db.runtime.readable.point
    rows = {
        row: key for row, _ in db.store.scan(definition.table(point.generation)) for key in cells if key.encode() in row
    }
    db.store.mutate(definition.table(point.generation), [Mutation(row, tuple(cells[key])) for row, key in rows.items()])


def test_views_are_right_while_clients_write(spark: SparkSession, db: vms.Database) -> None:
    done = threading.Event()

    def write() -> None:
        for first in range(1_000, 3_000, 5):
            put(db, range(first, first + 5))
            db.delete("sales", pa.table({"id": [first % 400]}))
            if done.is_set():
                return

    writer = threading.Thread(target=write)
    writer.start()
    try:
        for view in VIEWS:
            found = audit(db, view, spark, range_rows=1_000)
            assert found.differences == () and found.rows, view
            assert db.catalog.view(view).verified == found.epoch
    finally:
        done.set()
        writer.join()
    assert not list((Path(db.store.path).parent / "audit").iterdir()), "the copies are gone"


def test_what_was_damaged_is_found_row_by_row_and_repaired(spark: SparkSession, db: vms.Database) -> None:
    db.wait(db.latest())
    epoch = db.runtime.readable.point.epoch
    right = {r["shop"]: r for r in db.view("totals").read().to_pylist()}
    eight = (8).to_bytes(8, "big")
    damage(
        db,
        "totals",
        {
            "s1": [Cell(b"v:n", epoch, PUT, bytes([eight[0] ^ 0x80]) + eight[1:])],
            "s2": [Cell(b"v:", epoch, DELETE_ROW)],
        },
    )
    found = audit(db, "totals", spark)
    told = [(d.key["shop"], d.expected and d.expected["n"], d.found and d.found["n"]) for d in found.differences]
    assert told == [("s1", right["s1"]["n"], 8), ("s2", right["s2"]["n"], None)]
    assert db.catalog.view("totals").verified == 0
    db.rebuild_view("totals")
    assert audit(db, "totals", spark).differences == ()


def test_a_row_that_should_not_be_there_is_found(spark: SparkSession, db: vms.Database) -> None:
    """The manager's rows go on above it: only the audit notices."""
    db.wait(db.latest())
    definition, point = db.catalog.view("shown"), db.runtime.readable.point
    table = definition.table(point.generation)
    row, cells = next(iter(db.store.scan(table)))
    extra = tuple(Cell(c, point.epoch, PUT, v.value) for c, v in cells.items())
    db.store.mutate(table, [Mutation(row[:-1] + bytes([row[-1] ^ 1]), extra)])
    (difference,) = audit(db, "shown", spark).differences
    assert difference.expected is None and difference.found is not None
    assert isinstance(difference.found["price"], Decimal)


def test_views_that_cannot_be_audited_say_why(spark: SparkSession, db: vms.Database) -> None:
    db.create_view("shares", "SELECT id, 1 / price AS share FROM sales")
    db.sql("UPDATE sales SET price = 0 WHERE id = 3")
    db.wait(db.latest())
    with pytest.raises(ViewHasErrors, match="rows that fail: divide"):
        audit(db, "shares", spark)
    with pytest.raises(UserError, match="no view named nothing"):
        audit(db, "nothing", spark)


def test_the_command_lists_what_differs_and_repairs(spark: SparkSession, tmp_path: Path) -> None:
    address = f"embedded:{tmp_path / 'shop'}"

    def run(*arguments: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, ["--store", address, *arguments])
        assert result.exit_code == code, result.output
        return result.stdout

    with vms.connect(address) as db:
        db.sql("CREATE TABLE t (k VARCHAR PRIMARY KEY, n INTEGER); INSERT INTO t VALUES ('s1', 1), ('s2', 2)")
        db.create_view("v", "SELECT k, n FROM t")
        db.wait(db.latest())
    assert "is right: 2 rows" in run("audit", "v")
    with vms.connect(address) as db:
        damage(db, "v", {"s2": [Cell(b"v:", db.runtime.readable.point.epoch, DELETE_ROW)]})
    told = json.loads(run("audit", "v", "--json", code=1))
    assert told["differences"] == [{"key": {"k": "s2"}, "expected": {"k": "s2", "n": 2}, "found": None}]
    assert "k=s2: expected k=s2, n=2, found no row" in run("audit", "v", "--repair")
    assert "is right: 2 rows" in run("audit", "v")
