"""The closed list of functions that a view's expressions may use, and how each is typed.

Names are Substrait's. Result types follow DataFusion's coercion rules; they are derived here because an
exported Substrait plan does not always state them. `vms.maintenance.expressions` evaluates exactly this list,
plus casts, CASE and IN lists.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from vms.model.types import (
    BIGINT,
    BOOLEAN,
    DOUBLE,
    INTEGER,
    MAX_PRECISION,
    TIMESTAMP,
    VARCHAR,
    Kind,
    SqlType,
    decimal,
)
from vms.plan.expr import Call, Case, Cast, Expr, InList, Literal, Ref
from vms.plan.plan import Field

ARITHMETIC = {"add": "+", "subtract": "-", "multiply": "*", "divide": "/", "modulus": "%"}
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
BITS = {
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "BITXOR",
    "bitwise_shift_left": "<<",
    "bitwise_shift_right": ">>",
}
CONNECTIVES = {"and": "AND", "or": "OR"}
NULL_TESTS = {"is_null": "IS NULL", "is_not_null": "IS NOT NULL"}
PATTERNS = {"like": "LIKE", "ilike": "ILIKE", "regex_match": "~", "regex_imatch": "~*"}
#: Of arguments of one type; NULL only where all of them are.
_FIRST_KNOWN = frozenset({"coalesce", "greatest", "least"})
#: Functions of text: the arguments (t text, i integer, * any number of the last) of each form, and the result.
_TEXT: dict[str, tuple[tuple[str, ...], SqlType]] = {
    "substring": (("ti", "tii"), VARCHAR),
    "upper": (("t",), VARCHAR),
    "lower": (("t",), VARCHAR),
    "btrim": (("t", "tt"), VARCHAR),
    "ltrim": (("t", "tt"), VARCHAR),
    "rtrim": (("t", "tt"), VARCHAR),
    "reverse": (("t",), VARCHAR),
    "replace": (("ttt",), VARCHAR),
    "left": (("ti",), VARCHAR),
    "right": (("ti",), VARCHAR),
    "str_concat": (("tt*",), VARCHAR),
    "concat": (("t*",), VARCHAR),
    "concat_ws": (("tt*",), VARCHAR),
    "character_length": (("t",), INTEGER),
    "octet_length": (("t",), INTEGER),
    "strpos": (("tt",), INTEGER),
    "starts_with": (("tt",), BOOLEAN),
    "ends_with": (("tt",), BOOLEAN),
    "contains": (("tt",), BOOLEAN),
}
#: To whole numbers, or to a number of places; `round_result` types the first.
ROUNDINGS = frozenset({"round", "trunc", "floor", "ceil"})
#: Parts of dates and timestamps, and the types of those that are no INTEGER.
DATE_PARTS = frozenset({
    "year", "isoyear", "quarter", "month", "week", "day", "doy", "dow", "isodow", "hour", "minute", "second",
    "millisecond", "microsecond", "nanosecond", "epoch",
})  # fmt: skip
_PART_TYPES = {"epoch": DOUBLE, "nanosecond": BIGINT}
#: What date_trunc cuts to.
DATE_UNITS = frozenset(
    ("microsecond", "millisecond", "second", "minute", "hour", "day", "week", "month", "quarter", "year")
)
SUPPORTED = frozenset(
    {*ARITHMETIC, *BITS, *ROUNDINGS, *COMPARISONS, *CONNECTIVES, *NULL_TESTS, *PATTERNS, *_FIRST_KNOWN, *_TEXT}
    | {"negate", "not", "abs", "signum", "date_part", "date_trunc", "add_interval", "add_seconds"}
)
#: Aggregate functions of `plan.Aggregate`.
VARIANCES = frozenset({"var_pop", "var_samp", "stddev_pop", "stddev_samp"})
TRUTHS = frozenset({"bool_and", "bool_or"})
#: Those that are made from sums.
SUMMED = frozenset({"sum", "avg", *VARIANCES, *TRUTHS})
AGGREGATES = frozenset({"count", "min", "max", *SUMMED})
#: Functions whose result is never NULL, whatever their arguments are.
_NEVER_NULL = frozenset({*NULL_TESTS, "is_distinct_from", "is_not_distinct_from", "concat"})

#: Digits that a quotient has beyond the dividend's.
_MORE_DIGITS = 4

_INTEGERS = (Kind.INTEGER, Kind.BIGINT)
_NUMBERS = (*_INTEGERS, Kind.DECIMAL, Kind.DOUBLE)


def result_type(function: str, args: Sequence[SqlType]) -> SqlType | None:
    """The type of `function(args)`, or None where the list does not hold it for these argument types."""
    kinds = {t.kind for t in args}
    same = len(set(args)) == 1
    if function in ARITHMETIC and len(args) == 2:
        if kinds == {Kind.DECIMAL}:
            return _decimal_result(function, *args)
        if kinds == {Kind.DATE}:
            return BIGINT if function == "subtract" else None
        return args[0] if same and args[0].kind in _NUMBERS else None
    if function in BITS and len(args) == 2:
        return args[0] if same and args[0].kind in _INTEGERS else None
    if function in COMPARISONS and len(args) == 2:
        return BOOLEAN if same else None
    if function in CONNECTIVES and len(args) >= 2:
        return BOOLEAN if kinds == {Kind.BOOLEAN} else None
    if function in NULL_TESTS and len(args) == 1:
        return BOOLEAN
    if function in PATTERNS and len(args) == 2:
        return BOOLEAN if kinds == {Kind.VARCHAR} else None
    if function in ("negate", "abs") and len(args) == 1:
        return args[0] if args[0].kind in _NUMBERS else None
    if function == "signum" and len(args) == 1:
        return DOUBLE if args[0].kind is Kind.DOUBLE else None
    if function in ("trunc", "floor", "ceil") and all(t.kind in _INTEGERS for t in args[1:]):
        fits = args[0].kind in (Kind.DECIMAL, Kind.DOUBLE) and len(args) <= (2 if function == "trunc" else 1)
        return args[0] if fits else None
    if function == "not" and len(args) == 1:
        return BOOLEAN if kinds == {Kind.BOOLEAN} else None
    if function in _FIRST_KNOWN and same:
        return args[0]
    if function in _TEXT:
        return _text_result(function, args)
    if function == "add_interval" and len(args) == 4:
        return args[0] if args[0].kind in (Kind.DATE, Kind.TIMESTAMP) else None
    if function == "add_seconds" and len(args) == 2:
        return args[0] if args[0].kind is Kind.DATE and args[1] == BIGINT else None
    return None


def round_result(arg: SqlType, places: int | None) -> SqlType | None:
    """The type of round(arg, places); `places` is None where it is no constant."""
    if arg.kind is not Kind.DECIMAL:
        return arg if arg.kind in _NUMBERS else None
    if places is None:
        return decimal(min(arg.precision + 1, MAX_PRECISION), arg.scale)
    if places >= arg.scale:
        return arg
    scale = max(places, 0)
    return decimal(min(max(arg.precision, arg.precision - arg.scale + scale + 1), MAX_PRECISION), scale)


def date_result(function: str, word: str, arg: SqlType) -> SqlType | None:
    """The type of date_part and date_trunc, which depends on what is asked for."""
    if function == "date_part" and word in DATE_PARTS and arg.kind in (Kind.DATE, Kind.TIMESTAMP):
        return _PART_TYPES.get(word, INTEGER)
    return TIMESTAMP if function == "date_trunc" and word in DATE_UNITS and arg.kind is Kind.TIMESTAMP else None


def _text_result(function: str, args: Sequence[SqlType]) -> SqlType | None:
    letters = "".join("t" if t.kind is Kind.VARCHAR else "i" if t.kind in _INTEGERS else "-" for t in args)
    forms, result = _TEXT[function]
    return result if any(re.fullmatch(form, letters) for form in forms) else None


def _decimal_result(function: str, a: SqlType, b: SqlType) -> SqlType | None:
    """DataFusion's rule: room for every result, at most 38 digits; None where the scale does not fit."""
    if function == "multiply":
        scale, precision = a.scale + b.scale, a.precision + b.precision + 1
    elif function == "divide":
        scale = min(a.scale + _MORE_DIGITS, MAX_PRECISION)
        precision = a.precision + scale - a.scale + b.scale
    elif function == "modulus":
        scale = max(a.scale, b.scale)
        precision = min(a.precision - a.scale, b.precision - b.scale) + scale
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
    if function in VARIANCES:
        return DOUBLE if arg.kind in _NUMBERS and not arg.wide else None
    if function in TRUTHS:
        return BOOLEAN if arg.kind is Kind.BOOLEAN else None
    return None


def castable(source: SqlType, target: SqlType) -> bool:
    """Whether CAST(source AS target) is in the list: among numbers, text to and from all, date and time.

    And truth values to and from integers and doubles, dates to and from integers (days).
    """
    if source.kind is target.kind or Kind.VARCHAR in (source.kind, target.kind):
        return True
    if source.kind in _NUMBERS and target.kind in _NUMBERS:
        return True
    if {source.kind, target.kind} == {Kind.DATE, Kind.TIMESTAMP}:
        return True
    if Kind.BOOLEAN in (source.kind, target.kind):
        other = target.kind if source.kind is Kind.BOOLEAN else source.kind
        return other in (*_INTEGERS, Kind.DOUBLE)
    return Kind.DATE in (source.kind, target.kind) and (source.kind in _INTEGERS or target.kind in _INTEGERS)


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
            return all(nullable) if name in _FIRST_KNOWN else any(nullable)
        case Cast():
            return e.safe or may_be_null(e.arg, fields)
        case Case():
            results = [then for _, then in e.branches]
            return e.otherwise is None or any(may_be_null(r, fields) for r in (*results, e.otherwise))
        case InList():
            return any(may_be_null(a, fields) for a in (e.arg, *e.options))
