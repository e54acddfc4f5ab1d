"""One table and one region of the embedded store: what is known in memory, and its record on disk."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, field

import msgpack

from vms.errors import InvalidValue, StoreError
from vms.model.changes import DELETE_ROW, DELETE_VERSION, PUT
from vms.store.base import Cell, Family, Mutation, Region
from vms.store.layout import decode
from vms.store.resolve import NO_BOUND, family_of

TABLE_KEYS, REGION_KEYS = b"table/", b"region/"

#: HBase's limit for a row key.
_MAX_ROW_BYTES = 32767
#: Columns found valid are remembered; qualifiers may be data, so not without end.
_REMEMBERED_COLUMNS = 10_000
_TABLE_NAME = re.compile(r"([A-Za-z0-9_]+:)?[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")
_FAMILY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


def last_key(number: int) -> bytes:
    return b"last/%d" % number


def acknowledged_key(number: int) -> bytes:
    return b"acknowledged/%d" % number


@dataclass(slots=True, eq=False)
class RegionState:
    """A region and how far its sequence ids and its stream have come.

    Its own ids are first + 1 ... last without a gap; the stream holds those above `acknowledged`. A region
    that was split is not `live`: it takes no more changes and ends when its stream is acknowledged.
    """

    number: int
    region: Region
    stream: bool
    first: int
    last: int
    acknowledged: int
    live: bool = True

    @staticmethod
    def new(number: int, table: TableState, start: bytes, stop: bytes, first: int = 0) -> RegionState:
        region = Region(f"{table.name}.{number}", table.name, start, stop)
        return RegionState(number, region, table.stream, first, first, first)

    @property
    def unread(self) -> int:
        """How many entries its stream holds."""
        return self.last - self.acknowledged if self.stream else 0

    @property
    def key(self) -> bytes:
        return REGION_KEYS + b"%d" % self.number

    def record(self, *, live: bool) -> bytes:
        _, table, start, stop = self.region
        return msgpack.packb((table, start, stop, live, self.first))

    @staticmethod
    def load(key: bytes, records: Mapping[bytes, bytes], tables: Mapping[str, TableState]) -> RegionState:
        number = int(key[len(REGION_KEYS) :])
        table, start, stop, live, first = decode(records[key])
        state = RegionState.new(number, tables[table], start, stop, first)
        state.live = live
        state.last = decode(records.get(last_key(number), msgpack.packb(first)))
        state.acknowledged = decode(records.get(acknowledged_key(number), msgpack.packb(first)))
        return state


@dataclass(slots=True, eq=False)
class TableState:
    """A table with its live regions in key order."""

    number: int
    name: str
    stream: bool
    families: dict[bytes, Family]
    regions: list[RegionState] = field(default_factory=list)
    _columns: set[bytes] = field(default_factory=set)

    @staticmethod
    def new(number: int, name: str, families: Mapping[str, Family], stream: bool) -> TableState:
        check_table_name(name)
        if not families:
            raise InvalidValue(f"table {name} needs a column family")
        for family, settings in families.items():
            if not _FAMILY_NAME.fullmatch(family):
                raise InvalidValue(f"{family!r} is no name of a column family: letters, digits, _ . - only")
            if settings.versions < 1:
                raise InvalidValue(f"family {family} of table {name} must keep at least 1 version")
        return TableState(number, name, stream, {f"{f}:".encode(): s for f, s in families.items()})

    @property
    def key(self) -> bytes:
        return TABLE_KEYS + self.name.encode()

    def record(self) -> bytes:
        return msgpack.packb((self.number, self.stream, {f: astuple(s) for f, s in self.families.items()}))

    @staticmethod
    def load(key: bytes, record: bytes) -> TableState:
        number, stream, families = decode(record)
        name = key[len(TABLE_KEYS) :].decode()
        return TableState(number, name, stream, {f: Family(*s) for f, s in families.items()})

    def region_index(self, row: bytes) -> int:
        return bisect_right(self.regions, row, key=lambda state: state.region.start) - 1

    def rows_by_region(self, rows: Sequence[bytes]) -> Iterable[tuple[RegionState, Sequence[int]]]:
        """Each region touched with the positions of its rows, in order."""
        if len(self.regions) == 1:
            return [(self.regions[0], range(len(rows)))]
        starts = [state.region.start for state in self.regions]
        positions: dict[int, list[int]] = {}
        for position, row in enumerate(rows):
            positions.setdefault(bisect_right(starts, row) - 1, []).append(position)
        return [(self.regions[index], found) for index, found in sorted(positions.items())]

    def family(self, column: bytes) -> Family:
        """The settings of the column's family."""
        family = self.families.get(family_of(column)) if b":" in column else None
        if family is None:
            names = ", ".join(prefix[:-1].decode() for prefix in self.families)
            raise StoreError(
                f"column {column[:80]!r} of table {self.name}: there is no such family; the table has {names}"
            )
        return family

    def unexpiring(self, now_ms: int) -> tuple[int, int]:
        """(timestamp, count): a put at or above it, or one of so few versions, has certainly not expired."""
        lives = [(f.ttl_ms, f.min_versions) for f in self.families.values() if f.ttl_ms is not None]
        if not lives:
            return 0, 0
        return now_ms - min(ttl for ttl, _ in lives), min(versions for _, versions in lives)

    def check(self, mutations: Iterable[Mutation]) -> None:
        """Refuse what HBase would refuse, before anything is written."""
        known = self._columns
        for row, cells in mutations:
            if not cells or not 0 < len(row) <= _MAX_ROW_BYTES:
                why = f"its key must have 1 to {_MAX_ROW_BYTES} bytes" if cells else "it has no cells"
                raise InvalidValue(f"table {self.name} cannot change row {row[:40]!r}: {why}")
            for cell in cells:
                if cell[0] not in known or not 0 <= cell[1] < NO_BOUND or cell[2] != PUT:
                    self._check_cell(row, cell)

    def _check_cell(self, row: bytes, cell: Cell) -> None:
        where = f"table {self.name}, row {row[:40]!r}, column {cell.column[:80]!r}"
        if not 0 <= cell.ts < NO_BOUND:
            raise InvalidValue(f"{where}: the timestamp {cell.ts} is not between 0 and {NO_BOUND - 1}")
        if not PUT <= cell.kind <= DELETE_VERSION:
            raise InvalidValue(f"{where}: {cell.kind} is no kind of cell")
        self.family(cell.column)
        if cell.kind == DELETE_ROW and cell.column not in self.families:
            raise InvalidValue(f"{where}: a delete of the row names a family with its colon, no column")
        if len(self._columns) < _REMEMBERED_COLUMNS:
            self._columns.add(cell.column)


def check_table_name(name: str) -> None:
    if not _TABLE_NAME.fullmatch(name):
        raise InvalidValue(
            f"{name!r} is no name of a table: letters, digits, _ . - (and one namespace: before it), "
            "at most 200 of them"
        )
