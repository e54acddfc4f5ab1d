"""Expressions as users write them: planned from SQL, evaluated by us, by DataFusion and, where it agrees, by DuckDB.

Each expression runs over random rows of the columns that it names, edge values among them. Ours must have
DataFusion's type, value and NULL for every row, and fail for exactly the rows for which DataFusion fails.
"""

from __future__ import annotations

import functools
import math
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from expression_values import Answer, arrow_array, evaluated, integers, row_by_row, values
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.model.arrow import to_column
from vms.model.changes import Changes
from vms.model.table import BaseTable, TableColumn
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, decimal
from vms.plan.expr import Expr, map_refs, refs
from vms.plan.frontend import plan_view
from vms.plan.plan import Projection, Source
from vms.testing.compare import RELATIVE_TOLERANCE
from vms.testing.oracle import DataFusionOracle, DuckOracle

COLUMNS: dict[str, SqlType] = {
    "i": INTEGER,
    "j": INTEGER,
    "b": BIGINT,
    "c": BIGINT,
    "d": decimal(10, 2),
    "e": decimal(12, 4),
    "w": decimal(38, 6),
    "v": decimal(38, 0),
    "f": decimal(5, 5),
    "x": DOUBLE,
    "y": DOUBLE,
    "s": VARCHAR,
    "u": VARCHAR,
    "n": INTEGER,
    "dt": DATE,
    "dd": DATE,
    "ts": TIMESTAMP,
    "tt": TIMESTAMP,
    "p": BOOLEAN,
    "q": BOOLEAN,
}
TABLE = BaseTable(
    "t", (TableColumn("k", BIGINT, False), *(TableColumn(n, t, True) for n, t in COLUMNS.items())), ("k",)
)
DATAFUSION, DUCK = DataFusionOracle(), DuckOracle()
_DAY = 86_400_000_000
#: 1900 is no leap year, 2000 is one; the days around the epoch and at the ends of years and ISO weeks.
DAYS = [-25567, -25509, -25508, -1, 0, 1, 58, 59, 365, 10956, 11016, 11017, 18260, 18261, 18262, 18322, 18627, 18628]
LONG = "long " * 2000

