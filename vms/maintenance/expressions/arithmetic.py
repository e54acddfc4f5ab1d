"""add, subtract, multiply, negate: integers, decimals and doubles; integers bit by bit.

Integers wrap around at 32 and 64 bits, as DataFusion's do. Decimals are exact: 64-bit arithmetic where the
operands' bounds prove that nothing overflows, else 128 bits; a result of more than 38 digits fails.
(DataFusion lets sums between 10**38 and 2**127 pass, which are values outside of their own type.)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np

from vms.kernels import wide
from vms.maintenance.expressions.value import INT32, INT64, Bounds, Run, Value, mark
from vms.model.types import MAX_NARROW_PRECISION, Kind, SqlType
from vms.plan.expr import Call

_NARROW: dict[str, Callable[..., np.ndarray]] = {
    "add": np.add,
    "subtract": np.subtract,
    "multiply": np.multiply,
}
_BITS: dict[str, Callable[..., np.ndarray]] = {
    "bitwise_and": np.bitwise_and,
    "bitwise_or": np.bitwise_or,
    "bitwise_xor": np.bitwise_xor,
    "bitwise_shift_left": np.left_shift,
    "bitwise_shift_right": np.right_shift,
}
_WIDE = {"add": wide.add, "subtract": wide.subtract, "multiply": wide.multiply}


def runner(e: Call) -> Run | None:
    """The function of a call of this family."""
    op, kinds = e.function, [a.type.kind for a in e.args]
    if op == "negate":
        return lambda v: negate(v[0], e.type)
    if op in _BITS:
        return lambda v: bits(op, v[0], v[1], e.type)
    if op not in _NARROW:
        return None
    match kinds:
        case [Kind.DECIMAL, Kind.DECIMAL]:
            a_scale, b_scale = (a.type.scale for a in e.args)
            return lambda v: decimals(op, v[0], v[1], a_scale, b_scale, e.type)
        case [Kind.DOUBLE, Kind.DOUBLE]:
            return lambda v: doubles(op, v[0], v[1])
        case [Kind.INTEGER, Kind.INTEGER] | [Kind.BIGINT, Kind.BIGINT]:
            return lambda v: integers(op, v[0], v[1], e.type)
    return None


def integers(op: str, a: Value, b: Value, type_: SqlType) -> Value:
    """Integer arithmetic modulo 2**32 or 2**64."""
    bounds = _interval(op, a.limits(False), b.limits(False))
    codes = _NARROW[op](a.codes, b.codes)
    if type_.kind is not Kind.BIGINT and not _within(bounds, INT32):
        codes, bounds = codes.astype(np.int32).astype(np.int64), INT32
    return Value(codes, bounds=bounds if _within(bounds, INT64) else None).with_state_of(a, b)


def bits(op: str, a: Value, b: Value, type_: SqlType) -> Value:
    """Bit by bit; shifts by as many places as the lowest bits of b say (5 of INTEGER, 6 of BIGINT)."""
    narrow = type_.kind is Kind.INTEGER
    other = b.codes & (31 if narrow else 63) if "shift" in op else b.codes
    codes = _BITS[op](a.codes, other)
    if narrow:
        codes = codes.astype(np.int32).astype(np.int64)
    return Value(codes, bounds=INT32 if narrow else None).with_state_of(a, b)


def doubles(op: str, a: Value, b: Value) -> Value:
    """IEEE 754 arithmetic."""
    with np.errstate(all="ignore"):
        return Value.of_doubles(_NARROW[op](a.doubles, b.doubles)).with_state_of(a, b)


def decimals(op: str, a: Value, b: Value, a_scale: int, b_scale: int, type_: SqlType) -> Value:
    """Exact decimal arithmetic; the operands of a sum are first brought to one scale."""
    scale = a_scale + b_scale
    if op != "multiply":
        scale = max(a_scale, b_scale)
        if a_scale != b_scale:
            a, b = a.with_state_of(b), b.with_state_of(a)  # what is NULL anyway does not fail
        a, b = rescale(a, a_scale, scale), rescale(b, b_scale, scale)
    return within_precision(rescale(_exact(op, a, b), scale, type_.scale), type_.precision)


def negate(a: Value, type_: SqlType) -> Value:
    """-a; of integers modulo the width."""
    if type_.kind is Kind.DOUBLE:
        return Value.of_doubles(-a.doubles).with_state_of(a)
    zero = Value(np.zeros(1, np.int64), bounds=(0, 0), tight=True)
    if type_.kind is Kind.DECIMAL:
        return within_precision(_exact("subtract", zero, a), type_.precision)
    return integers("subtract", zero, a, type_)


def rescale(a: Value, from_scale: int, to_scale: int) -> Value:
    """Scaled integers at another scale; dropped digits round half away from zero. Fails beyond 128 bits."""
    if to_scale > from_scale:
        return _exact("multiply", a, _power_of_ten(to_scale - from_scale))
    if to_scale == from_scale:
        return a
    return Value.of_wide(wide.scale_down(a.words, from_scale - to_scale)).with_state_of(a)


@cache
def _power_of_ten(digits: int) -> Value:
    return Value.of_ints([10**digits])


def within_precision(a: Value, precision: int) -> Value:
    """The value, failed where it has more than `precision` digits."""
    if a.high is not None:
        failed = wide.beyond(a.words, precision)
    elif precision > MAX_NARROW_PRECISION or _within(a.limits(False), (1 - 10**precision, 10**precision - 1)):
        return a
    else:
        failed = (a.codes >= 10**precision) | (a.codes <= -(10**precision))
    return mark(a, failed)


def _exact(op: str, a: Value, b: Value) -> Value:
    """Integer arithmetic that never wraps: narrow where bounds allow, else wide."""
    if a.high is None and b.high is None:
        for exact in (False, True):
            bounds = _interval(op, a.limits(exact), b.limits(exact))
            if _within(bounds, INT64):
                return Value(_NARROW[op](a.codes, b.codes), bounds=bounds).with_state_of(a, b)
    words, over = _WIDE[op](a.words, b.words)
    result = Value.of_wide(words).with_state_of(a, b)
    return result if over is None else mark(result, over)


def _interval(op: str, a: Bounds, b: Bounds) -> Bounds:
    match op:
        case "add":
            return a[0] + b[0], a[1] + b[1]
        case "subtract":
            return a[0] - b[1], a[1] - b[0]
    corners = a[0] * b[0], a[0] * b[1], a[1] * b[0], a[1] * b[1]
    return min(corners), max(corners)


def _within(inner: Bounds, outer: Bounds) -> bool:
    return outer[0] <= inner[0] and inner[1] <= outer[1]
