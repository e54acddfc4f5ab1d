"""Expressions compiled into a list of column-wise steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vms.errors import UnsupportedSql
from vms.maintenance.expressions import arithmetic, dates, division, logic, patterns, rounding, text_functions
from vms.maintenance.expressions.casts import caster
from vms.maintenance.expressions.format import format_value
from vms.maintenance.expressions.value import Run, Value, either
from vms.model.changes import Bool, Changes, Column
from vms.model.text import TextPool
from vms.model.types import BOOLEAN, Kind, SqlType
from vms.plan.expr import Call, Case, Cast, Expr, InList, Literal, Ref, children


@dataclass(frozen=True, slots=True)
class _Step:
    """One node of an expression: `run` on the results of earlier steps, or, for a Ref, `read` its column."""

    expr: Expr
    args: tuple[int, ...]
    run: Run | None
    read: Callable[[Column], Value] | None


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Result columns of one batch. Rows set in `failed` have no result; `describe(row)` says why."""

    columns: tuple[Column, ...]
    failed: Bool | None
    describe: Callable[[int], str]


class Evaluator:
    """Evaluates expressions over batches of one input; results are DataFusion's.

    Equal sub-expressions are evaluated once a batch and constants are never spread over the rows. A `Ref`
    gives the input's own column. Raises UnsupportedSql, when it is made, for what it cannot evaluate.
    """

    def __init__(self, exprs: Sequence[Expr], pool: TextPool) -> None:
        self._pool = pool
        self._steps: list[_Step] = []
        self._known: dict[str, int] = {}
        self._roots = [self._compile(e) for e in exprs]

    def evaluate(self, changes: Changes) -> Evaluated:
        """One column for each expression."""
        values: list[Value] = []
        for step in self._steps:
            if step.run is not None:
                values.append(step.run([values[i] for i in step.args]))
            elif step.read is not None and isinstance(step.expr, Ref):
                values.append(step.read(changes.columns[step.expr.index]))
        rows, columns, failed = len(changes), [], None
        for root in self._roots:
            expr, value = self._steps[root].expr, values[root]
            columns.append(changes.columns[expr.index] if isinstance(expr, Ref) else value.to_column(rows))
            failed = either(failed, value.failed)
        if failed is not None:
            failed = np.broadcast_to(failed, rows) if failed.any() else None
        return Evaluated(tuple(columns), failed, lambda row: self._describe(values, row))

    def _compile(self, e: Expr) -> int:
        key = repr(e)
        if key not in self._known:
            e_lowered = _lower(e)
            if e_lowered is not e:
                self._known[key] = self._compile(e_lowered)
            else:
                args = tuple(self._compile(c) for c in children(e))
                read = Value.reader(e.type) if isinstance(e, Ref) else None
                self._steps.append(_Step(e, args, _runner(e, self._pool), read))
                self._known[key] = len(self._steps) - 1
        return self._known[key]

    def _describe(self, values: list[Value], row: int) -> str:
        """The innermost failed expression of a row, with the values that it was given."""
        found = next(r for r in self._roots if _failed_at(values[r], row))
        while inner := [a for a in self._steps[found].args if _failed_at(values[a], row)]:
            found = inner[0]
        step = self._steps[found]
        given = [
            _text_at(values[a], row, self._steps[a].expr.type, self._pool)
            for a in step.args
            if not isinstance(self._steps[a].expr, Literal)
        ]
        return f"{describe(step.expr)} has no result for {', '.join(given)}"


def compile_predicate(predicate: Expr, pool: TextPool) -> Callable[[Changes], Changes]:
    """A filter that keeps the rows for which the predicate is true.

    Rows for which it fails are left out and not counted: a predicate that may fail belongs into a Selection.
    """
    evaluator = Evaluator([predicate], pool)

    def keep(changes: Changes) -> Changes:
        return changes.where(true_rows(evaluator.evaluate(changes)))

    return keep


def true_rows(result: Evaluated) -> Bool:
    """Where the first column, a BOOLEAN, is true: neither false nor NULL nor failed."""
    true = result.columns[0].codes != 0
    return true if result.failed is None else true & ~result.failed


def describe(e: Expr) -> str:
    """An expression as a person reads it; columns by their position in the input, from 1."""
    match e:
        case Ref():
            return f"column {e.index + 1}"
        case Literal():
            if e.value is None or e.type.kind is Kind.DOUBLE:
                return "NULL" if e.value is None else repr(e.value)
            return repr(e.value) if isinstance(e.value, str) else format_value(int(e.value), e.type)
        case Cast():
            return f"CAST({describe(e.arg)} AS {e.type})"
        case Call("single"):
            return "a subquery that must give one row"
    name = e.function if isinstance(e, Call) else type(e).__name__.lower()
    return f"{name}({', '.join(describe(c) for c in children(e))})"


def _lower(e: Expr) -> Expr:
    """The expression in terms of fewer functions."""
    match e:
        case Call("is_not_null"):
            return Call("not", (Call("is_null", e.args, BOOLEAN),), BOOLEAN)
        case Call("is_not_distinct_from"):
            return Call("not", (Call("is_distinct_from", e.args, BOOLEAN),), BOOLEAN)
        case Case(otherwise=None):
            return replace(e, otherwise=Literal(None, e.type))
        case InList() if not _constant_options(e):
            equals = tuple(Call("equal", (e.arg, o), BOOLEAN) for o in e.options)
            return equals[0] if len(equals) == 1 else Call("or", equals, BOOLEAN)
    return e


def _constant_options(e: InList) -> bool:
    """Whether membership is a matter of equal codes of constants."""
    plain = e.arg.type.kind is not Kind.DOUBLE and e.arg.type.kind is not Kind.BOOLEAN and not e.arg.type.wide
    return plain and all(isinstance(o, Literal) and o.type == e.arg.type for o in e.options)


def _runner(e: Expr, pool: TextPool) -> Run | None:
    """The function of a lowered node."""
    match e:
        case Ref():
            return None
        case Literal() if e.type.kind is Kind.VARCHAR:
            return lambda _: Value.of_literal(e, pool)
        case Literal():
            constant = Value.of_literal(e, pool)
            return lambda _: constant
        case Cast():
            cast = caster(e.arg.type, e.type, pool, e.safe)
            return lambda v: cast(v[0])
        case Case():
            return logic.case
        case InList():
            return lambda v: logic.in_constants(v[0], v[1:])
        case Call():
            return _call(e, pool)


def _call(e: Call, pool: TextPool) -> Run:
    """The function of a call, from the family that has it."""
    run = (
        arithmetic.runner(e)
        or division.runner(e)
        or logic.runner(e, pool)
        or dates.runner(e)
        or rounding.runner(e)
        or patterns.runner(e, pool)
        or text_functions.runner(e, pool)
    )
    if run is None:
        raise UnsupportedSql(f"function {e.function}({', '.join(str(a.type) for a in e.args)})")
    return run


def _failed_at(value: Value, row: int) -> bool:
    return value.failed is not None and bool(_at(value.failed, row))


def _text_at(value: Value, row: int, type_: SqlType, pool: TextPool) -> str:
    if value.valid is not None and not _at(value.valid, row):
        return "NULL"
    code = int(_at(value.codes, row))
    if type_.kind is Kind.VARCHAR:
        return repr(pool.text(code))
    if value.high is not None:
        code = (int(_at(value.high, row)) << 64) + code % (1 << 64)
    return format_value(code, type_)


def _at(array: np.ndarray, row: int) -> Any:
    return array[row if len(array) > 1 else 0]
