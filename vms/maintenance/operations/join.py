"""The inner equi-join over a ReverseJoinView (thesis 4.4; design section 4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa

from vms.errors import CorruptState
from vms.kernels.hashing import slot_of
from vms.kernels.join_index import LEFT, RIGHT, JoinIndex
from vms.kernels.keys import key_width, key_words, words_to_columns
from vms.model.arrow import from_changes, to_changes
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType
from vms.plan.plan import Join, Node

_SIDES = ("left", "right")


class JoinOperation:
    """Emits all columns of the left input, then of the right; the weight is the product of both.

    Both sides may change in one step: dA x B_old, then A += dA, then A_new x dB, then B += dB. What is
    emitted is not consolidated: a row may occur several times. Rows with a NULL in their join key match
    nothing and are not kept. `residual` keeps those rows of a batch for which the rest of the join condition
    is true.
    """

    def __init__(
        self,
        node: Node,
        left_types: Sequence[SqlType],
        right_types: Sequence[SqlType],
        pool: TextPool,
        residual: Callable[[Changes], Changes] | None = None,
    ) -> None:
        if not isinstance(node.spec, Join):
            raise TypeError(f"node {node.id} is no join")
        self._pool, self._residual = pool, residual
        self._types = (tuple(left_types), tuple(right_types))
        self._keys = (node.spec.left_keys, node.spec.right_keys)
        self._key_types = tuple(left_types[k] for k in node.spec.left_keys)
        self._index = JoinIndex(
            key_width(self._key_types, nullable=False),
            (key_width(left_types, nullable=True), key_width(right_types, nullable=True)),
        )

    def step(self, inputs: Sequence[Changes]) -> Changes:
        left, right = (self._with_key(side, inputs[side]) for side in (LEFT, RIGHT))
        left_keys, right_keys = self._enter(LEFT, left), self._enter(RIGHT, right)
        from_left = self._matches(LEFT, left, left_keys)
        self._add(LEFT, left_keys, left)
        from_right = self._matches(RIGHT, right, right_keys)
        self._add(RIGHT, right_keys, right)
        self._index.release(np.concatenate([left_keys, right_keys]))
        return self._filtered(Changes.concat([from_left, from_right], len(self._types[LEFT] + self._types[RIGHT])))

    def contents(self) -> Changes:
        rows = self._rows(LEFT, self._index.row_ids(LEFT))
        keys = self._index.find(self._key_words(LEFT, rows))
        return self._filtered(self._matches(LEFT, rows, keys))

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        """One batch for each side (schema metadata `side`): its rows as changes."""
        batches = []
        for side in (LEFT, RIGHT):
            batch = from_changes(self._types[side], self._rows_in(side, slots), self._pool)
            batches.append(batch.replace_schema_metadata({"side": _SIDES[side]}))
        return batches

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            side = _SIDES.index(batch.schema.metadata[b"side"].decode())
            types = self._types[side]
            if batch.num_columns != len(types) + 1:
                raise CorruptState(
                    f"state of a join's {_SIDES[side]} side has {batch.num_columns - 1} columns instead of "
                    f"{len(types)}; rebuild the views that use it"
                )
            self._merge(side, to_changes(types, batch, self._pool))

    def drop(self, slots: Bool) -> None:
        for side in (LEFT, RIGHT):
            rows = self._rows_in(side, slots)
            self._merge(side, Changes(rows.columns, -rows.weights))

    def live_text(self) -> list[Int64]:
        found = []
        for side in (LEFT, RIGHT):
            for type_, column in zip(self._types[side], self._rows(side, self._index.row_ids(side)).columns):
                if type_.kind is Kind.VARCHAR:
                    found.append(column.codes if column.valid is None else column.codes[column.valid])
        return found

    def memory_bytes(self) -> int:
        return self._index.memory_bytes()

    def _matches(self, side: int, rows: Changes, key_ids: Int64) -> Changes:
        """`rows` of one side joined with what is kept of the other."""
        other = RIGHT - side
        positions, found = self._index.probe(other, key_ids)
        ours, theirs = rows.take(positions), self._rows(other, found)
        halves = (ours, theirs) if side == LEFT else (theirs, ours)
        return Changes(halves[LEFT].columns + halves[RIGHT].columns, ours.weights * theirs.weights)

    def _merge(self, side: int, rows: Changes) -> None:
        """Add rows to one side, emitting nothing."""
        keys = self._enter(side, rows)
        self._add(side, keys, rows)
        self._index.release(keys)

    def _filtered(self, joined: Changes) -> Changes:
        return joined if self._residual is None else self._residual(joined)

    def _with_key(self, side: int, changes: Changes) -> Changes:
        """The rows without a NULL in their join key."""
        for k in self._keys[side]:
            valid = changes.columns[k].valid
            if valid is not None and not valid.all():
                changes = changes.take(valid)
        return changes

    def _key_columns(self, side: int, rows: Changes) -> list[Column]:
        return [Column(rows.columns[k].codes, None, rows.columns[k].high) for k in self._keys[side]]

    def _key_words(self, side: int, rows: Changes) -> Int64:
        return key_words(self._key_columns(side, rows), self._key_types, len(rows), nullable=False)

    def _enter(self, side: int, rows: Changes) -> Int64:
        return self._index.enter(self._key_words(side, rows))

    def _add(self, side: int, key_ids: Int64, rows: Changes) -> None:
        words = key_words(rows.columns, self._types[side], len(rows), nullable=True)
        self._index.add(side, key_ids, words, rows.weights)

    def _rows(self, side: int, ids: Int64) -> Changes:
        columns = words_to_columns(self._index.words(side, ids), self._types[side], nullable=True)
        return Changes(columns, self._index.weights(side, ids))

    def _rows_in(self, side: int, slots: Bool) -> Changes:
        rows = self._rows(side, self._index.row_ids(side))
        return rows.take(slots[slot_of(self._key_columns(side, rows), self._key_types, self._pool, len(rows))])
