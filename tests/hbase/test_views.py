"""Views over HBase, end to end: a View Manager in this process, clients of all kinds, DuckDB to compare with."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pyarrow as pa
import pytest
from databases import check, opened, vms_of_its_own

from vms.devcluster.cluster import DevCluster
from vms.errors import AlreadyExists, StoreUnavailable, UserError
from vms.manager.database import Database
from vms.manager.hbase_attachment import Attachments
from vms.ring.session import Session
from vms.store import hbase_commands as commands
from vms.store.base import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, Cell, Family, Mutation
from vms.store.hbase import HBaseStore
from vms.store.hbase_address import HBaseAddress


@pytest.fixture
def address(up: DevCluster, hbase: HBaseStore, name: str) -> Iterator[HBaseAddress]:
    with vms_of_its_own(up, hbase, name) as address:
        yield address


@pytest.fixture
def db(address: HBaseAddress, tmp_path: Path) -> Iterator[Database]:
    with opened(address, tmp_path / "vms") as db:
        yield db


def _shops(db: Database, name: str) -> str:
    """A table and a view over it; the view's name."""
    db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, shop VARCHAR, price DECIMAL(9, 2))")
    sql = f"SELECT shop, count(*) AS n, count(price) AS priced, sum(price) AS total FROM {name} GROUP BY shop"
    db.sql(f"CREATE MATERIALIZED VIEW {name}_by_shop AS {sql}")
    return f"{name}_by_shop"


def test_the_view_follows_what_sql_writes(db: Database, name: str) -> None:
    view = _shops(db, name)
    db.sql(f"INSERT INTO {name} VALUES (1, 'a', 1.5), (2, 'b', 2.5), (3, NULL, NULL)")
    check(db, view, "critical")
    db.sql(f"UPDATE {name} SET price = NULL WHERE id = 1; UPDATE {name} SET shop = 'a', price = 7 WHERE id = 3")
    check(db, view, "critical")
    db.sql(f"INSERT INTO {name} VALUES (2, 'c', NULL); DELETE FROM {name} WHERE id = 3")
    check(db, view, "critical")
    assert sorted(r["shop"] for r in db.view(view).read().to_pylist()) == ["a", "c"]
    db.sql(f"INSERT INTO {name} VALUES (3, 'b', 4)")
    check(db, view)
    db.sql(f"DROP VIEW {view}; DROP TABLE {name}")
    assert not [table for table in db.store.tables() if table.startswith(name)][1:]  # the marks stay


def test_a_table_that_was_there_is_taken_as_it_is(
    db: Database, hbase: HBaseStore, address: HBaseAddress, name: str, tmp_path: Path
) -> None:
    hbase.create_table(name, {"cf": Family(versions=3), "other": Family()}, [b"k5"])
    rows = [Mutation(b"k%d" % i, (Cell(b"cf:v", 100 + i, value=b"%d" % i),)) for i in range(9)]
    hbase.mutate(name, [*rows, Mutation(b"only-other", (Cell(b"other:x", 1, value=b"1"),))])
    (result,) = db_sql(
        db, f"CREATE TABLE {name} (k VARCHAR PRIMARY KEY, v BIGINT, w BIGINT) WITH (family='cf', encoding='text')"
    )
    assert result == f"table {name} created over HBase's table of that name, as it is"
    db.sql(f"CREATE MATERIALIZED VIEW {name}_v AS SELECT v, count(*) AS n, max(w) AS w FROM {name} GROUP BY v")
    assert db.view(f"{name}_v").count() == 9
    check(db, f"{name}_v", "any")

    def write(*cells: Cell, row: bytes = b"k3") -> None:
        hbase.mutate(name, [Mutation(row, cells)])
        check(db, f"{name}_v")

    write(Cell(b"cf:w", 200, value=b"5"))
    write(Cell(b"cf:v", 50, value=b"999"))  # older than what is there
    write(Cell(b"cf:v", 103, DELETE_VERSION))  # and it comes to light
    write(Cell(b"cf:v", 300, value=b"7"), row=b"new")
    write(Cell(b"cf:w", 250, DELETE_COLUMN))
    write(Cell(b"cf:", 400, DELETE_ROW), row=b"k4")
    write(Cell(b"cf:v", 350, value=b"8"), row=b"k4")  # hidden by the delete
    write(Cell(b"other:x", 1, value=b"1"), row=b"k7")
    hbase.admin.run(commands.mutate(name, [Mutation(b"k8", (Cell(b"cf:v", 500, value=b"1"),))]))  # the Java client
    check(db, f"{name}_v")
    hbase.split(name, b"k7")
    write(Cell(b"cf:v", 600, value=b"1"), row=b"k8")
    db.sql(f"DROP VIEW {name}_v; DROP TABLE {name}")
    assert name in hbase.tables() and hbase.admin.run(commands.describe_table(name))["cf"]["REPLICATION_SCOPE"] == "0"


