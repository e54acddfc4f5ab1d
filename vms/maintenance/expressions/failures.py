"""Failed rows are counted, not dropped in silence (design 3.5: errors are data)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from vms.kernels.hashing import SLOTS, hash_columns
from vms.maintenance.expressions.evaluator import Evaluated
from vms.model.changes import Bool, Changes, Int64
from vms.model.text import TextPool
from vms.model.types import SqlType

_SCHEMA = pa.schema([("slot", pa.int64()), ("rows", pa.int64()), ("example", pa.string())])
_SLOT_SHIFT = np.uint64(64 - (SLOTS - 1).bit_length())


class FailedRows:
    """The state of an operation that keeps none but the weights of its failed input rows, by slot.

    Removing or mending a base row takes its weight away again. The slot is that of the whole input row, so a
    row may be added on one member and removed on another: only the sum over all members has a meaning.
    """

    def __init__(self, input_types: Sequence[SqlType], pool: TextPool) -> None:
        self._input_types, self._pool = tuple(input_types), pool
        self._failed: dict[int, tuple[int, str]] = {}

    @property
    def error_count(self) -> int:
        """How many input rows failed and are still there."""
        return sum(rows for rows, _ in self._failed.values())

    @property
    def last_error(self) -> str | None:
        """Expression and value of one failed row; None when there is none here."""
        return min((text for _, text in self._failed.values()), default=None)

    def count(self, changes: Changes, result: Evaluated) -> None:
        """Add the weights of a batch's failed rows. A slot's example is its least row by hash."""
        if result.failed is None:
            return
        rows = np.flatnonzero(result.failed)
        failed = changes.take(rows)
        hashes = hash_columns(failed.columns, self._input_types, self._pool, len(rows))
        order = np.argsort(hashes, kind="stable")
        slots, starts = np.unique(hashes[order] >> _SLOT_SHIFT, return_index=True)
        totals = np.add.reduceat(failed.weights[order], starts)
        for slot, total, row in zip(slots.tolist(), totals.tolist(), rows[order[starts]].tolist()):
            self._add(slot, total, result.describe(row))

    def export(self, slots: Bool) -> list[pa.RecordBatch]:
        moved = [(slot, *found) for slot, found in sorted(self._failed.items()) if slots[slot]]
        if not moved:
            return []
        return [pa.record_batch([pa.array(c, f.type) for c, f in zip(zip(*moved), _SCHEMA)], schema=_SCHEMA)]

    def load(self, batches: Sequence[pa.RecordBatch]) -> None:
        for batch in batches:
            for slot, rows, example in zip(*(c.to_pylist() for c in batch.columns)):
                self._add(slot, rows, example)

    def drop(self, slots: Bool) -> None:
        self._failed = {slot: found for slot, found in self._failed.items() if not slots[slot]}

    def live_text(self) -> list[Int64]:
        return []

    def memory_bytes(self) -> int:
        """An estimate: failures are few, and no arrays are kept."""
        return 300 * len(self._failed)

    def _add(self, slot: int, rows: int, example: str) -> None:
        before, known = self._failed.pop(slot, (0, example))
        if before + rows:
            self._failed[slot] = before + rows, known
