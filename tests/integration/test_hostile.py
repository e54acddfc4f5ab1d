"""Input that is wrong, damaged or out of range: it is refused or set aside with a reason, and nothing else suffers."""

from __future__ import annotations

import datetime
import json
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

import vms
from vms.cli.main import cli
from vms.errors import InvalidValue, StoreError, StoreUnavailable, UserError, ViewHasErrors, VmsError
from vms.model.rowkey import encode_keys
from vms.model.types import BIGINT
from vms.store.base import Cell, Mutation
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle

TABLE = """CREATE TABLE t (k BIGINT PRIMARY KEY, n INTEGER, p DECIMAL(5, 2), s VARCHAR NOT NULL, d DATE,
                           at TIMESTAMP, f DOUBLE, b BOOLEAN)"""
VIEW = "SELECT s, count(*) AS c, sum(n) AS n, min(d) AS d FROM t GROUP BY s"
ROWS = pa.table({"k": [1, 2, 3], "s": ["a", "b", "a"], "n": [10, 20, 30], "d": ["2024-02-29", None, "0001-01-01"]})


@pytest.fixture
def db(tmp_path: Path) -> Iterator[vms.Database]:
    with vms.connect(f"embedded:{tmp_path / 'db'}", epoch_interval=0.005) as db:
        db.sql(TABLE)
        db.create_view("v", VIEW)
        db.put("t", ROWS)
        yield db


def check(db: vms.Database, *, without: tuple[int, ...] = ()) -> None:
    """The view holds what its SQL says of the rows that can be read, none of which is lost."""
    table = db.scan("t")
    assert table.column("k").to_pylist() == [k for k in (1, 2, 3) if k not in without]
    found = db.view("v").read("latest")
    assert_same_rows(found, DataFusionOracle().evaluate(VIEW, {"t": table}))
    assert_same_rows(found, DuckOracle().evaluate(VIEW, {"t": table}))