def db_sql(db: Database, text: str) -> list[str]:
    from vms.manager.statements import run

    return [statement.message for statement in run(db, text)]


def test_a_view_over_rows_that_change_meanwhile_is_right_from_its_first_epoch(
    db: Database, hbase: HBaseStore, name: str
) -> None:
    """Rows are only added, so a view never counts less than were there when it was made, or another has counted."""
    db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, g BIGINT)")
    ids = pa.array(range(2_000), pa.int64())
    db.put(name, pa.table({"id": ids, "g": pa.array([i % 7 for i in range(2_000)], pa.int64())}))
    stop, written = threading.Event(), [2_000]

    def write() -> None:
        while not stop.is_set():
            first = written[0]
            more = pa.array(range(first, first + 50), pa.int64())
            db.put(name, pa.table({"id": more, "g": more}))
            db.delete(name, pa.table({"id": more}))
            db.put(name, pa.table({"id": more, "g": pa.array([first % 5] * 50, pa.int64())}))
            written[0] = first + 50

    writer = threading.Thread(target=write)
    writer.start()
    try:
        least = written[0]
        for i in range(3):
            db.sql(f"CREATE MATERIALIZED VIEW {name}_{i} AS SELECT count(*) AS n, min(id) AS low FROM {name}")
            (row,) = db.view(f"{name}_{i}").read().to_pylist()
            assert row["n"] >= least and row["low"] == 0
            least = row["n"]
    finally:
        stop.set()
        writer.join()
    for i in range(3):
        check(db, f"{name}_{i}")


def test_tokens_do_not_wait_for_the_stream(db: Database, hbase: HBaseStore, address: HBaseAddress, name: str) -> None:
    """A critical read holds its writes while HBase ships nothing; what it ships later changes nothing."""
    view = _shops(db, name)
    peer = address.root[1:]
    hbase.admin.run(commands.enable_peer(peer, on=False))
    try:
        token = db.put(name, pa.table({"id": [1, 2], "shop": ["a", "b"]}))
        assert db.view(view).read("critical", token).num_rows == 2
        db.delete(name, pa.table({"id": [2]}))
        assert db.view(view).read("critical").num_rows == 1
        with pytest.raises(StoreUnavailable, match="did not deliver everything"):
            db.backend.latest_of.wait(2)  # type: ignore[attr-defined]
        check(db, view, "any")
    finally:
        hbase.admin.run(commands.enable_peer(peer, on=True))
    check(db, view)
    many = pa.table({"id": pa.array(range(5_000), pa.int64()), "shop": ["c"] * 5_000})
    token = db.put(name, many)
    assert token.everything
    (row,) = db.view(view).read("critical", token).to_pylist()
    assert row["n"] == 5_000