REGEXES = [
    "a+b?",
    "^(a|b)+$",
    "[ab]{2}",
    "[^a-y]",
    "a.b",
    "(?:ab|ba)",
    "[[:alpha:]]+",
    "\\.|%",
    "^$",
    "(?i)A",
    "x*",
    "[]%]",
    "a$|^b",
]
#: Over characters of which the two engines do not say alike what they are.
UNICODE_REGEXES = [
    "\\d",
    "\\D",
    "\\w+$",
    "\\W",
    "^\\s",
    "\\S\\s",
    "[\\w-]",
    "[^\\d\\s]",
    "\\p{Lu}",
    "\\pN",
    "(?i)É",
    "\\x61|\\u{e9}",
    "(?<n>a)(b)?",
]
#: What DuckDB computes alike, for the rows for which neither fails (its ranges differ).
BOTH = [
    "dt + INTERVAL '1' MONTH", "dt - INTERVAL '13' MONTH", "dt + INTERVAL '1 month 2 days'", "dt + INTERVAL '90' DAY",
    "ts + INTERVAL '1' HOUR", "ts - INTERVAL '3' MONTH", "ts - INTERVAL '1 month 1 day 1 second'",
    "ts + INTERVAL '2' YEAR", "dt - dd", "dt - DATE '2000-02-29'", "dt + n", "dt - n",
    "extract(year FROM dt)", "extract(month FROM dt)", "extract(day FROM dt)", "extract(quarter FROM dt)",
    "extract(week FROM dt)", "extract(dow FROM dt)", "extract(doy FROM dt)", "extract(isodow FROM dt)",
    "extract(isoyear FROM dt)", "extract(epoch FROM dt)", "date_part('year', ts)", "extract(hour FROM ts)",
    "extract(minute FROM ts)", "extract(second FROM ts)", "extract(millisecond FROM ts)", "extract(epoch FROM ts)",
    "extract(microsecond FROM ts)", "extract(day FROM ts)", "extract(week FROM ts)",
    *(f"date_trunc('{unit}', ts)" for unit in ("second", "minute", "hour", "day", "week", "month", "quarter", "year")),
    "date_trunc('month', dt)", "CAST(date_trunc('quarter', dt) AS DATE)", "date_trunc('millisecond', ts)",
    "substring(s FROM 2 FOR 3)", "substring(s, 2)", "concat(s, '-', u)", "s || u", "s || '!' || s",
    "concat_ws(', ', s, u)", "replace(s, 'a', 'xyz')", "replace(s, u, '')", "strpos(s, 'a')", "position('b' IN s)",
    "length(s)", "left(s, 2)", "left(s, -1)", "right(s, 2)", "right(s, -1)", "starts_with(s, u)", "contains(s, u)",
    "starts_with(s, 'a')", "ends_with(s, 'a')", "ltrim(s)", "rtrim(s)", "trim(BOTH 'ab' FROM s)", "ltrim(s, 'a')",
    "greatest(i, j, 3)", "least(i, j)", "greatest(d, e)", "least(s, u)", "greatest(dt, dd)", "greatest(i, NULL)",
    "least(ts, tt)", "greatest(x, y)",
    "CASE WHEN i > 0 THEN 'up' WHEN i < 0 THEN 'down' END", "CASE i WHEN 1 THEN 'one' WHEN 2 THEN s ELSE 'more' END",
    "CASE WHEN p THEN d ELSE 0 END", "CASE WHEN s LIKE 'a%' THEN d * (1 - e) ELSE 0 END", "CASE p WHEN q THEN 1 END",
    "CASE WHEN i = 0 THEN NULL ELSE 10 % i END",
    "s LIKE 'a%'", "s NOT LIKE '%b'", "s LIKE '_b%'", "s ILIKE 'A%'", "s NOT ILIKE '%B%'", "s LIKE 'a\\%%' ESCAPE '\\'",
    "i IN (1, 2, 3)", "i NOT IN (1, 2, NULL)", "s IN ('a', 'ab', '', 'x', 'y')", "d IN (1, 2.5, 3)", "i IN (j, 1, 2)",
    "i BETWEEN j AND 3", "d NOT BETWEEN 1 AND 2.5", "dt BETWEEN DATE '1969-12-31' AND DATE '2000-02-29'",
    "(i = 1 AND s = 'a') OR (i = 2 AND s = 'b')", "p AND q OR NOT p", "NOT (p OR q)",
    "p IS TRUE", "p IS NOT TRUE", "p IS FALSE", "p IS NOT FALSE", "p IS UNKNOWN", "p IS NOT UNKNOWN",
    "(i > j) IS NOT TRUE", "i IS DISTINCT FROM j", "s IS NOT DISTINCT FROM u", "d IS DISTINCT FROM 0",
    "coalesce(i, j, 0)", "coalesce(s, u, 'none')", "nullif(i, 1)", "nullif(s, '')", "nullif(d, e)",
    "d % 7", "i % 7", "b % c", "d % e", "x / 4", "x / y", "-d", "d + e * 2", "d - e",
    "CAST(i AS DECIMAL(12, 2))", "CAST(dt AS TIMESTAMP)", "CAST(ts AS DATE)", "TRY_CAST(s AS INTEGER)",
    "abs(i)", "abs(b)", "abs(d)", "abs(w)", "abs(x)", "round(d)", "round(d, 1)", "round(e, 1)", "round(i)", "floor(x)",
    "ceil(x)", "floor(i)", "ceil(b)", "trunc(x)", "i & j", "b | c", "CAST(i AS BOOLEAN)",
    "CAST(p AS DOUBLE)", "CAST(x AS BOOLEAN)",
    *(f"s ~ '{r}'" for r in REGEXES), "s ~* 'A+B'", "s !~ '^a|b$'", "s !~* '[^A]'",
    "CAST(i AS VARCHAR)", "ts < TIMESTAMP '2000-01-01 00:00:00'", "ts < dt", "dt >= '1999-12-31'",
]  # fmt: skip
#: What only DataFusion computes so.
ONE = [
    "i / 2", "i / j", "b / c", "b / i", "d / 3", "d / e", "e / d", "w / d", "v / w", "w / w", "100.00 * d / e", "f / w",
    "d / i", "1 / d", "w % d", "w % f", "v % 3", "x % y", "x % 2", "i % j", "0.2 * (d / 7)",
    "dt + INTERVAL '25' HOUR", "dt - INTERVAL '25' HOUR", "dt + b", "extract(nanosecond FROM ts)", "upper(s)",
    "lower(s)", "extract(hour FROM dt)", "date_trunc('microsecond', ts)", "substring(s, i, 2)", "substring(s, n)",
    "substring(s, n, n)", "substring(s, 0, 2)", "left(s, n)", "right(s, n)", "octet_length(s)", "trim(s)",
    "btrim(s, u)", "rtrim(s, u)", "reverse(s)", "concat(s, i, d, p, dt)", "concat_ws(u, s, s)", "strpos(s, u)",
    "replace(s, u, s)", "round(d, -1)", "round(d, 5)", "round(d, n)", "round(w)", "round(w, 3)", "round(w, n)",
    "round(f)",
    "round(f, 1)", "round(v, -2)", "round(v, -40)", "round(b, -2)", "round(i, -3)", "round(i, n)", "round(x)",
    "round(x, 2)", "round(x, -1)", "round(x, n)", "floor(d)", "ceil(d)", "floor(w)", "ceil(w)", "floor(v)", "ceil(f)",
    "floor(f)", "trunc(d)", "trunc(d, 1)", "trunc(d, -1)", "trunc(d, n)", "trunc(w, 2)", "trunc(x, 1)", "trunc(x, n)",
    "signum(w)", "b << c", "b >> c", "i << j", "i >> j", "b << n", "i ^ j", "CAST(dt AS INTEGER)", "CAST(dt AS BIGINT)",
    "CAST(i AS DATE) - DATE '1970-01-01'", "CAST(n AS DATE)", "TRY_CAST(b AS DATE) IS NULL",
    "signum(i)", "signum(x)", "regexp_like(s, '^a.*b$')", "regexp_like(s, 'A.', 'i')",
    "s ~ replace(u, '\\', '(')", "s ~* left(u, 1)", "regexp_like(s, left(u, 2), 'i')",
    "regexp_like(s, 'a.b', 's')", "regexp_like(s, '^b', 'm')",
    *(f"s ~ '{r}'" for r in UNICODE_REGEXES),
]  # fmt: skip
#: What DataFusion plans but does not compute.
DUCK_ONLY = [
    "mod(i, 7)",
    "mod(d, e)",
    "sign(d)",
    "ceiling(x)",
    "s LIKE 'a!%%' ESCAPE '!'",
    "s NOT LIKE '%!!_' ESCAPE '!'",
    "s LIKE '!_\\%' ESCAPE '!'",
]


