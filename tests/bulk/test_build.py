"""Views built by Spark over tables that hold rows already, while clients go on writing, against both oracles."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import vms
from vms.bulk.build import Build, Sizes
from vms.errors import AlreadyExists, UnsupportedSql, UserError, ViewBuilding, ViewHasErrors
from vms.model.changes import PUT
from vms.model.rowkey import encode_keys
from vms.model.types import BIGINT
from vms.store.base import Cell, Mutation
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle

SHOPS = 40
SIZES = Sizes(parts=3, range_rows=1_100, wave=1)
VIEWS = {
    "totals": "SELECT shop, count(*) AS n, sum(price) AS total, min(price) AS least FROM sales GROUP BY shop",
    "cities": """SELECT city, count(*) AS n, max(price) AS dearest, sum(price) AS total
                 FROM sales JOIN shops ON sales.shop = shops.name GROUP BY city""",
    "kept": "SELECT id, price * 2 AS double FROM sales WHERE price > 30",
    "everything": "SELECT count(*) AS n, sum(price) AS total FROM sales",
    "shown": "SELECT shop, price FROM sales",
    "unsold": "SELECT name, city FROM shops WHERE NOT EXISTS (SELECT 1 FROM sales WHERE sales.shop = shops.name)",
    "dearest": "SELECT id, shop, price FROM sales ORDER BY price DESC, id LIMIT 7",
    "both": "SELECT shop AS name FROM sales UNION SELECT name FROM shops",
}


@pytest.fixture
def db(tmp_path: Path) -> Iterator[vms.Database]:
    with vms.connect(f"embedded:{tmp_path / 'db'}", epoch_interval=0.005) as db:
        fill(db)
        yield db


def fill(db: vms.Database) -> None:
    db.sql("""CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2));
              CREATE TABLE shops (name VARCHAR PRIMARY KEY, city VARCHAR)""")
    put_sales(db, range(3_000))
    names = [f"s{i}" for i in range(SHOPS)]
    db.put("shops", pa.table({"name": names, "city": [None if i % 9 == 0 else f"c{i % 5}" for i in range(SHOPS)]}))


def put_sales(db: vms.Database, ids: range, step: int = 1) -> None:
    shops = [None if i % 11 == 0 else f"s{(i * step) % (SHOPS - 5)}" for i in ids]
    db.put("sales", pa.table({"id": list(ids), "shop": shops, "price": [f"{(i * step) % 97}.50" for i in ids]}))


def change(db: vms.Database, round_: int) -> None:
    """Inserts, overwrites, partial puts and deletes; some rows more than once over the rounds."""
    first = 10_000 + 200 * round_
    put_sales(db, range(first, first + 100))
    put_sales(db, range(round_, 3_000, 17), step=round_ + 2)
    db.put(
        "sales",
        pa.table({"id": list(range(round_, 3_000, 19)), "price": ["1.25"] * len(range(round_, 3_000, 19))}),
        whole=False,
    )
    db.delete("sales", pa.table({"id": list(range(round_, 3_000, 23))}))
    db.delete("shops", pa.table({"name": [f"s{round_}"]}))
    db.put("shops", pa.table({"name": [f"s{SHOPS + round_}"], "city": ["new"]}))


def check(db: vms.Database, view: str, sql: str | None = None) -> None:
    sql = sql or VIEWS[view]
    tables = {n: db.scan(n).select([c.name for c in t.visible_columns]) for n, t in db.catalog.tables.items()}
    found = db.view(view).read("latest")
    assert_same_rows(found, DataFusionOracle().evaluate(sql, tables), view)
    assert_same_rows(found, DuckOracle().evaluate(sql, tables), f"{view}, DuckDB")


def changing(db: vms.Database) -> Callable[[str, float, int], None]:
    """Writes at every point at which the build tells its progress, from before the first range to the hand-over."""
    rounds = iter(range(100))
    return lambda _phase, _share, _rows: change(db, next(rounds))


@pytest.mark.parametrize("view", VIEWS)
def test_a_view_built_while_its_tables_change_is_exact_and_goes_on(
    spark: SparkSession, db: vms.Database, view: str
) -> None:
    build = Build.register(db, view, VIEWS[view], SIZES)
    change(db, 50)
    rows = build.run(spark, changing(db))
    assert rows > 2_500
    check(db, view)
    change(db, 60)
    check(db, view)


def test_what_other_views_hold_already_is_shared_and_stays_right(spark: SparkSession, db: vms.Database) -> None:
    db.create_view("cities", VIEWS["cities"])
    same_join = VIEWS["cities"].replace("max(price) AS dearest", "min(sales.id) AS first")
    build = Build.register(db, "again", same_join, SIZES)
    build.run(spark, changing(db))
    db.create_view("totals", VIEWS["totals"])
    db.drop_view("cities")
    change(db, 70)
    check(db, "totals")
    check(db, "again", same_join)


def test_a_build_beside_a_new_view_that_reads_more_of_the_same_table(spark: SparkSession, db: vms.Database) -> None:
    """The other view's scan replaces what is known of the table in the middle of the build."""
    build = Build.register(db, "kept", VIEWS["kept"], SIZES)

    def create(phase: str, _share: float, _rows: int) -> None:
        change(db, 3)
        if phase == "writing":
            db.create_view("totals", VIEWS["totals"])
            db.create_view("cities", VIEWS["cities"])

    build.run(spark, create)
    change(db, 4)
    for view in ("kept", "totals", "cities"):
        check(db, view)


