"""Is every committed epoch right? One checker for the simulation and for histories of real processes.

What it holds a history against (thesis Theorem 1 and section 4.2, design section 3):

1. Exactly once: the cut of an epoch is a prefix of every row's changes, and each view equals its SQL evaluated
   from scratch over the tables at that cut; nothing is missing from it and nothing is in it twice.
2. Atomic and isolated: whoever reads at a committed epoch, whenever that is and however long it takes, gets
   exactly those rows.
3. The timeline of a record: cuts only move forward, row by row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from vms.maintenance.cut import Watermarks
from vms.maintenance.record import Record
from vms.maintenance.source_rows import with_slots
from vms.maintenance.timeline import slots_of
from vms.model.changes import UNDECODABLE
from vms.model.ring import Ring
from vms.model.table import BaseTable
from vms.store.base import Version
from vms.store.resolve import gather, newest
from vms.stream.decode import read_rows
from vms.testing.compare import assert_same_rows
from vms.testing.memory_store import Arrival, MemoryStore
from vms.testing.workload import Answer


class Violation(AssertionError):
    """The history breaks a guarantee; the text says which and where."""


@dataclass
class Taken:
    """What one member took into one epoch.

    `watermarks`: of its cut. `scanned` and `read`: tables and rows (table, row key) read from the store for the
    cut, with the number of the store's last arrival at that moment: they hold everything up to it.
    """

    watermarks: Watermarks
    scanned: Mapping[str, int] = field(default_factory=dict)
    read: Mapping[tuple[str, bytes], int] = field(default_factory=dict)


class Checker:
    """Follows one history, epoch by epoch."""

    def __init__(self, store: MemoryStore, tables: Mapping[str, BaseTable], answers: Sequence[Answer]) -> None:
        self._store, self._tables, self._answers = store, tables, answers
        self._taken: dict[tuple[int, str, int], Taken] = {}
        self._slots: dict[tuple[str, bytes], int | None] = {}
        #: Per row: how many of its changes are in the last cut, and how many of those the watermarks alone tell.
        self._prefix: dict[tuple[str, bytes], int] = {}
        self._streamed: dict[tuple[str, bytes], int] = {}
        self._generation = 0
        #: What each view holds at each committed epoch.
        self.expected: dict[int, dict[str, pa.Table]] = {}

    def took(self, generation: int, member: str, epoch: int, taken: Taken) -> None:
        """The cut of this name; told again, it must be the same."""
        known = self._taken.setdefault((generation, member, epoch), taken)
        if known is not taken and not _equal(known.watermarks, taken.watermarks):
            raise Violation(f"member {member} has two cuts for epoch {epoch} of generation {generation}")

    def committed(self, record: Record, ring: Ring, followed: Iterable[str], views: Mapping[str, str]) -> None:
        """The epoch is committed: find its cut, and what the views must hold at it."""
        if self.expected and record.epoch <= max(self.expected):
            raise Violation(f"epoch {record.epoch} was committed after {max(self.expected)}")
        cuts = {}
        for member in ring.members:
            if (record.generation, member, record.epoch) not in self._taken:
                raise Violation(f"epoch {record.epoch} was committed without a cut of member {member}")
            cuts[member] = self._taken[record.generation, member, record.epoch]
        if record.generation != self._generation:
            self._streamed = {}
        self._generation = record.generation
        tables = {name: self._table_at(name, ring, cuts) for name in sorted(followed)}
        tables |= {n: self._visible(t, []) for n, t in self._tables.items() if n not in tables}
        answer = self._answers[len(self.expected) % len(self._answers)]
        self.expected[record.epoch] = {name: answer(name, sql, tables) for name, sql in views.items()}

    def read(self, epoch: int, view: str, rows: pa.Table) -> None:
        """Somebody read the whole view at this committed epoch."""
        try:
            assert_same_rows(rows, self.expected[epoch][view])
        except AssertionError as difference:
            raise Violation(f"view {view} at epoch {epoch}: {difference}") from None

    def converged(self, followed: Iterable[str]) -> None:
        """Nothing is under way any more: every change of the followed tables is in the last cut."""
        for name in followed:
            for row, arrivals in self._history(name):
                if self._slot(name, row) is not None and self._prefix.get((name, row), 0) < len(arrivals):
                    lost = arrivals[self._prefix.get((name, row), 0)]
                    raise Violation(f"table {name}, row {row!r}: change {lost.number} never reached the views")

    # --- the cut ---------------------------------------------------------------------------------------------

    def _table_at(self, name: str, ring: Ring, cuts: Mapping[str, Taken]) -> pa.Table:
        rows: list[tuple[bytes, dict[bytes, Version]]] = []
        for row, arrivals in self._history(name):
            slot = self._slot(name, row)
            if slot is None:
                continue
            count = self._advance((name, row), arrivals, slot, cuts[ring.owner(slot)])
            cells = newest(gather(c for a in arrivals[:count] for c in a.mutation.cells))
            if cells:
                rows.append((row, cells))
        return self._visible(self._tables[name], rows)

    def _history(self, name: str) -> Iterator[tuple[bytes, list[Arrival]]]:
        """The changes of every row that name a declared column: the others concern no view."""
        table = self._tables[name]
        declared = {table.marker, table.qualifier(""), *(table.qualifier(c.name) for c in table.value_columns)}
        for row, arrivals in sorted(self._store.history(name).items()):
            yield row, [a for a in arrivals if any(c.column in declared for c in a.mutation.cells)]

    def _advance(self, at: tuple[str, bytes], arrivals: Sequence[Arrival], slot: int, cut: Taken) -> int:
        """How many of the row's changes are in the cut; never fewer than in the one before."""
        inside = [bool(a.region in cut.watermarks and a.seq <= cut.watermarks[a.region][slot]) for a in arrivals]
        streamed = max((i + 1 for i, found in enumerate(inside) if found), default=0)
        if streamed < self._streamed.get(at, 0):
            raise Violation(f"table {at[0]}, row {at[1]!r}: the watermark of its slot went back")
        # What was read from the store holds everything up to then, also what the stream brings later.
        reach = max(cut.scanned.get(at[0], 0), cut.read.get(at, 0))
        known = sum(a.number <= reach for a in arrivals)
        before = self._prefix.get(at, 0)
        if at[0] in cut.scanned and max(known, streamed) < before:
            raise Violation(f"table {at[0]}, row {at[1]!r}: the cut went back behind an earlier one")
        if not all(inside[max(known, before) : streamed]):
            raise Violation(f"table {at[0]}, row {at[1]!r}: the cut leaves out a change and holds a later one")
        self._streamed[at] = streamed
        self._prefix[at] = max(known, before, streamed)
        return self._prefix[at]

    def _slot(self, name: str, row: bytes) -> int | None:
        """The slot of the row; None where its key cannot be decoded."""
        if (name, row) not in self._slots:
            table = self._tables[name]
            found, _ = read_rows(table, [(row, {table.marker: Version(b"", 1)})])
            self._slots[name, row] = int(slots_of(with_slots(table, found))[0]) if found.num_rows else None
        return self._slots[name, row]

    @staticmethod
    def _visible(table: BaseTable, rows: list[tuple[bytes, dict[bytes, Version]]]) -> pa.Table:
        found, _ = read_rows(table, rows)
        good = found.column("_kind").to_numpy(zero_copy_only=False) != UNDECODABLE
        return pa.table(found.filter(pa.array(good))).select([c.name for c in table.columns])


def _equal(a: Watermarks, b: Watermarks) -> bool:
    return a.keys() == b.keys() and all(np.array_equal(a[r], b[r]) for r in a)
