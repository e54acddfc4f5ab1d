"""Expressions as SQL-like text for people: `vms explain`, error messages, names of computed columns."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from decimal import Context, Decimal

from vms.model.order import SortKey
from vms.model.types import Kind, SqlType
from vms.plan.expr import Call, Case, Cast, Expr, InList, Literal, Ref
from vms.plan.functions import ARITHMETIC, BITS, COMPARISONS, CONNECTIVES, NULL_TESTS, PATTERNS
from vms.plan.plan import Aggregate, Field, Frame, TopK, WindowCall

_INFIX = {**ARITHMETIC, **BITS, **COMPARISONS, **CONNECTIVES, **PATTERNS}
_PLAIN = re.compile(r"[\w.#]+|[\w.]+\(.*\)")
#: Names that `listed` shows.
_NAMED = 5
_EPOCH = datetime.datetime(1970, 1, 1)


def column_name(index: int, fields: Sequence[Field]) -> str:
    """The column's name; `name#index` where the same name stands for several columns."""
    name = fields[index].name
    return name if sum(f.name == name for f in fields) == 1 else f"{name}#{index}"


def column_names(columns: Sequence[int], fields: Sequence[Field]) -> str:
    return ", ".join(column_name(c, fields) for c in columns)


def describe_expr(e: Expr, fields: Sequence[Field]) -> str:
    """The expression as SQL-like text over columns named by `fields`."""
    match e:
        case Ref():
            return column_name(e.index, fields)
        case Literal():
            return _literal(e.value, e.type)
        case Call(function=name) if name in CONNECTIVES:
            return f" {CONNECTIVES[name]} ".join(_chain(e, name, fields))
        case Call(function=name) if name in _INFIX:
            return f" {_INFIX[name]} ".join(_inner(a, fields) for a in e.args)
        case Call(function=name) if name in NULL_TESTS:
            return f"{_inner(e.args[0], fields)} {NULL_TESTS[name]}"
        case Call(function="negate"):
            return f"-{_inner(e.args[0], fields)}"
        case Call(function="not"):
            return f"NOT {_inner(e.args[0], fields)}"
        case Call():
            return f"{e.function}({', '.join(describe_expr(a, fields) for a in e.args)})"
        case Cast():
            return f"{'TRY_CAST' if e.safe else 'CAST'}({describe_expr(e.arg, fields)} AS {e.type})"
        case Case():
            branches = " ".join(
                f"WHEN {describe_expr(when, fields)} THEN {describe_expr(then, fields)}" for when, then in e.branches
            )
            otherwise = "" if e.otherwise is None else f" ELSE {describe_expr(e.otherwise, fields)}"
            return f"CASE {branches}{otherwise} END"
        case InList():
            return f"{_inner(e.arg, fields)} IN ({', '.join(describe_expr(o, fields) for o in e.options)})"


def describe_call(call: Aggregate, fields: Sequence[Field]) -> str:
    """An aggregate call over columns named by `fields`."""
    return f"{call.function}({'*' if call.arg is None else column_name(call.arg, fields)})"


def describe_order(order: Sequence[SortKey], fields: Sequence[Field]) -> str:
    """ORDER BY as text; where NULLs stand is said where it is not as usual (last, DESC: first)."""
    keys = []
    for k in order:
        direction = " DESC" if k.descending else ""
        nulls = "" if k.nulls_first == k.descending else f" NULLS {'FIRST' if k.nulls_first else 'LAST'}"
        keys.append(f"{column_name(k.column, fields)}{direction}{nulls}")
    return ", ".join(keys)


def describe_top_k(spec: TopK, fields: Sequence[Field]) -> str:
    """The places and the order that they are counted in."""
    first = spec.offset + 1
    places = f"from place {first} on" if spec.limit is None else f"places {first} to {spec.offset + spec.limit}"
    return f"{places} by ({describe_order(spec.order, fields) or 'all columns'})"


def describe_window(call: WindowCall, fields: Sequence[Field]) -> str:
    """A window function over columns named by `fields`."""
    args = ["*"] if call.function == "count" and call.arg is None else []
    if call.arg is not None:
        args.append(column_name(call.arg, fields))
    if call.number and call.function not in ("first_value", "last_value"):
        args.append(str(call.number))
    if call.default is not None:
        args.append(describe_expr(call.default, fields))
    return f"{call.function}({', '.join(args)})"


def describe_frame(frame: Frame, key: SqlType | None) -> str:
    """A frame, its distances in terms of the sort column's type; nothing where it is the whole partition."""
    if (frame.start, frame.end) == (None, None):
        return ""
    unit = None if frame.rows else key
    ends = (_bound(frame.start, "PRECEDING", unit), _bound(frame.end, "FOLLOWING", unit))
    return f" {'ROWS' if frame.rows else 'RANGE'} {ends[0]} TO {ends[1]}"


def _bound(distance: int | None, side: str, key: SqlType | None) -> str:
    if distance is None:
        return f"UNBOUNDED {side}"
    if distance == 0:
        return "CURRENT ROW"
    size: int | str = abs(distance)
    if key is not None and key.kind is Kind.DECIMAL:
        size = _literal(abs(distance), key)
    elif key is not None and key.kind in (Kind.DATE, Kind.TIMESTAMP):
        days = datetime.timedelta(days=1) if key.kind is Kind.DATE else datetime.timedelta(microseconds=1)
        size = str(abs(distance) * days).removesuffix(", 0:00:00")
    return f"{size} {'PRECEDING' if distance < 0 else 'FOLLOWING'}"


def describe_size(count: int) -> str:
    """Bytes with three digits: `0 B`, `5.56 KB`, `151 MB`."""
    found, unit = float(count), "B"
    for unit in ("B", "KB", "MB", "GB", "TB"):
        if found < 999.5 or unit == "TB":
            break
        found /= 1000
    return f"{found:.3g} {unit}"


def listed(names: Sequence[str]) -> str:
    """The first names, and how many more there are."""
    more = len(names) - _NAMED
    return ", ".join(names) if more < 2 else f"{', '.join(names[:_NAMED])} and {more} more"


def _inner(e: Expr, fields: Sequence[Field]) -> str:
    """The expression as an operand: in brackets where it would not hold together by itself."""
    text = describe_expr(e, fields)
    loose = isinstance(e, Call | InList) or (isinstance(e, Ref) and not _PLAIN.fullmatch(text))
    return f"({text})" if loose else text


def _chain(e: Expr, connective: str, fields: Sequence[Field]) -> list[str]:
    """The parts of a chain of one connective; only the other connective inside needs brackets."""
    if isinstance(e, Call) and e.function == connective:
        return [part for a in e.args for part in _chain(a, connective, fields)]
    other = isinstance(e, Call) and e.function in CONNECTIVES
    return [_inner(e, fields) if other or isinstance(e, Ref) else describe_expr(e, fields)]


def _literal(value: int | str | bool | float | None, t: SqlType) -> str:
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    if t.kind is Kind.DECIMAL:
        return f"{Decimal(int(value)).scaleb(-t.scale, Context(prec=60)):f}"
    if t.kind in (Kind.DATE, Kind.TIMESTAMP):
        step = datetime.timedelta(days=value) if t.kind is Kind.DATE else datetime.timedelta(microseconds=value)
        try:
            moment = _EPOCH + step
        except OverflowError:
            return f"{t.kind.value} {value}"
        return f"{t.kind.value} '{moment.date() if t.kind is Kind.DATE else moment}'"
    return str(value)
