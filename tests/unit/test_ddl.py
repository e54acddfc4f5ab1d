"""CREATE TABLE text to BaseTable: what is read, and what is refused where."""

from __future__ import annotations

import pytest

from vms.errors import SqlError
from vms.manager.ddl import MAX_VALUE_COLUMNS, parse_create_table
from vms.model.table import HIDDEN_KEY, Encoding
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, decimal


@pytest.mark.parametrize(
    ("text", "type_"),
    [
        ("BOOLEAN", BOOLEAN),
        ("bool", BOOLEAN),
        ("INT", INTEGER),
        ("Integer", INTEGER),
        ("BIGINT", BIGINT),
        ("DECIMAL(15, 2)", decimal(15, 2)),
        ("NUMERIC(38,38)", decimal(38, 38)),
        ("DECIMAL(5)", decimal(5, 0)),
        ("DOUBLE", DOUBLE),
        ("DOUBLE /* 64 bits */ PRECISION", DOUBLE),
        ("FLOAT8", DOUBLE),
        ("DATE", DATE),
        ("TIMESTAMP", TIMESTAMP),
        ("TIMESTAMP WITHOUT TIME ZONE", TIMESTAMP),
        ("VARCHAR", VARCHAR),
        ("VARCHAR(10)", VARCHAR),
        ("CHARACTER VARYING(10)", VARCHAR),
        ("CHAR(3)", VARCHAR),
        ("TEXT", VARCHAR),
        ("STRING", VARCHAR),
    ],
)
def test_every_type_is_read(text, type_):
    table = parse_create_table(f"CREATE TABLE t (k INT PRIMARY KEY, c {text} NOT NULL)")
    assert (table.by_name["c"].type, table.by_name["c"].nullable) == (type_, False)


def test_columns_keep_their_order_and_the_key_its_own():
    table = parse_create_table("CREATE TABLE T (a INT, B VARCHAR NULL, c DATE, PRIMARY KEY (c, a));")
    assert table.name == "t"
    assert [c.name for c in table.columns] == ["a", "b", "c"]
    assert table.key == ("c", "a")
    assert [c.nullable for c in table.columns] == [False, True, False]
    assert not table.hidden_key


def test_a_named_constraint_and_words_as_quoted_names():
    table = parse_create_table('CREATE TABLE "order" ("primary" INT, "key" INT, CONSTRAINT pk PRIMARY KEY ("key"))')
    assert (table.name, table.key) == ("order", ("key",))


def test_without_primary_key_the_key_is_hidden():
    table = parse_create_table("CREATE TABLE IF NOT EXISTS t (a INT)")
    assert (table.key, table.hidden_key) == ((HIDDEN_KEY,), True)
    assert [c.name for c in table.visible_columns] == ["a"]


def test_options():
    table = parse_create_table(
        "CREATE TABLE t (k INT PRIMARY KEY) WITH (family = 'cf', Encoding = 'phoenix', rows = 1000000)"
    )
    assert (table.family, table.encoding, table.rows_estimate) == ("cf", Encoding.PHOENIX, 1_000_000)
    plain = parse_create_table("CREATE TABLE t (k INT PRIMARY KEY)")
    assert (plain.family, plain.encoding, plain.rows_estimate) == ("d", Encoding.BYTES, None)


def test_the_greatest_number_of_columns():
    def text(count: int) -> str:
        return f"CREATE TABLE t (k INT PRIMARY KEY, {', '.join(f'c{i} INT' for i in range(count))})"

    assert len(parse_create_table(text(MAX_VALUE_COLUMNS)).value_columns) == MAX_VALUE_COLUMNS
    with pytest.raises(SqlError, match="64 columns besides the key are too many"):
        parse_create_table(text(MAX_VALUE_COLUMNS + 1))


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        ("CREATE TABLE t (a BLOB)", "BLOB is no type here; the types are BOOLEAN, INTEGER", 1, 19),
        ("CREATE TABLE t (a)", "\\) is no type here", 1, 18),
        ("CREATE TABLE t (\n  a INT,\n  A INT)", "column a is declared twice", 3, 3),
        ("CREATE TABLE t (a DECIMAL)", "needs its number of digits", 1, 19),
        ("CREATE TABLE t (a DECIMAL(39, 2))", "out of range", 1, 19),
        ("CREATE TABLE t (a DECIMAL(2, 3))", "out of range", 1, 19),
        ("CREATE TABLE t (a DECIMAL(x))", "expected the number of digits", 1, 27),
        ("CREATE TABLE t (a TIMESTAMP WITH TIME ZONE)", "store UTC", 1, 19),
        ("CREATE TABLE t (a INT DEFAULT 3)", "found DEFAULT; no other constraint", 1, 23),
        ("CREATE TABLE t (a INT NOT)", "found NOT", 1, 23),
        ("CREATE TABLE t (a INT", "found the end of the statement", 1, 22),
        ("CREATE TABLE t (a INT,)", "expected the name of a column, found \\)", 1, 23),
        ("CREATE TABLE t", "expected \\( and the columns", 1, 15),
        ("CREATE TABLE t (a INT) x", "expected the end of the statement", 1, 24),
        ("CREATE TABLE (a INT)", "expected the name of a table", 1, 14),
        ('CREATE TABLE "T" (a INT)', "cannot be the name of a table", 1, 14),
        ('CREATE TABLE t ("a b" INT)', "cannot be the name of a column", 1, 17),
        ("CREATE TABLE s.t (a INT)", "without a schema", 1, 15),
        ("CREATE TABLE t (_rowid INT)", "no column can be named _rowid", 1, 17),
        ("CREATE TABLE t (_0 INT)", "no column can be named _0", 1, 17),
        ("CREATE TABLE t (a INT PRIMARY KEY,\nb INT PRIMARY KEY)", "one PRIMARY KEY", 2, 1),
        ("CREATE TABLE t (a INT PRIMARY KEY, PRIMARY KEY (a))", "one PRIMARY KEY", 1, 36),
        ("CREATE TABLE t (amount INT, PRIMARY KEY (amont))", "did you mean amount", 1, 29),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a, a))", "names a twice", 1, 24),
        ("CREATE TABLE t (a INT, CONSTRAINT c UNIQUE (a))", "only PRIMARY KEY", 1, 37),
        (
            "CREATE TABLE t (a INT) WITH (famly = 'x')",
            "no option is named famly \\(did you mean family",
            1,
            30,
        ),
        ("CREATE TABLE t (a INT) WITH (family = 'x', family = 'y')", "given twice", 1, 44),
        ("CREATE TABLE t (a INT) WITH (family = 'a:b')", "cannot be a column family", 1, 39),
        ("CREATE TABLE t (a INT) WITH (family = d)", "in single quotes, found d", 1, 39),
        ("CREATE TABLE t (a INT) WITH (encoding = 'byte')", "did you mean bytes", 1, 41),
        ("CREATE TABLE t (a INT) WITH (rows = 'many')", "as a whole number, found 'many'", 1, 37),
        ("CREATE TABLE t (a INT) WITH (rows = 1.5)", "as a whole number, found 1.5", 1, 37),
        ("CREATE TABLE t (a INT) WITH ()", "expected the name of an option", 1, 30),
    ],
)
def test_refusals_name_the_place(text, message, line, column):
    with pytest.raises(SqlError, match=message) as caught:
        parse_create_table(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_one_statement_is_expected():
    with pytest.raises(SqlError, match="found 2 statements"):
        parse_create_table("CREATE TABLE t (a INT); CREATE TABLE u (a INT)")