# --- statements ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("('x', 1, 1, 'a')", "column k: 'x' does not fit BIGINT"),
        ("(9223372036854775808, 1, 1, 'a')", "column k: 9223372036854775808 does not fit BIGINT"),
        ("(9, 2147483648, 1, 'a')", "column n: 2147483648 does not fit INTEGER"),
        ("(9, 1.5, 1, 'a')", "column n: 1.5 does not fit INTEGER"),
        ("(9, 'NaN', 1, 'a')", "column n: 'NaN' does not fit INTEGER"),
        ("(9, 1, 1000, 'a')", r"column p: 1000 does not fit DECIMAL\(5, 2\)"),
        ("(9, 1, 999.995, 'a')", r"column p: 1000\.000 does not fit DECIMAL\(5, 2\)"),
        ("(9, 1, true, 'a')", r"column p: .* cannot be stored as DECIMAL\(5, 2\)"),
        ("(9, 1, 1, NULL)", "column s: it cannot be NULL"),
        ("(NULL, 1, 1, 'a')", "column k: it cannot be NULL"),
        ("(9, 1, 1)", "row 2 of VALUES has 3 values, but 4 columns are named"),
        ("(9, 1 / 0, 1, 'a')", "Divide by zero"),
        ("(9, CAST('x' AS INT), 1, 'a')", "'x'"),
        ("(9, 1, 1, nix)", "nix"),
    ],
)
def test_an_insert_that_does_not_fit_writes_none_of_its_rows(db: vms.Database, values: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        db.sql(f"INSERT INTO t (k, n, p, s) VALUES (7, 1, 1, 'good'), {values}")
    check(db)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("UPDATE t SET n = n * 2147483647", "column n: .* does not fit INTEGER"),
        ("UPDATE t SET s = NULL WHERE k = 1", "column s: it cannot be NULL"),
        ("UPDATE t SET s = (SELECT s FROM t)", "more than one row|must return|subquery"),
        ("UPDATE t SET d = 'yesterday' WHERE k = 2", "column d: 'yesterday' does not fit DATE"),
        ("DELETE FROM t WHERE CAST(s AS INT) = 1", "cannot be computed"),
        ("DELETE FROM t WHERE k", "."),
        ("INSERT INTO v VALUES ('a', 1, 1, NULL)", "v is a view and follows its tables"),
        ("DELETE FROM v", "v is a view and follows its tables"),
        ("DROP TABLE v", "v is a view, not a table"),
        ("DROP MATERIALIZED VIEW t", "t is a table, not a view"),
        ("DROP TABLE t", "table t is read by view v"),
        ("CREATE TABLE v (a INT)", "there is a view named v already"),
        ("CREATE MATERIALIZED VIEW w AS SELECT x FROM t", "there is no column named x"),
        ("CREATE MATERIALIZED VIEW w AS SELECT k FROM tt", "there is no table or view named tt; did you mean t?"),
        ("SELECT s + 1 FROM t", "cannot be computed|no meaning|Cannot"),
        ("SELECT '\udcff'", "."),
    ],
)
def test_a_statement_that_makes_no_sense_changes_nothing(db: vms.Database, statement: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        db.sql(statement)
    check(db)


# --- batches -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ({"s": ["a"]}, "column k is part of the key and has no value"),
        ({"k": [9], "s": ["a"], "x": [1]}, "there is no column named t.x"),
        ({"K": [9], "s": ["a"]}, "there is no column named t.K; did you mean t.k"),
        ({"k": [9]}, "column s is NOT NULL and has no value"),
        ({"k": [9, None], "s": ["a", "a"]}, "column k is part of the key but is NULL in row 1"),
        ({"k": [9, 8], "s": ["a", None]}, "column s is NOT NULL but is NULL in row 1"),
        ({"k": ["1", "one"], "s": ["a", "a"]}, "column k, row 1: 'one' does not fit BIGINT"),
        ({"k": [1.0, 1.5], "s": ["a", "a"]}, "column k, row 1: 1.5 does not fit BIGINT"),
        ({"k": [9, 9], "s": [b"ok", b"\xff"]}, "column s, row 1: .* does not fit VARCHAR"),
        ({"k": [9], "s": [["a"]]}, "values of Arrow type list.* cannot be stored as VARCHAR"),
        ({"k": [9], "s": ["a"], "n": [-(2**31) - 1]}, "column n, row 0: -2147483649 does not fit INTEGER"),
        ({"k": [9], "s": ["a"], "n": [float("nan")]}, "column n, row 0: nan does not fit INTEGER"),
        ({"k": [9], "s": ["a"], "p": [float("inf")]}, "column p, row 0: inf does not fit DECIMAL"),
        ({"k": [9], "s": ["a"], "p": [Decimal("1.005")]}, "column p, row 0: 1.005 does not fit DECIMAL"),
        (
            {"k": [9], "s": ["a"], "d": [datetime.datetime(2024, 1, 1, 5)]},
            r"column d, row 0: .* \(it has a time of day",
        ),
        ({"k": [9], "s": ["a"], "d": ["2023-02-29"]}, "column d, row 0: '2023-02-29' does not fit DATE"),
        ({"k": [9], "s": ["a"], "at": ["24:61"]}, "column at, row 0: '24:61' does not fit TIMESTAMP"),
        ({"k": [9], "s": ["a"], "b": ["maybe"]}, "column b, row 0: 'maybe' does not fit BOOLEAN"),
        ({"k": [9], "s": ["a"], "f": ["1e"]}, "column f, row 0: '1e' does not fit DOUBLE"),
        ({"x": []}, "there is no column named t.x"),
    ],
)
def test_a_batch_that_does_not_fit_is_refused_as_a_whole(db: vms.Database, rows: dict, message: str) -> None:
    with pytest.raises((InvalidValue, UserError), match=message):
        db.put("t", pa.table(rows))
    check(db)


