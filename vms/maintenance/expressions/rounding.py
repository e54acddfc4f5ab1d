"""abs, signum, floor, ceil, round and trunc: to whole numbers or, the last two, to a number of places.

Halves are rounded away from zero. A result that its type does not hold fails. Doubles are scaled by a power of ten
and back, as DataFusion does it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from vms.kernels import wide
from vms.maintenance.expressions.arithmetic import negate, rescale, within_precision
from vms.maintenance.expressions.value import INT32, INT64, Run, Value, choose, in_range
from vms.model.types import MAX_PRECISION, Kind, SqlType
from vms.plan.expr import Call

_ZERO = Value(np.zeros(1, np.int64), bounds=(0, 0), tight=True)
#: A function of one argument and a number of places.
Rounding = Callable[[Value, int], Value]


def runner(e: Call) -> Run | None:
    """The function of a call of this family."""
    type_, double = e.type, e.type.kind is Kind.DOUBLE
    match e.function:
        case "abs":
            return lambda v: _abs(v[0], type_)
        case "signum":
            return lambda v: Value.of_doubles(np.sign(v[0].doubles)).with_state_of(v[0])
        case "floor" | "ceil" if double:
            whole = np.floor if e.function == "floor" else np.ceil
            return lambda v: Value.of_doubles(whole(v[0].doubles)).with_state_of(v[0])
        case "floor":
            return lambda v: within_precision(_floor(v[0], type_.scale), type_.precision)
        case "ceil":
            return lambda v: within_precision(_minus(_floor(_minus(v[0]), type_.scale)), type_.precision)
        case "round" | "trunc":
            places: Rounding
            if double:
                places = partial(_double, cut=e.function == "trunc")
            else:
                places = partial(_exact, source=e.args[0].type, target=type_, cut=e.function == "trunc")
            return lambda v: _to_places(places, v)
    return None


def _abs(a: Value, type_: SqlType) -> Value:
    """|a|; that of the least integer does not fit."""
    if type_.kind is Kind.DOUBLE:
        return Value.of_doubles(np.abs(a.doubles)).with_state_of(a)
    if a.high is None and type_.kind is Kind.DECIMAL:
        return Value(np.abs(a.codes)).with_state_of(a)
    negative = a.words[0] < 0
    result = choose(negative, _minus(a), a)
    result = Value(result.codes, None, result.high).with_state_of(a)
    return result if type_.kind is Kind.DECIMAL else in_range(result, INT64 if type_.kind is Kind.BIGINT else INT32)


def _minus(a: Value) -> Value:
    """-a, exactly."""
    return negate(a, SqlType(Kind.DECIMAL, MAX_PRECISION, 0))


def _floor(a: Value, scale: int) -> Value:
    """The next multiple of 10**scale that is not above a."""
    if not scale:
        return a
    if a.high is None and scale <= 18:
        return Value(a.codes - a.codes % 10**scale).with_state_of(a)
    cut = Value.of_wide(wide.scale_down(a.words, scale, truncate=True))
    whole = rescale(cut, 0, scale)
    above = wide.compare(whole.words, a.words) > 0
    below, _ = wide.subtract(whole.words, Value.of_ints([10**scale]).words)
    return choose(above, Value.of_wide(below), whole).with_state_of(a)


def _exact(a: Value, places: int, source: SqlType, target: SqlType, cut: bool) -> Value:
    """An integer or a decimal at so many places, given in the scale of `target`."""
    dropped = source.scale - places
    if dropped > MAX_PRECISION:
        a, places = _ZERO.with_state_of(a), target.scale
    elif dropped > 0:
        a = Value.of_wide(wide.scale_down(a.words, dropped, truncate=cut)).with_state_of(a)
    else:
        places = source.scale
    a = rescale(a, places, target.scale)
    if target.kind is Kind.DECIMAL:
        return within_precision(a, target.precision)
    return in_range(a, INT64 if target.kind is Kind.BIGINT else INT32)


def _double(a: Value, places: int, cut: bool) -> Value:
    with np.errstate(all="ignore"):
        factor = np.float64(10.0) ** abs(places)
        factor = factor if places >= 0 else 1.0 / factor
        scaled = a.doubles * factor
        whole = np.trunc(scaled)
        if not cut:
            whole = whole + np.where(np.abs(scaled - whole) >= 0.5, np.sign(scaled), 0.0)
        return Value.of_doubles(whole / factor if places else whole).with_state_of(a)


def _to_places(rounded: Rounding, v: list[Value]) -> Value:
    """Each row to its number of places (none given: 0), once for each number that occurs."""
    if len(v) == 1:
        return rounded(v[0], 0)
    places = v[1]
    a = v[0].with_state_of(places)  # what is NULL anyway does not fail
    found = np.unique(places.codes)
    result = rounded(a, int(found[0]))
    for n in found[1:].tolist():
        other = rounded(a, n)
        result = choose(places.codes == n, other, result)
    return result
