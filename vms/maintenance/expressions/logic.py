"""Comparisons and three-valued logic: true, false, NULL, and `failed`, which AND and OR treat as unknown."""

from __future__ import annotations

from functools import reduce

import numpy as np

from vms.kernels import wide
from vms.maintenance.expressions.text import compare_text
from vms.maintenance.expressions.value import INT64, Run, Value, both, choose, either
from vms.model.changes import Bool, Int64
from vms.model.text import TextPool
from vms.model.types import Kind
from vms.plan.expr import Call

_AGAINST_ZERO = {
    "equal": np.equal,
    "not_equal": np.not_equal,
    "lt": np.less,
    "lte": np.less_equal,
    "gt": np.greater,
    "gte": np.greater_equal,
}
COMPARISONS = frozenset(_AGAINST_ZERO)


def runner(e: Call, pool: TextPool) -> Run | None:
    """The function of a call of this family."""
    op, types = e.function, [a.type for a in e.args]
    kind, same = types[0].kind, len(set(types)) == 1
    match op:
        case "and":
            return conjunction
        case "or":
            return disjunction
        case "not":
            return lambda v: negation(v[0])
        case "is_null":
            return lambda v: is_null(v[0])
        case "is_distinct_from" if same:
            return lambda v: distinct(v[0], v[1], kind, pool)
        case "coalesce" if same:
            return coalesce
        case "single":
            return lambda v: single(v[0], v[1])
        case "greatest" | "least" if same:
            return lambda v: extreme("gt" if op == "greatest" else "lt", v, kind, pool)
        case _ if op in COMPARISONS and same:
            return lambda v: compare(op, v[0], v[1], kind, pool)
    return None


def compare(op: str, a: Value, b: Value, kind: Kind, pool: TextPool) -> Value:
    """a `op` b for values of one type; NULL where either is NULL."""
    return Value(_compare(op, a, b, kind, pool)).with_state_of(a, b)


def distinct(a: Value, b: Value, kind: Kind, pool: TextPool) -> Value:
    """IS DISTINCT FROM: NULL is a value equal to itself; never NULL."""
    differ = _compare("not_equal", a, b, kind, pool)
    known = both(a.valid, b.valid)
    if known is not None:
        a_null, b_null = (np.False_ if v.valid is None else ~v.valid for v in (a, b))
        differ = np.where(known, differ, a_null != b_null)
    return Value(differ, failed=either(a.failed, b.failed))


def double_order(codes: Int64) -> Int64:
    """Integers in the order of the doubles with these codes: NaN is equal to itself and above all."""
    return np.where(codes < 0, codes ^ INT64[1], codes)


def conjunction(args: list[Value]) -> Value:
    """AND: false wherever one is false, whatever the others are."""
    if all(a.valid is None and a.failed is None for a in args):
        return Value(reduce(np.logical_and, (a.codes for a in args)))
    true = reduce(np.logical_and, (a.is_true() for a in args))
    return _decided(true, reduce(np.logical_or, (a.is_false() for a in args)), args)


def disjunction(args: list[Value]) -> Value:
    """OR: true wherever one is true, whatever the others are."""
    if all(a.valid is None and a.failed is None for a in args):
        return Value(reduce(np.logical_or, (a.codes for a in args)))
    true = reduce(np.logical_or, (a.is_true() for a in args))
    return _decided(true, reduce(np.logical_and, (a.is_false() for a in args)), args)


def negation(a: Value) -> Value:
    return Value(~a.codes).with_state_of(a)


def is_null(a: Value) -> Value:
    return Value(np.zeros(1, np.bool_) if a.valid is None else ~a.valid, failed=a.failed)


def coalesce(args: list[Value]) -> Value:
    """The first argument that is not NULL; a failure counts only where it is reached."""
    result = args[-1]
    for a in reversed(args[:-1]):
        if a.valid is None:
            result = a
        else:
            result = choose(a.valid if a.failed is None else a.valid | a.failed, a, result)
    return result


def single(value: Value, rows: Value) -> Value:
    """The value that one row has; failed where there are more rows."""
    return Value(value.codes, value.valid, value.high, either(value.failed, rows.codes > 1))


def extreme(op: str, args: list[Value], kind: Kind, pool: TextPool) -> Value:
    """The value that is `op` all others, NULLs left aside; NULL where all are NULL."""
    result = args[0]
    for a in args[1:]:
        better = _compare(op, a, result, kind, pool)
        if a.valid is not None:
            better = better & a.valid
        if result.valid is not None:
            better = better | ~result.valid
        failed = either(a.failed, result.failed)
        result = choose(better, a, result)
        result.failed = failed
    return result


def case(args: list[Value]) -> Value:
    """when, then, when, then, ..., otherwise: failures of branches that are not reached do not count."""
    result = args[-1]
    for i in range(len(args) - 3, -1, -2):
        result = choose(args[i].is_true(), args[i + 1], result)
        result.failed = either(result.failed, args[i].failed)
    return result


def in_constants(a: Value, options: list[Value]) -> Value:
    """Whether a narrow value's code is one of the constants; NULL where it is not and an option is NULL."""
    constants = [int(o.codes[0]) for o in options if o.valid is None]
    found = np.isin(a.codes, np.array(constants, np.int64))
    with_null = found if len(constants) < len(options) else None
    return Value(found, with_null).with_state_of(a)


def _compare(op: str, a: Value, b: Value, kind: Kind, pool: TextPool) -> Bool:
    test = _AGAINST_ZERO[op]
    match kind:
        case Kind.VARCHAR if op not in ("equal", "not_equal"):
            return test(compare_text(a, b, pool), 0)
        case Kind.DOUBLE:
            return test(double_order(a.codes), double_order(b.codes))
    if a.high is not None or b.high is not None:
        return test(wide.compare(a.words, b.words), 0)
    return test(a.codes, b.codes)


def _decided(true: Bool, false: Bool, args: list[Value]) -> Value:
    """NULL where neither holds; failed only there: what is decided does not need the failed argument."""
    known = true | false
    failed = reduce(either, (a.failed for a in args))
    return Value(true, known, failed=None if failed is None else failed & ~known)
