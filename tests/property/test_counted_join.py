"""Outer, semi, anti and mark joins against a nested loop over the two sums of all that they were given."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_join import DOMAIN, KEYS, LEFT_TYPES, RIGHT_TYPES, changes_of, numbers, weighted

from vms.kernels.hashing import SLOTS
from vms.maintenance.operations.counted_join import CountedJoinOperation
from vms.model.arrow import from_column
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, SqlType
from vms.plan.expr import Call, Cast, Expr, Ref
from vms.plan.plan import Field, Join, JoinKind, make_node

LEFT_FIELDS = tuple(Field(f"l{i}", t) for i, t in enumerate(LEFT_TYPES))
RIGHT_FIELDS = tuple(Field(f"r{i}", t) for i, t in enumerate(RIGHT_TYPES))
KINDS = [k for k in JoinKind if k is not JoinKind.INNER]
#: l0 <= r2, as an expression over the pair and as a Python function.
AT_MOST = Call("lte", (Ref(0, BIGINT), Ref(len(LEFT_TYPES) + 2, BIGINT)), BOOLEAN)


def join(kind: JoinKind, keys, pool: TextPool, residual: Expr | None = None) -> CountedJoinOperation:
    spec = Join(*keys, residual, kind)
    node = make_node(spec, (), kind.fields(LEFT_FIELDS, RIGHT_FIELDS), None)
    return CountedJoinOperation(node, LEFT_TYPES, RIGHT_TYPES, pool)


def types_of(kind: JoinKind) -> list[SqlType]:
    return [f.type for f in kind.fields(LEFT_FIELDS, RIGHT_FIELDS)]


def counted(kind: JoinKind, changes: Changes, pool: TextPool) -> Counter:
    columns = [from_column(t, c, pool).to_pylist() for t, c in zip(types_of(kind), changes.columns, strict=True)]
    return weighted(zip(zip(*columns), changes.weights.tolist()))


def matching(a, b, keys, residual: bool) -> bool:
    if residual and (a[0] is None or b[2] is None or a[0] > b[2]):
        return False
    return all(a[i] is not None and a[i] == b[j] for i, j in zip(*keys))


def nested_loop(kind: JoinKind, left: Counter, right: Counter, keys, residual: bool) -> Counter:
    found: list[tuple[tuple, int]] = []
    matched_right = set()
    no_left, no_right = (None,) * len(LEFT_TYPES), (None,) * len(RIGHT_TYPES)
    for a, weight in left.items():
        partners = [b for b in right if matching(a, b, keys, residual)]
        matched_right.update(partners)
        match kind:
            case JoinKind.SEMI if partners:
                found.append((a, weight))
            case JoinKind.ANTI if not partners:
                found.append((a, weight))
            case JoinKind.MARK:
                found.append(((*a, bool(partners)), weight))
            case JoinKind.LEFT | JoinKind.FULL:
                found += [(a + b, weight * right[b]) for b in partners]
                found += [] if partners else [(a + no_right, weight)]
    if kind is JoinKind.FULL:
        found += [(no_left + b, weight) for b, weight in right.items() if b not in matched_right]
    return weighted(found)


def batches(types: tuple[SqlType, ...]):
    """Changes that may be wanted; what is not there is not taken away (see `possible`)."""
    row = st.tuples(*(st.sampled_from(DOMAIN[t]) for t in types))
    return st.lists(st.tuples(row, st.sampled_from([1, 1, 1, 2, -1, -1, -1, -2])), max_size=8)


def possible(sum_: Counter, batch: list[tuple[tuple, int]]) -> tuple[list[tuple[tuple, int]], Counter]:
    """The batch with no more taken away than is there, which is then left; repeats stay in the batch."""
    after, taken = Counter(sum_), []
    for row, weight in batch:
        weight = max(weight, -after[row])
        after[row] += weight
        taken.append((row, weight))
    return taken, weighted(after.items())


steps = st.lists(st.tuples(batches(LEFT_TYPES), batches(RIGHT_TYPES), st.booleans()), min_size=1, max_size=8)


@settings(deadline=None, max_examples=300)
@given(steps, st.sampled_from(KINDS), st.sampled_from(KEYS), st.booleans(), st.integers(0, 2**32 - 1))
def test_sums_up_to_the_join_of_the_sums(history, kind, keys, residual, seed):
    pool = TextPool()
    condition = AT_MOST if residual else None
    operation = join(kind, keys, pool, condition)
    left, right, total = Counter(), Counter(), Counter()
    slots = np.random.default_rng(seed).random(SLOTS) < 0.5
    for left_rows, right_rows, move in history:
        if move:
            source, source_pool, pool = operation, pool, TextPool()
            operation = join(kind, keys, pool, condition)
            operation.load(source.export(slots))
            source.drop(slots)
            moved, rest = counted(kind, operation.contents(), pool), counted(kind, source.contents(), source_pool)
            assert weighted([*moved.items(), *rest.items()]) == total
            operation.load(source.export(~slots))
        left_rows, left = possible(left, left_rows)
        right_rows, right = possible(right, right_rows)
        inputs = changes_of(LEFT_TYPES, left_rows, pool), changes_of(RIGHT_TYPES, right_rows, pool)
        total = weighted([*total.items(), *counted(kind, operation.step(inputs), pool).items()])
        assert total == nested_loop(kind, left, right, keys, residual)
        assert counted(kind, operation.contents(), pool) == total
        pool.sweep(operation.live_text())


@pytest.mark.parametrize("kind", [JoinKind.SEMI, JoinKind.ANTI, JoinKind.MARK])
def test_a_key_that_keeps_a_match_brings_no_change_of_its_rows(kind):
    pool = TextPool()
    operation = join(kind, KEYS[1], pool)
    many = numbers(np.zeros(5000, np.int64), np.arange(5000), 1, pool)
    operation.step([many, changes_of(RIGHT_TYPES, [(("x", 0, 0, None), 1)], pool)])
    more = [(("y", 0, 0, None), 1), (("z", 0, 1, None), 1), (("x", 0, 0, None), -1)]
    assert len(operation.step([Changes.empty(len(LEFT_TYPES)), changes_of(RIGHT_TYPES, more, pool)])) == 0


def test_a_residual_that_fails_is_counted_and_heals():
    """CAST(l1 AS BIGINT) <= r2 has no result for the text x."""
    pool, none = TextPool(), Changes.empty(len(RIGHT_TYPES))
    cast = Call("lte", (Cast(Ref(1, LEFT_TYPES[1]), BIGINT), Ref(len(LEFT_TYPES) + 2, BIGINT)), BOOLEAN)
    operation = join(JoinKind.ANTI, KEYS[1], pool, cast)
    bad, good = (1, "x", Decimal(1)), (1, "3", Decimal(1))
    right = changes_of(RIGHT_TYPES, [(("", 1, 7, None), 2)], pool)
    operation.step([changes_of(LEFT_TYPES, [(bad, 1), (good, 1)], pool), right])
    assert operation.error_count == 2 and "'x'" in operation.last_error
    assert counted(JoinKind.ANTI, operation.contents(), pool) == {bad: 1} and operation.error_count == 2
    moved = join(JoinKind.ANTI, KEYS[1], pool, cast)
    moved.load(operation.export(np.ones(SLOTS, np.bool_)))
    operation.drop(np.ones(SLOTS, np.bool_))
    assert (moved.error_count, operation.error_count) == (2, 0)
    moved.step([changes_of(LEFT_TYPES, [(bad, -1)], pool), none])
    assert moved.error_count == 0 and moved.last_error is None
