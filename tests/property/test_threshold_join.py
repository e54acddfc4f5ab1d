"""Joins that a bound decides against a nested loop, and how many rows are looked at when a bound moves."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from math import inf, nan

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_join import changes_of, weighted

from vms.kernels.hashing import SLOTS
from vms.maintenance.operations.threshold_join import ThresholdJoinOperation
from vms.model.arrow import from_column
from vms.model.changes import Changes, Column
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, DOUBLE, VARCHAR, SqlType, decimal
from vms.plan.expr import Call, Ref
from vms.plan.plan import Field, Join, JoinKind, make_node

WIDE = decimal(38, 2)
#: Values in their order.
DOMAIN = {
    BIGINT: [-(2**63), -1, 0, 7, 8],
    WIDE: [Decimal(f"{n}.00") for n in (-(2**80), -1, 0, 2**70, 2**80)],
    DOUBLE: [-inf, -1.5, 0.0, inf, nan],
}
KEYS: list[str | None] = ["", "x", None]
OPERATORS = {
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
}
KINDS = [JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK]
ALL = np.ones(SLOTS, np.bool_)


def join(kind: JoinKind, operator: str, type_: SqlType, pool: TextPool, keyed: bool = True) -> ThresholdJoinOperation:
    """Left: key, value, number. Right: key, bound. Without a key, the right side is replicated."""
    left, right = (VARCHAR, type_, BIGINT), (VARCHAR, type_)
    residual = Call(operator, (Ref(1, type_), Ref(4, type_)), BOOLEAN)
    keys = ((0,), (0,)) if keyed else ((), ())
    spec = Join(*keys, residual, kind, replicated=not keyed, single=True)
    if not keyed:
        right = (type_,)
        spec = Join((), (), Call(operator, (Ref(1, type_), Ref(3, type_)), BOOLEAN), kind, True, True)
    fields = tuple(Field(f"c{i}", t) for i, t in enumerate(left))
    node = make_node(spec, (), kind.fields(fields, ()), None if keyed else (2,))
    return ThresholdJoinOperation(node, left, right, pool)


def counted(kind: JoinKind, type_: SqlType, changes: Changes, pool: TextPool) -> Counter:
    types = (VARCHAR, type_, BIGINT, BOOLEAN)[: len(changes.columns)]
    columns = [from_column(t, c, pool).to_pylist() for t, c in zip(types, changes.columns, strict=True)]
    return weighted((repr(row), weight) for row, weight in zip(zip(*columns), changes.weights.tolist()))


def nested_loop(kind: JoinKind, operator: str, type_: SqlType, left: Counter, bounds: dict, keyed: bool) -> Counter:
    order, found = DOMAIN[type_], []
    for row, weight in left.items():
        key, place, number = row
        bound = (None if key is None else bounds.get(key)) if keyed else bounds.get("")
        matched = place is not None and bound is not None and OPERATORS[operator](place, bound)
        shown = (key, None if place is None else order[place], number)
        if kind is JoinKind.MARK:
            found.append((repr((*shown, matched)), weight))
        elif matched == (kind is JoinKind.SEMI):
            found.append((repr(shown), weight))
    return weighted(found)


rows = st.tuples(st.sampled_from(KEYS), st.sampled_from([None, 0, 1, 2, 3, 4]), st.integers(0, 2))
left_batches = st.lists(st.tuples(rows, st.sampled_from([1, 1, 2, -1, -1, -2])), max_size=8)
right_batches = st.lists(
    st.tuples(st.sampled_from(["", "x"]), st.sampled_from([None, "none", 0, 1, 2, 3, 4])), max_size=2
)
steps = st.lists(st.tuples(left_batches, right_batches, st.booleans()), min_size=1, max_size=8)


@settings(deadline=None, max_examples=300)
@given(
    steps,
    st.sampled_from(KINDS),
    st.sampled_from(sorted(OPERATORS)),
    st.sampled_from(list(DOMAIN)),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_sums_up_to_the_join_of_the_sums(history, kind, operator, type_, keyed, seed):
    """`none` is a bound that is not there, None one that is NULL."""
    pool, order = TextPool(), DOMAIN[type_]
    operation = join(kind, operator, type_, pool, keyed)
    left, bounds, total = Counter(), {}, Counter()
    slots = np.random.default_rng(seed).random(SLOTS) < 0.5
    for left_rows, right_rows, move in history:
        if move:
            source, source_pool, pool = operation, pool, TextPool()
            operation = join(kind, operator, type_, pool, keyed)
            operation.load(source.export(slots))
            source.drop(slots)
            moved, rest = (counted(kind, type_, o.contents(), p) for o, p in ((operation, pool), (source, source_pool)))
            assert weighted([*moved.items(), *rest.items()]) == total
            operation.load(source.export(~slots))
        taken = []
        for row, weight in left_rows:
            weight = max(weight, -left[row])
            left[row] += weight
            taken.append(((row[0], None if row[1] is None else order[row[1]], row[2]), weight))
        left = Counter({r: w for r, w in left.items() if w})
        moves = []
        for key, place in right_rows:
            key = key if keyed else ""
            if key in bounds:
                moves.append((key, bounds.pop(key), -1))
            if place != "none":
                bounds[key] = place
                moves.append((key, place, 1))
        right = [((k, None if p is None else order[p])[0 if keyed else 1 :], w) for k, p, w in moves]
        inputs = (
            changes_of((VARCHAR, type_, BIGINT), taken, pool),
            changes_of((VARCHAR, type_) if keyed else (type_,), right, pool),
        )
        total = weighted([*total.items(), *counted(kind, type_, operation.step(inputs), pool).items()])
        assert total == nested_loop(kind, operator, type_, left, bounds, keyed)
        assert counted(kind, type_, operation.contents(), pool) == total
        pool.sweep(operation.live_text())


@pytest.mark.parametrize("operator", sorted(OPERATORS))
@pytest.mark.parametrize("keyed", [False, True])
def test_a_bound_that_moves_visits_only_the_rows_between(operator: str, keyed: bool) -> None:
    """100,000 rows of each of two keys; one bound moves by ten values, and back by far."""
    pool, size = TextPool(), 100_000
    operation = join(JoinKind.SEMI, operator, BIGINT, pool, keyed)
    none = Changes.empty(3)

    def bound(value: int, weight: int) -> tuple[tuple, int]:
        return (("a", value) if keyed else (value,)), weight

    types = (VARCHAR, BIGINT) if keyed else (BIGINT,)
    values = Column(np.arange(size, dtype=np.int64))
    for key in "ab" if keyed else "a":
        codes = Column(np.full(size, pool.code(key), np.int64))
        operation.step([Changes((codes, values, values), np.ones(size, np.int64)), Changes.empty(len(types))])
    operation.step([none, changes_of(types, [bound(50_000, 1)], pool)])
    before = operation.visited
    turned = operation.step([none, changes_of(types, [bound(50_000, -1), bound(50_010, 1)], pool)])
    assert len(turned) == 10 and set(turned.weights) == {1 if operator.startswith("lt") else -1}
    ways = 2 * 2 * 64  # two bounds, each with the way to it in a tree of 100,000 values, on either side of the bound
    assert operation.visited - before <= 10 + ways
    before = operation.visited
    same = operation.step([none, changes_of(types, [bound(50_010, -1), bound(50_010, 1)], pool)])
    assert len(same) == 0 and operation.visited == before
    assert len(operation.step([none, changes_of(types, [bound(50_010, -1), bound(40_010, 1)], pool)])) == 10_000
    assert operation.visited - before <= 10_000 + ways
