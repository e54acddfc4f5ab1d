"""Which entries of HBase's WAL are meant for us: regions, and where the stream of each begins.

A new peer gets the whole open log of every region server: entries from before it was attached, and entries of
tables that were dropped since and made again under the same name. Region names tell them apart: an encoded region
name is never used again, sequence ids only rise within a region, and for tables that are replicated in order HBase
keeps the parents of each region in `hbase:meta` until the peer has seen their last entry.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

import msgpack

from vms.store.base import Row

#: A floor that no sequence id reaches.
NEVER = (1 << 63) - 1
_ESCAPE, _SEPARATOR = 0xFF, b"\xff\x00"


class MetaRegion(NamedTuple):
    """A region as `hbase:meta` knows it. `opened` is the sequence id with which it was opened last, if it was."""

    name: str
    parents: tuple[str, ...]
    opened: int | None


def meta_range(table: str) -> tuple[bytes, bytes]:
    """First row and end of the table's regions in `hbase:meta`, whose rows are ordered in a way of their own."""
    return table.encode() + b",,", table.encode() + b" ,,"


def read_meta(rows: Iterable[tuple[bytes, Row]]) -> dict[str, MetaRegion]:
    """The regions among rows of `hbase:meta`, by encoded name; gone ones too, as long as it remembers them."""
    found = {}
    for key, row in rows:
        name = encoded_name(key)
        if name is None:
            continue
        parents = row.get(b"rep_barrier:parent")
        opened = row.get(b"info:seqnumDuringOpen")
        online = opened is not None and b"info:splitA" not in row and len(opened.value) == 8
        found[name] = MetaRegion(
            name,
            () if parents is None else _parents(parents.value),
            int.from_bytes(opened.value, "big") if online and opened is not None else None,
        )
    return found


def encoded_name(region_name: bytes) -> str | None:
    """The encoded name at the end of a region's full name: `table,start,id.ENCODED.`"""
    head, _, name = region_name.rstrip(b".").rpartition(b".")
    return name.decode(errors="replace") if head and region_name.endswith(b".") else None


def _parents(value: bytes) -> tuple[str, ...]:
    """Full names, with FF 00 between them and FF FF for a byte FF of a name."""
    names, name, at = [], bytearray(), 0
    while at < len(value):
        if value[at] == _ESCAPE and value[at : at + 2] == _SEPARATOR:
            names.append(bytes(name))
            name.clear()
            at += 2
            continue
        at += 2 if value[at] == _ESCAPE else 1
        name.append(value[min(at, len(value)) - 1])
    names.append(bytes(name))
    return tuple(n for n in map(encoded_name, names) if n)


class Attachment(NamedTuple):
    """What `attach` found: for each table, the sequence id with which the stream of each region begins."""

    tables: Mapping[str, Mapping[str, int]]

    @staticmethod
    def floors(regions: Mapping[str, MetaRegion]) -> dict[str, int]:
        """Regions that are open begin there; those that are not have nothing more to say."""
        return {name: NEVER if region.opened is None else region.opened for name, region in regions.items()}

    def to_bytes(self) -> bytes:
        return msgpack.packb({table: dict(floors) for table, floors in self.tables.items()})

    @staticmethod
    def from_bytes(data: bytes) -> Attachment:
        return Attachment(msgpack.unpackb(data))


class Verdict(NamedTuple):
    """Entries of a region from sequence id `floor` on are to be applied. `gap`: see `StreamBatch.gap`."""

    floor: int
    gap: str | None = None


#: Why the views of a table that was made anew cannot go on.
MADE_ANEW = "it was truncated, or dropped and created again"
_APPLY, _IGNORE, _ANEW = Verdict(0), Verdict(NEVER), Verdict(NEVER, MADE_ANEW)


class RegionGuard:
    """Tells for each region from where on its entries count.

    - One that was there at the attach: from its floor.
    - A descendant of such a one, by splits and merges: from its beginning.
    - One that `hbase:meta` does not know: of a table that was dropped, or was split before the attach. Never.
    - Any other: the table was made anew. Never, and the views over it have to be told.

    `attachment` and `regions` (of one table) are asked for each region that was not seen before, and again as long
    as a table is not attached: who creates a view after the attach misses nothing. `remember` gets (table, region)
    of a descendant, durably, before its first entry is acknowledged: its parents may be forgotten afterwards.
    """

    def __init__(
        self,
        attachment: Callable[[], Attachment],
        regions: Callable[[str], Mapping[str, MetaRegion]],
        remember: Callable[[str, str], None],
        version: Callable[[], int] = lambda: 0,
    ) -> None:
        """`version`: another number after the attachment was changed, by whomever."""
        self._attachment, self._regions, self._remember, self._version = attachment, regions, remember, version
        self._seen = version()
        self._lock = threading.Lock()
        self._known: dict[tuple[str, str], Verdict] = {}

    def forget(self) -> None:
        """The attachment was changed: ask again."""
        with self._lock:
            self._known.clear()

    def verdict(self, table: str, region: str) -> Verdict:
        """Raises what the three functions raise; then the entries have to come again."""
        if self._version() != self._seen:
            self._seen = self._version()
            self.forget()
        known = self._known.get((table, region))
        if known is not None:
            return known
        floors = self._attachment().tables.get(table)
        if floors is None:
            return _IGNORE
        verdict = self._look_up(floors, table, region)
        if verdict is not _ANEW:
            with self._lock:
                self._known[table, region] = verdict
        return verdict

    def _look_up(self, floors: Mapping[str, int], table: str, region: str) -> Verdict:
        if region in floors:
            return Verdict(floors[region])
        regions = self._regions(table)
        if region not in regions:
            return _IGNORE
        wanted, seen = [region], {region}
        while wanted:
            parents = regions[wanted.pop()].parents
            if any(parent in floors for parent in parents):
                self._remember(table, region)
                return _APPLY
            fresh = [p for p in parents if p in regions and p not in seen]
            seen.update(fresh)
            wanted.extend(fresh)
        return _ANEW
