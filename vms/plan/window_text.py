"""What DataFusion's plan says about window functions and its Substrait does not.

Exported, a frame whose distance is no integer becomes one without bound, and FILTER, DISTINCT and IGNORE NULLS are
gone. So the calls are looked up in the plan itself: here is an account of each, in the order in which a walk from
the root meets them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from datafusion.plan import LogicalPlan

from vms.model.types import Kind, SqlType
from vms.plan.refusals import Refused

_DISTANCE = re.compile(r"Unexpected window frame bound: (.*)")
_INTERVAL = re.compile(r"IntervalMonthDayNano \{ months: (-?\d+), days: (-?\d+), nanoseconds: (-?\d+) \}")
_DAY = 24 * 60 * 60 * 1_000_000
#: What DataFusion writes into the text of a call, and what is said about it.
_LOST = (
    (re.compile(r"\) ?IGNORE NULLS"), "IGNORE NULLS", "leave the NULLs out in a subquery in FROM", "ignore"),
    (re.compile(r"\) FILTER \(WHERE "), "FILTER in a window function", "write CASE inside it", "filter"),
    (re.compile(r"^\w+\(DISTINCT "), "DISTINCT in a window function", "group in a subquery in FROM", "distinct"),
)


@dataclass(frozen=True, slots=True)
class Bound:
    """A frame's bound: a distance as written, before the row or behind it. None: the row itself."""

    distance: str | None
    before: bool


@dataclass(frozen=True, slots=True)
class CallText:
    """One window function: its frame counts rows or (not `rows`) distances; a bound that is None has none."""

    function: str
    rows: bool
    start: Bound | None
    end: Bound | None


def read_calls(plan: LogicalPlan) -> list[list[CallText]]:
    """The calls of each Window of the plan, from the root down, left before right."""
    found = list(_windows(plan))
    if len(found) != plan.display_indent().count("WindowAggr:"):
        raise Refused(
            "a window function in a subquery of an expression", "join with the subquery in FROM instead", "over"
        )
    return found


def _windows(plan: LogicalPlan) -> Iterator[list[CallText]]:
    text = plan.display().strip()
    if text.startswith("WindowAggr:"):
        node: Any = plan.to_variant()
        yield [_call(node, e) for e in node.get_window_expr()]
    for below in plan.inputs():
        yield from _windows(below)


def _call(node: Any, e: Any) -> CallText:
    text = str(e).removeprefix("Expr(")
    for pattern, construct, instead, word in _LOST:
        if pattern.search(text):
            raise Refused(construct, instead, word)
    frame = node.get_frame(e)
    units = frame.get_frame_units().upper()
    if units not in ("ROWS", "RANGE"):
        raise Refused(f"a frame in {units}", "count rows with ROWS, or distances with RANGE", units.lower())
    start, end = _bound(frame.get_lower_bound()), _bound(frame.get_upper_bound())
    return CallText(node.window_func_name(e).lower(), units == "ROWS", start, end)


def _bound(bound: Any) -> Bound | None:
    if bound.is_unbounded():
        return None
    if bound.is_current_row():
        return Bound(None, False)
    try:
        distance = str(bound.get_offset())
    except Exception as error:  # only integers are given out, others are told in the message
        told = _DISTANCE.search(str(error))
        distance = told.group(1) if told else str(error)
    return Bound(distance, bound.is_preceding())


def read_bound(bound: Bound | None, key: SqlType | None) -> int | None:
    """The bound as a distance of codes of the sort column's type (None: of rows), negative before the row."""
    if bound is None:
        return None
    distance = 0 if bound.distance is None else _codes(bound.distance, key)
    return -distance if bound.before else distance


def _codes(text: str, key: SqlType | None) -> int:
    interval = _INTERVAL.fullmatch(text)
    if interval is not None and key is not None and key.kind in (Kind.DATE, Kind.TIMESTAMP):
        months, days, nanoseconds = map(int, interval.groups())
        if not months and key.kind is Kind.DATE and not nanoseconds:
            return days
        if not months and key.kind is Kind.TIMESTAMP and nanoseconds % 1000 == 0:
            return days * _DAY + nanoseconds // 1000
        raise Refused("a RANGE of this length", "use whole days or, over a TIMESTAMP, less", "range")
    if key is None or key.kind in (Kind.INTEGER, Kind.BIGINT, Kind.DECIMAL):
        scale = 0 if key is None else key.scale
        try:
            codes = Decimal(text).scaleb(scale)
        except ArithmeticError:
            codes = Decimal("NaN")
        narrow = key is None or not key.wide
        if narrow and codes == codes.to_integral_value() and abs(codes) < 1 << 62:
            return int(codes)
    raise Refused(
        f"RANGE by a distance over {key}",
        "order by an INTEGER, BIGINT, DATE, TIMESTAMP or a DECIMAL of at most 18 digits",
        "range",
    )
