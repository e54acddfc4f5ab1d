"""The state that every join keeps: a ReverseJoinView (thesis 4.4; design section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.errors import CorruptState
from vms.kernels.consolidate import consolidate
from vms.kernels.hashing import slot_of
from vms.kernels.join_index import LEFT, RIGHT, JoinIndex
from vms.kernels.keys import key_words, words_to_columns
from vms.model.arrow import from_changes, to_changes
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType
from vms.plan.plan import Join, JoinKind, Node

_SIDES = ("left", "right")


class ReverseJoin:
    """Both sides of a join under the join key, and how they are exported, loaded and dropped by slot.

    What a join emits for a change of one side is its own (`_change`). The right side of a replicated join belongs
    to no slot: it is exported whole, takes the place of what is there when it is loaded, and is never dropped.
    """

    def __init__(
        self,
        node: Node,
        left_types: Sequence[SqlType],
        right_types: Sequence[SqlType],
        pool: TextPool,
        index: JoinIndex,
    ) -> None:
        if not isinstance(node.spec, Join):
            raise TypeError(f"node {node.id} is no join")
        self._pool, self._index, self._kind = pool, index, node.spec.kind
        self._types = (tuple(left_types), tuple(right_types))
        self._keys = (node.spec.left_keys, node.spec.right_keys)
        self._key_types = tuple(left_types[k] for k in node.spec.left_keys)
        self._replicated = node.spec.replicated
        #: The columns of the left side, and of the right one where it has slots, whose slot a row belongs to.
        self._spread = (node.distribution or (), ()) if node.spec.replicated else self._keys

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
            rows = to_changes(types, batch, self._pool)
            if side == RIGHT and self._replicated:
                held = self._held(RIGHT)
                rows = self._condensed(Changes.concat([rows, Changes(held.columns, -held.weights)], len(types)))
            self._merge(side, rows)

    def drop(self, slots: Bool) -> None:
        for side in (LEFT,) if self._replicated else (LEFT, RIGHT):
            rows = self._rows_in(side, slots)
            self._merge(side, Changes(rows.columns, -rows.weights))

    def live_text(self) -> list[Int64]:
        found = []
        for side in (LEFT, RIGHT):
            for type_, column in zip(self._types[side], self._held(side).columns):
                if type_.kind is Kind.VARCHAR:
                    found.append(column.codes if column.valid is None else column.codes[column.valid])
        return found

    def memory_bytes(self) -> int:
        return self._index.memory_bytes()

    def _merge(self, side: int, rows: Changes) -> None:
        """Add rows to one side, emitting nothing."""
        keys = self._enter(side, rows)
        self._add(side, keys, rows)
        self._index.release(keys)

    def _with_key(self, side: int, changes: Changes) -> Changes:
        """The rows without a NULL in their join key."""
        for k in self._keys[side]:
            valid = changes.columns[k].valid
            if valid is not None and not valid.all():
                changes = changes.take(valid)
        return changes

    def _key_words(self, side: int, rows: Changes) -> Int64:
        columns = [rows.columns[k] for k in self._keys[side]]
        return key_words(columns, self._key_types, len(rows), nullable=False)

    def _enter(self, side: int, rows: Changes) -> Int64:
        return self._index.enter(self._key_words(side, rows))

    def _add(self, side: int, key_ids: Int64, rows: Changes) -> Int64:
        words = key_words(rows.columns, self._types[side], len(rows), nullable=True)
        return self._index.add(side, key_ids, words, rows.weights)

    def _rows(self, side: int, ids: Int64) -> Changes:
        columns = words_to_columns(self._index.words(side, ids), self._types[side], nullable=True)
        return Changes(columns, self._index.weights(side, ids))

    def _held(self, side: int) -> Changes:
        """All rows of one side."""
        return self._rows(side, self._index.row_ids(side))

    def _shown_left(self, rows: Changes, matched: Bool) -> Changes:
        """What left rows are in a semi, anti or mark join."""
        match self._kind:
            case JoinKind.SEMI:
                return rows.where(matched)
            case JoinKind.ANTI:
                return rows.where(~matched)
        return Changes((*rows.columns, Column(matched.astype(np.int64))), rows.weights)

    def _rows_in(self, side: int, slots: Bool) -> Changes:
        rows = self._held(side)
        if side == RIGHT and self._replicated:
            return rows
        spread = self._spread[side]
        types = [self._types[side][c] for c in spread]
        return rows.take(slots[slot_of([rows.columns[c] for c in spread], types, self._pool, len(rows))])

    def _right(self, changes: Changes) -> Changes:
        """What is done to the right side: every row of a replicated one meets many, so what it keeps is left out."""
        return self._condensed(changes) if self._replicated else changes

    def _condensed(self, changes: Changes) -> Changes:
        return consolidate(changes, self._types[RIGHT])
