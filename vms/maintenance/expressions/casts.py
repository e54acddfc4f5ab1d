"""CAST between the declared types, with DataFusion's rounding and ranges.

A cast that is impossible for a value fails for its row (NULL with `safe`). Pairs of types that DataFusion
does not cast, or casts by a unit that depends on the width of the number (numbers to TIMESTAMP), are refused
when the expression is compiled. Text that writes a year of more than four digits is not read as a date.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import numpy as np

from vms.errors import UnsupportedSql
from vms.kernels import wide
from vms.maintenance.expressions.arithmetic import rescale, within_precision
from vms.maintenance.expressions.format import format_value, parse_value
from vms.maintenance.expressions.text import intern_texts, known_rows, map_texts
from vms.maintenance.expressions.value import INT32, INT64, Value, both, in_range, mark
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType

_DAY = 86_400_000_000
_INTEGERS = (Kind.INTEGER, Kind.BIGINT)
Caster = Callable[[Value], Value]


def caster(source: SqlType, target: SqlType, pool: TextPool, safe: bool = False) -> Caster:
    """The function that casts values of type `source` to `target`."""
    cast = _caster(source, target, pool)
    return partial(_null_where_failed, cast) if safe else cast


def _caster(source: SqlType, target: SqlType, pool: TextPool) -> Caster:
    if source == target:
        return lambda a: a
    match source.kind, target.kind:
        case _, Kind.VARCHAR:
            return partial(_to_text, source=source, pool=pool)
        case Kind.VARCHAR, _:
            return partial(_parse, target=target, pool=pool)
        case (Kind.INTEGER | Kind.BIGINT, Kind.INTEGER | Kind.BIGINT | Kind.DATE) | (
            Kind.DATE | Kind.TIMESTAMP,
            Kind.INTEGER | Kind.BIGINT,
        ):
            return partial(_in_range, target=target)
        case ((Kind.INTEGER | Kind.BIGINT | Kind.TIMESTAMP | Kind.DECIMAL), Kind.DECIMAL):
            return partial(_to_decimal, source=source, target=target)
        case Kind.DECIMAL, Kind.INTEGER | Kind.BIGINT:
            return partial(_truncate_decimal, scale=source.scale, target=target)
        case ((Kind.INTEGER | Kind.BIGINT | Kind.TIMESTAMP | Kind.BOOLEAN | Kind.DECIMAL), Kind.DOUBLE):
            return partial(_to_double, scale=source.scale)
        case Kind.DOUBLE, Kind.INTEGER | Kind.BIGINT:
            return partial(_truncate_double, target=target)
        case Kind.DOUBLE, Kind.DECIMAL:
            return partial(_double_to_decimal, target=target)
        case Kind.DOUBLE, Kind.BOOLEAN:
            return lambda a: Value(a.doubles != 0.0).with_state_of(a)
        case ((Kind.INTEGER | Kind.BIGINT), Kind.BOOLEAN):
            return lambda a: Value(a.codes != 0).with_state_of(a)
        case Kind.BOOLEAN, Kind.INTEGER | Kind.BIGINT:
            return lambda a: Value(a.codes.astype(np.int64), bounds=(0, 1)).with_state_of(a)
        case Kind.DATE, Kind.TIMESTAMP:
            return _date_to_timestamp
        case Kind.TIMESTAMP, Kind.DATE:
            return lambda a: _in_range(Value(a.codes // _DAY).with_state_of(a), target)
    raise UnsupportedSql(f"CAST from {source} to {target}", "store the value in that type")


def _null_where_failed(cast: Caster, a: Value) -> Value:
    result = cast(a)
    if result.failed is None:
        return result
    return replace(result, valid=both(result.valid, ~result.failed), failed=a.failed)


def _in_range(a: Value, target: SqlType) -> Value:
    return in_range(a, INT64 if target.kind is Kind.BIGINT else INT32)


def _to_decimal(a: Value, source: SqlType, target: SqlType) -> Value:
    return within_precision(rescale(a, source.scale, target.scale), target.precision)


def _truncate_decimal(a: Value, scale: int, target: SqlType) -> Value:
    return _in_range(Value.of_wide(wide.scale_down(a.words, scale, truncate=True)).with_state_of(a), target)


def _to_double(a: Value, scale: int) -> Value:
    number = a.codes.astype(np.float64) if a.high is None else wide.to_double(a.words)
    return Value.of_doubles(number / _power_of_ten(scale)).with_state_of(a)


def _truncate_double(a: Value, target: SqlType) -> Value:
    words, failed = wide.from_double(np.trunc(a.doubles))
    return _in_range(mark(Value.of_wide(words).with_state_of(a), failed), target)


def _double_to_decimal(a: Value, target: SqlType) -> Value:
    with np.errstate(all="ignore"):
        scaled = a.doubles * _power_of_ten(target.scale)
        whole = np.trunc(scaled)
        whole += np.where(np.abs(scaled - whole) >= 0.5, np.sign(scaled), 0.0)
        words, failed = wide.from_double(whole)
    return within_precision(mark(Value.of_wide(words).with_state_of(a), failed), target.precision)


def _power_of_ten(scale: int) -> float:
    """10**scale by repeated squaring in doubles, which is how DataFusion gets it (inexact from 10**23 on)."""
    result, base = 1.0, 10.0
    while scale:
        if scale & 1:
            result *= base
        scale >>= 1
        base *= base
    return result


def _date_to_timestamp(a: Value) -> Value:
    limit = INT64[1] // _DAY
    return mark(Value(a.codes * _DAY).with_state_of(a), (a.codes > limit) | (a.codes < -limit))


def _parse(a: Value, target: SqlType, pool: TextPool) -> Value:
    """Text as a value; a number too large for 128 bits is no value either."""

    def within_words(text: str) -> int | None:
        code = parse_value(text, target)
        return code if code is not None and -(1 << 127) <= code < 1 << 127 else None

    results, index, missing = map_texts(a, within_words, pool)
    high, codes = wide.from_ints(results)
    parsed = mark(Value.of_wide((high[index], codes[index])).with_state_of(a), missing)
    match target.kind:
        case Kind.BOOLEAN:
            return replace(parsed, codes=parsed.codes != 0)
        case Kind.DECIMAL:
            return within_precision(parsed, target.precision)
        case Kind.DOUBLE:
            return parsed
    wide_enough = target.kind in (Kind.BIGINT, Kind.TIMESTAMP)
    return _in_range(parsed, SqlType(Kind.BIGINT) if wide_enough else target)


def _to_text(a: Value, source: SqlType, pool: TextPool) -> Value:
    """Each distinct known value is written once."""
    known = known_rows(len(a.codes), a)
    high, low = (w[known] for w in replace(a, codes=a.codes.astype(np.int64, copy=False)).words)
    if a.high is None:
        unique, inverse = np.unique(low, return_inverse=True)
        numbers = unique.tolist()
    else:
        pairs, inverse = np.unique(np.stack([high, low], axis=1), axis=0, return_inverse=True)
        numbers = wide.to_ints((pairs[:, 0], pairs[:, 1]))
    codes = np.zeros(len(a.codes), np.int64)
    codes[known] = intern_texts([format_value(n, source) for n in numbers], pool)[inverse.reshape(-1)]
    return Value(codes).with_state_of(a)
