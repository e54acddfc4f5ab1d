"""The window operation alone: sums of doubles and means of decimals over frames, its state, and what it emits."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import CorruptState
from vms.kernels.hashing import SLOTS
from vms.maintenance.operations.window import WindowOperation
from vms.model.arrow import from_column, to_column
from vms.model.changes import Changes
from vms.model.order import SortKey
from vms.model.text import TextPool
from vms.model.types import BIGINT, DOUBLE, VARCHAR, decimal
from vms.plan.functions import aggregate_type
from vms.plan.plan import Field, Frame, Window, WindowCall, make_node
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle

DATAFUSION = DataFusionOracle()
EVERYWHERE = np.ones(SLOTS, np.bool_)
FIELDS = (Field("p", VARCHAR), Field("k", BIGINT, False), Field("x", DOUBLE), Field("d", decimal(10, 2)))
TYPES = tuple(f.type for f in FIELDS)
RUNNING, AROUND = Frame(False, None, 0), Frame(True, -1, 1)


def aggregate(function: str, arg: int, frame: Frame) -> WindowCall:
    return WindowCall(function, arg, aggregate_type(function, TYPES[arg]), frame)


class Windows:
    """Calls over partitions of `p` in the order of `k`."""

    def __init__(self, *calls: WindowCall) -> None:
        self.pool = TextPool()
        self.fields = FIELDS + tuple(Field(f"c{i}", c.type) for i, c in enumerate(calls))
        node = make_node(Window((0,), (SortKey(1),), calls), (), self.fields, (0,))
        self.operation = WindowOperation(node, TYPES, self.pool)

    def step(self, rows: list[tuple[tuple, int]]) -> Counter:
        """What the rows with their weights bring; no row twice, none with weight zero."""
        arrays = [pa.array([row[i] for row, _ in rows], t.arrow) for i, t in enumerate(TYPES)]
        columns = tuple(to_column(t, a, self.pool) for t, a in zip(TYPES, arrays))
        emitted = self.operation.step([Changes(columns, np.array([w for _, w in rows], np.int64))])
        made = self._rows(emitted)
        assert len(set(made)) == len(made) and emitted.weights.all()
        return Counter(dict(zip(made, emitted.weights.tolist())))

    def _rows(self, changes: Changes) -> list[tuple]:
        columns = [from_column(f.type, c, self.pool).to_pylist() for f, c in zip(self.fields, changes.columns)]
        return list(zip(*columns))

    def table(self) -> pa.Table:
        contents = self.operation.contents()
        arrays = [from_column(f.type, c, self.pool) for f, c in zip(self.fields, contents.columns)]
        table = pa.Table.from_arrays(arrays, names=[f.name for f in self.fields])
        return table.take(pa.array(np.repeat(np.arange(len(contents)), contents.weights)))


@st.composite
def histories(draw, doubles):
    """Steps of inserts and deletes; the number k of a row is its own, so the order is total but for copies."""
    live: Counter = Counter()
    steps = []
    for _ in range(draw(st.integers(1, 5))):
        rows = []
        for _ in range(draw(st.integers(0, 8))):
            there = [r for r in live if live[r] > 0]
            if there and draw(st.integers(0, 2)) == 0:
                row, weight = draw(st.sampled_from(there)), -1
            else:
                k = draw(st.integers(0, 30))
                cents = draw(st.none() | st.integers(-(10**9), 10**9))
                money = None if cents is None else Decimal(cents).scaleb(-2)
                row = next(
                    (r for r in live if r[1] == k), (draw(st.sampled_from([None, "", "é"])), k, draw(doubles), money)
                )
                weight = draw(st.sampled_from([1, 1, 2]))
            live[row] += weight
            rows.append((row, weight))
        steps.append((draw(st.permutations(rows)), sorted((+live).elements(), key=lambda r: r[1])))
    return steps


def exact_sum(values: list[float]) -> float | None:
    """The rounded sum; NaN as soon as one is in, or both infinities."""
    values = [v for v in values if v is not None]
    if not values:
        return None
    try:
        return math.fsum(values)
    except ValueError:
        return math.nan
    except OverflowError:
        return math.inf if sum(values) > 0 else -math.inf


@settings(deadline=None, max_examples=150)
@given(histories(st.none() | st.floats(allow_nan=True, allow_infinity=True)))
def test_sums_of_doubles_are_rounded_once_whatever_left_the_frame(history):
    windows = Windows(
        aggregate("sum", 2, AROUND), aggregate("sum", 2, RUNNING), aggregate("sum", 2, Frame(True, 1, None))
    )
    for rows, live in history:
        windows.step(rows)
        expected = Counter()
        for p in {r[0] for r in live}:
            xs = [r for r in live if r[0] == p]
            for i, r in enumerate(xs):
                peers = max(j for j, other in enumerate(xs) if other[1] == r[1])
                frames = [xs[max(i - 1, 0) : i + 2], xs[: peers + 1], xs[i + 1 :]]
                sums = [exact_sum([0.0 if f[2] == 0 else f[2] for f in frame]) for frame in frames]
                expected[tuple(map(repr, (p, r[1], *sums)))] += 1
        got = Counter(
            tuple(map(repr, (r["p"], r["k"], r["c0"], r["c1"], r["c2"]))) for r in windows.table().to_pylist()
        )
        assert got == expected


@settings(deadline=None, max_examples=100)
@given(histories(st.none()))
def test_means_of_decimals_are_those_of_datafusion(history):
    windows = Windows(aggregate("avg", 3, AROUND), aggregate("avg", 3, RUNNING), aggregate("sum", 3, RUNNING))
    over = "OVER (PARTITION BY p ORDER BY k"
    sql = (
        f"SELECT *, avg(d) {over} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) AS c0, "
        f"avg(d) {over}) AS c1, sum(d) {over}) AS c2 FROM rows"
    )
    for rows, live in history:
        windows.step(rows)
        arrays = [pa.array([r[i] for r in live], t.arrow) for i, t in enumerate(TYPES)]
        table = pa.Table.from_arrays(arrays, names=[f.name for f in FIELDS])
        assert_same_rows(windows.table(), DATAFUSION.evaluate(sql, {"rows": table}))


@settings(deadline=None, max_examples=60)
@given(histories(st.none()), st.integers(0, 99))
def test_slots_move_and_the_sum_of_what_is_emitted_is_the_result(history, seed):
    calls = (aggregate("max", 3, AROUND), WindowCall("row_number", None, BIGINT, Frame(True, None, None)))
    slots = np.random.default_rng(seed).random(SLOTS) < 0.5
    windows, total = Windows(*calls), Counter()
    for rows, _ in history:
        before, moved = windows.table(), Windows(*calls)
        moved.operation.load(windows.operation.export(slots))
        windows.operation.drop(slots)
        assert windows.operation.export(slots) == []
        moved.operation.load(windows.operation.export(EVERYWHERE))
        assert_same_rows(moved.table(), before)
        windows = moved
        total.update(windows.step(rows))
        shown = Counter(windows._rows(windows.operation.contents()))
        assert {r: w for r, w in total.items() if w} == {
            r: int(w) for r, w in zip(shown, windows.operation.contents().weights)
        }
        windows.pool.sweep(windows.operation.live_text())


def row(p: str, k: int) -> tuple:
    return (p, k, None, Decimal(k))


def test_only_partitions_that_changed_and_rows_that_differ_are_emitted():
    windows = Windows(WindowCall("lag", 1, BIGINT, Frame(True, None, None), 1))
    windows.step([(row(p, k), 1) for p in "ab" for k in (1, 2, 5, 6)])
    emitted = windows.step([(row("a", 4), 1)])
    assert emitted == Counter({(*row("a", 4), 2): 1, (*row("a", 5), 2): -1, (*row("a", 5), 4): 1})


def test_memory_follows_the_rows():
    size, windows = 2000, Windows(aggregate("min", 0, AROUND), aggregate("sum", 3, RUNNING))

    def run(numbers: range, weight: int) -> None:
        windows.step([((f"t{k // 3}", k, None, Decimal(k)), weight) for k in numbers])
        windows.pool.sweep(windows.operation.live_text())

    run(range(size), 1)
    start = windows.operation.memory_bytes()
    for first in range(0, 10 * size, size // 2):
        run(range(first, first + size // 2), -1)
        run(range(first + size, first + size + size // 2), 1)
        assert windows.operation.memory_bytes() <= 1.5 * start
    run(range(10 * size, 11 * size - 4), -1)
    assert windows.operation.memory_bytes() < start / 6
    assert len(windows.pool) < size


def test_state_of_other_columns_is_refused():
    windows = Windows(aggregate("sum", 3, RUNNING))
    windows.step([(row("a", 1), 1)])
    batch = windows.operation.export(EVERYWHERE)[0]
    with pytest.raises(CorruptState, match="3 columns instead of 4"):
        windows.operation.load([batch.drop_columns(["c3"])])
