"""Substrait expressions and types -> ours, every type derived by our own rules (vms/plan/functions.py)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vms.errors import InternalError
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, SqlType, decimal
from vms.plan.expr import Call, Case, Cast, Expr, InList, Literal, Ref
from vms.plan.functions import SUPPORTED, castable, result_type
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
_MICROSECONDS = 6

#: How DataFusion marks an unsigned integer, which no SQL type of ours is.
_UNSIGNED = 1

#: Tests of a truth value, as comparisons that are never NULL.
_TRUTH_TESTS = {
    "is_true": ("is_not_distinct_from", True),
    "is_not_true": ("is_distinct_from", True),
    "is_false": ("is_not_distinct_from", False),
    "is_not_false": ("is_distinct_from", False),
}
_SAME = {"is_unknown": "is_null", "is_not_unknown": "is_not_null"}

_READABLE = SUPPORTED | _TRUTH_TESTS.keys() | _SAME.keys() | {"nullif"}

#: How functions that we refuse are written in SQL, where that is not `name(...)`.
_SPELLINGS = {
    "divide": ("/",),
    "modulus": ("%", "mod"),
    "str_concat": ("||", "concat"),
    "date_part": ("extract", "date_part"),
    "substring": ("substring", "substr"),
    "add": ("+",),
    "subtract": ("-",),
    "multiply": ("*",),
    "like": ("like",),
    "ilike": ("ilike",),
    "regex_match": ("~", "regexp_like"),
    "regex_imatch": ("~*", "regexp_like"),
    "regex_not_match": ("!",),
    "regex_not_imatch": ("!",),
    "make_array": ("array", "["),
    "struct": ("struct", "in"),
}
_NAMES = {
    "divide": "division",
    "modulus": "the remainder operator",
    "str_concat": "joining text with ||",
    "date_part": "a part of a date",
    "regex_match": "a regular expression",
    "regex_imatch": "a regular expression",
    "regex_not_match": "a regular expression",
    "regex_not_imatch": "a regular expression",
    "make_array": "an array",
    "struct": "a row as a value",
}


def read_type(t: Any) -> SqlType:
    """The type of a cast or of a NULL."""
    kind = t.WhichOneof("kind")
    if kind == "decimal":
        return decimal(t.decimal.precision, t.decimal.scale)
    if kind == "precision_timestamp" and t.precision_timestamp.precision == _MICROSECONDS:
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


class ExprReader:
    """Reads the expressions of one plan; `functions` names its function anchors."""

    def __init__(self, functions: Mapping[int, str]) -> None:
        self._functions = functions

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
            case "subquery":
                raise Refused("a subquery in an expression", "write it as a join with the other table", "( select")
            case "dynamic_parameter":
                raise Refused("a parameter", "write the value itself", "$", "?")
            case "window_function":
                raise Refused("a window function", "use GROUP BY, or compute it when reading the view", "over")
        raise Refused(f"an expression of kind {kind}", "rewrite it with operators, CASE or CAST")

    def _call(self, name: str, arguments: Sequence[Any], fields: Sequence[Field]) -> Expr:
        if name not in _READABLE:
            raise _refused(name)
        args = [self.read(a, fields) for a in arguments]
        if name in ("like", "ilike") and len(args) == 3:
            escape = args.pop()
            if escape != Literal(None, VARCHAR):
                raise Refused("LIKE with ESCAPE", "use the default escape, a backslash", "escape")
        name = _SAME.get(name, name)
        if name in _TRUTH_TESTS:
            name, truth = _TRUTH_TESTS[name]
            args.append(Literal(truth, BOOLEAN))
        if name == "nullif":
            return Case(((call("equal", *args), Literal(None, args[0].type)),), args[0], args[0].type)
        return call(name, *args)

    def _cast(self, cast: Any, fields: Sequence[Field]) -> Expr:
        arg, target = self.read(cast.input, fields), read_type(cast.type)
        if not castable(arg.type, target):
            raise Refused(f"a cast from {arg.type} to {target}", "cast in two steps", "cast", "try_cast", "::")
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


def call(name: str, *args: Expr) -> Call:
    """A call of the closed list, typed; Refused where the list does not hold it."""
    t = result_type(name, [a.type for a in args])
    if t is None:
        raise _refused(name, f" of ({', '.join(str(a.type) for a in args)})")
    return Call(name, args, t)


def _refused(name: str, types: str = "") -> Refused:
    what = _NAMES.get(name, f"function {name}") + types
    instead = "compute it when reading the view, or store it in a column"
    return Refused(what, instead, *_SPELLINGS.get(name, (name,)))


def _literal(literal: Any) -> Literal:
    kind = literal.WhichOneof("literal_type")
    if kind in _LITERALS:
        return Literal(getattr(literal, kind), _LITERALS[kind])
    if kind == "decimal":
        value = int.from_bytes(literal.decimal.value, "little", signed=True)
        return Literal(value, decimal(literal.decimal.precision, literal.decimal.scale))
    if kind == "precision_timestamp" and literal.precision_timestamp.precision == _MICROSECONDS:
        return Literal(literal.precision_timestamp.value, TIMESTAMP)
    if kind == "null":
        return Literal(None, read_type(literal.null))
    if kind is not None and kind.startswith("interval"):
        raise Refused(
            "an interval added to a column",
            "move the interval to the constant it is compared with",
            "interval",
            "+",
            "-",
        )
    raise Refused(f"a constant of type {_type_name(kind)}", "cast it to a type that a table can have", "cast", "::")
