"""Where a bulk job reads base tables: one small protocol, carried to the workers by pickling.

A reader is of one instant. It tells the ranges in which a table is read, and gives each as source rows. Every
range is asked for exactly once and answers with how many rows it had, so a range that was not read is noticed.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from vms.model.table import BaseTable
from vms.store.embedded import EmbeddedStore
from vms.stream.decode import DeadLetter, RowDecoder

#: Rows decoded at once. Not higher, or a range would be in memory twice as Python objects; not lower, or the
#: fixed cost of a batch would show.
BATCH_ROWS = 50_000


@dataclass(frozen=True)
class KeyRange:
    """Rows of a table with start <= row < stop (b"" as stop: no end)."""

    table: str
    start: bytes
    stop: bytes


class Reader(Protocol):
    """Base tables at one instant."""

    @property
    def horizon(self) -> int:
        """No delete that the reader does not show has a higher timestamp."""

    def ranges(self, table: BaseTable) -> list[KeyRange]:
        """In key order, without gap or overlap."""

    def cuts(self, table: BaseTable) -> tuple[tuple[bytes, int], ...]:
        """See `vms.model.catalog.BulkLoad`."""

    def read(self, table: BaseTable, wanted: KeyRange) -> Iterator[tuple[pa.RecordBatch, list[DeadLetter]]]:
        """Source rows of a range, and what could not be decoded."""


@dataclass(frozen=True)
class EmbeddedReader:
    """A checkpoint of the embedded store, in a folder that every worker sees. A range has about `range_rows` rows."""

    folder: str
    horizon: int
    range_rows: int = 500_000

    def ranges(self, table: BaseTable) -> list[KeyRange]:
        return self.cut_up(table.name)

    def cut_up(self, table: str) -> list[KeyRange]:
        """Ranges of any table of the store."""
        bounds = [b"", *self.store().every(table, self.range_rows), b""]
        return [KeyRange(table, start, stop) for start, stop in pairwise(bounds)]

    def positions(self, table: str) -> dict[str, int]:
        """The last sequence id of each region that is in it."""
        snapshot = self.store().snapshot(table)
        found = dict(snapshot.positions)
        snapshot.close()
        return found

    def cuts(self, table: BaseTable) -> tuple[tuple[bytes, int], ...]:
        positions = self.positions(table.name)
        return tuple((region.start, positions[region.id]) for region in self.store().regions(table.name))

    def read(self, table: BaseTable, wanted: KeyRange) -> Iterator[tuple[pa.RecordBatch, list[DeadLetter]]]:
        decoder = RowDecoder(table)
        rows = self.store().scan(table.name, wanted.start, wanted.stop)
        while found := list(islice(rows, BATCH_ROWS)):
            yield decoder.read(found)

    def store(self) -> EmbeddedStore:
        """Open once in each process."""
        if self.folder not in _OPEN:
            _OPEN[self.folder] = EmbeddedStore(Path(self.folder), read_only=True)
        return _OPEN[self.folder]


_OPEN: dict[str, EmbeddedStore] = {}