def test_what_is_no_table_of_arrow_is_refused(db: vms.Database) -> None:
    for rows in ({"k": [1], "s": ["a"]}, [{"k": 1, "s": "a"}], None):
        with pytest.raises(UserError, match=r"given as a pyarrow\.Table, not as"):
            db.put("t", rows)  # type: ignore[arg-type]
        with pytest.raises(UserError, match=r"given as a pyarrow\.Table, not as"):
            db.delete("t", rows)  # type: ignore[arg-type]
    db.put("t", ROWS.to_batches()[0])
    for keys, message in (({"k": [1], "s": ["a"]}, "key columns alone"), ({"s": ["a"]}, "k is part of the key")):
        with pytest.raises(InvalidValue, match=message):
            db.delete("t", pa.table(keys))
    for name, message in (("v", "v is a view, not a table"), ("T", "no table named T; did you mean t?")):
        with pytest.raises(UserError, match=message):
            db.put(name, ROWS)
    check(db)


def test_values_at_the_edge_of_their_type_come_back_as_they_are(db: vms.Database) -> None:
    edge = pa.table(
        {
            "k": [-(2**63), 2**63 - 1], "n": pa.array([-(2**31), 2**31 - 1], pa.int32()),
            "p": pa.array([Decimal("-999.99"), Decimal("999.99")], pa.decimal128(5, 2)),
            "s": ["", "\0\U0001f600" * 1000], "d": [datetime.date.min, datetime.date.max],
            "at": pa.array([datetime.datetime.min, datetime.datetime.max], pa.timestamp("us")),
            "f": [5e-324, float("-inf")], "b": [False, True],
        }
    )  # fmt: skip
    db.delete("t", ROWS.select(["k"]))
    db.put("t", edge)
    assert_same_rows(db.scan("t"), edge)
    db.create_view("whole", "SELECT k, n, p, s, d, at, f, b FROM t")
    assert_same_rows(db.view("whole").read("latest"), edge)


# --- cells that others wrote ---------------------------------------------------------------------------------


def put_raw(db: vms.Database, key: bytes, column: str, value: bytes) -> None:
    """A cell as any client of the store may write it."""
    db.store.mutate("t", [Mutation(key, (Cell(f"d:{column}".encode(), db.clock.stamps(1), value=value),))])


def key_of(k: int) -> bytes:
    return encode_keys([BIGINT], [pa.array([k])])[0]


def test_a_cell_that_cannot_be_decoded_is_set_aside_until_the_row_is_mended(db: vms.Database) -> None:
    put_raw(db, key_of(3), "n", b"not four bytes")
    put_raw(db, b"no key", "n", b"\0\0\0\1")
    check(db, without=(3,))

    letters = db.dead_letters().sort_by("column").to_pylist()
    region = db.store.regions("t")[0].id
    assert [(x["table"], x["row"], x["column"], x["region"]) for x in letters] == [
        ("t", b"no key", "", region),
        ("t", key_of(3), "n", region),
    ]
    assert letters[1]["value"] == b"not four bytes" and "INTEGER" in letters[1]["reason"]
    assert int(letters[0]["seq"]) > int(letters[1]["seq"]) > 0 and int(letters[1]["ts"]) > 0
    found = db.status()
    assert (found["dead_letters"], found["tables"]["t"]["dead_letters"]) == (2, 2)

    db.put("t", ROWS.slice(2))
    check(db)
    assert db.status()["dead_letters"] == 2, "what happened stays known"


def test_a_view_made_later_leaves_such_rows_out_too_and_counts_no_letter_twice(db: vms.Database) -> None:
    put_raw(db, key_of(2), "d", b"?")
    check(db, without=(2,))
    db.create_view("later", "SELECT k, d FROM t")
    assert db.view("later").read("latest").column("k").to_pylist() == [1, 3]
    assert db.status()["dead_letters"] == 1


