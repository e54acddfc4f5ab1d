"""The Python API over the embedded store: writes and their tokens, reads, subscriptions, definitions, reopening."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

import vms
from vms.errors import AlreadyExists, StoreError, UserError, ViewBuilding, VmsError
from vms.model.catalog import ViewDefinition
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle

TOTALS = "SELECT shop, count(*) AS n, sum(price) AS total FROM sales GROUP BY shop"
JOINED = """SELECT city, count(*) AS n, max(price) AS dearest, sum(price) AS total
            FROM sales JOIN shops ON sales.shop = shops.name GROUP BY city"""


@pytest.fixture
def db(tmp_path: Path) -> Iterator[vms.Database]:
    with vms.connect(f"embedded:{tmp_path / 'db'}", epoch_interval=0.005) as db:
        db.sql("""CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2));
                  CREATE TABLE shops (name VARCHAR PRIMARY KEY, city VARCHAR NOT NULL)""")
        yield db


def sales(ids: list[int], shop: str | None = "x", price: int | None = 1) -> pa.Table:
    return pa.table({"id": ids, "shop": pa.array([shop] * len(ids), pa.string()), "price": [price] * len(ids)})


def rows(table: pa.Table | None) -> list[tuple]:
    assert table is not None
    return sorted((tuple(r.values()) for r in table.to_pylist()), key=str)


def check(db: vms.Database, view: str, sql: str) -> None:
    tables = {name: db.scan(name).select(_visible(db, name)) for name in db.catalog.tables}
    found = db.view(view).read("latest")
    assert_same_rows(found, DataFusionOracle().evaluate(sql, tables), f"view {view}")
    assert_same_rows(found, DuckOracle().evaluate(sql, tables), f"view {view}, DuckDB")


def _visible(db: vms.Database, table: str) -> list[str]:
    return [c.name for c in db.catalog.tables[table].visible_columns]


# --- writing -------------------------------------------------------------------------------------------------


def test_sql_returns_the_rows_of_the_last_select(db: vms.Database) -> None:
    assert db.sql("INSERT INTO sales VALUES (1, 'x', 2.50)") is None
    answer = db.sql("SELECT 1 AS a; SELECT id, price FROM sales; INSERT INTO sales VALUES (2, 'y', 1)")
    assert rows(answer) == [(1, Decimal("2.50"))]


def test_a_put_replaces_the_row_of_its_key_and_a_partial_one_its_columns(db: vms.Database) -> None:
    db.put("sales", sales([1, 2]))
    db.sql("INSERT INTO sales VALUES (1, 'y', 9)")
    assert rows(db.scan("sales")) == [(1, "y", Decimal(9)), (2, "x", Decimal(1))]
    db.put("sales", pa.table({"id": [1], "price": [5]}), whole=False)
    assert rows(db.scan("sales"))[0] == (1, "y", Decimal(5))
    db.put("sales", pa.table({"id": [1], "price": [6]}))
    assert rows(db.scan("sales"))[0] == (1, None, Decimal(6))
    db.put("sales", pa.table({"id": [3, 3, 3], "shop": ["a", "b", "c"]}))
    assert rows(db.scan("sales"))[2] == (3, "c", None), "of one key the last row of a batch wins"


def test_a_delete_takes_keys_and_does_not_mind_those_that_are_not_there(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    db.put("sales", sales([1, 2, 3]))
    db.delete("sales", pa.table({"id": [2, 99]}))
    assert rows(db.scan("sales")) == [(1, "x", Decimal(1)), (3, "x", Decimal(1))]
    check(db, "totals", TOTALS)
    db.put("sales", sales([2], "again"))
    check(db, "totals", TOTALS)


def test_no_rows_are_no_write(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    assert not db.put("sales", sales([])).positions
    assert not db.delete("sales", pa.table({"id": pa.array([], pa.int64())})).positions
    assert db.wait(db.session, timeout=0), "nothing was written"


def test_a_table_without_primary_key_keeps_duplicates(db: vms.Database) -> None:
    db.sql("CREATE TABLE log (what VARCHAR, n INTEGER); CREATE MATERIALIZED VIEW all_log AS SELECT what, n FROM log")
    db.sql("INSERT INTO log VALUES ('a', 1), ('a', 1), (NULL, NULL)")
    db.put("log", pa.table({"what": ["a"], "n": [1]}))
    expected = [("a", 1)] * 3 + [(None, None)]
    assert rows(db.sql("SELECT * FROM log")) == rows(db.view("all_log").read("latest")) == sorted(expected, key=str)
    assert rows(db.sql("DESCRIBE log")) == [("n", "INTEGER", True, False), ("what", "VARCHAR", True, False)]
    db.sql("UPDATE log SET n = 2 WHERE what IS NULL; DELETE FROM log WHERE what = 'a'")
    assert rows(db.view("all_log").read("critical")) == [(None, 2)]


# --- reading -------------------------------------------------------------------------------------------------


def test_a_read_that_shows_a_token_has_that_write(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    view = db.view("totals")
    assert view.schema.names == ["shop", "n", "total"] and view.count() == 0
    for i in range(20):
        token = db.put("sales", sales([i]))
        assert rows(view.read("critical", token)) == [("x", i + 1, Decimal(i + 1))]
    token = db.delete("sales", pa.table({"id": [0]}))
    assert rows(view.read("critical", token)) == [("x", 19, Decimal(19))]
    assert db.wait(token, timeout=0), "it is covered already"


def test_without_a_token_critical_means_the_writes_of_this_object(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    db.create_view("joined", JOINED)
    first = db.put("sales", sales([1]))
    second = db.put("shops", pa.table({"name": ["x"], "city": ["Rome"]}))
    assert db.session.positions == (first | second).positions
    assert rows(db.view("joined").read("critical")) == [("Rome", 1, Decimal(1), Decimal(1))]


def test_latest_has_what_anybody_wrote(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    writer = threading.Thread(target=lambda: [db.put("sales", sales([i])) for i in range(30)])
    writer.start()
    seen = 0
    while writer.is_alive():
        written = db.scan("sales").num_rows
        found = rows(db.view("totals").read("latest"))
        seen = found[0][1] if found else 0
        assert seen >= written
    writer.join()
    assert rows(db.view("totals").read("latest")) == [("x", 30, Decimal(30))] and seen <= 30


class _Hanging:
    """A watcher that does what none may do: it lets the manager wait."""

    def __init__(self, view: ViewDefinition) -> None:
        self.view, self.created = view.name, view.created
        self.reached, self.go_on = threading.Event(), threading.Event()

    def changed(self, epoch: int, rows: pa.Table) -> None:
        self.reached.set()
        self.go_on.wait()

    def end(self, failure: VmsError | None) -> None: ...


def test_a_read_gives_up_after_its_timeout_and_any_never_waits(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    hanging = _Hanging(db.view("totals").definition)
    db.runtime.watch(hanging)
    try:
        db.put("sales", sales([1]))
        assert hanging.reached.wait(30)
        token = db.put("sales", sales([2]))
        assert not db.wait(token, timeout=0.02)
        for level in ("critical", "latest"):
            with pytest.raises(ViewBuilding, match=r"view totals did not reach .* in 0\.02 s"):
                db.view("totals").read(level, timeout=0.02)
        assert rows(db.view("totals").read("any")) == [("x", 1, Decimal(1))]
    finally:
        hanging.go_on.set()
    assert rows(db.view("totals").read("critical", token)) == [("x", 2, Decimal(2))]


# --- watching ------------------------------------------------------------------------------------------------


def test_a_watch_has_every_epoch_from_its_call_on(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    db.wait(db.put("sales", sales([1], "before")))
    watch = db.view("totals").watch(timeout=30)
    state: dict[str | None, int] = {"before": 1}
    epochs = []
    db.wait(db.put("sales", sales([2, 3], "x")))
    db.wait(db.put("sales", sales([4], "y")))
    db.wait(db.delete("sales", pa.table({"id": [1]})))
    db.wait(db.put("sales", sales([2], None)))
    while state != {"x": 1, "y": 1, None: 1}:
        epoch, changed = next(watch)
        epochs.append(epoch)
        for row in changed.to_pylist():
            if row["_change"] == 1:
                state[row["shop"]] = row["n"]
            else:
                del state[row["shop"]]
    assert epochs == sorted(set(epochs)) and len(epochs) >= 4


def test_a_watch_ends_when_nothing_comes_the_view_is_dropped_or_somebody_closes(db: vms.Database) -> None:
    db.create_view("totals", TOTALS)
    assert list(db.view("totals").watch(timeout=0.01)) == []
    closed = db.view("totals").watch()
    closed.close()
    closed.close()
    assert list(closed) == []

    dropped = db.view("totals").watch()
    db.wait(db.put("sales", sales([1])))
    db.drop_view("totals")
    assert [changed.column("n").to_pylist() for _, changed in dropped] == [[1]]

    db.create_view("totals", TOTALS)
    left = db.view("totals").watch()
    db.close()
    assert list(left) == []


# --- definitions ---------------------------------------------------------------------------------------------


def test_a_view_over_filled_tables_is_exact_while_writes_go_on(db: vms.Database) -> None:
    ids = list(range(2000))
    db.put("sales", pa.table({"id": ids, "shop": [f"s{i % 7}" for i in ids], "price": [i % 100 for i in ids]}))
    db.put("shops", pa.table({"name": [f"s{i}" for i in range(7)], "city": ["Rome", "Oslo"] * 3 + ["Lima"]}))
    stop, failures = threading.Event(), []

    def write(first: int) -> None:
        """Inserts, moves and deletes rows of its own, again and again."""
        try:
            for turn in range(10_000):
                if stop.is_set():
                    return
                key = first + turn % 300
                db.put("sales", sales([key, key + 1], f"s{turn % 9}", turn % 50))
                db.put("shops", pa.table({"name": [f"s{turn % 9}"], "city": [f"c{turn % 4}"]}))
                db.delete("sales", pa.table({"id": [key + 1]}))
        except BaseException as error:
            failures.append(error)

    writers = [threading.Thread(target=write, args=(n,)) for n in (0, 1500)]
    for writer in writers:
        writer.start()
    try:
        for turn in range(3):
            db.create_view("totals", TOTALS)
            db.create_view("joined", JOINED)
            db.view("joined").read("critical")
            if turn < 2:
                db.drop_view("totals")
                db.drop_view("joined")
    finally:
        stop.set()
        for writer in writers:
            writer.join()
    assert failures == []
    check(db, "totals", TOTALS)
    check(db, "joined", JOINED)


def test_a_drop_frees_the_state_and_the_table(db: vms.Database) -> None:
    def state() -> tuple[list[str], set[str], set[str]]:
        store = next(iter(db.manager.members)).member.store
        return db.store.tables(), set(store.operations), set(store.delta_views)

    db.put("sales", sales(list(range(1000))))
    before, memory = state(), db.status()["memory_bytes"]
    db.create_view("totals", TOTALS)
    with_totals = state()
    db.create_view("joined", JOINED)
    assert db.status()["memory_bytes"] > memory and state()[2] == {"sales", "shops"}
    db.drop_view("joined")
    db.wait(db.put("sales", sales([1])))
    assert state() == with_totals
    db.drop_view("totals")
    db.wait(db.put("sales", sales([1])))
    assert state() == before and db.status()["views"] == {}
    with pytest.raises(UserError, match="there is no view named totals"):
        db.view("totals")
    db.drop_table("sales")
    assert "sales" not in db.store.tables() and db.scan("shops").num_rows == 0


def test_a_view_made_again_under_its_name_is_the_new_one(db: vms.Database) -> None:
    db.put("sales", sales([1, 2]))
    db.create_view("v", "SELECT shop, count(*) AS n FROM sales GROUP BY shop")
    old = db.view("v")
    assert rows(old.read("latest")) == [("x", 2)]
    db.drop_view("v")
    db.create_view("v", "SELECT id FROM sales WHERE id > 1")
    assert rows(db.view("v").read("latest")) == [(2,)]
    with pytest.raises(AlreadyExists, match="there is a view named v already"):
        db.create_view("v", TOTALS)
    with pytest.raises(UserError, match="table sales is read by view v; drop the view first"):
        db.drop_table("sales")
    with pytest.raises(UserError, match="view v was dropped and made again"):
        old.read()
    db.drop_view("v")
    with pytest.raises(UserError, match="there is no view named v"):
        old.read()


# --- opening again -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("log", ["local", "off"])
def test_everything_is_there_after_closing_and_opening_again(tmp_path: Path, log: str) -> None:
    address = f"embedded:{tmp_path / 'a folder'}"
    with vms.connect(address, log=log) as db:
        db.sql("""CREATE TABLE sales (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2));
                  CREATE TABLE log (what VARCHAR)""")
        db.create_view("totals", TOTALS)
    for turn in range(3):
        with vms.connect(address, log=log, epoch_interval=0.005) as db:
            assert rows(db.view("totals").read("latest")) == ([("x", turn, Decimal(turn))] if turn else [])
            assert db.sql("SELECT * FROM log").num_rows == 2 * turn  # type: ignore[union-attr]
            db.sql("INSERT INTO log VALUES ('a'), ('a')")
            db.put("sales", sales([turn]))
    with pytest.raises(StoreError, match="closed"):
        db.put("sales", sales([9]))
    db.close()
