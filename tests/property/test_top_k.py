"""Top-k in its two stages against both oracles: members show their first rows, one finds the first of all."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import CorruptState
from vms.kernels.hashing import SLOTS, slot_of
from vms.maintenance.operations.top_k import TopKOperation
from vms.model.arrow import from_changes, from_column, to_changes, to_column
from vms.model.changes import Changes
from vms.model.order import SortKey, complete
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, VARCHAR, decimal
from vms.plan.plan import Field, TopK, make_node
from vms.testing.compare import assert_same_rows
from vms.testing.oracle import DataFusionOracle, DuckOracle

DATAFUSION, DUCK = DataFusionOracle(), DuckOracle()
EVERYWHERE = np.ones(SLOTS, np.bool_)
DOMAIN = {
    Field("s", VARCHAR): [None, "", "a", "ab", "é", "\U00010000", "\uffff"],
    Field("b", BIGINT): [None, 0, 7, -(10**17)],
    Field("d", decimal(10, 2)): [None, Decimal("0.00"), Decimal("-2.55"), Decimal("99999999.99")],
    Field("w", decimal(30, 4)): [None, Decimal("-0.0001"), Decimal("7.0000"), Decimal(2**64), Decimal("-9" + 25 * "9")],
    Field("x", DOUBLE): [None, 0.0, -1.25, 2.0**60, float("nan"), float("inf"), float("-inf")],
    Field("dt", DATE): [None, 0, -1, 10471],
    Field("bo", BOOLEAN): [None, True, False],
}
FIELDS = tuple(DOMAIN)
TYPES = tuple(f.type for f in FIELDS)


class Member:
    """One stage on one member."""

    def __init__(self, spec: TopK, spread: tuple[int, ...], spare: int = 1) -> None:
        self.pool = TextPool()
        self.operation = TopKOperation(make_node(spec, (), FIELDS, spread), self.pool)
        self.operation._rows.spare = spare

    def step(self, batches: list[pa.RecordBatch]) -> pa.RecordBatch:
        """Text travels as content, as between members."""
        inputs = Changes.concat([to_changes(TYPES, b, self.pool) for b in batches], len(TYPES))
        emitted = self.operation.step([inputs])
        assert emitted.weights.all()
        assert len(set(self._rows(emitted))) == len(emitted)
        return from_changes(TYPES, emitted, self.pool)

    def shown(self) -> Counter:
        contents = self.operation.contents()
        return Counter(dict(zip(self._rows(contents), contents.weights.tolist())))

    def _rows(self, changes: Changes) -> list[tuple]:
        columns = [from_column(t, c, self.pool).to_pylist() for t, c in zip(TYPES, changes.columns)]
        return [tuple(map(repr, row)) for row in zip(*columns)]

    def table(self) -> pa.Table:
        contents = self.operation.contents()
        arrays = [from_column(t, c, self.pool) for t, c in zip(TYPES, contents.columns)]
        table = pa.Table.from_arrays(arrays, names=[f.name for f in FIELDS])
        return table.take(pa.array(np.repeat(np.arange(len(contents)), contents.weights)))


def table_of(rows: list[tuple]) -> pa.Table:
    arrays = [
        pa.array([r[i] for r in rows], pa.int32() if f.type == DATE else f.type.arrow).cast(f.type.arrow)
        for i, f in enumerate(FIELDS)
    ]
    return pa.Table.from_arrays(arrays, names=[f.name for f in FIELDS])


def batch_of(rows: list[tuple[tuple, int]], slots) -> pa.RecordBatch:
    """The changes whose slot (by the first two columns) is set."""
    pool, table = TextPool(), table_of([row for row, _ in rows])
    columns = tuple(to_column(t, c, pool) for t, c in zip(TYPES, table.columns))
    changes = Changes(columns, np.array([weight for _, weight in rows], np.int64))
    mine = slots[slot_of(columns[:2], TYPES[:2], pool, len(rows))]
    return from_changes(TYPES, changes.take(mine), pool)


def expected(spec: TopK) -> str:
    """The SQL with the order completed by all columns."""
    keys = [
        f"{FIELDS[k.column].name}{' DESC' if k.descending else ''} NULLS {'FIRST' if k.nulls_first else 'LAST'}"
        for k in complete(spec.order, len(FIELDS))
    ]
    limit = "" if spec.limit is None else f" LIMIT {spec.limit}"
    return f"SELECT * FROM rows ORDER BY {', '.join(keys)}{limit} OFFSET {spec.offset}"


@st.composite
def specs(draw) -> TopK:
    columns = draw(st.lists(st.integers(0, len(FIELDS) - 1), max_size=3, unique=True))
    order = tuple(SortKey(c, draw(st.booleans()), draw(st.booleans())) for c in columns)
    return TopK(order, draw(st.integers(0, 3)), draw(st.sampled_from([None, 1, 2, 3, 5])))


@st.composite
def histories(draw):
    """Steps of inserts and deletes of rows that are there, some of them several times; and slots that move."""
    row = st.tuples(*(st.sampled_from(values) for values in DOMAIN.values()))
    few = st.lists(row, min_size=2, max_size=12)
    pool = draw(few)
    live: Counter = Counter()
    steps = []
    for _ in range(draw(st.integers(1, 7))):
        rows = []
        for _ in range(draw(st.integers(0, 8))):
            there = [r for r in live if live[r] > 0]
            if there and draw(st.booleans()):
                chosen = draw(st.sampled_from(there))
                weight = -draw(st.integers(1, live[chosen]))
            else:
                chosen, weight = draw(st.sampled_from(pool)), draw(st.sampled_from([1, 1, 1, 2, 3]))
            live[chosen] += weight
            rows.append((chosen, weight))
        seed = draw(st.none() | st.integers(0, 99))
        steps.append((draw(st.permutations(rows)), seed, list((+live).elements())))
    return steps


@settings(deadline=None, max_examples=300)
@given(histories(), specs())
def test_both_stages_equal_both_oracles_at_every_step_also_where_slots_move(history, spec):
    local = TopK(spec.order, 0, 0 if spec.limit is None else spec.offset + spec.limit)
    members = [Member(spec if spec.limit is None else local, (0, 1)) for _ in range(2)]
    last = Member(spec, ())
    owned = np.arange(SLOTS) % 2 == 0
    for rows, seed, live in history:
        if seed is not None and spec.limit is not None:
            now = np.random.default_rng(seed).random(SLOTS) < 0.5
            handed = [(1, members[0].operation.export(owned & ~now)), (0, members[1].operation.export(~owned & now))]
            members[0].operation.drop(owned & ~now)
            members[1].operation.drop(~owned & now)
            for to, state in handed:
                members[to].operation.load(state)
            owned = now
        batches = [batch_of(rows, owned), batch_of(rows, ~owned)]
        if spec.limit is not None:
            batches = [
                m.step([b]) if b.num_rows or m.operation.moved else b for m, b in zip(members, batches, strict=True)
            ]
        last.step(batches)
        table = table_of(live)
        wanted = DATAFUSION.evaluate(expected(spec), {"rows": table})
        assert_same_rows(last.table(), wanted)
        assert_same_rows(wanted, DUCK.evaluate(expected(spec), {"rows": table}), "the oracles")
        if spec.limit is not None:
            came = last.operation._rows
            kept = Counter(
                dict(
                    zip(
                        last._rows(Changes(came.columns(came.ids()), came.counts[came.ids()])),
                        came.counts[came.ids()].tolist(),
                    )
                )
            )
            assert members[0].shown() + members[1].shown() == kept
        for member in (*members, last):
            member.pool.sweep(member.operation.live_text())


@settings(deadline=None, max_examples=60)
@given(histories(), specs(), st.data())
def test_a_checkpoint_brings_the_same_state(history, spec, data):
    stop = data.draw(st.integers(0, len(history) - 1))
    member = Member(spec, (0, 1))
    for at, (rows, _, live) in enumerate(history):
        member.step([batch_of(rows, EVERYWHERE)])
        if at == stop:
            again = Member(spec, (0, 1))
            again.operation.load(member.operation.export(EVERYWHERE))
            assert again.shown() == member.shown()
            assert again.step([batch_of([], EVERYWHERE)]).num_rows == 0
            member = again
        assert_same_rows(member.table(), DATAFUSION.evaluate(expected(spec), {"rows": table_of(live)}))


def numbered(numbers, text: bool = False) -> list[tuple]:
    return [(f"t{n}" if text else None, int(n), None, None, None, None, None) for n in numbers]


def test_a_large_multiset_is_right_while_its_first_rows_leave():
    """Far more rows than the head holds; the first thousands are deleted, others come in front."""
    spec = TopK((SortKey(1),), 2, 10)
    member = Member(spec, (), spare=64)
    rng = np.random.default_rng(7)
    live = set(rng.permutation(20_000).tolist())
    member.step([batch_of([(r, 1) for r in numbered(live)], EVERYWHERE)])
    for step in range(60):
        gone = sorted(live)[:200] if step % 3 else rng.choice(sorted(live), 200, replace=False).tolist()
        come = (rng.integers(-500, 30_000, 50) * 100_000 + step).tolist()
        live = live - set(gone) | set(come)
        changes = [(r, -1) for r in numbered(gone)] + [(r, 1) for r in numbered(set(come))]
        member.step([batch_of(changes, EVERYWHERE)])
        assert sorted(member.table().column("b").to_pylist()) == sorted(live)[2:12]


def test_only_rows_that_enter_or_leave_are_emitted():
    member = Member(TopK((SortKey(1),), 0, 2), ())
    member.step([batch_of([(r, 1) for r in numbered([1, 3, 5])], EVERYWHERE)])
    assert member.step([batch_of([(r, 1) for r in numbered([4, 9])], EVERYWHERE)]).num_rows == 0
    emitted = member.step([batch_of([(numbered([1])[0], -1)], EVERYWHERE)])
    assert sorted(zip(emitted.column("c1").to_pylist(), emitted.column("_weight").to_pylist())) == [(1, -1), (4, 1)]


def test_memory_follows_the_rows():
    """Rows with text come and go at a constant size; then nearly all go."""
    size, member = 4000, Member(TopK((SortKey(0),), 0, 10), (), spare=64)

    def run(numbers: range, weight: int) -> None:
        member.step([batch_of([(r, weight) for r in numbered(numbers, text=True)], EVERYWHERE)])
        member.pool.sweep(member.operation.live_text())

    run(range(size), 1)
    start = member.operation.memory_bytes()
    for first in range(0, 10 * size, size // 2):
        run(range(first, first + size // 2), -1)
        run(range(first + size, first + size + size // 2), 1)
        assert member.operation.memory_bytes() <= 1.5 * start
    run(range(10 * size, 11 * size - 4), -1)
    assert member.operation.memory_bytes() < start / 8
    assert len(member.pool) < size


def test_state_of_other_columns_is_refused():
    member = Member(TopK((), 0, 1), ())
    member.step([batch_of([(numbered([1])[0], 1)], EVERYWHERE)])
    batch = member.operation.export(EVERYWHERE)[0]
    with pytest.raises(CorruptState, match="6 columns instead of 7"):
        member.operation.load([batch.drop_columns(["c3"])])
