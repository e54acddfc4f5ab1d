"""The TimelineBuffer: source rows that wait for the next epoch, without duplicates (thesis 4.3.4).

Rows keep the order of the stream. Condensing a row's timeline to one change is the DeltaView's work when the
cut is applied; waiting rows are not merged before, because a put may carry some columns only (design 14).
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from vms.maintenance.cut import Watermarks
from vms.model.changes import Bool
from vms.model.ring import SLOTS

SLOT_FIELD = "_slot"


def slots_of(rows: pa.RecordBatch) -> np.ndarray:
    return rows.column(SLOT_FIELD).to_numpy(zero_copy_only=False)


class TimelineBuffer:
    """Source rows accepted since the last cut, and the high-watermarks that tell a duplicate.

    Invariant: `accepted[region][slot]` is the highest sequence id ever accepted or covered there, durable or
    not; a row at or below it is a repeat. Entries of one region reach a slot in order, because the source has
    only one batch of a region under way (`vms.stream.base`); what comes late is behind the watermark.
    """

    def __init__(self) -> None:
        self.accepted: Watermarks = {}
        self._waiting: list[tuple[str, str, pa.RecordBatch]] = []

    def __len__(self) -> int:
        return sum(rows.num_rows for _, _, rows in self._waiting)

    def offer(self, table: str, region: str, rows: pa.RecordBatch) -> int:
        """Keep the rows that are news; returns how many."""
        marks = self.accepted.setdefault(region, np.zeros(SLOTS, np.int64))
        slots, seqs = slots_of(rows), rows.column("_seq").to_numpy(zero_copy_only=False)
        fresh = seqs > marks[slots]
        np.maximum.at(marks, slots, seqs)
        count = int(fresh.sum())
        if count:
            self._waiting.append((table, region, rows if count == rows.num_rows else rows.filter(pa.array(fresh))))
        return count

    def cover(self, region: str, slots: Bool, seq: int) -> None:
        """A scan has seen the region up to `seq` in these slots: waiting rows up to there are repeats."""
        marks = self.accepted.setdefault(region, np.zeros(SLOTS, np.int64))
        marks[slots] = np.maximum(marks[slots], seq)
        kept = []
        for table, of, rows in self._waiting:
            if of == region:
                late = rows.column("_seq").to_numpy(zero_copy_only=False) > seq
                rows = rows.filter(pa.array(late | ~slots[slots_of(rows)]))
            if rows.num_rows:
                kept.append((table, of, rows))
        self._waiting = kept

    def take(self) -> dict[str, pa.RecordBatch]:
        """Everything that waits, by table, in stream order; the buffer is empty afterwards."""
        by_table: dict[str, list[pa.RecordBatch]] = {}
        for table, _, rows in self._waiting:
            by_table.setdefault(table, []).append(rows)
        self._waiting = []
        return {t: _concat(batches) for t, batches in sorted(by_table.items())}

    def reset(self, durable: Watermarks) -> None:
        """Forget what waits; the watermarks are these. The source delivers again what was not acknowledged."""
        self._waiting = []
        self.accepted = {region: marks.copy() for region, marks in durable.items()}

    def lose(self, slots: Bool) -> None:
        """These slots belong to another member now: forget their rows and watermarks."""
        self.accepted = {r: np.where(slots, 0, m) for r, m in self.accepted.items() if np.where(slots, 0, m).any()}
        waiting = [(t, r, rows.filter(pa.array(~slots[slots_of(rows)]))) for t, r, rows in self._waiting]
        self._waiting = [w for w in waiting if w[2].num_rows]

    def gain(self, marks: Watermarks) -> None:
        """Watermarks of slots that came from another member."""
        for region, m in marks.items():
            mine = self.accepted.setdefault(region, np.zeros(SLOTS, np.int64))
            np.maximum(mine, m, out=mine)

    def snapshot(self) -> Watermarks:
        return {region: marks.copy() for region, marks in self.accepted.items()}


def _concat(batches: list[pa.RecordBatch]) -> pa.RecordBatch:
    return batches[0] if len(batches) == 1 else pa.concat_batches(batches)
