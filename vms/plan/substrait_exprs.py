"""Substrait expressions and types -> ours, every type derived by our own rules (vms/plan/functions.py)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from vms.errors import InternalError
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, decimal
from vms.plan.calls import call, readable, refused, to_call
from vms.plan.expr import Case, Cast, Expr, InList, Literal, Ref
from vms.plan.functions import castable
from vms.plan.plan import Field
from vms.plan.refusals import Refused

_TYPES = {"bool": BOOLEAN, "i32": INTEGER, "i64": BIGINT, "fp64": DOUBLE, "date": DATE, "string": VARCHAR}
_LITERALS = {
    "boolean": BOOLEAN,
    "i32": INTEGER,
    "i64": BIGINT,
    "fp64": DOUBLE,
    "date": DATE,
    "string": VARCHAR,
}
_MICROSECONDS, _NANOSECONDS = 6, 9
#: DataFusion's TIMESTAMP has nanoseconds; ours keeps microseconds of it.
_TIMESTAMPS = (_MICROSECONDS, _NANOSECONDS)
_SECOND = 1_000_000

#: How DataFusion marks an unsigned integer. No SQL type of ours is one, but GROUPING() is made with such constants.
_UNSIGNED = 1
_UNSIGNED_LITERALS = {"i8": INTEGER, "i16": INTEGER, "i32": BIGINT, "i64": BIGINT}


def read_type(t: Any) -> SqlType:
    """The type of a cast or of a NULL."""
    kind = t.WhichOneof("kind")
    if kind == "decimal":
        return decimal(t.decimal.precision, t.decimal.scale)
    if kind == "precision_timestamp" and t.precision_timestamp.precision in _TIMESTAMPS:
        return TIMESTAMP
    signed = kind not in ("i32", "i64") or getattr(t, kind).type_variation_reference != _UNSIGNED
    if kind in _TYPES and signed:
        return _TYPES[kind]
    known = "BOOLEAN, INTEGER, BIGINT, DECIMAL, DOUBLE, DATE, TIMESTAMP or VARCHAR"
    raise Refused(f"a value of type {_type_name(kind)}", f"cast it to {known}", "cast", "try_cast", "::", "null")


def _type_name(kind: str | None) -> str:
    names = {
        "i8": "TINYINT",
        "i16": "SMALLINT",
        "fp32": "REAL",
        "i32": "UNSIGNED INTEGER",
        "i64": "UNSIGNED BIGINT",
        "precision_time": "TIME",
        "precision_timestamp": "TIMESTAMP with another precision than microseconds",
        "precision_timestamp_tz": "TIMESTAMP WITH TIME ZONE",
        "user_defined": "NULL without a type",
    }
    return names.get(kind or "", (kind or "unknown").split("_")[0].upper())


#: The value of a subquery; what it compares is read by the second argument.
ReadSubquery = Callable[[Any, Callable[[Any], Expr]], Expr]


class ExprReader:
    """Reads the expressions of one plan; `functions` names its function anchors.

    Without `subquery`, subqueries are refused.
    """

    def __init__(self, functions: Mapping[int, str], subquery: ReadSubquery | None = None) -> None:
        self._functions, self._subquery = functions, subquery

    def function(self, anchor: int) -> str:
        return self._functions[anchor].split(":")[0]

    def read(self, e: Any, fields: Sequence[Field]) -> Expr:
        """The expression over an input with these columns."""
        kind = e.WhichOneof("rex_type")
        match kind:
            case "selection":
                index = e.selection.direct_reference.struct_field.field
                return Ref(index, fields[index].type)
            case "literal":
                return _literal(e.literal)
            case "scalar_function":
                call = e.scalar_function
                return self._call(self.function(call.function_reference), [a.value for a in call.arguments], fields)
            case "cast":
                return self._cast(e.cast, fields)
            case "if_then":
                return self._case(e.if_then, fields)
            case "singular_or_list":
                arg = self.read(e.singular_or_list.value, fields)
                options = tuple(self.read(o, fields) for o in e.singular_or_list.options)
                return InList(arg, options, BOOLEAN)
            case "subquery" if self._subquery is not None:
                return self._subquery(e.subquery, lambda inner: self.read(inner, fields))
            case "subquery":
                raise Refused("a subquery in this place", "compute it in a subquery in FROM", "( select")
            case "dynamic_parameter":
                raise Refused("a parameter", "write the value itself", "$", "?")
            case "window_function":
                raise Refused("a window function", "use GROUP BY, or compute it when reading the view", "over")
        raise Refused(f"an expression of kind {kind}", "rewrite it with operators, CASE or CAST")

    def _call(self, name: str, arguments: Sequence[Any], fields: Sequence[Field]) -> Expr:
        if not readable(name):
            raise refused(name)
        if name in ("add", "subtract"):
            moved = self._moved_in_time(name == "subtract", arguments, fields)
            if moved is not None:
                return moved
        return to_call(name, [self.read(a, fields) for a in arguments])

    def _moved_in_time(self, back: bool, arguments: Sequence[Any], fields: Sequence[Field]) -> Expr | None:
        """A sum with an interval; None for other sums."""
        for interval, other in ((arguments[1], arguments[0]), (arguments[0], arguments[1])):
            kind = interval.WhichOneof("rex_type")
            if kind == "literal" and interval.literal.WhichOneof("literal_type") == "interval_compound":
                months, days, micros = (-n if back else n for n in _interval_parts(interval.literal.interval_compound))
                amount = Literal(months, INTEGER), Literal(days, INTEGER), Literal(micros, BIGINT)
                return call("add_interval", self.read(other, fields), *amount)
            if kind == "cast" and interval.cast.type.WhichOneof("kind") == "interval_compound":
                # a number of days: DataFusion makes seconds of it, and of these an interval
                seconds = interval.cast.input
                if seconds.WhichOneof("rex_type") != "cast" or seconds.cast.type.interval_day.precision != 0:
                    raise _no_interval()
                later = self.read(seconds.cast.input, fields)
                return call("add_seconds", self.read(other, fields), call("negate", later) if back else later)
        return None

    def _cast(self, cast: Any, fields: Sequence[Field]) -> Expr:
        arg, target = self.read(cast.input, fields), read_type(cast.type)
        if not castable(arg.type, target):
            moment = arg.type == TIMESTAMP and target not in (DATE, VARCHAR)
            instead = "use extract(epoch FROM ...)" if moment else "cast in two steps"
            raise Refused(f"a cast from {arg.type} to {target}", instead, "cast", "try_cast", "::")
        safe = bool(cast.failure_behavior == cast.FAILURE_BEHAVIOR_RETURN_NULL)
        return arg if arg.type == target else Cast(arg, target, safe)

    def _case(self, case: Any, fields: Sequence[Field]) -> Expr:
        """CASE. In `CASE x WHEN ...` DataFusion exports x as a first branch without a result."""
        clauses = list(case.ifs)
        base = None
        if clauses and not clauses[0].HasField("then"):
            base = self.read(getattr(clauses.pop(0), "if"), fields)
        branches = []
        for clause in clauses:
            when = self.read(getattr(clause, "if"), fields)
            branches.append((when if base is None else call("equal", base, when), self.read(clause.then, fields)))
        otherwise = self.read(getattr(case, "else"), fields) if case.HasField("else") else None
        results = [then for _, then in branches] + ([] if otherwise is None else [otherwise])
        if len({r.type for r in results}) != 1:
            raise InternalError(f"the branches of a CASE have different types: {[str(r.type) for r in results]}")
        return Case(tuple(branches), otherwise, results[0].type)


def _literal(literal: Any) -> Literal:
    kind = literal.WhichOneof("literal_type")
    if kind in _UNSIGNED_LITERALS and literal.type_variation_reference == _UNSIGNED:
        return Literal(getattr(literal, kind), _UNSIGNED_LITERALS[kind])
    if kind in _LITERALS:
        return Literal(getattr(literal, kind), _LITERALS[kind])
    if kind == "decimal":
        value = int.from_bytes(literal.decimal.value, "little", signed=True)
        return Literal(value, decimal(literal.decimal.precision, literal.decimal.scale))
    if kind == "precision_timestamp" and literal.precision_timestamp.precision in _TIMESTAMPS:
        moment = literal.precision_timestamp
        return Literal(moment.value // 10 ** (moment.precision - _MICROSECONDS), TIMESTAMP)
    if kind == "null":
        return Literal(None, read_type(literal.null))
    if kind is not None and kind.startswith("interval"):
        raise _no_interval()
    raise Refused(f"a constant of type {_type_name(kind)}", "cast it to a type that a table can have", "cast", "::")


def _interval_parts(interval: Any) -> tuple[int, int, int]:
    """Months, days and microseconds of a constant interval."""
    months, days = interval.interval_year_to_month, interval.interval_day_to_second
    nanos = days.subseconds * 10 ** (_NANOSECONDS - days.precision)
    if nanos % 1000:
        raise Refused("an interval of nanoseconds", "use whole microseconds", "interval")
    return 12 * months.years + months.months, days.days, days.seconds * _SECOND + nanos // 1000


def _no_interval() -> Refused:
    instead = "add intervals to dates and timestamps only, and compare times with times"
    return Refused("an interval as a value", instead, "interval", "-", "+")
