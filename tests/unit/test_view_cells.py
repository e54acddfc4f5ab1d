"""How the rows of views are written: a cell for each value, in any encoding, or one packed cell; read back the same."""

from __future__ import annotations

import decimal
from pathlib import Path

import msgpack
import pytest

import vms
from vms.errors import SqlError
from vms.manager.parser import CreateView, parse
from vms.model.catalog import Catalog, Layout, ViewForm
from vms.model.phoenix import decode_decimal
from vms.model.table import Encoding
from vms.model.types import decimal as decimal_type

TABLE = """
CREATE TABLE t (k BIGINT PRIMARY KEY, i INTEGER, n BIGINT, p DECIMAL(30, 9), f DOUBLE, b BOOLEAN, d DATE, at TIMESTAMP,
    s VARCHAR);
INSERT INTO t VALUES
  (1, -2, 9223372036854775807, 123456789012345678901.000000001, 0.5, TRUE, DATE '2024-02-29',
   TIMESTAMP '2024-12-31 23:59:59.000001', 'text'),
  (2, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (3, 0, -1, -0.000000001, CAST('NaN' AS DOUBLE), FALSE, DATE '1969-12-31', TIMESTAMP '1969-12-31 23:59:59', '');
"""
COLUMNS = "k, i, n, p, f, b, d, at, s"
FORMS = ["layout = 'packed'", *(f"encoding = '{e.value}'" for e in Encoding), "layout = 'columns'"]


@pytest.mark.parametrize("form", FORMS)
def test_every_form_reads_back_the_same(tmp_path: Path, form: str) -> None:
    with vms.connect(f"embedded:{tmp_path}") as db:
        db.sql(TABLE)
        db.sql(f"CREATE MATERIALIZED VIEW v WITH ({form}) AS SELECT {COLUMNS} FROM t")
        db.sql(f"CREATE MATERIALIZED VIEW total WITH ({form}) AS SELECT count(*) AS n, sum(p) AS p FROM t")
        db.sql(f"CREATE MATERIALIZED VIEW bag WITH ({form}) AS SELECT b, i FROM t WHERE k < 3")
        for _ in range(2):
            assert repr(rows(db, "SELECT * FROM v")) == repr(rows(db, f"SELECT {COLUMNS} FROM t"))
            assert rows(db, "SELECT n FROM total") == rows(db, "SELECT count(*) AS n FROM t")
            assert rows(db, "SELECT p FROM total") == rows(db, "SELECT sum(p) AS p FROM t")
            assert len(rows(db, "SELECT * FROM bag")) == db.view("bag").count() == 2
            db.sql("UPDATE t SET s = NULL, p = NULL WHERE k = 1; DELETE FROM t WHERE k = 3")
            db.sql("INSERT INTO t (k, n) VALUES (4, 4)")


def rows(db: vms.Database, sql: str) -> list[dict]:
    found = db.sql(sql)
    assert found is not None
    return sorted(found.to_pylist(), key=repr)


def cells(db: vms.Database, view: str) -> dict[bytes, bytes]:
    """Of the view's only row."""
    table = db.catalog.views[view].table(db.runtime.readable.point.generation)
    ((_, row),) = db.store.scan(table)
    return {column: version.value for column, version in row.items()}


def test_a_packed_row_is_one_plain_cell(tmp_path: Path) -> None:
    with vms.connect(f"embedded:{tmp_path}") as db:
        db.sql(TABLE + "CREATE MATERIALIZED VIEW v WITH (layout = 'packed') AS SELECT * FROM t WHERE k = 1")
        ((name, value),) = cells(db, "v").items()
        assert name == b"v:_row"
        assert msgpack.unpackb(value) == [
            -2, 2**63 - 1, "123456789012345678901.000000001", 0.5, True, 19782, 1735689599000001, "text",
        ]  # fmt: skip


def test_cells_are_phoenix_unless_told_otherwise(tmp_path: Path) -> None:
    with vms.connect(f"embedded:{tmp_path}") as db:
        db.sql(TABLE + "CREATE MATERIALIZED VIEW v AS SELECT k, n, p, b, s FROM t WHERE k = 1")
        found = cells(db, "v")
        assert found.pop(b"v:_0") == b""
        assert found.pop(b"v:n") == b"\xff" * 8 and found.pop(b"v:b") == b"\x01" and found.pop(b"v:s") == b"text"
        unscaled = decode_decimal(decimal_type(30, 9), found.pop(b"v:p"))
        assert decimal.Decimal(unscaled).scaleb(-9, decimal.Context(40)) == decimal.Decimal(
            "123456789012345678901.000000001"
        )
        assert not found


def test_forms_are_kept_by_the_catalog() -> None:
    packed, text = ViewForm(Layout.PACKED), ViewForm(encoding=Encoding.TEXT)
    catalog = Catalog().with_view("a", "SELECT 1").with_view("b", "SELECT 2", packed).with_view("c", "SELECT 3", text)
    assert Catalog.from_bytes(catalog.to_bytes()) == catalog


def test_views_of_version_0_1_stay_as_they_were_written() -> None:
    old = msgpack.packb({"version": 3, "tables": [], "views": [["v", "SELECT 1", 3]]})
    assert Catalog.from_bytes(old).views["v"].form == ViewForm(Layout.COLUMNS, Encoding.BYTES)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ("layout = 'pack'", r"there is no layout 'pack' \(did you mean packed\?\); use one of columns, packed"),
        ("encoding = 'x'", "there is no encoding 'x'; use one of text, bytes, phoenix"),
        ("family = 'x'", "no option is named family; there are layout, encoding"),
        ("layout = 'packed', encoding = 'text'", "a packed row has no encoding"),
    ],
)
def test_options_that_are_refused(options: str, complaint: str) -> None:
    with pytest.raises(SqlError, match=complaint):
        parse(f"CREATE MATERIALIZED VIEW v WITH ({options}) AS SELECT 1")


def test_options_are_parsed() -> None:
    (statement,) = parse("CREATE MATERIALIZED VIEW v WITH (encoding = 'text') AS WITH x AS (SELECT 1) SELECT * FROM x")
    assert isinstance(statement, CreateView) and statement.form == ViewForm(encoding=Encoding.TEXT)
    (statement,) = parse("CREATE MATERIALIZED VIEW v AS SELECT 1")
    assert isinstance(statement, CreateView) and statement.form == ViewForm()
