"""The join against a nested loop over the two sums of all that it was given."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import CorruptState
from vms.kernels.hashing import SLOTS
from vms.maintenance.operations.join import JoinOperation
from vms.model.arrow import from_column, to_column
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import BIGINT, VARCHAR, SqlType, decimal
from vms.plan.plan import Field, Join, make_node

WIDE = decimal(38, 2)
LEFT_TYPES = (BIGINT, VARCHAR, WIDE)
RIGHT_TYPES = (VARCHAR, BIGINT, BIGINT, WIDE)
DOMAIN = {
    BIGINT: [None, 0, 1, -(2**63)],
    VARCHAR: [None, "", "x"],
    WIDE: [None, Decimal("0.00"), Decimal("-0.01"), Decimal(2**80)],
}
#: Key pairs: none (every row matches every row), one, text, two columns in different order, a wide decimal.
KEYS = [((), ()), ((0,), (1,)), ((1,), (0,)), ((0, 1), (2, 0)), ((2,), (3,))]


def join(keys, pool: TextPool, residual=None) -> JoinOperation:
    fields = tuple(Field(f"c{i}", t) for i, t in enumerate(LEFT_TYPES + RIGHT_TYPES))
    return JoinOperation(make_node(Join(*keys), (), fields, None), LEFT_TYPES, RIGHT_TYPES, pool, residual)


def changes_of(types: tuple[SqlType, ...], rows: list[tuple[tuple, int]], pool: TextPool) -> Changes:
    columns = tuple(to_column(t, pa.array([row[i] for row, _ in rows], t.arrow), pool) for i, t in enumerate(types))
    return Changes(columns, np.array([weight for _, weight in rows], np.int64))


def counted(changes: Changes, pool: TextPool) -> Counter:
    types = LEFT_TYPES + RIGHT_TYPES
    columns = [from_column(t, c, pool).to_pylist() for t, c in zip(types, changes.columns)]
    return weighted(zip(zip(*columns), changes.weights.tolist()))


def weighted(pairs) -> Counter:
    total = Counter()
    for row, weight in pairs:
        total[row] += weight
    return Counter({row: weight for row, weight in total.items() if weight})


def nested_loop(left: Counter, right: Counter, keys) -> Counter:
    found = Counter()
    for a, a_weight in left.items():
        for b, b_weight in right.items():
            if all(a[i] is not None and a[i] == b[j] for i, j in zip(*keys)):
                found[a + b] += a_weight * b_weight
    return Counter({row: weight for row, weight in found.items() if weight})


def rows(types: tuple[SqlType, ...]):
    row = st.tuples(*(st.sampled_from(DOMAIN[t]) for t in types))
    return st.lists(st.tuples(row, st.sampled_from([1, 1, 1, -1, -1, 2, -2, 0])), max_size=8)


steps = st.lists(st.tuples(rows(LEFT_TYPES), rows(RIGHT_TYPES), st.booleans()), min_size=1, max_size=8)


@settings(deadline=None, max_examples=150)
@given(steps, st.sampled_from(KEYS), st.integers(0, 2**32 - 1))
def test_sums_up_to_the_join_of_the_sums(history, keys, seed):
    pool = TextPool()
    operation = join(keys, pool)
    left, right, total = Counter(), Counter(), Counter()
    slots = np.random.default_rng(seed).random(SLOTS) < 0.5
    for left_rows, right_rows, move in history:
        if move:
            source, source_pool, pool = operation, pool, TextPool()
            operation = join(keys, pool)
            operation.load(source.export(slots))
            source.drop(slots)
            moved, rest = counted(operation.contents(), pool), counted(source.contents(), source_pool)
            assert not set(moved) & set(rest)
            assert weighted([*moved.items(), *rest.items()]) == total
            operation.load(source.export(~slots))
        inputs = changes_of(LEFT_TYPES, left_rows, pool), changes_of(RIGHT_TYPES, right_rows, pool)
        total = weighted([*total.items(), *counted(operation.step(inputs), pool).items()])
        left, right = weighted([*left.items(), *left_rows]), weighted([*right.items(), *right_rows])
        assert total == nested_loop(left, right, keys)
        assert counted(operation.contents(), pool) == total
        pool.sweep(operation.live_text())


def test_residual_filters_what_is_emitted_and_what_is_kept():
    pool = TextPool()

    def smaller(joined: Changes) -> Changes:
        return joined.take(joined.columns[0].codes < joined.columns[5].codes)

    operation = join(((1,), (0,)), pool, smaller)
    left = changes_of(LEFT_TYPES, [((1, "x", None), 1), ((5, "x", None), 1)], pool)
    right = changes_of(RIGHT_TYPES, [(("x", 0, 3, None), 1)], pool)
    expected = Counter({(1, "x", None, "x", 0, 3, None): 1})
    assert counted(operation.step([left, right]), pool) == expected
    assert counted(operation.contents(), pool) == expected


def test_rows_with_a_null_key_are_not_kept():
    pool = TextPool()
    operation = join(((0, 1), (2, 0)), pool)
    nulls = [((None, "x", Decimal(1)), 1), ((1, None, Decimal(1)), 1), ((None, None, None), 1)]
    operation.step([changes_of(LEFT_TYPES, nulls, pool), Changes.empty(len(RIGHT_TYPES))])
    assert [b.num_rows for b in operation.export(np.ones(SLOTS, np.bool_))] == [0, 0]


def test_exported_sides_can_be_told_apart():
    pool = TextPool()
    batches = join(KEYS[1], pool).export(np.ones(SLOTS, np.bool_))
    assert [b.schema.metadata for b in batches] == [{b"side": b"left"}, {b"side": b"right"}]
    swapped = [b.replace_schema_metadata({"side": "right"}) for b in batches]
    with pytest.raises(CorruptState, match="right side has 3 columns instead of 4"):
        join(KEYS[1], pool).load(swapped)


def numbers(keys: np.ndarray, values: np.ndarray, weight: int, pool: TextPool) -> Changes:
    """Left rows (key, "x", value) made without a loop."""
    n = len(keys)
    text, wide = pa.array(["x"] * n), pa.array(values).cast(pa.decimal128(19, 0)).cast(WIDE.arrow)
    columns = (
        to_column(BIGINT, pa.array(keys), pool),
        to_column(VARCHAR, text, pool),
        to_column(WIDE, wide, pool),
    )
    return Changes(columns, np.full(n, weight, np.int64))


def test_a_hot_key_loses_its_rows_in_any_order():
    """All rows of one side share one key; they leave in random order and in pieces; nothing is left."""
    pool, size, none = TextPool(), 60_000, Changes.empty(len(RIGHT_TYPES))
    operation = join(KEYS[1], pool)
    small = operation.memory_bytes()
    values = np.arange(size)
    operation.step([numbers(np.zeros(size, np.int64), values, 1, pool), none])
    one = changes_of(RIGHT_TYPES, [(("x", 0, 0, None), 1)], pool)
    assert len(operation.step([Changes.empty(len(LEFT_TYPES)), one])) == size
    np.random.default_rng(7).shuffle(values)
    for piece in np.array_split(values, 10):
        gone = operation.step([numbers(np.zeros(len(piece), np.int64), piece, -1, pool), none])
        assert gone.weights.sum() == -len(piece)
    assert len(operation.contents()) == 0
    assert operation.memory_bytes() <= 2 * small


def test_memory_follows_the_live_rows():
    """Keys are never used again; the live size is constant, then shrinks to a tenth of a percent."""
    pool, size, none = TextPool(), 4000, Changes.empty(len(RIGHT_TYPES))
    operation = join(KEYS[1], pool)

    def rows_from(first: int, count: int, weight: int) -> Changes:
        keys = np.arange(first, first + count)
        return numbers(keys, keys % 7, weight, pool)

    operation.step([rows_from(0, size, 1), none])
    start = operation.memory_bytes()
    for first in range(0, 40 * size, size):
        operation.step([rows_from(first, size, -1), none])
        operation.step([rows_from(first + size, size, 1), none])
        assert operation.memory_bytes() <= 1.5 * start
    operation.step([rows_from(40 * size, size - 4, -1), none])
    assert operation.memory_bytes() < start / 8
    last = changes_of(RIGHT_TYPES, [(("x", 41 * size - 1, 0, None), 1)], pool)
    assert len(operation.step([Changes.empty(len(LEFT_TYPES)), last])) == 1
