"""A key-value store in memory that keeps every cell ever written: the store of the simulation.

Same protocol and same resolution of versions as the embedded store (`vms.store.resolve`); nothing is merged
away, so the history of a row can be asked for as well.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from vms.errors import AlreadyExists, TableMissing
from vms.store.base import Cell, Entry, Family, Mutation, Region, Row, Version
from vms.store.resolve import NO_BOUND, gather, newest, visible


@dataclass(frozen=True)
class Arrival:
    """One mutation as it came: `number` counts all mutations of the store."""

    number: int
    region: str
    seq: int
    mutation: Mutation


@dataclass
class _Region:
    region: Region
    last: int = 0
    acknowledged: int = 0
    closed: bool = False
    entries: list[Entry] = field(default_factory=list)


@dataclass
class _Table:
    stream: bool
    rows: dict[bytes, list[Arrival]] = field(default_factory=dict)
    regions: list[_Region] = field(default_factory=list)


class MemoryStore:
    """`StreamStore` for one thread."""

    def __init__(self) -> None:
        self._tables: dict[str, _Table] = {}
        self._regions: dict[str, _Region] = {}
        self.arrivals = 0
        self.highest_ts = 0

    def create_table(
        self, name: str, families: Mapping[str, Family], splits: Sequence[bytes] = (), *, stream: bool = False
    ) -> None:
        if name in self._tables:
            raise AlreadyExists(f"there is a table named {name} already")
        table = self._tables[name] = _Table(stream)
        bounds = [b"", *sorted(splits), b""]
        for start, stop in itertools.pairwise(bounds):
            self._add_region(table, name, start, stop, 0)

    def _add_region(self, table: _Table, name: str, start: bytes, stop: bytes, last: int) -> None:
        state = _Region(Region(f"{name}-{len(self._regions)}", name, start, stop), last, last)
        self._regions[state.region.id] = state
        table.regions.append(state)
        table.regions.sort(key=lambda r: r.region.start)

    def drop_table(self, name: str) -> None:
        for state in self._table(name).regions:
            state.entries, state.closed = [], True
        del self._tables[name]

    def _table(self, name: str) -> _Table:
        if name not in self._tables:
            raise TableMissing(f"there is no table named {name} in the store")
        return self._tables[name]

    def tables(self) -> list[str]:
        return sorted(self._tables)

    def regions(self, table: str) -> list[Region]:
        return [r.region for r in self._table(table).regions]

    def split(self, table: str, key: bytes) -> None:
        found = self._table(table)
        parent = self._region_of(found, key)
        if parent.region.start == key:
            return
        parent.closed = True
        found.regions.remove(parent)
        self._add_region(found, table, parent.region.start, key, parent.last)
        self._add_region(found, table, key, parent.region.stop, parent.last)

    def _region_of(self, table: _Table, row: bytes) -> _Region:
        return table.regions[bisect.bisect([r.region.start for r in table.regions], row) - 1]

    def mutate(self, table: str, mutations: Sequence[Mutation]) -> dict[str, int]:
        found = self._table(table)
        by_region: dict[str, list[Mutation]] = {}
        for mutation in mutations:
            by_region.setdefault(self._region_of(found, mutation.row).region.id, []).append(mutation)
        positions = {}
        for id_, group in by_region.items():
            state = self._regions[id_]
            state.last += 1
            positions[id_] = state.last
            if found.stream:
                state.entries.append(Entry(state.last, tuple(group)))
            for mutation in group:
                self.arrivals += 1
                self.highest_ts = max([self.highest_ts, *(c.ts for c in mutation.cells)])
                arrival = Arrival(self.arrivals, id_, state.last, mutation)
                found.rows.setdefault(mutation.row, []).append(arrival)
        return positions

    def history(self, table: str) -> Mapping[bytes, Sequence[Arrival]]:
        """Every mutation of every row, in order of arrival."""
        return self._table(table).rows

    def _cells(self, table: str, row: bytes) -> Iterator[Cell]:
        return (c for a in self._table(table).rows.get(row, ()) for c in a.mutation.cells)

    def get(
        self, table: str, row: bytes, *, columns: Sequence[bytes] | None = None, before: int | None = None
    ) -> Row | None:
        return newest(gather(self._cells(table, row)), NO_BOUND if before is None else before, columns) or None

    def settle(self, table: str, rows: Sequence[bytes]) -> None:
        """The stream tells what is there: nothing to wait for."""

    def get_many(self, table: str, rows: Sequence[bytes]) -> list[Row | None]:
        return [self.get(table, row) for row in rows]

    def versions(
        self, table: str, row: bytes, column: bytes, *, before: int | None = None, limit: int = 1 << 30
    ) -> list[Version]:
        found = visible(gather(self._cells(table, row)), column, NO_BOUND if before is None else before)
        return [v for v, _ in zip(found, range(limit))]

    def scan(
        self,
        table: str,
        start: bytes = b"",
        stop: bytes = b"",
        *,
        columns: Sequence[bytes] | None = None,
        before: int | None = None,
    ) -> Iterator[tuple[bytes, Row]]:
        for row in sorted(self._table(table).rows):
            if start <= row and (not stop or row < stop):
                cells = self.get(table, row, columns=columns, before=before)
                if cells:
                    yield row, cells

    def snapshot(self, table: str) -> MemorySnapshot:
        positions = {r.region.id: r.last for r in self._table(table).regions}
        return MemorySnapshot(positions, list(self.scan(table)))

    def close(self) -> None:
        return None

    def stream_regions(self) -> list[Region]:
        """Regions are numbered as they come, so parents stand before their daughters."""
        return [s.region for s in self._regions.values() if s.entries]

    def read_stream(self, region: str, after: int, limit: int) -> list[Entry]:
        found = []
        for entry in self._regions[region].entries:
            if entry.seq > after and limit > 0:
                found.append(entry)
                limit -= len(entry.mutations)
        return found

    def subscribe(self, _: Callable[[], None]) -> Callable[[], None]:
        """Whoever polls, polls again by itself: there is one thread."""
        return lambda: None

    def unacknowledged(self) -> int:
        return sum(len(state.entries) for state in self._regions.values())

    def acknowledge(self, region: str, seq: int) -> None:
        state = self._regions[region]
        state.acknowledged = max(state.acknowledged, seq)
        state.entries = [e for e in state.entries if e.seq > state.acknowledged]

    def acknowledged(self, region: str) -> int:
        return self._regions[region].acknowledged


class MemorySnapshot:
    """A copy of the rows at one instant."""

    def __init__(self, positions: Mapping[str, int], rows: list[tuple[bytes, Row]]) -> None:
        self.positions = positions
        self._rows = rows

    def scan(self, start: bytes = b"", stop: bytes = b"") -> Iterator[tuple[bytes, Row]]:
        return ((row, cells) for row, cells in self._rows if start <= row and (not stop or row < stop))

    def close(self) -> None:
        return None
