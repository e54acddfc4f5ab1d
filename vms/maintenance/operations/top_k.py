"""Top-k: the rows at some places of an order, exact under deletes (design section 4)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.errors import CorruptState
from vms.kernels.hashing import slot_of
from vms.kernels.top_rows import TopRows
from vms.model.arrow import from_changes, to_changes
from vms.model.changes import Bool, Changes, Int64
from vms.model.text import TextPool
from vms.plan.plan import Node, TopK

_SHOWN = "shown"


class TopKOperation:
    """Emits what enters and leaves the places `offset` to `offset + limit`; no row twice, no zero weight.

    All rows that came in are kept, so that the next one is there when one leaves. A row that occurs several
    times takes as many places.

    Where the rows are spread, each member runs this operation over its own rows first, and one member over what
    they emit. Which rows a member shows then depends on all of its rows, not on those of one slot: so it is
    part of the state how often each row is shown, and it travels with the row. The rows that all members show
    together are thus what was emitted, also after slots have moved. A member that lost or got rows has to look
    again in the next epoch, whatever comes in: `moved`.
    """

    def __init__(self, node: Node, pool: TextPool) -> None:
        if not isinstance(node.spec, TopK):
            raise TypeError(f"node {node.id} is no top-k")
        self._spec, self._pool, self._types = node.spec, pool, node.types
        self._spread = tuple(range(len(self._types))) if node.distribution is None else node.distribution
        offset, limit = node.spec.offset, node.spec.limit
        #: The places that are followed. Without a limit these are the places *before* those that are shown.
        self._places = (0, offset) if limit is None else (offset, offset + limit)
        self._rows = TopRows(self._types, node.spec.order, pool, self._places[1])
        self._followed = np.empty(0, np.int64)
        self.moved = False

    def step(self, inputs: Sequence[Changes]) -> Changes:
        touched = self._rows.add(inputs[0])
        ids, counts = self._rows.leading(*self._places)
        marks = self._rows.marks
        if self._spec.limit is None:
            either = np.unique(np.concatenate([self._followed, ids, touched.ids]))
        else:
            either = np.unique(np.concatenate([self._followed, ids]))
        weights = -marks[either]
        marks[self._followed] = 0
        marks[ids] = counts
        weights += marks[either]
        if self._spec.limit is None:
            weights = -weights
            weights[np.searchsorted(either, touched.ids)] += self._rows.counts[touched.ids] - touched.before
        changed = np.flatnonzero(weights)
        emitted = Changes(self._rows.columns(either[changed]), weights[changed])
        self._followed, self.moved = ids, False
        self._renamed(self._rows.release(touched.ids))
        return emitted

    def contents(self) -> Changes:
        ids = self._rows.ids()
        counts = self._shown(ids)
        some = counts != 0
        return Changes(self._rows.columns(ids[some]), counts[some])

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        """One batch: the rows as changes, and how often each is shown."""
        ids = self._in_slots(slots)
        if not len(ids):
            return []
        rows = Changes(self._rows.columns(ids), self._rows.counts[ids])
        batch = from_changes(self._types, rows, self._pool)
        return [batch.append_column(_SHOWN, pa.array(self._shown(ids)))]

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            if batch.num_columns != len(self._types) + 2:
                raise CorruptState(
                    f"state of a top-k has {batch.num_columns - 2} columns instead of {len(self._types)}; "
                    "rebuild the views that use it"
                )
            shown = batch.column(_SHOWN).to_numpy()
            rows = to_changes(self._types, batch.drop_columns([_SHOWN]), self._pool)
            ids = self._rows.add(rows).of_change
            self._rows.marks[ids] = rows.weights - shown if self._spec.limit is None else shown
            self._followed = np.concatenate([self._followed, ids[self._rows.marks[ids] != 0]])
            self.moved = True

    def drop(self, slots: Bool) -> None:
        ids = self._in_slots(slots)
        self._followed = np.setdiff1d(self._followed, ids)
        self._renamed(self._rows.remove(ids))
        self.moved = True

    def live_text(self) -> list[Int64]:
        return self._rows.text_codes()

    def memory_bytes(self) -> int:
        return self._rows.memory_bytes() + self._followed.nbytes

    def _shown(self, ids: Int64) -> Int64:
        marks = self._rows.marks[ids]
        return self._rows.counts[ids] - marks if self._spec.limit is None else marks

    def _renamed(self, before: Int64 | None) -> None:
        """Row before[j] is now called j."""
        if before is not None:
            self._followed = np.flatnonzero(np.isin(before, self._followed))

    def _in_slots(self, slots: Bool) -> Int64:
        ids = self._rows.ids()
        columns = self._rows.columns(ids)
        spread, types = [columns[i] for i in self._spread], [self._types[i] for i in self._spread]
        return ids[slots[slot_of(spread, types, self._pool, len(ids))]]
