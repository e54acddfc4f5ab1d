"""PreAggregation and Aggregation against DataFusion over the sum of all that they were given."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import CorruptState
from vms.kernels.hashing import SLOTS
from vms.maintenance.operations.aggregation import AggregationOperation
from vms.maintenance.operations.pre_aggregation import PreAggregationOperation
from vms.model.arrow import from_column, to_column
from vms.model.changes import Changes
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, VARCHAR, decimal
from vms.plan.contributions import contribution_fields, layout
from vms.plan.functions import AGGREGATES, VARIANCES, aggregate_type
from vms.plan.plan import Aggregate, Aggregation, Field, PreAggregation, make_node
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle

ORACLE = DataFusionOracle()
MONEY, WIDE = decimal(10, 2), decimal(30, 4)
#: The input: `n` is the one column without NULL. Doubles add up to the same sum in every order.
FIELDS = (
    Field("s", VARCHAR),
    Field("n", INTEGER, nullable=False),
    Field("b", BIGINT),
    Field("d", MONEY),
    Field("w", WIDE),
    Field("x", DOUBLE),
    Field("dt", DATE),
    Field("o", BOOLEAN),
)
DOMAIN = {
    "s": [None, "", "a", "é", "\U00010000", "\uffff"],
    "n": [0, 1, -3],
    "b": [None, 0, 7, -(10**17), -(2**63)],
    "d": [None, Decimal("0.00"), Decimal("-2.55"), Decimal("99999999.99")],
    "w": [None, Decimal("0.0000"), Decimal("-0.0001"), Decimal("99999999999999999999999999.9999")],
    "x": [None, 0.0, -0.0, 0.5, -1.25, 2.0**60, float("nan"), float("inf"), float("-inf")],
    "dt": [None, 0, -1, 10471],
    "o": [None, False, True],
}
#: Without min and max of DOUBLE, in which DataFusion is wrong about infinities and NaN (see test_ordered.py).
CALLS = [("count", None)] + [
    (function, i)
    for i, f in enumerate(FIELDS)
    for function in sorted(AGGREGATES)
    if aggregate_type(function, f.type) is not None and (function, f.name) not in (("min", "x"), ("max", "x"))
]
GROUPS = [(), (0,), (1,), (5,), (4, 0), (2, 3)]


class Pipeline:
    """Both operations, for `calls` grouped by `group`, spread by the first `spread` group columns."""

    def __init__(self, group, calls, pool: TextPool, combine: bool, spread: int) -> None:
        self.pool = pool
        aggregates = tuple(Aggregate(f, a, aggregate_type(f, None if a is None else FIELDS[a].type)) for f, a in calls)
        keys = tuple(FIELDS[g] for g in group)
        made = contribution_fields(keys, layout(len(group), aggregates, FIELDS))
        below = make_node(PreAggregation(group, aggregates), (), made, None)
        self.fields = keys + tuple(Field(f"c{i}", a.type) for i, a in enumerate(aggregates))
        node = make_node(Aggregation(len(group), aggregates), (below,), self.fields, tuple(range(spread)))
        self.local = PreAggregationOperation(below, FIELDS, pool, combine=combine)
        self.operation = AggregationOperation(node, FIELDS, pool, owner=True)

    def step(self, rows) -> Changes:
        return self.operation.step([self.local.step([changes_of(rows, self.pool)])])

    def rows(self, changes: Changes) -> Counter:
        """Row -> weight; fails where a row is emitted twice, a weight is zero or the code of a NULL is not."""
        assert not any(c.codes[~c.valid].any() for c in changes.columns if c.valid is not None)
        columns = [from_column(f.type, c, self.pool).to_pylist() for f, c in zip(self.fields, changes.columns)]
        rows = [tuple(map(repr, row)) for row in zip(*columns)]
        assert len(set(rows)) == len(rows) and changes.weights.all()
        return Counter(dict(zip(rows, changes.weights.tolist())))

    def table(self) -> pa.Table:
        contents = self.operation.contents()
        assert (contents.weights == 1).all()
        arrays = [from_column(f.type, c, self.pool) for f, c in zip(self.fields, contents.columns)]
        return pa.Table.from_arrays(arrays, names=[f.name for f in self.fields])

    def state(self, slots) -> Counter:
        return Counter(repr(row) for batch in self.operation.export(slots) for row in canonical(batch))


def canonical(batch: pa.RecordBatch) -> list:
    """The rows of a state; the values of a group come in no particular order."""
    rows = batch.to_pylist()
    for row in rows:
        for name in [n for n in row if n.startswith("value")]:
            row[name] = sorted(zip(map(repr, row[name]), row.pop(f"count{name.removeprefix('value')}")))
    return rows


def changes_of(rows, pool: TextPool) -> Changes:
    def column(i: int, f: Field):
        array = pa.array([row[i] for row, _ in rows], pa.int32() if f.type == DATE else f.type.arrow)
        return to_column(f.type, array.cast(f.type.arrow), pool)

    columns = tuple(column(i, f) for i, f in enumerate(FIELDS))
    return Changes(columns, np.array([weight for _, weight in rows], np.int64))


def expected(group, calls, live: Counter) -> pa.Table:
    """DataFusion over the rows that are there; -0.0 is the same value as 0.0. Its variances are not exact: ours are."""
    rows = [tuple(0.0 if v == 0 and isinstance(v, float) else v for v in row) for row in live.elements()]
    arrays = [
        pa.array([r[i] for r in rows], pa.int32() if f.type == DATE else f.type.arrow).cast(f.type.arrow)
        for i, f in enumerate(FIELDS)
    ]
    table = pa.Table.from_arrays(arrays, names=[f.name for f in FIELDS])
    names = [FIELDS[g].name for g in group]
    shown = [
        f"{'count' if f in VARIANCES else f}({'*' if a is None else FIELDS[a].name}) AS c{i}"
        for i, (f, a) in enumerate(calls)
    ]
    by = f" GROUP BY {', '.join(names)}" if names else ""
    found = ORACLE.evaluate(f"SELECT {', '.join(names + shown)} FROM rows{by}", {"rows": table})
    keys = [tuple(map(repr, key)) for key in zip(*(found.column(n).to_pylist() for n in names))] if names else [()]
    of_group = {key: [r for r in table.to_pylist() if tuple(repr(r[n]) for n in names) == key] for key in keys}
    for i, (function, arg) in enumerate(calls):
        if function in VARIANCES:
            values = [variance(function, [r[FIELDS[arg].name] for r in of_group[key]]) for key in keys]
            found = found.set_column(len(names) + i, f"c{i}", pa.array(values, pa.float64()))
    return found


def variance(function, values) -> float | None:
    """By exact fractions."""
    known = [v for v in values if v is not None]
    if not all(map(math.isfinite, known)):
        return None if function.endswith("samp") and len(known) < 2 else math.nan
    numbers, n = [Fraction(v) for v in known], len(known)
    below = n - function.endswith("samp")
    if below <= 0:
        return None
    found = float((n * sum(x * x for x in numbers) - sum(numbers) ** 2) / (n * below))
    return math.sqrt(found) if function.startswith("stddev") else found


@st.composite
def histories(draw):
    """Steps of inserts and deletes of rows that are there, some of them several times; and where slots move."""
    row = st.tuples(*(st.sampled_from(DOMAIN[f.name]) for f in FIELDS))
    live: Counter = Counter()
    steps = []
    for _ in range(draw(st.integers(1, 6))):
        rows = []
        for _ in range(draw(st.integers(0, 6))):
            gone = [r for r in live if live[r] > 0]
            if gone and draw(st.booleans()):
                chosen = draw(st.sampled_from(gone))
                weight = -draw(st.integers(1, live[chosen]))
            else:
                chosen, weight = draw(row), draw(st.sampled_from([1, 1, 1, 2, 3]))
            live[chosen] += weight
            rows.append((chosen, weight))
        steps.append((draw(st.permutations(rows)), draw(st.booleans()), +Counter(live)))
    return steps


@settings(deadline=None, max_examples=200)
@given(
    histories(),
    st.sampled_from(GROUPS),
    st.lists(st.sampled_from(CALLS), min_size=1, max_size=5, unique=True),
    st.booleans(),
    st.data(),
)
def test_equals_datafusion_at_every_step_also_where_slots_move(history, group, calls, combine, data):
    spread = data.draw(st.integers(min(1, len(group)), len(group)), "spread")
    slots = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1), "slots")).random(SLOTS) < 0.5
    pipeline = Pipeline(group, calls, TextPool(), combine, spread)
    total: Counter = Counter()
    for rows, move, live in history:
        if move:
            before, source = pipeline.state(np.ones(SLOTS, np.bool_)), pipeline
            pipeline = Pipeline(group, calls, TextPool(), combine, spread)
            pipeline.operation.load(source.operation.export(slots))
            source.operation.drop(slots)
            assert source.state(slots) == Counter() == pipeline.state(~slots)
            assert pipeline.state(slots) + source.state(~slots) == before
            pipeline.operation.load(source.operation.export(~slots))
            assert pipeline.state(np.ones(SLOTS, np.bool_)) == before
        total.update(pipeline.rows(pipeline.step(rows)))
        total = Counter({row: weight for row, weight in total.items() if weight})
        assert_same_rows(pipeline.table(), expected(group, calls, live))
        assert total == pipeline.rows(pipeline.operation.contents())
        pipeline.pool.sweep(pipeline.operation.live_text())


@settings(deadline=None, max_examples=60)
@given(histories(), st.sampled_from(GROUPS), st.lists(st.sampled_from(CALLS), min_size=1, max_size=4, unique=True))
def test_the_state_depends_on_the_rows_alone(history, group, calls):
    """Whatever came and went, and in whatever pieces: the state is that of the rows that are there."""
    went, direct = (Pipeline(group, calls, TextPool(), True, len(group)) for _ in range(2))
    for rows, _, _ in history:
        went.step(rows)
    direct.step(list(history[-1][2].items()))
    everything = np.ones(SLOTS, np.bool_)
    assert went.state(everything) == direct.state(everything)


def test_a_grand_total_is_one_row_from_the_first_step_on():
    pipeline = Pipeline((), [("count", None), ("sum", 2), ("max", 0)], TextPool(), True, 0)
    assert pipeline.rows(pipeline.step([])) == Counter({("0", "None", "None"): 1})
    assert len(pipeline.step([])) == 0
    row = ("a", 1, 5, None, None, None, None, None)
    assert pipeline.rows(pipeline.step([(row, 1)])) == Counter({("0", "None", "None"): -1, ("1", "5", "'a'"): 1})
    moved = Pipeline((), [("count", None), ("sum", 2), ("max", 0)], TextPool(), True, 0)
    moved.operation.load(pipeline.operation.export(np.ones(SLOTS, np.bool_)))
    assert moved.rows(moved.step([(row, -1)])) == Counter({("1", "5", "'a'"): -1, ("0", "None", "None"): 1})


def test_an_update_that_leaves_the_result_as_it_was_emits_nothing():
    pipeline = Pipeline((1,), [("max", 2)], TextPool(), True, 1)
    low, high = (("a", 1, b, None, None, None, None, None) for b in (1, 9))
    pipeline.step([(low, 1), (high, 1)])
    assert len(pipeline.step([(low, -1)])) == 0


def test_memory_follows_the_groups():
    """Groups with text, doubles and values come and go at a constant size; then nearly all go."""
    size = 2000
    pipeline = Pipeline((0, 2), [("min", 0), ("sum", 5), ("max", 3)], TextPool(), False, 2)

    def run(numbers: range, weight: int) -> None:
        pipeline.step([((f"t{k}", 0, k, Decimal(k), None, 0.5, None, None), weight) for k in numbers])
        pipeline.pool.sweep(pipeline.operation.live_text())

    run(range(size), 1)
    start = pipeline.operation.memory_bytes()
    for first in range(0, 10 * size, size // 2):
        run(range(first, first + size // 2), -1)
        run(range(first + size, first + size + size // 2), 1)
        assert pipeline.operation.memory_bytes() <= 1.5 * start
    run(range(10 * size, 11 * size - 4), -1)
    assert pipeline.operation.memory_bytes() < start / 8
    assert len(pipeline.pool) < size


def test_state_of_other_calls_is_refused():
    source = Pipeline((0,), [("sum", 5)], TextPool(), True, 1)
    source.step([(("a", 1, 5, None, None, 0.5, None, None), 1)])
    target = Pipeline((0,), [("count", None)], TextPool(), True, 1)
    with pytest.raises(CorruptState, match="columns instead of 3"):
        target.operation.load(source.operation.export(np.ones(SLOTS, np.bool_)))