def test_status_tells_about_dead_letters_from_the_command_line(tmp_path: Path) -> None:
    address = f"embedded:{tmp_path / 'db'}"
    with vms.connect(address) as db:
        db.sql(TABLE)
        db.create_view("v", VIEW)
        put_raw(db, key_of(1), "n", b"?")
        db.wait(db.latest())
    for_people = CliRunner().invoke(cli, ["--store", address, "status"]).stdout.splitlines()
    assert "dead letters  1" in for_people
    for_programs = json.loads(CliRunner().invoke(cli, ["--store", address, "status", "--json"]).stdout)
    assert for_programs["tables"]["t"]["dead_letters"] == for_programs["dead_letters"] == 1


def test_a_failing_expression_is_told_until_its_row_is_mended_and_other_views_go_on(db: vms.Database) -> None:
    sql = "SELECT k, CAST(s AS INTEGER) * n AS x FROM t"
    db.sql("UPDATE t SET s = '5'")
    db.create_view("numbers", sql)
    expected = DataFusionOracle().evaluate(sql, {"t": db.scan("t")})
    assert_same_rows(db.view("numbers").read("latest"), expected)

    db.sql("UPDATE t SET s = 'five' WHERE k = 2; UPDATE t SET s = '' WHERE k = 3")
    with pytest.raises(ViewHasErrors, match=r"view numbers has 2 rows that fail: CAST\(.* has no result for"):
        db.view("numbers").read("latest")
    with pytest.raises(VmsError, match="view numbers has 2 rows that fail"):
        db.sql("SELECT * FROM numbers")
    assert (db.status()["views"]["numbers"]["failing_rows"], db.status()["views"]["v"]["failing_rows"]) == (2, 0)
    check(db)

    db.sql("UPDATE t SET s = '5' WHERE k = 3")
    with pytest.raises(ViewHasErrors, match=r"view numbers has 1 row that fails: .*'five'"):
        db.view("numbers").read("latest")
    db.sql("UPDATE t SET s = '5' WHERE k = 2")
    assert_same_rows(db.view("numbers").read("latest"), expected)
    db.sql("UPDATE t SET s = 'x' WHERE k = 2; DELETE FROM t WHERE k = 2")
    assert db.view("numbers").read("latest").column("k").to_pylist() == [1, 3]


# --- the store -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("address", ["", "embedded", "embedded:", "hbas:zk1", "./vms-data", "file:///x", "hbase:"])
def test_an_address_that_is_none(address: str) -> None:
    advice = "write hbase:HOST:PORT" if address == "hbase:" else "write embedded:PATH"
    with pytest.raises(UserError, match="is not an address; write embedded:PATH"):
        vms.connect(address)
    result = CliRunner().invoke(cli, ["--store", address, "status"])
    assert result.exit_code == 1 and advice in result.stderr


def test_a_folder_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match="cannot create the folder"):
            vms.connect(f"embedded:{path}")
    (tmp_path / "db").mkdir()
    (tmp_path / "db" / "log").write_text("mine")
    for _ in range(2):
        with pytest.raises(StoreError, match=r"cannot create the folder .*log"):
            vms.connect(f"embedded:{tmp_path / 'db'}")
    with vms.connect(f"embedded:{tmp_path / 'db'}", log="off"):
        pass
    for options in ({"log": "nix"}, {"epoch_interval": 0}):
        with pytest.raises(UserError, match=next(iter(options))):
            vms.connect(f"embedded:{tmp_path / 'db'}", **options)  # type: ignore[arg-type]
    assert (tmp_path / "file").read_text() == (tmp_path / "db" / "log").read_text() == "mine"


def test_a_store_that_another_process_has_open_is_left_alone(db: vms.Database) -> None:
    command = [sys.executable, "-c", "from vms.cli.main import main; main()", "--store", db.address]
    done = subprocess.run([*command, "sql", "-c", "DELETE FROM t"], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: the store at ") and "is already open" in done.stderr
    assert done.stderr.count("\n") == 1
    with pytest.raises(StoreUnavailable, match="already open, in another process or in this one"):
        vms.connect(db.address)
    check(db)
