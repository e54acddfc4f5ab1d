"""What cannot become a view is refused by name, at its place in the text, with what to do instead."""

from __future__ import annotations

import pytest
from plan_tables import TABLES

from vms.errors import SqlError, UnknownName, UnsupportedSql
from vms.plan.frontend import plan_view

#: `^` marks the place that the refusal must name; then the construct, and a word of the advice.
REFUSED = [
    ("SELECT k FROM t ^CROSS JOIN pair", "a join without an equality between its two sides", "a.x = b.y"),
    (
        "SELECT s, ^first_value(k ORDER BY i) AS f, count(*) AS n FROM t GROUP BY s",
        "first_value beside other aggregates",
        "row_number",
    ),
    ("SELECT i FROM t EXCEPT ^ALL SELECT x FROM t", "INTERSECT ALL or EXCEPT ALL of different types", "cast"),
    ("SELECT k FROM t ^FETCH FIRST 3 ROWS ONLY", "FETCH", "LIMIT"),
    ("SELECT k, lag(i) ^IGNORE NULLS OVER (ORDER BY k) AS r FROM t", "IGNORE NULLS", "subquery"),
    ("SELECT k, sum(i) ^FILTER (WHERE i > 0) OVER (ORDER BY k) AS r FROM t", "FILTER in a window function", "CASE"),
    ("SELECT k, sum(i) OVER (ORDER BY k ^GROUPS 1 PRECEDING) AS r FROM t", "a frame in GROUPS", "ROWS"),
    ("SELECT k, sum(i) OVER (ORDER BY x ^RANGE 1 PRECEDING) AS r FROM t", "RANGE by a distance over DOUBLE", "DECIMAL"),
    ("SELECT k, ^approx_distinct(i) OVER () AS r FROM t", "the window function approx_distinct", "use one of"),
    (
        "SELECT k FROM t WHERE i > (SELECT max(r) FROM (SELECT rank() ^OVER (ORDER BY k) AS r FROM t) q)",
        "a window function in a subquery of an expression",
        "join",
    ),
    (
        "SELECT k, row_number() OVER (ORDER BY i + ^(SELECT max(i) FROM t)) AS r FROM t",
        "a subquery in this place",
        "subquery in FROM",
    ),
    (
        "SELECT k FROM t WHERE ^1 NOT IN (SELECT v FROM pair)",
        "a constant in NOT IN (SELECT ...), or in IN (SELECT ...) under OR",
        "NOT EXISTS",
    ),
    (
        "SELECT k FROM t WHERE s = 'a' OR NOT ^1 IN (SELECT v FROM pair WHERE p = i)",
        "a constant in NOT IN (SELECT ...), or in IN (SELECT ...) under OR",
        "NOT EXISTS",
    ),
    (
        "SELECT k FROM t WHERE s NOT IN (SELECT s FROM t) AND t.^i NOT IN (SELECT v FROM pair WHERE v = i)",
        "NOT IN, or IN under OR, with a subquery that reads the value again",
        "NOT EXISTS",
    ),
    (
        "SELECT k FROM t WHERE k = 1 OR NOT ^i IN (SELECT q FROM (SELECT v AS q FROM pair) x WHERE i = q AND k > 1)",
        "NOT IN, or IN under OR, with a subquery that reads the value again",
        "NOT EXISTS",
    ),
    (
        "SELECT k FROM t JOIN pair ON p = k AND (^EXISTS (SELECT 1 FROM pair q WHERE q.v = i) OR v = 1)",
        "a subquery in the condition of this join",
        "WHERE",
    ),
    (
        "SELECT k FROM t WHERE ^EXISTS (SELECT v FROM pair WHERE p = i OFFSET 1)",
        "a window, LIMIT, DISTINCT ON or outer join over what reads columns of the query around it",
        "join",
    ),
    (
        "SELECT k FROM t WHERE k ^IN (SELECT row_number() OVER (ORDER BY p) FROM pair WHERE v = i)",
        "a window, LIMIT, DISTINCT ON or outer join over what reads columns of the query around it",
        "join",
    ),
    (
        "SELECT k FROM t WHERE ^EXISTS (SELECT 1 FROM pair LEFT JOIN (SELECT * FROM pair x WHERE x.v = i) y "
        "ON y.p = pair.p WHERE y.p IS NULL)",
        "a window, LIMIT, DISTINCT ON or outer join over what reads columns of the query around it",
        "join",
    ),
    (
        "SELECT k FROM t WHERE NOT ^EXISTS (SELECT max(v) FROM pair WHERE p = i)",
        "an aggregate without GROUP BY in a subquery here that reads columns of the query around it",
        "by =",
    ),
    (
        "SELECT k FROM t WHERE i NOT ^IN (SELECT max(v) FROM pair WHERE p = k)",
        "an aggregate without GROUP BY in a subquery here that reads columns of the query around it",
        "by =",
    ),
    (
        "SELECT k FROM t WHERE EXISTS (SELECT 1 FROM pair WHERE p = k) OR i ^IN (SELECT v FROM pair)",
        "IN (SELECT ...) beside EXISTS, ANY or ALL under OR, where NULLs may occur",
        "EXISTS",
    ),
    (
        "SELECT k, ^EXISTS (SELECT 1 FROM pair WHERE p = k) AS e FROM t",
        "a subquery here that reads columns of the query around it",
        "LEFT JOIN",
    ),
    ("SELECT t.k ^FROM t FULL JOIN pair ON t.i < pair.v", "a join without an equality between its two sides", "rows"),
    ("^WITH RECURSIVE r AS (SELECT 1 AS a) SELECT * FROM r", "a recursive query", "fixed number"),
    (
        "SELECT s, count(*) AS n FROM (SELECT DISTINCT s FROM t) q GROUP BY ^GROUPING SETS ((s))",
        "GROUPING SETS with one set beside GROUP BY",
        "GROUP BY",
    ),
    ("SELECT s, ^median(x) AS y FROM t GROUP BY s", "the aggregate function median", "stddev_samp, sum, var_pop"),
    # a value that changes while no row does
    ("SELECT k FROM t WHERE ts < ^now()", "now()", "in a column"),
    ('SELECT k FROM t WHERE ts < ^"now"()', "now()", "in a column"),
    ("SELECT k FROM t WHERE ts < ^CURRENT_TIMESTAMP", "CURRENT_TIMESTAMP", "in a column"),
    ("SELECT k FROM t WHERE dt < ^current_date", "CURRENT_DATE", "in a column"),
    ("SELECT k FROM t WHERE x < ^random()", "random()", "in a column"),
    ("SELECT k, ^uuid() AS u FROM t", "uuid()", "in a column"),
    # what DataFusion reads and does nothing about
    ("SELECT k FROM t ^TABLESAMPLE (10)", "TABLESAMPLE", "by a column"),
    ("SELECT k FROM t ^PREWHERE k > 1", "PREWHERE", "WHERE"),
    ("SELECT k FROM t ^FOR UPDATE", "FOR UPDATE", "locks nothing"),
    # expressions
    ("SELECT k, ^md5(s) AS h FROM t", "function md5", "store it in a column"),
    ("SELECT k, ^extract(decade FROM dt) AS y FROM t", "the part decade of a date", "year"),
    ("SELECT k FROM t WHERE s LIKE s ^ESCAPE '!'", "LIKE with ESCAPE and a pattern that is no constant", "backslash"),
    ("SELECT k FROM t WHERE s LIKE 'a!' ^ESCAPE '!'", "a LIKE pattern that ends with its escape", "twice"),
    ("SELECT k FROM t WHERE s ^~ '[a[b]]+'", "this regular expression: brackets in brackets are not known here", "way"),
    ("SELECT k FROM t WHERE ^regexp_like(s, '\\bab')", "this regular expression: \\b is not known here", "(^|\\W)"),
    ("SELECT k FROM t WHERE s ^!~ '[a&&b]+'", "this regular expression: && in brackets is not known here", "way"),
    ("SELECT k FROM t WHERE ^regexp_like(s, 'a', 'x')", "these flags of a regular expression", "a constant of"),
    ("SELECT k, ^CAST(ts AS BIGINT) AS r FROM t", "a cast from TIMESTAMP to BIGINT", "epoch"),
    ("SELECT k FROM t WHERE s ^SIMILAR TO 'a%'", "SIMILAR TO", "regexp_like"),
    ("SELECT k, ^ARRAY[i] AS z FROM t", "an array", "when reading"),
    ("SELECT k, ^unnest(ARRAY[1, 2]) AS u FROM t", "UNNEST", "rows of a table"),
    ("SELECT k FROM t WHERE ts ^- ts > INTERVAL '1' DAY", "the time between two timestamps", "epoch"),
    ("SELECT k, ^CAST(ts AS TIME) AS z FROM t", "a value of type TIME", "cast it to BOOLEAN"),
    ("SELECT k FROM t WHERE i = ^$1", "a parameter", "the value itself"),
    ("^SELECT 1 AS one", "a SELECT that reads no table", "FROM"),
    ("SELECT k FROM t ^WHERE 1 = 0", "a condition that is never true", "empty"),
]


