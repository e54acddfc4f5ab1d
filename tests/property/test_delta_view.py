"""The DeltaView against a row store that keeps every cell and resolves each read from scratch."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import CorruptState, ProtocolViolation
from vms.kernels.hashing import SLOTS
from vms.maintenance.operations.delta_view import DeltaView
from vms.model.arrow import from_column, to_column
from vms.model.changes import (
    DELETE_COLUMN,
    DELETE_ROW,
    DELETE_VERSION,
    PUT,
    UNDECODABLE,
    Changes,
    RowChanges,
)
from vms.model.table import BaseTable, TableColumn
from vms.model.text import TextPool
from vms.model.types import BIGINT, VARCHAR, decimal

TABLE = BaseTable(
    "t",
    (
        TableColumn("a", BIGINT),
        TableColumn("k", BIGINT),
        TableColumn("unread", BIGINT),
        TableColumn("b", VARCHAR),
        TableColumn("name", VARCHAR),
        TableColumn("c", decimal(30, 2)),
    ),
    key=("name", "k"),
)
READ = ("c", "a", "b")
VALUE_NAMES = tuple(c.name for c in TABLE.value_columns)
MARKER = "marker"
KEYS = [("x", 1), ("x", 2), ("y", 1), ("", -7)]
VALUES = {
    "a": [0, 1, -(2**63)],
    "unread": [5],
    "b": ["", "x", "long text"],
    "c": [Decimal("0.00"), Decimal("-1.25"), Decimal("1234567890123456789012345678.99")],
    MARKER: [0],
}
BROKEN = "broken"


@dataclass(frozen=True)
class Event:
    key: tuple
    kind: int
    ts: int
    cells: dict = field(default_factory=dict)


class RowStore:
    """Every cell and tombstone ever written; reads as HBase resolves them (vms/store/base.py)."""

    def __init__(self) -> None:
        self.events: list[Event] = []

    def cell(self, key: tuple, column: str):
        """(value, ts) of the newest visible version, or None."""
        mine = [e for e in self.events if e.key == key]
        hidden_to = max(
            (e.ts for e in mine if e.kind == DELETE_ROW or (e.kind == DELETE_COLUMN and column in e.cells)),
            default=-1,
        )
        gone = {e.ts for e in mine if e.kind == DELETE_VERSION and column in e.cells}
        visible = [
            (e.ts, arrival, e.cells[column])
            for arrival, e in enumerate(mine)
            if e.kind in (PUT, UNDECODABLE) and column in e.cells and e.ts > hidden_to and e.ts not in gone
        ]
        if not visible:
            return None
        ts, _, value = max(visible, key=lambda v: v[:2])
        return value, ts

    def read(self, key: tuple) -> Event:
        """The row as it is handed to a DeltaView."""
        cells = {c: found for c in (*VALUE_NAMES, MARKER) if (found := self.cell(key, c))}
        if not cells:
            return Event(key, DELETE_ROW, -1)
        kind = UNDECODABLE if any(v == BROKEN for v, _ in cells.values()) else PUT
        return Event(key, kind, max(ts for _, ts in cells.values()), {c: v for c, (v, _) in cells.items()})

    def visible(self) -> Counter:
        rows = [self.read(key) for key in {e.key for e in self.events}]
        return Counter((*r.key, *(r.cells.get(c) for c in READ)) for r in rows if r.kind == PUT)

    def scan(self) -> list[Event]:
        return [r for key in {e.key for e in self.events} if (r := self.read(key)).kind != DELETE_ROW]

    def highest_ts(self) -> int:
        return max((e.ts for e in self.events), default=-1)


def row_changes(events: list[Event], pool: TextPool) -> RowChanges:
    def column(type_, values):
        return to_column(type_, pa.array(values, type_.arrow), pool)

    def value(event: Event, name: str):
        return event.cells.get(name) if event.kind == PUT else None

    bit = {name: 1 << i for i, name in enumerate(VALUE_NAMES)} | {MARKER: 1 << 63}
    return RowChanges(
        tuple(column(c.type, [e.key[i] for e in events]) for i, c in enumerate(TABLE.key_columns)),
        np.array([e.kind for e in events], np.int8),
        np.array([e.ts for e in events], np.int64),
        np.array([sum(bit[c] for c in e.cells) for e in events], np.uint64),
        tuple(column(TABLE.by_name[n].type, [value(e, n) for e in events]) for n in READ),
    )


def counted(changes: Changes, view: DeltaView, pool: TextPool) -> Counter:
    """The batch as row -> weight; fails where a (row, sign) is emitted twice or a weight is zero."""
    columns = [from_column(t, c, pool).to_pylist() for t, c in zip(view.types, changes.columns)]
    weights = changes.weights.tolist()
    rows = list(zip(*columns))
    assert all(weights)
    assert len(set(rows)) == len(rows)
    return Counter(dict(zip(rows, weights)))


def add(total: Counter, change: Counter) -> Counter:
    out = Counter(total)
    for row, weight in change.items():
        out[row] += weight
    return Counter({row: weight for row, weight in out.items() if weight})


def state(view: DeltaView) -> list:
    [batch] = view.export(np.ones(SLOTS, np.bool_))
    return [batch.schema.metadata, sorted(map(repr, batch.to_pylist()))]


def forgetful(pool: TextPool, keep: int = 0) -> DeltaView:
    view = DeltaView(TABLE, READ, pool)
    view.tombstone_share, view.min_tombstones = 0.0, keep
    return view


@st.composite
def histories(draw):
    """Batches of events whose timestamps mostly rise, and what else happens before each batch."""
    history, clock = [], 5
    for _ in range(draw(st.integers(1, 8))):
        action = draw(st.sampled_from(["none", "none", "move", "scan", "unseen then scan"]))
        batch = []
        for _ in range(draw(st.integers(0, 6))):
            clock += draw(st.integers(0, 2))
            ts = max(0, clock + draw(st.sampled_from([0, 0, 0, 0, -1, -2, -5, 3])))
            kind = draw(st.sampled_from([PUT] * 5 + [DELETE_ROW, DELETE_COLUMN, DELETE_VERSION, UNDECODABLE]))
            names = [] if kind == DELETE_ROW else draw(st.sets(st.sampled_from([*VALUE_NAMES, MARKER]), min_size=1))
            cells = {n: draw(st.sampled_from(VALUES[n])) for n in sorted(names)}
            if kind == UNDECODABLE:
                cells[draw(st.sampled_from(READ))] = BROKEN
            batch.append(Event(draw(st.sampled_from(KEYS)), kind, ts, cells))
        history.append((action, batch))
    return history


@settings(deadline=None, max_examples=150)
@given(histories(), st.sampled_from([0, 1, 2, 1000]), st.integers(0, 2**32 - 1))
def test_emits_what_a_reader_of_the_store_sees(history, tombstones, seed):
    store, pool = RowStore(), TextPool()
    view, total = forgetful(pool, tombstones), Counter()
    slots = np.random.default_rng(seed).random(SLOTS) < 0.5
    for action, batch in history:
        if action == "move":
            pool, source_pool = TextPool(), pool
            source, view = view, forgetful(pool, tombstones)
            view.load(source.export(slots))
            source.drop(slots)
            assert not set(counted(source.contents(), source, source_pool)) & set(counted(view.contents(), view, pool))
            view.load(source.export(~slots))
        elif action.endswith("scan"):
            if action.startswith("unseen"):
                store.events += batch
                batch = []
            found = row_changes(store.scan(), pool)
            total = add(total, counted(view.replace(found, horizon=store.highest_ts()), view, pool))
            assert total == store.visible()
        store.events += batch
        changes = row_changes(batch, pool)
        before = state(view)
        asked = view.unresolved(changes)
        assert state(view) == before
        keys = [batch[i].key for i in asked]
        assert len(set(keys)) == len(keys)
        emitted = view.step(changes, row_changes([store.read(k) for k in keys], pool))
        total = add(total, counted(emitted, view, pool))
        assert total == store.visible()
        assert counted(view.contents(), view, pool) == total
        live = {e.key for e in store.scan()}
        assert len(view) == len(live)
        pool.sweep(view.live_text())


@pytest.mark.parametrize(
    ("known", "change", "needs_read"),
    [
        ([], (PUT, 5), False),
        ([(PUT, 5)], (PUT, 5), False),
        ([(PUT, 5)], (PUT, 4), True),
        ([(PUT, 5)], (DELETE_ROW, 5), False),
        ([(PUT, 5)], (DELETE_COLUMN, 6), False),
        ([(PUT, 5)], (DELETE_ROW, 4), True),
        ([(PUT, 5)], (DELETE_VERSION, 6), True),
        ([(DELETE_ROW, 5)], (PUT, 5), True),
        ([(DELETE_ROW, 5)], (PUT, 6), False),
        ([(DELETE_COLUMN, 5)], (PUT, 5), True),
        ([(DELETE_ROW, 5)], (DELETE_ROW, 5), False),
        ([(PUT, 5)], (UNDECODABLE, 5), False),
        ([(PUT, 5)], (UNDECODABLE, 4), True),
        ([(UNDECODABLE, 5)], (PUT, 9), True),
        ([(PUT, 5), (DELETE_ROW, 6), (PUT, 7)], (PUT, 7), False),
    ],
)
@pytest.mark.parametrize("one_batch", [False, True])
def test_the_stream_alone_decides_what_is_on_top(known, change, needs_read, one_batch):
    pool = TextPool()
    view = DeltaView(TABLE, READ, pool)
    known, change = [
        [Event(KEYS[0], kind, ts, {} if kind == DELETE_ROW else {"a": 1}) for kind, ts in events]
        for events in (known, [change])
    ]
    if one_batch:
        assert len(view.unresolved(row_changes(known + change, pool))) == needs_read
        return
    view.step(row_changes(known, pool))
    assert len(view.unresolved(row_changes(change, pool))) == needs_read


def test_an_update_that_changes_nothing_visible_emits_nothing():
    pool = TextPool()
    view = DeltaView(TABLE, READ, pool)
    view.step(row_changes([Event(KEYS[0], PUT, 1, {"a": 1, "b": "x"})], pool))
    same = [Event(KEYS[0], PUT, 2, {"a": 0}), Event(KEYS[0], PUT, 3, {"a": 1, "unread": 5})]
    assert len(view.step(row_changes(same, pool))) == 0


def test_a_change_that_needs_a_read_is_refused_without_it():
    pool = TextPool()
    view = DeltaView(TABLE, READ, pool)
    with pytest.raises(ProtocolViolation, match="table t: change 1 of the batch"):
        view.step(row_changes([Event(KEYS[0], PUT, 9, {"a": 1}), Event(KEYS[0], PUT, 8, {"b": "x"})], pool))


def test_a_forgotten_tombstone_still_guards_its_row():
    pool = TextPool()
    view = forgetful(pool)
    put, late = Event(KEYS[0], PUT, 3, {"a": 1}), Event(KEYS[0], PUT, 8, {"a": 2})
    view.step(row_changes([put, Event(KEYS[0], DELETE_ROW, 8)], pool))
    assert view.forgotten_ts == 8
    assert view.unresolved(row_changes([late], pool)).tolist() == [0]
    other = forgetful(pool)
    other.load(view.export(np.zeros(SLOTS, np.bool_)))
    assert other.unresolved(row_changes([late], pool)).tolist() == [0]


def test_a_scan_does_not_see_tombstones_so_nothing_below_its_horizon_is_decided():
    """Both rows had deletes up to 8 before the scan: of the whole row, and of one column."""
    pool = TextPool()
    for known in ([], [Event(KEYS[1], PUT, 3, {"a": 1, "b": "x"})]):
        view = DeltaView(TABLE, READ, pool)
        view.step(row_changes(known, pool))
        view.replace(row_changes([Event(KEYS[1], PUT, 3, {"a": 1})], pool), horizon=8)
        late = [Event(KEYS[0], PUT, 8, {"a": 2}), Event(KEYS[1], PUT, 8, {"b": "y"})]
        assert view.unresolved(row_changes(late, pool)).tolist() == [0, 1]
        later = [Event(e.key, PUT, 9, e.cells) for e in late]
        assert view.unresolved(row_changes(later, pool)).tolist() == []


def test_the_oldest_tombstones_are_forgotten_first():
    pool = TextPool()
    view = forgetful(pool, keep=2)
    view.step(row_changes([Event((f"row {ts}", 0), DELETE_ROW, ts) for ts in (30, 10, 40, 20)], pool))
    assert view.forgotten_ts == 30
    assert view.unresolved(row_changes([Event(("row 40", 0), PUT, 39, {"a": 1})], pool)).tolist() == [0]
    assert view.unresolved(row_changes([Event(("new", 0), PUT, 31, {"a": 1})], pool)).tolist() == []


def test_state_of_other_columns_is_refused():
    view = DeltaView(TABLE, ("a",), TextPool())
    with pytest.raises(CorruptState, match="value:c"):
        view.load(DeltaView(TABLE, READ, TextPool()).export(np.ones(SLOTS, np.bool_)))


def test_memory_follows_the_live_rows():
    """Rows come and go under keys that are never used again, at a constant live size; then nearly all go."""
    pool, clock, size = TextPool(), 0, 3000
    view = DeltaView(TABLE, READ, pool)

    def run(kind: int, keys: range, cells: dict) -> None:
        nonlocal clock
        clock += 1
        view.step(row_changes([Event(("", k), kind, clock, cells) for k in keys], pool))

    run(PUT, range(size), {"a": 1})
    start = view.memory_bytes()
    for first in range(0, 15 * size, size // 2):
        run(DELETE_ROW, range(first, first + size // 2), {})
        run(PUT, range(first + size, first + size + size // 2), {"a": 1})
        assert len(view) == size
        assert view.memory_bytes() <= 1.5 * start
    view.min_tombstones = 16
    run(DELETE_ROW, range(15 * size, 16 * size - 10), {})
    assert len(view) == 10
    assert view.memory_bytes() < start / 8
