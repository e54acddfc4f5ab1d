"""Random tables with histories, and random views over them in the SQL that can be maintained.

The values are chosen so that both oracles agree on every expression: integers that no product brings out of
range, doubles that are sums of few powers of two (every order of adding them gives the same sum).
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import numpy as np
from hypothesis import strategies as st

from vms.model.ring import SLOTS
from vms.model.table import HIDDEN_KEY, BaseTable, TableColumn
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, VARCHAR, Kind, SqlType, decimal
from vms.testing.plan_run import Event

WIDE = decimal(30, 4)


def _table(name: str, key: tuple[str, ...], **columns: SqlType) -> BaseTable:
    declared = tuple(TableColumn(n, t, n not in key) for n, t in columns.items())
    return BaseTable(name, declared, key, hidden_key=key == (HIDDEN_KEY,))


TABLES = {
    t.name: t
    for t in (
        _table(
            "t", ("k",), k=BIGINT, i=INTEGER, b=BIGINT, d=decimal(10, 2), w=WIDE, x=DOUBLE, s=VARCHAR, dt=DATE,
            bo=BOOLEAN,
        ),
        _table("u", ("p", "q"), p=VARCHAR, q=INTEGER, i=INTEGER, d=decimal(12, 3), s=VARCHAR, x=DOUBLE),
        _table("events", (HIDDEN_KEY,), **{HIDDEN_KEY: VARCHAR}, b=BIGINT, s=VARCHAR, d=decimal(10, 2)),
    )
}  # fmt: skip
VALUES = {
    BIGINT: [None, 0, 1, 2, -7],
    INTEGER: [None, 0, 1, 2, -3],
    decimal(10, 2): [None, *map(Decimal, ("0.00", "1.00", "-2.50", "12345.67"))],
    decimal(12, 3): [None, *map(Decimal, ("0.000", "1.000", "-2.500", "0.125"))],
    WIDE: [None, *map(Decimal, ("0.0000", "-0.0001", "1.0000", "99999999999999999999999999.9999"))],
    DOUBLE: [None, 0.0, 0.5, -1.25, 1024.0, float("nan"), float("inf"), float("-inf")],
    VARCHAR: [None, "", "a", "b", "ab", "é", "longer text"],
    DATE: [None, date(1969, 12, 31), date(1995, 3, 15), date(2000, 2, 29)],
    BOOLEAN: [None, True, False],
}
KEYS = {
    "t": [(k,) for k in range(-2, 4)],
    "u": [(p, q) for p in ("", "a", "é") for q in (0, 1)],
    "events": [(f"r{i}",) for i in range(6)],
}


@st.composite
def _events(draw, table: BaseTable, most: int) -> list[Event]:
    found = []
    for _ in range(draw(st.integers(0, most))):
        key, kind = (
            draw(st.sampled_from(KEYS[table.name])),
            draw(st.sampled_from(["row"] * 4 + ["part"] + ["delete"] * 2)),
        )
        cells = None
        if kind != "delete":
            wanted = [c for c in table.value_columns if kind == "row" or draw(st.booleans())]
            cells = {c.name: draw(st.sampled_from(VALUES[c.type])) for c in wanted}
        found.append(Event(key, cells))
    return found


@st.composite
def histories(draw):
    """A few steps: the first fills the tables, the others change them."""
    steps = draw(st.integers(2, 4))
    return [{n: draw(_events(t, 9 if step == 0 else 4)) for n, t in TABLES.items()} for step in range(steps)]


@st.composite
def slot_maps(draw, members: int):
    """Who owns each slot: an index below `members`, each of which owns some."""
    owners = np.random.default_rng(draw(st.integers(0, 2**32 - 1))).integers(0, members, SLOTS)
    owners[:members] = range(members)
    return owners


@dataclass(frozen=True)
class View:
    """A view's SQL, and the same in DuckDB's words.

    Where the text leaves open which rows come first, `exact` says the same for DataFusion without leaving it open.
    """

    sql: str
    duck_sql: str
    exact: str | None = None


@dataclass(frozen=True)
class _Expr:
    """An expression of some kind of value: INTEGER also stands for BIGINT."""

    sql: str
    type: SqlType


_LITERALS = {
    Kind.INTEGER: ["0", "1", "-3"],
    Kind.DECIMAL: ["0.5", "-2.50", "1"],
    Kind.DOUBLE: ["CAST(0.5 AS DOUBLE)", "CAST(1024 AS DOUBLE)"],
    Kind.VARCHAR: ["'a'", "'ab'", "''"],
    Kind.DATE: ["DATE '1995-03-15'", "DATE '1970-01-01'"],
    Kind.BOOLEAN: ["TRUE", "FALSE"],
}


def _kind(type_: SqlType) -> Kind:
    return Kind.INTEGER if type_.kind is Kind.BIGINT else type_.kind


def _columns(alias: str, table: BaseTable) -> list[_Expr]:
    return [_Expr(f"{alias}.{c.name}", c.type) for c in table.visible_columns]


def _of(columns: list[_Expr], *kinds: Kind, narrow: bool = False) -> list[_Expr]:
    return [c for c in columns if _kind(c.type) in kinds and not (narrow and c.type.wide)]


@st.composite
def _number(draw, columns: list[_Expr]) -> _Expr:
    """An exact number of few digits."""
    numbers = _of(columns, Kind.INTEGER, Kind.DECIMAL, narrow=True)
    a, b = draw(st.sampled_from(numbers)), draw(st.sampled_from(numbers))
    form = draw(
        st.sampled_from(
            [
                "{a}",
                "{a}",
                "{a} + {b}",
                "{a} - {b}",
                "{a} * {b}",
                "{a} * (1 - {b})",
                "-{a}",
                "coalesce({a}, 0)",
                "CASE WHEN {p} THEN {a} ELSE {b} END",
            ]
        )
    )
    sql = form.format(a=a.sql, b=b.sql, p=draw(_test(columns)) if "{p}" in form else "")
    kind = INTEGER if {_kind(a.type), _kind(b.type)} == {Kind.INTEGER} else decimal(38, 6)
    return _Expr(f"({sql})" if form != "{a}" else sql, a.type if form == "{a}" else kind)


@st.composite
def _test(draw, columns: list[_Expr]) -> str:
    """A condition on one row."""
    c = draw(st.sampled_from(columns))
    kind = _kind(c.type)
    same = _of(columns, kind)
    op = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]))
    forms = [f"{c.sql} IS NULL", f"{c.sql} IS NOT NULL", f"{c.sql} {op} {draw(st.sampled_from(_LITERALS[kind]))}"]
    if kind is not Kind.BOOLEAN:
        forms += [f"{c.sql} {op} {draw(st.sampled_from(same)).sql}"]
    if kind in (Kind.INTEGER, Kind.VARCHAR):
        options = draw(st.lists(st.sampled_from(_LITERALS[kind]), min_size=1, max_size=3))
        forms += [f"{c.sql} IN ({', '.join(options)})", f"{c.sql} NOT IN ({', '.join(options)})"]
    if kind is Kind.VARCHAR:
        forms += [f"{c.sql} LIKE '{draw(st.sampled_from(['a%', '%b', '_', '%']))}'"]
    return f"({draw(st.sampled_from(forms))})"


@st.composite
def _condition(draw, columns: list[_Expr]) -> str:
    form = draw(st.sampled_from(["{a}", "{a}", "({a} AND {b})", "({a} OR {b})", "NOT {a}"]))
    return form.format(a=draw(_test(columns)), b=draw(_test(columns)))


#: Columns by which tables are joined: name on the left, name on the right.
_PAIRS = {
    ("t", "t"): [("i", "i"), ("i", "b"), ("s", "s"), ("x", "x"), ("w", "w"), ("k", "b")],
    ("t", "u"): [("s", "p"), ("i", "q"), ("i", "i"), ("d", "d"), ("s", "s"), ("x", "x")],
    ("t", "events"): [("b", "b"), ("i", "b"), ("s", "s"), ("d", "d"), ("w", "d")],
    ("u", "u"): [("i", "i"), ("p", "s"), ("d", "d")],
    ("u", "events"): [("q", "b"), ("s", "s"), ("d", "d")],
    ("events", "events"): [("b", "b"), ("s", "s")],
}


@st.composite
def _from(draw) -> tuple[str, list[_Expr]]:
    """One to three tables, joined by one or two pairs of columns and sometimes more; or a grouped subquery."""
    count = draw(st.sampled_from([1, 1, 2, 2, 3]))
    names = sorted((draw(st.sampled_from(["t", "t", "u", "events"])) for _ in range(count)), key=list(TABLES).index)
    if count == 1 and draw(st.integers(0, 3)) == 0:
        inner = "SELECT s, i, count(*) AS n, sum(d) AS d, max(k) AS k FROM t GROUP BY s, i"
        shown = {"s": VARCHAR, "i": INTEGER, "n": BIGINT, "d": decimal(20, 2), "k": BIGINT}
        return f"({inner}) AS g", [_Expr(f"g.{name}", t) for name, t in shown.items()]
    text, columns = f"{names[0]} AS r0", _columns("r0", TABLES[names[0]])
    for n in range(1, count):
        before = draw(st.integers(0, n - 1))
        pairs = _PAIRS[names[before], names[n]]
        on = [
            f"r{before}.{a} = r{n}.{b}"
            for a, b in draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=2, unique=True))
        ]
        columns = columns + _columns(f"r{n}", TABLES[names[n]])
        if draw(st.integers(0, 3)) == 0:
            on.append(draw(_condition(columns)))
        kind = draw(st.sampled_from(["", "", "", "LEFT ", "RIGHT ", "FULL "]))
        text += f" {kind}JOIN {names[n]} AS r{n} ON {' AND '.join(on)}"
    return text, columns


@st.composite
def _subquery_test(draw, columns: list[_Expr]) -> str:
    """Whether there is a row in another table, or none, that has to do with this one."""
    table = TABLES[draw(st.sampled_from(["t", "u", "events"]))]
    inner = _columns("q", table)
    pairs = [(a, b) for a in columns for b in inner if a.type == b.type and a.type.kind is not Kind.DOUBLE]
    a, b = draw(st.sampled_from(pairs))
    more = draw(st.sampled_from(["", "", " AND {own}", " AND {both}"])).format(
        own=draw(_test(inner)), both=draw(_test([*columns, *inner]))
    )
    return draw(
        st.sampled_from(
            [
                f"{a.sql} IN (SELECT {b.sql} FROM {table.name} AS q WHERE TRUE{more})",
                f"EXISTS (SELECT 1 FROM {table.name} AS q WHERE {a.sql} = {b.sql}{more})",
                f"NOT EXISTS (SELECT 1 FROM {table.name} AS q WHERE {a.sql} = {b.sql}{more})",
            ]
        )
    )


def _average(e: _Expr) -> tuple[str, str]:
    """AVG of a decimal: four more digits, cut towards zero; DuckDB is asked for that in whole numbers."""
    digits = e.type.scale + 4
    total = f"CAST(sum({e.sql}) * {10**digits} AS HUGEINT) // nullif(count({e.sql}), 0)"
    unit = f"CAST({10**-digits:.{digits}f} AS DECIMAL(8, {digits}))"
    return f"avg({e.sql})", f"CAST({total} AS DECIMAL(30, 0)) * {unit}"


@st.composite
def _aggregate(draw, columns: list[_Expr]) -> tuple[str, str]:
    """An aggregate call, and the same for DuckDB."""
    function = draw(st.sampled_from(["count(*)", "count", "sum", "sum", "avg", "min", "max"]))
    match function:
        case "count(*)":
            return function, function
        case "count":
            arg = draw(st.sampled_from(columns)).sql
        case "sum":
            arg = draw(
                st.one_of(_number(columns), st.sampled_from(_of(columns, Kind.DECIMAL, Kind.DOUBLE, Kind.INTEGER)))
            ).sql
        case "avg":
            e = draw(st.sampled_from(_of(columns, Kind.INTEGER, Kind.DOUBLE, Kind.DECIMAL, narrow=True)))
            if e.type.kind is Kind.DECIMAL:
                return _average(e)
            arg = e.sql
        case _:
            left_out = Kind.BOOLEAN, Kind.DOUBLE  # DataFusion's of DOUBLE are wrong about infinities and NaN
            arg = draw(st.sampled_from([c for c in columns if c.type.kind not in left_out])).sql
    call = f"{function}({arg})"
    if draw(st.integers(0, 3)) == 0:
        call += f" FILTER (WHERE {draw(_condition(columns))})"
    return call, call


@st.composite
def views(draw) -> View:
    """Selection, projection, joins, groups and HAVING in any mix."""
    tables, columns = draw(_from())
    tests = draw(st.lists(_condition(columns), max_size=1))
    if draw(st.integers(0, 2)) == 0:
        tests.append(draw(_subquery_test(columns)))
    where = f" WHERE {' AND '.join(tests)}" if tests else ""
    if draw(st.integers(0, 2)) == 0:
        shown = draw(st.lists(st.one_of(st.sampled_from(columns), _number(columns)), min_size=1, max_size=4))
        select = ", ".join(f"{e.sql} AS c{i}" for i, e in enumerate(shown))
        sql = f"SELECT {select} FROM {tables}{where}"
        return View(sql, sql)
    groups = draw(st.lists(st.one_of(st.sampled_from(columns), _number(columns)), max_size=2))
    groups = [e.sql for e in dict.fromkeys(groups)]
    calls = draw(st.lists(_aggregate(columns), min_size=1, max_size=3))
    hidden = bool(groups) and draw(st.integers(0, 4)) == 0
    by = f" GROUP BY {', '.join(groups)}" if groups else ""
    having = draw(st.sampled_from(["", "", " HAVING count(*) > 1"]))
    texts = []
    for dialect in (0, 1):
        shown = [*(groups[1:] if hidden else groups), *(c[dialect] for c in calls)]
        select = ", ".join(f"{e} AS c{i}" for i, e in enumerate(shown))
        texts.append(f"SELECT {select} FROM {tables}{where}{by}{having}")
    return View(*texts)