def rows_of(names: list[str], nullable: bool) -> st.SearchStrategy[list[list[Any]]]:
    """Codes of some rows of these columns."""
    row = st.tuples(*(st.none() | of_column(n) if nullable else of_column(n) for n in names))
    return st.lists(row, min_size=1, max_size=8).map(lambda rows: [list(c) for c in zip(*rows)])


def of_column(name: str) -> st.SearchStrategy[Any]:
    match name:
        case "n":
            return st.integers(-6, 6)
        case "dt" | "dd":
            return st.sampled_from(DAYS) | integers(-25000, 50000)
        case "ts" | "tt":
            near = st.builds(
                lambda d, t: d * _DAY + t, st.sampled_from(DAYS), st.sampled_from([-1, 0, 1, 3_600_000_000])
            )
            return near | integers(-(10**15), 2 * 10**15)
        case "s" | "u":
            return st.sampled_from(["", "a", "b", "ab", "ba", " a ", "aXb", "%", LONG]) | values(VARCHAR)
        case "y" | "j" | "c" | "e":
            return st.sampled_from([0, 1]) | values(COLUMNS[name])
    return values(COLUMNS[name])


@functools.cache
def planned(sql: str) -> tuple[Expr, tuple[str, ...]]:
    """The expression that the plan computes, over these columns of the table."""
    plan = plan_view("view", f"SELECT k, {sql} AS z FROM t", {"t": TABLE}).plan
    source = next(n for n in plan.nodes if isinstance(n.spec, Source))
    projection = next(n for n in plan.nodes if isinstance(n.spec, Projection))
    expr = projection.spec.exprs[1]
    read = sorted(refs(expr))
    names = tuple(source.spec.columns[i] for i in read)
    return map_refs(expr, lambda r: type(r)(read.index(r.index), r.type)), names


def table_of(names: tuple[str, ...], codes: list[list[Any]]) -> pa.Table:
    count = len(codes[0])
    return pa.table(
        [pa.array(range(count)), *(arrow_array(COLUMNS[n], c) for n, c in zip(names, codes))], ["k", *names]
    )


def ask(engine: DataFusionOracle | DuckOracle, sql: str, type_: SqlType, table: pa.Table) -> list[Answer]:
    def answer(part: pa.Table) -> pa.ChunkedArray:
        column = engine.evaluate(f"SELECT {sql} AS z FROM t ORDER BY k", {"t": part}).column("z")
        if isinstance(engine, DataFusionOracle):
            assert column.type == type_.arrow
        return column.cast(type_.arrow)

    return row_by_row(answer, table)


def same(ours: Any, theirs: Any) -> bool:
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=RELATIVE_TOLERANCE, abs_tol=0)
    return bool(ours == theirs)


@pytest.mark.parametrize("sql", [*BOTH, *ONE, *DUCK_ONLY])
@given(data=st.data())
@settings(deadline=None, max_examples=12)
def test_expression(sql: str, data: st.DataObject) -> None:
    expr, names = planned(sql)
    codes = data.draw(rows_of(list(names), data.draw(st.booleans())))
    table, pool = table_of(names, codes), TextPool()
    columns = tuple(to_column(COLUMNS[n], table.column(n).combine_chunks(), pool) for n in names)
    ours, _ = evaluated(expr, Changes(columns, np.ones(table.num_rows, np.int64)), pool)
    theirs = ours if sql in DUCK_ONLY else ask(DATAFUSION, sql, expr.type, table)
    for i, (our, their) in enumerate(zip(ours, theirs)):
        beyond = isinstance(their[1], Decimal) and len(their[1].as_tuple().digits) > 38
        assert our == their or (our[0] and beyond), f"row {i} of {codes}: {sql}"
    kept = table.filter(pa.array([not failed for failed, _ in ours]))
    if sql not in ONE and kept.num_rows:
        mine = [value for failed, value in ours if not failed]
        for i, (our, (failed, their)) in enumerate(zip(mine, ask(DUCK, sql, expr.type, kept))):
            assert failed or same(our, their), f"DuckDB, row {kept.slice(i, 1).to_pylist()}: {sql}: {our}, {their}"
