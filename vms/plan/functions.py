"""The closed list of functions that a view's expressions may use, and how each is typed.

Names are Substrait's. Result types follow DataFusion's coercion rules; they are derived here because an
exported Substrait plan does not always state them. `vms.maintenance.expressions` evaluates exactly this list,
plus casts, CASE and IN lists.
"""

from __future__ import annotations

from collections.abc import Sequence

from vms.model.types import BOOLEAN, MAX_PRECISION, Kind, SqlType, decimal
from vms.plan.expr import Call, Case, Cast, Expr, InList, Literal, Ref
from vms.plan.plan import Field

ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*"}
COMPARISONS = {
    "equal": "=",
    "not_equal": "<>",
    "lt": "<",
    "lte": "<=",
    "gt": ">",
    "gte": ">=",
    "is_distinct_from": "IS DISTINCT FROM",
    "is_not_distinct_from": "IS NOT DISTINCT FROM",
}
CONNECTIVES = {"and": "AND", "or": "OR"}
NULL_TESTS = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL"}
PATTERNS = {"like": "LIKE", "ilike": "ILIKE"}
SUPPORTED = frozenset({*ARITHMETIC, *COMPARISONS, *CONNECTIVES, *NULL_TESTS, *PATTERNS, "negate", "not", "coalesce"})
#: Aggregate functions of `plan.Aggregate`.
AGGREGATES = frozenset({"count", "sum", "avg", "min", "max"})
#: Functions whose result is never NULL, whatever their arguments are.
_NEVER_NULL = frozenset({*NULL_TESTS, "is_distinct_from", "is_not_distinct_from"})

_INTEGERS = (Kind.INTEGER, Kind.BIGINT)
_NUMBERS = (*_INTEGERS, Kind.DECIMAL, Kind.DOUBLE)


def result_type(function: str, args: Sequence[SqlType]) -> SqlType | None:
    """The type of `function(args)`, or None where the list does not hold it for these argument types."""
    kinds = {t.kind for t in args}
    same = len(set(args)) == 1
    if function in ARITHMETIC and len(args) == 2:
        if kinds == {Kind.DECIMAL}:
            return _decimal_result(function, *args)
        return args[0] if same and args[0].kind in _NUMBERS else None
    if function in COMPARISONS and len(args) == 2:
        return BOOLEAN if same else None
    if function in CONNECTIVES and len(args) >= 2:
        return BOOLEAN if kinds == {Kind.BOOLEAN} else None
    if function in NULL_TESTS and len(args) == 1:
        return BOOLEAN
    if function in PATTERNS and len(args) == 2:
        return BOOLEAN if kinds == {Kind.VARCHAR} else None
    if function == "negate" and len(args) == 1:
        return args[0] if args[0].kind in _NUMBERS else None
    if function == "not" and len(args) == 1:
        return BOOLEAN if kinds == {Kind.BOOLEAN} else None
    if function == "coalesce" and same:
        return args[0]
    return None


def _decimal_result(function: str, a: SqlType, b: SqlType) -> SqlType | None:
    """DataFusion's rule: room for every result, at most 38 digits; None where the scale does not fit."""
    if function == "multiply":
        scale, precision = a.scale + b.scale, a.precision + b.precision + 1
    else:
        scale = max(a.scale, b.scale)
        precision = max(a.precision - a.scale, b.precision - b.scale) + scale + 1
    return decimal(min(precision, MAX_PRECISION), scale) if scale <= MAX_PRECISION else None


def aggregate_type(function: str, arg: SqlType | None) -> SqlType | None:
    """The type of an aggregate over an argument of type `arg` (None: count(*)); None where there is none."""
    if function == "count":
        return SqlType(Kind.BIGINT)
    if arg is None:
        return None
    if function in ("min", "max"):
        return arg
    if function == "sum":
        if arg.kind is Kind.DECIMAL:
            return decimal(min(arg.precision + 10, MAX_PRECISION), arg.scale)
        if arg.kind in _INTEGERS:
            return SqlType(Kind.BIGINT)
        return arg if arg.kind is Kind.DOUBLE else None
    if function == "avg":
        if arg.kind is Kind.DECIMAL:
            return decimal(min(arg.precision + 4, MAX_PRECISION), min(arg.scale + 4, MAX_PRECISION))
        return SqlType(Kind.DOUBLE) if arg.kind in _NUMBERS else None
    return None


def castable(source: SqlType, target: SqlType) -> bool:
    """Whether CAST(source AS target) is in the list: among numbers, text to and from all, date and time."""
    if source.kind is target.kind or Kind.VARCHAR in (source.kind, target.kind):
        return True
    if source.kind in _NUMBERS and target.kind in _NUMBERS:
        return True
    if {source.kind, target.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return True
    return source.kind is Kind.BOOLEAN and target.kind in _INTEGERS


def may_be_null(e: Expr, fields: Sequence[Field]) -> bool:
    """Whether the expression can be NULL over rows of `fields`; never says no wrongly."""
    match e:
        case Ref():
            return fields[e.index].nullable
        case Literal():
            return e.value is None
        case Call(function=name):
            if name in _NEVER_NULL:
                return False
            nullable = [may_be_null(a, fields) for a in e.args]
            return all(nullable) if name == "coalesce" else any(nullable)
        case Cast():
            return e.safe or may_be_null(e.arg, fields)
        case Case():
            results = [then for _, then in e.branches]
            return e.otherwise is None or any(may_be_null(r, fields) for r in (*results, e.otherwise))
        case InList():
            return any(may_be_null(a, fields) for a in (e.arg, *e.options))