def test_latest_holds_what_others_wrote(db: Database, hbase: HBaseStore, address: HBaseAddress, name: str) -> None:
    view = _shops(db, name)
    encoder = db.backend.encoder(db.catalog.table(name))
    servers = hbase.admin.run(commands.servers())
    for i in range(6):
        rows = pa.table({"id": pa.array([i], pa.int64()), "shop": ["x"]})
        hbase.mutate(name, encoder.puts(rows, 1_000 + i, whole=False))
        (row,) = db.view(view).read("latest").to_pylist()
        assert row["n"] == i + 1
        if i % 2:  # the region and its log go elsewhere, with the mark of the old server behind
            region = hbase.regions(name)[0].id
            hbase.admin.run(commands.move(region, servers[i // 2 % 2]))


def test_a_restart_goes_on_where_it_was(address: HBaseAddress, hbase: HBaseStore, name: str, tmp_path: Path) -> None:
    with opened(address, tmp_path / "vms") as db:
        view = _shops(db, name)
        db.sql(f"INSERT INTO {name} VALUES (1, 'a', 1.5), (2, 'b', 2.5)")
        check(db, view, "critical")
        encoder = db.backend.encoder(db.catalog.table(name))
    rows = pa.table({"id": pa.array([3], pa.int64()), "shop": ["late"]})
    hbase.mutate(name, encoder.puts(rows, 1 << 41, whole=False))
    for log in ("local", "off", "local"):  # without the log the views are made anew
        with opened(address, tmp_path / "vms", log=log) as db:
            check(db, view)
            assert db.view(view).count() == 3


def test_attach_and_detach(up: DevCluster, hbase: HBaseStore, name: str, tmp_path: Path) -> None:
    address = up.address._replace(root=f"/{name}")
    hbase.create_table(name, {"d": Family()})
    hbase.create_table(f"{name}_ttl", {"d": Family(ttl_ms=60_000)})
    with opened(address, tmp_path / "vms") as db:
        db.sql(f"CREATE TABLE {name} (id BIGINT PRIMARY KEY, v BIGINT)")
        with pytest.raises(UserError, match="has a TTL of 60 s"):
            db.sql(f"CREATE TABLE {name}_ttl (id BIGINT PRIMARY KEY, v BIGINT)")
        with pytest.raises(UserError, match="has no family x in HBase"):
            db.sql(f"CREATE TABLE {name}_ttl (id BIGINT PRIMARY KEY, v BIGINT) WITH (family = 'x')")
        with pytest.raises(UserError, match="run vms hbase attach"):
            db.sql(f"CREATE MATERIALIZED VIEW {name}_n AS SELECT count(*) AS n FROM {name}")
        attachments = db.backend.attachments  # type: ignore[attr-defined]
        assert attachments.attach(list(db.catalog.tables.values())) == [name]
        assert attachments.attach(list(db.catalog.tables.values())) == []
        hbase.create_table(f"{name}_n.2.1", {"v": Family()})
        with pytest.raises(AlreadyExists, match="did not make"):
            db.sql(f"CREATE MATERIALIZED VIEW {name}_n AS SELECT count(*) AS n FROM {name}")
        hbase.drop_table(f"{name}_n.2.1")
        db.sql(f"CREATE MATERIALIZED VIEW {name}_n AS SELECT count(*) AS n FROM {name}")
        db.sql(f"INSERT INTO {name} VALUES (1, 1)")
        check(db, f"{name}_n")
        db.sql(f"DROP VIEW {name}_n")
    with closing(Session(address.zookeeper_hosts, address.root)) as session:
        Attachments(session, hbase, address).detach()
        assert sorted(session.client.get_children("/")) == sorted(
            set(session.client.get_children("/")) - {"peer", "attachment"}
        )
        session.client.delete("/", recursive=True)
    assert name not in [peer["peer"] for peer in hbase.admin.run(commands.peers())]
    assert hbase.admin.run(commands.describe_table(name))["d"]["REPLICATION_SCOPE"] == "0"
    assert f"{name}.marks" not in hbase.tables()
    for table in (name, f"{name}_ttl"):
        hbase.drop_table(table)
