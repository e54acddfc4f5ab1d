"""Random views in SQL over three small tables, from a seed: joins of every kind, nesting, groups, set operations.

The SQL means the same to DataFusion and to DuckDB: every ORDER BY that decides something names all columns and
where NULLs go, numbers stay far from any limit, doubles are sums of few powers of two (every order of adding them
gives the same sum), averages are of doubles, and regular expressions ask nothing that only one of them knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from random import Random
from typing import Any

from vms.model.table import HIDDEN_KEY, BaseTable, TableColumn
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, VARCHAR, SqlType, decimal
from vms.testing.oracle import THREE_VALUES
from vms.testing.random_exprs import LITERALS, Expr, Expressions, Kind

#: Tables that are declared small: they may be joined without an equality.
SMALL = {"u": 12}


def _table(name: str, key: tuple[str, ...], **columns: SqlType) -> BaseTable:
    declared = tuple(TableColumn(n, t, n not in key) for n, t in columns.items())
    return BaseTable(name, declared, key, hidden_key=key == (HIDDEN_KEY,), rows_estimate=SMALL.get(name))


TABLES = {
    t.name: t
    for t in (
        _table("t", ("k",), k=BIGINT, a=INTEGER, b=BIGINT, d=decimal(10, 2), s=VARCHAR, dt=DATE, o=BOOLEAN),
        _table("u", ("p", "n"), p=VARCHAR, n=INTEGER, a=INTEGER, b=BIGINT, d=decimal(12, 3), s=VARCHAR),
        _table("e", (HIDDEN_KEY,), **{HIDDEN_KEY: VARCHAR}, b=BIGINT, s=VARCHAR, d=decimal(10, 2), x=DOUBLE),
    )
}
VALUES: dict[SqlType, list[Any]] = {
    BIGINT: [None, 0, 1, 2, 3, -7],
    INTEGER: [None, 0, 1, 2, 3, -7],
    decimal(10, 2): [None, *map(Decimal, ("0.00", "1.00", "-2.50", "12345.67"))],
    decimal(12, 3): [None, *map(Decimal, ("0.000", "1.000", "-2.500", "0.125"))],
    DOUBLE: [None, 0.0, 0.5, -1.25, 1024.0],
    VARCHAR: [None, "", "a", "b", "ab", "A", "é", "日本", "longer text"],
    DATE: [None, date(1969, 12, 31), date(1995, 3, 15), date(2000, 2, 29)],
    BOOLEAN: [None, True, False],
}
KEYS: dict[str, list[tuple[Any, ...]]] = {
    "t": [(k,) for k in range(-2, 6)],
    "u": [(p, n) for p in ("", "a", "é", "ab") for n in (0, 1, -7)],
    "e": [(f"r{i}",) for i in range(10)],
}
_KINDS: dict[str, Kind] = {
    "BIGINT": "whole", "INTEGER": "whole", "DECIMAL": "exact", "DOUBLE": "double", "VARCHAR": "text", "DATE": "date",
    "BOOLEAN": "truth",
}  # fmt: skip
_TYPES: dict[Kind, str] = {
    "whole": "BIGINT", "exact": "DECIMAL(20, 3)", "double": "DOUBLE", "text": "VARCHAR", "date": "DATE",
    "truth": "BOOLEAN",
}  # fmt: skip


@dataclass(frozen=True)
class Query:
    """A SELECT statement whose columns are called c0, c1, ..."""

    sql: str
    kinds: tuple[Kind, ...]


class Generator(Expressions):
    """`view()` gives one random SELECT after the other."""

    def __init__(self, random: Random) -> None:
        super().__init__(random)
        self._aliases = 0

    def view(self) -> str:
        return self._query(self._random.choice((1, 1, 2, 2, 3))).sql

    def _alias(self) -> str:
        self._aliases += 1
        return f"r{self._aliases}"

    # --- queries ---------------------------------------------------------------------------------------------

    def _query(self, depth: int) -> Query:
        forms = [self._plain, self._plain, self._grouped, self._grouped, self._grouped, self._distinct]
        if depth > 1:
            forms += [self._set, self._set, self._first, self._windows, self._distinct_on]
        return self._random.choice(forms)(depth)

    def _select(self, shown: Sequence[Expr], rest: str, distinct: str = "") -> Query:
        listed = ", ".join(f"{e.sql} AS c{i}" for i, e in enumerate(shown))
        return Query(f"SELECT {distinct}{listed} FROM {rest}", tuple(e.kind for e in shown))

    def _plain(self, depth: int) -> Query:
        source, columns = self._from(depth)
        shown = [self._expr(columns) for _ in range(self._random.randint(1, 4))]
        if self._one_in(6):
            shown.append(self._one_value())
        return self._select(shown, source + self._where(columns, depth))

    def _distinct(self, depth: int) -> Query:
        source, columns = self._from(depth)
        return self._select(self._some(columns, 1, 3), source + self._where(columns, depth), "DISTINCT ")

    def _grouped(self, depth: int) -> Query:
        source, columns = self._from(depth)
        groups = self._some(columns, 0, 2)
        calls = [self._aggregate(columns) for _ in range(self._random.randint(1, 3))]
        shown = [*groups, *calls]
        by, having = "", ""
        if groups:
            listed = ", ".join(g.sql for g in groups)
            if self._one_in(4):
                by, more = self._sets(groups)
                shown += more
            else:
                by = f" GROUP BY {listed}"
        if self._one_in(4):
            having = " HAVING " + self._random.choice(["count(*) > 1", "count(*) = 1", f"{calls[0].sql} IS NOT NULL"])
            having += f" AND count(*) <= {self._one_value().sql}" if self._one_in(3) else ""
        return self._select(shown, source + self._where(columns, depth) + by + having)

    def _sets(self, groups: Sequence[Expr]) -> tuple[str, list[Expr]]:
        """Several groupings at once, and perhaps what tells them apart."""
        listed = ", ".join(g.sql for g in groups)
        drawn = [", ".join(g.sql for g in self._some(groups, 0, 2)) for _ in range(self._random.randint(1, 2))]
        sets = ", ".join(f"({s})" for s in (listed, *drawn))
        form = self._random.choice([f"ROLLUP ({listed})", f"CUBE ({listed})", f"GROUPING SETS ({sets})"])
        return f" GROUP BY {form}", [Expr(f"grouping({listed})", "whole")] if self._one_in(2) else []

    def _distinct_on(self, depth: int) -> Query:
        inner, alias = self._query(depth - 1), self._alias()
        columns = self._random.sample(self._columns_of(inner, alias), k=len(inner.kinds))
        chosen = columns[: self._random.randint(1, 2)]
        ordered = ", ".join(self._order(c) for c in columns)
        on = ", ".join(c.sql for c in chosen)
        found = self._select(columns, f"({inner.sql}) AS {alias} ORDER BY {ordered}", f"DISTINCT ON ({on}) ")
        return Query(f"SELECT * FROM ({found.sql}) AS {self._alias()}", found.kinds)

    def _set(self, depth: int) -> Query:
        choice: tuple[Kind, ...] = ("whole", "exact", "text", "date")
        kinds = tuple(self._random.choices(choice, k=self._random.randint(1, 3)))
        operation = self._random.choice(["UNION", "UNION ALL", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"])
        arms = [self._arm(kinds, depth - 1) for _ in range(2)]
        return Query(f"{arms[0]} {operation} {arms[1]}", kinds)

    def _arm(self, kinds: tuple[Kind, ...], depth: int) -> str:
        """A SELECT of exactly these kinds, cast to one type each."""
        source, columns = self._from(depth)
        shown = []
        for kind in kinds:
            fitting = self._of(columns, kind) or [Expr(self._random.choice(LITERALS[kind]), kind)]
            shown.append(Expr(f"CAST({self._random.choice(fitting).sql} AS {_TYPES[kind]})", kind))
        return self._select(shown, source + self._where(columns, depth)).sql

    def _first(self, depth: int) -> Query:
        inner, alias = self._query(depth - 1), self._alias()
        columns = self._columns_of(inner, alias)
        ordered = ", ".join(self._order(c) for c in self._random.sample(columns, k=len(columns)))
        offset = f" OFFSET {self._random.randint(1, 3)}" if self._one_in(3) else ""
        limit = f" ORDER BY {ordered} LIMIT {self._random.randint(1, 5)}{offset}"
        return self._select(columns, f"({inner.sql}) AS {alias}{limit}")

    def _windows(self, depth: int) -> Query:
        inner, alias = self._query(depth - 1), self._alias()
        columns = self._columns_of(inner, alias)
        within = self._some(columns, 0, 1)
        partition = f"PARTITION BY {within[0].sql} " if within else ""
        order = "ORDER BY " + ", ".join(self._order(c) for c in self._random.sample(columns, k=len(columns)))
        whole = self._of(columns, "whole") or [Expr("1", "whole")]
        value = self._random.choice(whole).sql
        call = self._random.choice(
            [
                f"row_number() OVER ({partition}{order})",
                f"rank() OVER ({partition}ORDER BY {self._order(columns[0])})",
                f"dense_rank() OVER ({partition}ORDER BY {self._order(columns[0])})",
                f"lag({value}) OVER ({partition}{order})",
                f"lead({value}, 2) OVER ({partition}{order})",
                f"sum({value}) OVER ({partition})",
                f"count(*) OVER ({partition}ORDER BY {self._order(columns[0])})",
                f"max({value}) OVER ({partition}{order} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING)",
            ]
        )
        return self._select([*columns, Expr(call, "whole")], f"({inner.sql}) AS {alias}")

    def _order(self, column: Expr) -> str:
        return f"{column.sql} {self._random.choice(('ASC', 'DESC'))} NULLS {self._random.choice(('FIRST', 'LAST'))}"

    # --- FROM ------------------------------------------------------------------------------------------------

    def _columns_of(self, query: Query, alias: str) -> list[Expr]:
        return [Expr(f"{alias}.c{i}", kind) for i, kind in enumerate(query.kinds)]

    def _relation(self, depth: int) -> tuple[str, list[Expr]]:
        alias = self._alias()
        if depth > 1 and self._one_in(3):
            inner = self._query(depth - 1)
            columns = [Expr(f"{alias}.{alias}c{i}", kind) for i, kind in enumerate(inner.kinds)]
            return self._named(f"({inner.sql})", alias, columns), columns
        return self._base(alias)

    def _named(self, relation: str, alias: str, columns: Sequence[Expr]) -> str:
        """With a name of its own for each column: DataFusion moves filters to another column of the same name."""
        return f"{relation} AS {alias}({', '.join(c.sql.partition('.')[2] for c in columns)})"

    def _base(self, alias: str, *names: str) -> tuple[str, list[Expr]]:
        """One of the tables, of these if they are named."""
        table = TABLES[self._random.choice(names or list(TABLES))]
        columns = [Expr(f"{alias}.{alias}{c.name}", _KINDS[c.type.kind.value]) for c in table.visible_columns]
        return self._named(table.name, alias, columns), columns

    def _from(self, depth: int) -> tuple[str, list[Expr]]:
        source, columns = self._relation(depth)
        for _ in range(self._random.choice((0, 0, 1, 1, 2))):
            other, more = self._relation(depth - 1)
            if self._one_in(12):
                total, alias = self._aggregate(more), self._alias()
                source += f" CROSS JOIN (SELECT {total.sql} AS {alias}c0 FROM {other}) AS {alias}"
                columns = [*columns, Expr(f"{alias}.{alias}c0", total.kind)]
                continue
            if self._one_in(10):
                joined, more = self._beside_small(columns)
                source, columns = source + joined, [*columns, *more]
                continue
            pairs = self._pairs(columns, more)
            if not pairs:
                continue
            join = self._random.choice(["JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN"])
            on = [f"{a.sql} = {b.sql}" for a, b in self._random.sample(pairs, k=min(len(pairs), 1 + self._one_in(3)))]
            columns = [*columns, *more]
            if join != "FULL JOIN" and self._one_in(3):
                on.append(self._test(columns))
            source += f" {join} {other} ON {' AND '.join(on)}"
        return source, columns

    def _beside_small(self, columns: Sequence[Expr]) -> tuple[str, list[Expr]]:
        """A join without an equality: with a table that is declared small."""
        alias = self._alias()
        small, more = self._base(alias, *SMALL)
        pairs = self._pairs(columns, more)
        if not pairs or self._one_in(3):
            return f" CROSS JOIN {small}", more
        (a, b), operator = self._random.choice(pairs), self._random.choice(["<", "<=", ">", ">=", "<>"])
        return f" {self._random.choice(('JOIN', 'LEFT JOIN'))} {small} ON {a.sql} {operator} {b.sql}", more

    def _pairs(self, columns: Sequence[Expr], more: Sequence[Expr]) -> list[tuple[Expr, Expr]]:
        joined: tuple[Kind, ...] = ("whole", "text", "exact", "date")
        return [(a, b) for a in columns for b in more if a.kind == b.kind and a.kind in joined]

    # --- conditions ------------------------------------------------------------------------------------------

    def _where(self, columns: Sequence[Expr], depth: int) -> str:
        if self._one_in(2):
            return ""
        if self._one_in(3):
            nested = self._subquery_test(columns, depth)
            return f" WHERE {nested}" + (f" AND {self._test(columns)}" if self._one_in(3) else "")
        form = self._random.choice(["{a}", "{a}", "{a} AND {b}", "({a} OR {b})", "NOT {a}"])
        return " WHERE " + form.format(a=self._test(columns), b=self._test(columns))

    def _subquery_test(self, columns: Sequence[Expr], depth: int) -> str:
        alias = self._alias()
        source, inner = self._base(alias)
        pairs = self._pairs(columns, inner)
        extra = f" AND {self._test(inner)}" if self._one_in(2) else ""
        if not pairs:
            return self._test(columns)
        a, b = self._random.choice(pairs)
        within = f" WHERE {self._test(inner)}" if extra else ""
        numbers = self._of(inner, "whole") or [b]
        value = self._random.choice(numbers)
        forms = [
            f"EXISTS (SELECT 1 FROM {source} WHERE {a.sql} = {b.sql}{extra})",
            f"NOT EXISTS (SELECT 1 FROM {source} WHERE {a.sql} = {b.sql}{extra})",
            f"{a.sql} IN (SELECT {b.sql} FROM {source}{within})",
            f"{a.sql} NOT IN (SELECT {b.sql} FROM {source}{within})",
        ]
        mine = self._of(columns, value.kind)
        if mine and value.kind == "whole":
            operator = self._random.choice(["<", "<=", ">", ">=", "="])
            call = self._random.choice(["min", "max", "sum", "count"])
            compared = f"{self._random.choice(mine).sql} {operator}"
            forms.append(f"{compared} (SELECT {call}({value.sql}) FROM {source}{within})")
            if call != "count":
                forms.append(f"{compared} (SELECT {call}({value.sql}) FROM {source} WHERE {a.sql} = {b.sql}{extra})")
        return self._random.choice(forms + self._compared(columns, pairs, a, b, source, within))

    def _compared(
        self, columns: Sequence[Expr], pairs: list[tuple[Expr, Expr]], a: Expr, b: Expr, source: str, within: str
    ) -> list[str]:
        """EXISTS, ANY and ALL by a comparison, IN and NOT IN where a NULL is not false."""
        test, operator = self._test(columns), self._random.choice(["<", "<=", ">", ">="])
        items = f"(SELECT {b.sql} FROM {source}{within})"
        forms = [
            f"EXISTS (SELECT 1 FROM {source} WHERE {b.sql} {operator} {a.sql})",
            f"NOT EXISTS (SELECT 1 FROM {source} WHERE {b.sql} {operator} {a.sql})",
            f"{a.sql} {operator} {self._random.choice(('ANY', 'ALL'))} {items}",
            f"({a.sql} IN {items} OR {test})",
            f"{THREE_VALUES} ({a.sql} NOT IN {items} OR {test})",
        ]
        others = [(c, d) for c, d in pairs if c is not a and d is not b]
        if others:
            c, d = self._random.choice(others)
            correlated = f"(SELECT {b.sql} FROM {source} WHERE {c.sql} = {d.sql})"
            forms.append(f"{THREE_VALUES} {a.sql} NOT IN {correlated}")
            forms.append(f"EXISTS (SELECT 1 FROM {source} WHERE {c.sql} = {d.sql} AND {a.sql} {operator} {b.sql})")
        return forms

    def _one_value(self) -> Expr:
        """A subquery that gives one value."""
        source, columns = self._base(self._alias())
        whole = self._random.choice(self._of(columns, "whole")).sql
        within = f" WHERE {self._test(columns)}" if self._one_in(2) else ""
        return Expr(f"(SELECT {self._random.choice(('min', 'max', 'count'))}({whole}) FROM {source}{within})", "whole")
