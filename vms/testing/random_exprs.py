"""Random expressions over given columns: what stands in SELECT, WHERE and in aggregates (`vms.testing.random_sql`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Literal

#: What an expression gives: a whole number, a decimal, a double, text, a date, or a truth value.
Kind = Literal["whole", "exact", "double", "text", "date", "truth"]

LITERALS: dict[Kind, list[str]] = {
    "whole": ["0", "1", "2", "-7"],
    "exact": ["0.5", "-2.50", "1.000"],
    "double": ["CAST(0.5 AS DOUBLE)", "CAST(1024 AS DOUBLE)"],
    "text": ["'a'", "'ab'", "''", "'é'"],
    "date": ["DATE '1995-03-15'", "DATE '1970-01-01'"],
    "truth": ["TRUE", "FALSE"],
}


@dataclass(frozen=True)
class Expr:
    sql: str
    kind: Kind


class Expressions:
    """Draws expressions, and what else is drawn from a list of columns."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def _one_in(self, n: int) -> bool:
        return self._random.randrange(n) == 0

    def _some(self, columns: Sequence[Expr], least: int, most: int) -> list[Expr]:
        return self._random.sample(list(columns), k=min(len(columns), self._random.randint(least, most)))

    def _of(self, columns: Sequence[Expr], *kinds: Kind) -> list[Expr]:
        return [c for c in columns if c.kind in kinds]

    def _test(self, columns: Sequence[Expr]) -> str:
        """A condition on one row."""
        c = self._random.choice(columns)
        operator = self._random.choice(["=", "<>", "<", "<=", ">", ">=", "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        other = self._random.choice([*(e.sql for e in self._of(columns, c.kind)), *LITERALS[c.kind]])
        forms = [f"{c.sql} IS NULL", f"{c.sql} IS NOT NULL", f"{c.sql} {operator} {other}"]
        if c.kind in ("whole", "text"):
            listed = ", ".join(self._random.sample(LITERALS[c.kind], k=2))
            forms += [f"{c.sql} IN ({listed})", f"{c.sql} NOT IN ({listed})"]
        if c.kind == "text":
            forms += [f"{c.sql} LIKE '{self._random.choice(['a%', '%b', '_', '%', '%é%'])}'"]
            regex = self._random.choice(["^a", "b$", "[^a]", "(a|é)b?$", "^.{1,2}$", "x* t", "[[:upper:]]"])
            forms += [f"{c.sql} {self._random.choice(['~', '!~'])} '{regex}'"]
        return f"({self._random.choice(forms)})"

    def _expr(self, columns: Sequence[Expr]) -> Expr:
        c = self._random.choice(columns)
        if self._one_in(2):
            return c
        same = self._random.choice(self._of(columns, c.kind))
        forms = [f"coalesce({c.sql}, {self._random.choice(LITERALS[c.kind])})", f"nullif({c.sql}, {same.sql})"]
        forms.append(f"CASE WHEN {self._test(columns)} THEN {c.sql} ELSE {same.sql} END")
        if c.kind in ("whole", "exact", "double"):
            forms.append(f"abs({c.sql})")
        if c.kind == "exact":
            forms += [f"CAST(round({c.sql}, 1) AS DECIMAL(20, 3))", f"CAST(round({c.sql}) AS DECIMAL(20, 3))"]
        if c.kind == "double":
            forms += [f"floor({c.sql})", f"ceil({c.sql})", f"trunc({c.sql})"]
        if c.kind == "date":
            forms.append(f"CAST({c.sql} + INTERVAL '{self._random.choice((-1, 1, 12))}' MONTH AS DATE)")
        if c.kind in ("whole", "exact"):
            forms += [f"({c.sql} + {same.sql})", f"({c.sql} - {same.sql})", f"({c.sql} * 2)", f"-{c.sql}"]
        if c.kind == "text":
            forms += [f"upper({c.sql})", f"({c.sql} || {same.sql})", f"substring({c.sql}, 1, 2)"]
            forms += [f"replace({c.sql}, 'a', {same.sql})", f"trim({c.sql})", f"concat({c.sql}, '-', {same.sql})"]
        if self._one_in(4):
            other = self._of_another(c)
            return Expr(other[0], other[1])
        return Expr(self._random.choice(forms), c.kind)

    def _of_another(self, c: Expr) -> tuple[str, Kind]:
        """An expression of another kind over the column."""
        forms: list[tuple[str, Kind]] = [(f"({c.sql} IS NULL)", "truth")]
        if c.kind == "text":
            forms += [(f"CAST(length({c.sql}) AS BIGINT)", "whole"), (f"CAST(strpos({c.sql}, 'b') AS BIGINT)", "whole")]
        if c.kind == "date":
            parts = self._random.choice(("year", "month", "day", "quarter", "dow"))
            forms += [(f"CAST(extract({parts} FROM {c.sql}) AS BIGINT)", "whole")]
            forms += [(f"CAST({c.sql} AS VARCHAR)", "text"), (f"({c.sql} - DATE '1995-03-15')", "whole")]
        if c.kind == "whole":
            forms += [(f"({c.sql} % 3)", "whole"), (f"CAST({c.sql} AS VARCHAR)", "text")]
            forms += [(f"CAST({c.sql} AS DECIMAL(20, 3))", "exact"), (f"({c.sql} > 1)", "truth")]
        if c.kind == "truth":
            forms += [(f"CAST({c.sql} AS BIGINT)", "whole"), (f"({c.sql} IS NOT TRUE)", "truth")]
        return self._random.choice(forms)

    def _aggregate(self, columns: Sequence[Expr]) -> Expr:
        function = self._random.choice(
            ["count(*)", "count", "distinct", "distinct", "sum", "sum", "avg", "min", "max", "every", "variance"]
        )
        once = "DISTINCT " if self._one_in(4) else ""
        condition = f" FILTER (WHERE {self._test(columns)})" if self._one_in(6) else ""
        any_ = self._random.choice(columns)
        match function:
            case "sum":
                arg = self._random.choice(self._of(columns, "whole", "exact", "double") or [Expr("1", "whole")])
                return Expr(f"sum({once}{arg.sql}){condition}", arg.kind)
            case "avg":
                arg = self._random.choice(self._of(columns, "double", "whole") or [Expr("1", "whole")])
                return Expr(f"avg({once}CAST({arg.sql} AS DOUBLE)){condition}", "double")
            case "variance":
                arg = self._random.choice(self._of(columns, "whole", "exact", "double") or [Expr("1", "whole")])
                name = self._random.choice(["var_pop", "var_samp", "stddev_pop", "stddev_samp"])
                once = once if name.startswith("var") else ""  # DataFusion has no others with DISTINCT
                # the engines compute it in other ways, and differ in the last digits of a double
                spread = f"CAST({name}({once}{arg.sql}){condition} AS DECIMAL(30, 9))"
                return Expr(f"CAST({spread} AS DECIMAL(20, 3))", "exact")
            case "min" | "max":
                arg = self._random.choice(self._of(columns, "whole", "exact", "text", "date") or [Expr("1", "whole")])
                return Expr(f"{function}({arg.sql}){condition}", arg.kind)
            case "every":
                arg = self._random.choice(self._of(columns, "truth") or [Expr(f"({any_.sql} IS NULL)", "truth")])
                return Expr(f"{self._random.choice(('bool_and', 'bool_or'))}({arg.sql}){condition}", "truth")
            case "distinct":
                return Expr(f"count(DISTINCT {any_.sql}){condition}", "whole")
            case "count":
                return Expr(f"count({any_.sql}){condition}", "whole")
        return Expr(f"count(*){condition}", "whole")
