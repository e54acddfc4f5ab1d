"""divide and modulus: integers, decimals and doubles.

Quotients are cut towards zero and a remainder has the sign of the dividend, as DataFusion's. Division by zero
fails, except for doubles, which follow IEEE 754.
"""

from __future__ import annotations

import numpy as np

from vms.kernels import wide
from vms.maintenance.expressions.arithmetic import rescale, within_precision
from vms.maintenance.expressions.value import INT32, INT64, Run, Value, in_range, mark
from vms.model.types import Kind, SqlType
from vms.plan.expr import Call


def runner(e: Call) -> Run | None:
    """The function of a call of this family."""
    if e.function not in ("divide", "modulus"):
        return None
    quotient = e.function == "divide"
    a_type, b_type = (a.type for a in e.args)
    match a_type.kind, b_type.kind:
        case Kind.DECIMAL, Kind.DECIMAL:
            return lambda v: _decimals(quotient, v[0], v[1], a_type.scale, b_type.scale, e.type)
        case Kind.DOUBLE, Kind.DOUBLE:
            return lambda v: _doubles(quotient, v[0], v[1])
        case (Kind.INTEGER, Kind.INTEGER) | (Kind.BIGINT, Kind.BIGINT):
            return lambda v: _integers(quotient, v[0], v[1], e.type)
    return None


def _integers(quotient: bool, a: Value, b: Value, type_: SqlType) -> Value:
    """The quotient of the least integer and -1 does not fit and fails."""
    return in_range(_exact(quotient, a, b), INT64 if type_.kind is Kind.BIGINT else INT32)


def _doubles(quotient: bool, a: Value, b: Value) -> Value:
    with np.errstate(all="ignore"):
        result = np.divide(a.doubles, b.doubles) if quotient else np.fmod(a.doubles, b.doubles)
    return Value.of_doubles(result).with_state_of(a, b)


def _decimals(quotient: bool, a: Value, b: Value, a_scale: int, b_scale: int, type_: SqlType) -> Value:
    """The dividend at the scale that makes the integer quotient one of the result's scale.

    It fails, as DataFusion's, where the dividend then needs more than 128 bits; not where the result is NULL.
    """
    a, b = a.with_state_of(b), b.with_state_of(a)
    if quotient:
        a = rescale(a, a_scale, type_.scale + b_scale)
    else:
        a, b = rescale(a, a_scale, type_.scale), rescale(b, b_scale, type_.scale)
    return within_precision(_exact(quotient, a, b), type_.precision)


def _exact(quotient: bool, a: Value, b: Value) -> Value:
    words = wide.divide(a.words, b.words)[0 if quotient else 1]
    zero = b.codes == 0 if b.high is None else (b.codes == 0) & (b.high == 0)
    result = Value.of_wide(words).with_state_of(a, b)
    return mark(result, np.broadcast_to(zero, len(words[0]))) if zero.any() else result