@pytest.mark.parametrize(("marked", "construct", "advice"), REFUSED, ids=[c for _, c, _ in REFUSED])
def test_a_refusal_names_construct_place_and_way_out(marked: str, construct: str, advice: str) -> None:
    before, _, after = marked.partition("^")
    with pytest.raises(UnsupportedSql) as refused:
        plan_view("v", before + after, TABLES)
    error = refused.value
    assert error.construct == construct and advice in error.instead
    assert (error.line, error.column) == (before.count("\n") + 1, len(before.rpartition("\n")[2]) + 1)


@pytest.mark.parametrize(
    "sql",
    [
        'SELECT k, i AS "limit" FROM t',
        "SELECT k, i AS limit FROM t",
        "SELECT k, s AS over FROM t WHERE s <> 'LIMIT 3; now()'",
        "SELECT q.now FROM (SELECT k AS now FROM t) q -- LIMIT 3",
        "SELECT k FROM t WHERE i IN (1, 2) AND s IS DISTINCT FROM 'union'",
        "WITH a AS (SELECT k, i FROM t) SELECT a.k FROM a JOIN (SELECT k FROM t) b ON a.k = b.k",
    ],
)
def test_words_that_only_look_like_it_are_no_reason(sql: str) -> None:
    assert plan_view("v", sql, TABLES).plan.outputs


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k FROM t; SELECT k FROM t", "exactly one SELECT"),
        ("SELECT k FROM t WHERE i = (SELECT v FROM pair WHERE p = k)", "must be an aggregate.*\\(line 1, column 27\\)"),
        ("INSERT INTO t SELECT * FROM t", "exactly one SELECT"),
        ("SELECT k FRM t", "not valid SQL: .* \\(line 1, column 14\\)"),
        ("SELECT nosuch(k) AS z FROM t", "no function named nosuch \\(line 1, column 8\\)"),
        ("SELECT count(*) AS n, i FROM t", "must stand in GROUP BY .*\\(line 1, column 23\\)"),
        ("SELECT k FROM t a JOIN t b ON a.k = b.k", "more than one table; write table.k"),
    ],
)
def test_text_without_meaning_is_told_in_our_words(sql: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        plan_view("v", sql, TABLES)


@pytest.mark.parametrize(
    ("sql", "message"),
    [
        ("SELECT k FROM tt", "no table or view named tt; did you mean t"),
        ("SELECT l_quantty FROM lineitem", "no column named l_quantty; did you mean l_quantity"),
        ("SELECT k FROM t a JOIN pair USING (p)", "no column named p$"),
    ],
)
def test_a_name_that_is_not_there_comes_with_what_is(sql: str, message: str) -> None:
    with pytest.raises(UnknownName, match=message):
        plan_view("v", sql, TABLES)


def test_a_view_that_reads_itself_is_refused() -> None:
    with pytest.raises(UnsupportedSql, match=r"a view that reads itself; .*\(line 2, column 6\)"):
        plan_view("v", "SELECT k\nFROM v", TABLES)
