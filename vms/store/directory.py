"""The tables and regions of the embedded store, loaded when it opens and changed by atomic writes.

    key                 value
    format              the number of the layout
    next                the next number for a table or region; none is used twice
    table/NAME          (number, stream?, {family: settings})
    region/NUMBER       (table, start, stop, live?, first)
    last/NUMBER         the last sequence id of the region, written with every change
    acknowledged/NUMBER the last sequence id acknowledged
    user/KEY            `meta_put` of the store's clients

Every method that changes something writes first and changes memory after, so a write that fails leaves both
as they were. The caller holds the store's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgpack
from rocksdict import WriteBatch

from vms.errors import AlreadyExists, InvalidValue, TableMissing
from vms.store.base import Family
from vms.store.layout import decode
from vms.store.regions import REGION_KEYS, TABLE_KEYS, RegionState, TableState, acknowledged_key, last_key

_NEXT_KEY = b"next"


class Directory:
    """`tables` by name; `regions` by id, with those that were split but still have unread entries."""

    def __init__(self, records: Mapping[bytes, bytes], write: Callable[[WriteBatch], None]) -> None:
        self._write = write
        self._next: int = decode(records[_NEXT_KEY]) if _NEXT_KEY in records else 1
        self.tables: dict[str, TableState] = {}
        self.regions: dict[str, RegionState] = {}
        for key, record in records.items():
            if key.startswith(TABLE_KEYS):
                table = TableState.load(key, record)
                self.tables[table.name] = table
        for key in records:
            if key.startswith(REGION_KEYS):
                state = RegionState.load(key, records, self.tables)
                self.regions[state.region.id] = state
                if state.live:
                    self.tables[state.region.table].regions.append(state)
        for table in self.tables.values():
            table.regions.sort(key=lambda state: state.region.start)

    def table(self, name: str) -> TableState:
        table = self.tables.get(name)
        if table is None:
            raise TableMissing(f"the store has no table {name}")
        return table

    def create(self, name: str, families: Mapping[str, Family], splits: Sequence[bytes], stream: bool) -> None:
        if name in self.tables:
            raise AlreadyExists(f"the store already has a table {name}")
        table = TableState.new(self._next, name, families, stream)
        bounds = [b"", *sorted(splits), b""]
        if len(set(bounds)) != len(splits) + 1:
            raise InvalidValue(f"the split keys of table {name} must be distinct and not empty")
        table.regions = [
            RegionState.new(self._next + 1 + i, table, start, stop) for i, (start, stop) in enumerate(pairwise(bounds))
        ]
        batch = WriteBatch(raw_mode=True)
        batch.put(table.key, table.record())
        self._add(batch, table.regions)
        self.tables[name] = table

    def drop(self, name: str, batch: WriteBatch) -> None:
        """Drop the table together with what `batch` says about its rows and streams."""
        batch.delete(self.table(name).key)
        for state in self.regions_of(name):
            _remove(batch, state)
        self._write(batch)
        for state in self.regions_of(name):
            del self.regions[state.region.id]
        del self.tables[name]

    def regions_of(self, table: str) -> list[RegionState]:
        """Its regions, with those that were split."""
        return [state for state in self.regions.values() if state.region.table == table]

    def split(self, name: str, key: bytes) -> None:
        table = self.table(name)
        index = table.region_index(key)
        parent = table.regions[index]
        _, _, start, stop = parent.region
        if key == start:
            raise InvalidValue(f"table {name} cannot be split at {key!r}: a region begins there")
        daughters = [
            RegionState.new(self._next, table, start, key, first=parent.last),
            RegionState.new(self._next + 1, table, key, stop, first=parent.last),
        ]
        batch = WriteBatch(raw_mode=True)
        if parent.unread:
            batch.put(parent.key, parent.record(live=False))
        else:
            _remove(batch, parent)
        self._add(batch, daughters)
        table.regions[index : index + 1] = daughters
        parent.live = False
        if not parent.unread:
            del self.regions[parent.region.id]

    def acknowledge(self, state: RegionState, seq: int, batch: WriteBatch) -> None:
        """Move the region's position together with what `batch` says about its stream."""
        ends = not state.live and seq == state.last
        if ends:
            _remove(batch, state)
        else:
            batch.put(acknowledged_key(state.number), msgpack.packb(seq))
        self._write(batch)
        state.acknowledged = seq
        if ends:
            del self.regions[state.region.id]

    def _add(self, batch: WriteBatch, regions: Sequence[RegionState]) -> None:
        following = regions[-1].number + 1
        for state in regions:
            batch.put(state.key, state.record(live=True))
        batch.put(_NEXT_KEY, msgpack.packb(following))
        self._write(batch)
        self._next = following
        self.regions.update((state.region.id, state) for state in regions)


def _remove(batch: WriteBatch, state: RegionState) -> None:
    for key in (state.key, last_key(state.number), acknowledged_key(state.number)):
        batch.delete(key)
