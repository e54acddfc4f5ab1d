"""Window functions in an exported plan -> Window.

DataFusion exports a Window as a projection of all columns and the calls. Its Substrait does not hold everything that
was said: `vms.plan.window_text` tells about each call what is missing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from vms.errors import InternalError
from vms.model.order import SortKey
from vms.model.types import BIGINT, DOUBLE, Kind
from vms.plan.describe import describe_window
from vms.plan.expr import Cast, Expr, Literal
from vms.plan.functions import aggregate_type, castable, may_be_null
from vms.plan.limits import ReadExpr, read_sorts
from vms.plan.logical import Rel, project, ref
from vms.plan.plan import WINDOW_AGGREGATES, Field, Frame, Window, WindowCall
from vms.plan.refusals import Refused
from vms.plan.window_text import CallText, read_bound

#: Functions without argument (ntile has a number), and their types.
_PLACES = {
    "row_number": BIGINT,
    "rank": BIGINT,
    "dense_rank": BIGINT,
    "ntile": BIGINT,
    "percent_rank": DOUBLE,
    "cume_dist": DOUBLE,
}
#: The value of another row.
_VALUES = frozenset({"lag", "lead", "first_value", "last_value", "nth_value"})
#: Those that look at the frame; the others look at the whole partition.
_FRAMED = WINDOW_AGGREGATES | {"first_value", "last_value", "nth_value"}
_WHOLE = Frame(True, None, None)


def is_window(x: Any) -> bool:
    """Whether a Substrait projection holds window functions."""
    return any(e.WhichOneof("rex_type") == "window_function" for e in x.expressions)


class WindowReader:
    """Reads the window functions of one Substrait projection over `rel`; `texts` tells about each, in order."""

    def __init__(
        self, rel: Rel, texts: Sequence[CallText], function: Callable[[int], str], read_expr: ReadExpr
    ) -> None:
        self._rel, self._function, self._read_expr = rel, function, read_expr
        self._texts = iter(texts)
        self._columns: list[Expr] = [ref(rel, i) for i in range(rel.width)]
        self._calls: dict[tuple[tuple[int, ...], tuple[SortKey, ...]], list[WindowCall]] = {}

    def read(self, x: Any) -> Rel:
        """All columns of the projection."""
        found = [self._one(e) for e in x.expressions]
        rel = project(self._rel, self._columns)
        for (partition, order), calls in self._calls.items():
            fields = tuple(_field(c, rel.fields) for c in calls)
            rel = Rel(Window(partition, order, tuple(calls)), (rel,), rel.fields + fields)
        first = len(self._columns)
        firsts = {}
        for window, calls in self._calls.items():
            firsts[window] = first
            first += len(calls)
        every: list[Expr] = [ref(rel, i) for i in range(self._rel.width)]
        for e in found:
            every.append(e if not isinstance(e, tuple) else ref(rel, firsts[e[0]] + e[1]))
        if x.common.HasField("emit"):
            every = [every[i] for i in x.common.emit.output_mapping]
        return project(rel, every)

    def _one(self, e: Any) -> Expr | tuple[tuple[tuple[int, ...], tuple[SortKey, ...]], int]:
        """An expression, or (window, number of the call in it)."""
        if e.WhichOneof("rex_type") != "window_function":
            return self._read_expr(e, self._rel.fields)
        call = e.window_function
        name, text = self._function(call.function_reference), next(self._texts, None)
        if text is None or text.function != name:
            raise InternalError(f"the window function {name} was exported out of turn")
        partition = tuple(dict.fromkeys(self._column(self._read(p)) for p in call.partitions))
        order = read_sorts(call.sorts, [self._column(self._read(s.expr)) for s in call.sorts])
        frame = self._frame(text, order) if name in _FRAMED else _WHOLE
        made = self._call(name, [self._read(a.value) for a in call.arguments], frame)
        calls = self._calls.setdefault((partition, order), [])
        if made not in calls:
            calls.append(made)
        return (partition, order), calls.index(made)

    def _read(self, e: Any) -> Expr:
        return self._read_expr(e, self._rel.fields)

    def _column(self, e: Expr) -> int:
        if e not in self._columns:
            self._columns.append(e)
        return self._columns.index(e)

    def _frame(self, text: CallText, order: Sequence[SortKey]) -> Frame:
        if text.rows:
            return Frame(True, read_bound(text.start, None), read_bound(text.end, None))
        far = [b for b in (text.start, text.end) if b is not None and b.distance is not None]
        if far and len(order) != 1:
            raise Refused("RANGE by a distance over several columns", "order by one column", "range")
        key = self._columns[order[0].column].type if order else BIGINT
        return Frame(False, read_bound(text.start, key), read_bound(text.end, key))

    def _call(self, name: str, args: Sequence[Expr], frame: Frame) -> WindowCall:
        if name in WINDOW_AGGREGATES:
            return self._aggregate(name, args, frame)
        if name in _PLACES:
            number = _number(args[0], name) if args else 0
            if name == "ntile" and number < 1:
                raise Refused("ntile of less than one", "give the number of tiles", "ntile")
            return WindowCall(name, None, _PLACES[name], frame, number)
        if name not in _VALUES:
            known = ", ".join(sorted({*WINDOW_AGGREGATES, *_PLACES, *_VALUES}))
            raise Refused(f"the window function {name}", f"use one of {known}", name)
        value, *rest = args
        number = _number(rest[0], name) if rest else 1
        default = None
        if len(rest) > 1:
            default = rest[1]
            if not isinstance(default, Literal) or not castable(default.type, value.type):
                raise Refused(f"{name} with a default that is no constant", "wrap the call in coalesce", name)
            if default.value is None:
                default = None
            elif default.type != value.type:
                default = Cast(default, value.type, False)
        return WindowCall(name, self._column(value), value.type, frame, number, default)

    def _aggregate(self, name: str, args: Sequence[Expr], frame: Frame) -> WindowCall:
        arg = args[0] if args else None
        if len(args) > 1:
            raise Refused(f"{name} with {len(args)} arguments", "aggregate one column at a time", name)
        if name == "count" and (arg is None or not may_be_null(arg, self._rel.fields)):
            return WindowCall(name, None, BIGINT, frame)
        t = aggregate_type(name, None if arg is None else arg.type)
        if t is None or arg is None:
            raise Refused(f"{name} of {'*' if arg is None else arg.type}", "cast the argument to a number", name)
        if name == "avg" and isinstance(arg, Cast) and arg.arg.type.kind in (Kind.INTEGER, Kind.BIGINT):
            arg = arg.arg  # the mean of integers is made from their exact sum and rounded once
        return WindowCall(name, self._column(arg), t, frame)


def _field(call: WindowCall, fields: Sequence[Field]) -> Field:
    never_null = call.function in _PLACES or call.function == "count"
    return Field(describe_window(call, fields), call.type, not never_null)


def _number(e: Expr, function: str) -> int:
    if isinstance(e, Literal) and isinstance(e.value, int):
        return e.value
    raise Refused(f"{function} with a number that is no constant", "write the number itself", function)