def test_rows_that_cannot_be_read_or_computed_are_told_and_heal(spark: SparkSession, db: vms.Database) -> None:
    db.put("sales", pa.table({"id": [7], "price": ["0.00"]}), whole=False)
    bad = Mutation(encode_keys([BIGINT], [pa.array([8])])[0], (Cell(b"d:price", db.clock.stamps(1), PUT, b"?"),))
    db.store.mutate("sales", [bad])
    sql = "SELECT id, 1 / price AS share FROM sales WHERE id < 50"
    Build.register(db, "shares", sql, SIZES).run(spark)
    assert db.dead_letters().num_rows == 1
    with pytest.raises(ViewHasErrors):
        db.view("shares").read("latest")
    put_sales(db, range(7, 9))
    db.put("sales", pa.table({"id": list(range(50)), "price": ["2.00"] * 50}), whole=False)
    check(db, "shares", sql)


def test_a_view_that_is_being_built_is_not_read_and_its_name_is_taken(spark: SparkSession, db: vms.Database) -> None:
    build = Build.register(db, "totals", VIEWS["totals"], SIZES)
    with pytest.raises(ViewBuilding, match="being built"):
        db.view("totals")
    with pytest.raises(AlreadyExists, match="being built"):
        db.create_view("totals", VIEWS["totals"])
    with pytest.raises(UserError, match="read by view totals"):
        db.drop_table("sales")
    assert db.status()["building"] == ["totals"]
    build.run(spark)
    assert db.status()["building"] == []
    check(db, "totals")
    assert not list((Path(db.store.path).parent / "bulk").iterdir()), "nothing is left of the job"


def test_a_build_that_was_given_up_leaves_nothing(spark: SparkSession, db: vms.Database) -> None:
    build = Build.register(db, "totals", VIEWS["totals"], SIZES)
    with pytest.raises(_Cut):
        build.run(spark, cut_at("writing"))
    db.drop_view("totals")
    change(db, 1)
    db.wait(db.latest())
    assert not any(part.startswith("queue:") for part in db.runtime.memory), "nothing waits for it any more"
    Build.register(db, "totals", VIEWS["totals"], SIZES).run(spark)
    assert len(list((Path(db.store.path).parent / "bulk").iterdir())) == 0
    check(db, "totals")


def test_sql_that_cannot_be_a_view_changes_nothing(db: vms.Database) -> None:
    before = db.catalog
    with pytest.raises(UnsupportedSql):
        Build.register(db, "random", "SELECT id, random() AS r FROM sales", SIZES)
    with pytest.raises(UserError, match="no view totals is being built"):
        Build.resume(db, "totals")
    assert db.catalog == before


class _Cut(Exception):
    """The job ends here."""


def cut_at(phase: str, share: float = 0.0) -> Callable[[str, float, int], None]:
    def told(at: str, how_far: float, _rows: int) -> None:
        if at == phase and how_far >= share:
            raise _Cut

    return told


@pytest.mark.parametrize("phase", ["reading", "writing", "handing over"])
def test_a_build_that_was_cut_off_goes_on_after_a_restart(spark: SparkSession, tmp_path: Path, phase: str) -> None:
    """What was read is not read again; what changed meanwhile waits in the manager's log."""
    address, read = f"embedded:{tmp_path / 'db'}", []
    with vms.connect(address) as db:
        fill(db)
        build = Build.register(db, "cities", VIEWS["cities"], SIZES)
        change(db, 1)
        with pytest.raises(_Cut):
            build.run(spark, cut_at(phase, 0.5 if phase == "reading" else 0.0), lambda: read.append(1))
        change(db, 2)
    assert read
    with vms.connect(address) as db:
        change(db, 3)
        Build.resume(db, "cities").run(spark, changing(db), lambda: read.append(1))
        check(db, "cities")
    assert len(read) == 4, "3 ranges of sales and 1 of shops, each read once"
    with vms.connect(address) as db:
        check(db, "cities")
        assert db.runtime.rebuilding is None and not db.runtime.warnings


def test_without_its_log_the_manager_cannot_know_what_waited_and_the_build_begins_anew(
    spark: SparkSession, tmp_path: Path
) -> None:
    address = f"embedded:{tmp_path / 'db'}"
    with vms.connect(address) as db:
        fill(db)
        with pytest.raises(_Cut):
            Build.register(db, "cities", VIEWS["cities"], SIZES).run(spark, cut_at("handing over"))
        change(db, 2)
        db.wait(db.latest())
    shutil.rmtree(tmp_path / "db" / "log")
    with vms.connect(address) as db:
        db.wait(db.latest())
        Build.resume(db, "cities").run(spark, changing(db))
        check(db, "cities")
