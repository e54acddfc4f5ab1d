"""Scripts to statements: where they are cut, what is refused, and where errors are said to stand."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import SqlError
from vms.manager.parser import (
    CreateTable,
    CreateView,
    Delete,
    Describe,
    DropTable,
    DropView,
    Explain,
    Insert,
    Select,
    Show,
    Update,
    Values,
    parse,
)
from vms.manager.script import Piece, Query, is_complete, names_in, position, statements


def _one(text: str):
    (statement,) = parse(text)
    return statement


# --- cutting a script --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        ("", []),
        (" ;; -- nothing; here\n; /* nor ; here */", []),
        ("SELECT 1", ["SELECT 1"]),
        ("SELECT 1; SELECT 2;", ["SELECT 1", "SELECT 2"]),
        ("SELECT ';', 'it''s;' ; SELECT 2", ["SELECT ';', 'it''s;'", "SELECT 2"]),
        ('SELECT "a;""b" FROM `c;d`', ['SELECT "a;""b" FROM `c;d`']),
        ("SELECT $$a;b$$, $x$ ; $$ ; $x$; SELECT 2", ["SELECT $$a;b$$, $x$ ; $$ ; $x$", "SELECT 2"]),
        (r"SELECT E'a\';b'; SELECT 2", [r"SELECT E'a\';b'", "SELECT 2"]),
        (r"SELECT 'a\'; SELECT 2", [r"SELECT 'a\'", "SELECT 2"]),
        ("SELECT 1 -- one; more\n + 2; SELECT 3", ["SELECT 1 -- one; more\n + 2", "SELECT 3"]),
        ("SELECT /* a /* nested ; */ ; */ 1; SELECT 2", ["SELECT /* a /* nested ; */ ; */ 1", "SELECT 2"]),
        ("SELECT 1 -- the end", ["SELECT 1"]),
    ],
)
def test_statements_are_cut_at_semicolons_alone(script, expected):
    assert [s.query.sql for s in parse(script)] == expected


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["a;b", "it's", '"', "--", "/*", "$$", "\\", "\n", "é"]), min_size=1),
    st.integers(1, 3),
)
def test_texts_of_any_content_are_not_cut(parts, count):
    literal = "'" + "".join(parts).replace("'", "''") + "'"
    script = ";\n".join([f"SELECT {literal}"] * count)
    assert [s.query.sql for s in parse(script)] == [f"SELECT {literal}"] * count


@pytest.mark.parametrize(
    ("text", "complete"),
    [
        ("", True),
        ("-- a remark", True),
        ("SELECT 1", False),
        ("SELECT 1;", True),
        ("SELECT 1; -- done", True),
        ("SELECT 1; SELECT", False),
        ("SELECT ';", False),
        ("SELECT 1 /* ;", False),
    ],
)
def test_typed_text_is_complete_after_its_semicolon(text, complete):
    assert is_complete(text) is complete


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("SELECT 'a", 1, 8), ("SELECT 1;\n  SELECT 'b' || 'c", 2, 17), ('SELECT\n"x', 2, 1), ("a /* b", 1, 3)],
)
def test_what_is_not_closed_is_shown_where_it_opens(text, line, column):
    with pytest.raises(SqlError, match="never closed") as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_names_are_words_outside_of_texts_and_comments():
    found = names_in("""SELECT Sales.shop, "Total" FROM sales -- other\n WHERE x = 'text'""")
    assert {"sales", "Total"} <= found
    assert not {"shop", "other", "text"} & found


# --- positions ---------------------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(st.text("ab\n", min_size=1), st.data())
def test_positions_count_lines_and_columns_from_one(text, data):
    offset = data.draw(st.integers(0, len(text) - 1))
    line, column = position(text, offset)
    assert text.split("\n")[line - 1][: column - 1] == text[:offset].split("\n")[-1]
    assert line == text[:offset].count("\n") + 1


def test_errors_move_to_the_place_that_their_piece_has_in_the_script():
    script = "UPDATE t\nSET a = b + 1\nWHERE c"
    query = Query(script, "SELECT (", Piece(17, 22), ") FROM t WHERE (", Piece(29, 30), ")")
    assert query.sql == "SELECT (b + 1) FROM t WHERE (c)"

    def moved(column: int) -> tuple[int | None, int | None, str]:
        error = SqlError("bad", line=1, column=column)
        with pytest.raises(SqlError), query.located():
            raise error
        return error.line, error.column, str(error)

    assert moved(9) == (2, 9, "bad (line 2, column 9)")
    assert moved(13) == (2, 13, "bad (line 2, column 13)")
    assert moved(20)[:2] == (3, 7)  # our own words: the next piece
    assert moved(30)[:2] == (3, 7)
    assert moved(31)[:2] == (3, 8)  # after all: the end of the last piece


def test_an_error_without_position_keeps_none():
    query = Query.of("SELECT 1")
    with pytest.raises(SqlError, match=r"^bad$"), query.located():
        raise SqlError("bad")


# --- statements --------------------------------------------------------------------------------------------------


def test_definitions():
    created = _one("create table if not exists T (k INT PRIMARY KEY)")
    assert isinstance(created, CreateTable)
    assert (created.table.name, created.if_not_exists) == ("t", True)
    assert _one("DROP TABLE IF EXISTS t;") == DropTable("t", True)
    assert _one("DROP TABLE t") == DropTable("t", False)
    assert _one("DROP MATERIALIZED VIEW v") == DropView("v", False)
    assert _one("DROP VIEW IF EXISTS v") == DropView("v", True)


def test_a_view_keeps_its_text_as_it_was_written():
    view = _one("CREATE MATERIALIZED VIEW IF NOT EXISTS V AS\n  SELECT a, -- the key\n sum( b )\n FROM t GROUP BY a ;")
    assert isinstance(view, CreateView)
    assert (view.name, view.if_not_exists) == ("v", True)
    assert view.query.sql == "SELECT a, -- the key\n sum( b )\n FROM t GROUP BY a"


def test_questions():
    assert _one("SHOW TABLES") == Show("tables")
    assert _one("show materialized views") == Show("views")
    assert _one("DESCRIBE t") == Describe("t")
    assert _one("DESC T") == Describe("t")
    assert _one("EXPLAIN v") == Explain("v")
    explained = _one("EXPLAIN WITH a AS (SELECT 1) SELECT * FROM a")
    assert isinstance(explained, Explain) and isinstance(explained.subject, Query)
    assert explained.subject.sql == "WITH a AS (SELECT 1) SELECT * FROM a"
    for text in ("SELECT 1", "WITH a AS (SELECT 1) SELECT * FROM a", "(SELECT 1)", "VALUES (1)"):
        assert isinstance(_one(text), Select)


def test_insert_of_values():
    insert = _one("INSERT INTO t (A, b) VALUES (1, f(2, 'x,)')), -- first\n (3, (4))")
    assert isinstance(insert, Insert) and isinstance(insert.source, Values)
    assert (insert.table, insert.columns) == ("t", ("a", "b"))
    assert insert.source.query(0, 2).sql == "VALUES (1, f(2, 'x,)')), -- first\n (3, (4))"
    assert insert.source.query(1, 2).sql == "VALUES (3, (4))"


@pytest.mark.parametrize("source", ["SELECT a FROM u", "WITH x AS (SELECT 1) SELECT * FROM x", "(SELECT 1)"])
def test_insert_of_a_select(source):
    insert = _one(f"INSERT INTO t {source}")
    assert isinstance(insert, Insert) and isinstance(insert.source, Query)
    assert (insert.columns, insert.source.sql) == (None, source)
    named = _one(f"INSERT INTO t (a) {source}")
    assert isinstance(named, Insert) and isinstance(named.source, Query)
    assert (named.columns, named.source.sql) == (("a",), source)


def test_update_asks_for_keys_and_new_values():
    update = _one(
        "UPDATE t SET a = a + 1, b = CASE WHEN c IN (1, 2) THEN 'x, y' ELSE b END WHERE k = 1 OR (k = 2) -- some"
    )
    assert isinstance(update, Update)
    assert update.columns == ("a", "b")
    assert update.query(("k", "l")).sql == (
        'SELECT "k", "l", (a + 1) AS "new a", (CASE WHEN c IN (1, 2) THEN \'x, y\' ELSE b END) AS "new b"'
        ' FROM "t" WHERE (k = 1 OR (k = 2))'
    )


def test_update_without_where_and_with_is_distinct_from():
    update = _one("UPDATE t AS x SET a = x.b IS DISTINCT FROM x.c")
    assert isinstance(update, Update)
    assert update.query(("k",)).sql == 'SELECT "k", (x.b IS DISTINCT FROM x.c) AS "new a" FROM "t" AS "x"'


def test_delete_asks_for_keys():
    some, every = _one("DELETE FROM t x WHERE x.a > 1"), _one("DELETE FROM t")
    assert isinstance(some, Delete) and isinstance(every, Delete)
    assert some.query(("k",)).sql == 'SELECT "k" FROM "t" AS "x" WHERE (x.a > 1)'
    assert every.query(("k", "l")).sql == 'SELECT "k", "l" FROM "t"'


@pytest.mark.parametrize(
    ("text", "message", "line", "column"),
    [
        (
            "SELECT 1;\n FROB x",
            "FROB x is not the beginning of a statement; the statements are CREATE TABLE",
            2,
            2,
        ),
        ("SELEC 1", "did you mean SELECT", 1, 1),
        ("CREATE INDEX i ON t (a)", "CREATE INDEX is not the beginning", 1, 1),
        ("'text'", "is not the beginning", 1, 1),
        ("CREATE VIEW v AS SELECT 1", "write CREATE MATERIALIZED VIEW", 1, 1),
        ("CREATE OR REPLACE TABLE t (a INT)", "use DROP first", 1, 1),
        ("BEGIN", "no transactions", 1, 1),
        ("TRUNCATE TABLE t", "write DELETE FROM", 1, 1),
        ("SELECT 1)", "expected the end of the statement", 1, 9),
        ("CREATE MATERIALIZED VIEW v (a) AS SELECT 1", "takes its column names from its SELECT", 1, 28),
        ("CREATE MATERIALIZED VIEW v SELECT 1", "expected AS after the view's name v", 1, 28),
        ("CREATE MATERIALIZED VIEW v AS\nDELETE FROM t", "expected SELECT after AS, found DELETE", 2, 1),
        ("DROP TABLE", "expected the name of a table, found the end", 1, 11),
        ("DROP TABLE a, b", "expected the end of the statement after DROP TABLE, found ,", 1, 13),
        ("SHOW COLUMNS", "expected TABLES or VIEWS", 1, 6),
        ("DESCRIBE 'x'", "expected the name of a table or view", 1, 10),
        ("EXPLAIN", "expected the name of a view \\(or a SELECT\\)", 1, 8),
        ("EXPLAIN DELETE FROM t", "expected the end of the statement after EXPLAIN", 1, 16),
        ("INSERT INTO t", "expected VALUES or SELECT", 1, 14),
        ("INSERT INTO t (a, A) VALUES (1, 2)", "column a is named twice", 1, 19),
        ("INSERT INTO t (a, b) VALUES (1, 2),\n(3)", "row 2 of VALUES has 1 values, but 2 columns", 2, 1),
        ("INSERT INTO t VALUES (1, 2), (3)", "row 2 of VALUES has 1 values, but 2 are in the first", 1, 30),
        ("INSERT INTO t VALUES (1, )", "a value is missing in row 1", 1, 26),
        ("INSERT INTO t VALUES ()", "a value is missing in row 1", 1, 23),
        ("INSERT INTO t VALUES 1", "expected \\( around row 1", 1, 22),
        ("INSERT INTO t VALUES (1), ", "expected \\( around row 2", 1, 26),
        ("INSERT INTO t VALUES (1) (2)", "expected the end of the statement after the last row", 1, 26),
        ("INSERT INTO t VALUES ((1)", "expected \\) around row 1", 1, 26),
        ("UPDATE t WHERE a", "expected SET", 1, 16),
        ("UPDATE t SET", "expected the name of a column", 1, 13),
        ("UPDATE t SET a", "expected = after column a", 1, 15),
        ("UPDATE t SET a =, b = 1", "expected the new value of a", 1, 17),
        ("UPDATE t SET a = 1, a = 2", "column a is set twice", 1, 21),
        ("UPDATE t SET a = 1 FROM u", "use a subquery", 1, 20),
        ("UPDATE t SET a = 1 RETURNING a", "expected the end of the statement", 1, 20),
        ("UPDATE t SET a = 1 WHERE", "expected a condition", 1, 25),
        ("UPDATE t SET a = 1 WHERE b) OR (c", "expected the end of the statement after WHERE", 1, 27),
        ("DELETE t", "is not the beginning of a statement", 1, 1),
        ("DELETE FROM t USING u", "use a subquery", 1, 15),
        ("DELETE FROM t WHERE a LIMIT 3", "expected the end of the statement after WHERE", 1, 23),
    ],
)
def test_refusals_name_the_place(text, message, line, column):
    with pytest.raises(SqlError, match=message) as caught:
        parse(text)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_the_cursor_passes_brackets_as_a_whole():
    (cursor,) = statements("f(a, [b, c], {d, e}), g, h")
    assert cursor.piece(",") == Piece(0, 20)
    assert cursor.accept(",")
    assert cursor.piece(",") == Piece(22, 23)
