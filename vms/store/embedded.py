"""The embedded store: HBase's data model, regions and change stream on RocksDB in one folder.

It serves the demo, the laptop and most tests (design section 9). One call of `mutate` is one atomic RocksDB
write: the rows, and for tables with a stream one entry per region touched. So the stream holds exactly what
the rows hold, in the same order, and is as durable.

A call adds one RocksDB entry to each row it names. Reads resolve the entries of a row (vms/store/resolve.py);
a row with many of them is merged when it is written to, so it stays small however often it changes.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from threading import Lock, RLock
from typing import NamedTuple
from weakref import WeakSet

import msgpack
from rocksdict import AccessType, Checkpoint, ColumnFamily, Options, Rdict, WriteBatch, WriteOptions

from vms.errors import CorruptState, StoreError, StoreUnavailable
from vms.store.base import Cell, Entry, Family, Mutation, Region, Row, Version
from vms.store.cursor import Entries, RangeCursor, SeekCursor, by_row
from vms.store.directory import Directory
from vms.store.layout import (
    after_row,
    decode,
    decode_entry,
    encode_cells,
    encode_entry,
    row_of,
    row_prefix,
    seq_bytes,
    stream_key,
    table_prefix,
)
from vms.store.reading import EmbeddedSnapshot, current, history, key_range, plain_puts, resolved, resolver
from vms.store.regions import TableState, last_key
from vms.store.resolve import NO_BOUND, merge, visible

#: The layout of keys and values. A store of another format is refused, never guessed at.
FORMAT = 1
_FORMAT_KEY = b"format"

#: Writes to a row after which its entries are merged. Higher: reads resolve more entries; lower: a row is
#: rewritten more often, and the rows of a view hold many versions.
_MERGE_AFTER = 16
#: Writes are counted per hash of the row, in one byte each: a clash merges a row too early, nothing worse.
_HEAT_SLOTS = 1 << 20
#: Rows that `compact` handles between two chances for writers to go on.
_COMPACT_ROWS = 512
#: Unflushed changes of a rarely written column family keep old write-ahead logs alive; this limits them.
_WAL_BYTES = 256 << 20


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class _Files(NamedTuple):
    """The RocksDB instance, its parts, and their names in a batch. It is closed when nothing refers to these."""

    meta: Rdict
    rows: Rdict
    stream: Rdict
    rows_family: ColumnFamily
    stream_family: ColumnFamily


class EmbeddedStore:
    """A `StreamStore` in one folder, open in one process at a time, safe to use from several threads.

    With `sync` a call that writes has reached the disk when it returns. Without, it has reached the operating
    system: it survives the end of this process, however sudden, but not that of the machine. `now_ms` is the
    clock that times to live are measured by. With `read_only` any number of processes may open the folder, as
    long as none writes to it: that of a `checkpoint`.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        sync: bool = True,
        now_ms: Callable[[], int] = wall_clock_ms,
        read_only: bool = False,
    ) -> None:
        self.path = Path(path)
        self._read_only = read_only
        self._now_ms = now_ms
        self._lock = RLock()
        self._cursors: WeakSet[RangeCursor | SeekCursor] = WeakSet()
        self._cursors_lock = Lock()
        self._listeners: set[Callable[[], None]] = set()
        self._heat = bytearray(_HEAT_SLOTS)
        self._synced, self._unsynced = WriteOptions(), WriteOptions()
        self._synced.sync = sync
        self._files: _Files | None = self._open()
        try:
            self._directory = self._load()
        except BaseException:
            self.close()
            raise

    def _open(self) -> _Files:
        def options() -> Options:
            chosen = Options(raw_mode=True)
            chosen.create_if_missing(True)
            chosen.create_missing_column_families(True)
            chosen.set_max_total_wal_size(_WAL_BYTES)
            chosen.set_keep_log_file_num(2)
            return chosen

        try:
            access = AccessType.read_only() if self._read_only else AccessType.read_write()
            if not self._read_only:
                self.path.mkdir(parents=True, exist_ok=True)
            db = Rdict(str(self.path), options(), {"rows": options(), "stream": options()}, access)
            return _Files(
                db,
                db.get_column_family("rows"),
                db.get_column_family("stream"),
                db.get_column_family_handle("rows"),
                db.get_column_family_handle("stream"),
            )
        except Exception as error:
            if "lock" in str(error):
                raise StoreUnavailable(
                    f"the store at {self.path} is already open, in another process or in this one; "
                    "close it there, or use another path"
                ) from error
            raise StoreError(f"the store at {self.path} cannot be opened: {error}") from error

    def _load(self) -> Directory:
        records: dict[bytes, bytes] = dict(self._rocks.meta.items())  # type: ignore[arg-type]
        if not records:
            self._rocks.meta.put(_FORMAT_KEY, msgpack.packb(FORMAT), write_opt=self._synced)
        elif _FORMAT_KEY not in records:
            raise StoreError(f"the folder {self.path} holds some other RocksDB database; use another path")
        elif (found := decode(records[_FORMAT_KEY])) != FORMAT:
            raise StoreError(
                f"the store at {self.path} has format {found}, this version reads format {FORMAT}; "
                "open it with the version that wrote it, or use another path"
            )
        return Directory(records, self._write)

    def checkpoint(self, path: Path) -> None:
        """A copy of the whole store as it is now, in a folder that is not there yet.

        It shares the files of the store where the file system can (hard links), so it costs little.
        """
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with self._lock:
                Checkpoint(self._rocks.meta).create_checkpoint(str(path))
        except Exception as error:
            raise StoreError(f"the store at {self.path} cannot be copied to {path}: {error}") from error

    def close(self) -> None:
        """Close. Scans and snapshots that are still open fail from now on; a second call does nothing."""
        with self._lock, self._cursors_lock:
            self._files = None
            for cursor in list(self._cursors):
                cursor.close()

    @property
    def _rocks(self) -> _Files:
        files = self._files
        if files is None:
            raise self._closed()
        return files

    @property
    def _known(self) -> Directory:
        """The tables and regions."""
        if self._files is None:
            raise self._closed()
        return self._directory

    def _closed(self) -> StoreError:
        return StoreError(f"the store at {self.path} is closed")

    def _table(self, name: str) -> TableState:
        return self._known.table(name)

    def _write(self, batch: WriteBatch, *, durable: bool = True) -> None:
        meta = self._rocks.meta
        try:
            meta.write(batch, self._synced if durable else self._unsynced)
        except Exception as error:
            raise StoreError(f"the store at {self.path} could not write: {error}") from error

    # -- tables and regions --------------------------------------------------------------------------------

    def create_table(
        self, name: str, families: Mapping[str, Family], splits: Sequence[bytes] = (), *, stream: bool = False
    ) -> None:
        with self._lock:
            self._known.create(name, families, splits, stream)

    def drop_table(self, name: str) -> None:
        with self._lock:
            number = self._table(name).number
            batch = WriteBatch(raw_mode=True)
            batch.delete_range(table_prefix(number), table_prefix(number + 1), self._rocks.rows_family)
            for state in self._known.regions_of(name):
                ends = stream_key(state.number, 0), stream_key(state.number + 1, 0)
                batch.delete_range(*ends, self._rocks.stream_family)
            self._known.drop(name, batch)

    def tables(self) -> list[str]:
        with self._lock:
            return sorted(self._known.tables)

    def regions(self, table: str) -> list[Region]:
        with self._lock:
            return [state.region for state in self._table(table).regions]

    def split(self, table: str, key: bytes) -> None:
        with self._lock:
            self._known.split(table, key)

    # -- writing -------------------------------------------------------------------------------------------

    def mutate(self, table: str, mutations: Sequence[Mutation]) -> dict[str, int]:
        checked = self._table(table)
        if not mutations:
            return {}
        checked.check(mutations)
        rows = [row for row, _ in mutations]
        encoded = [encode_cells(cells) for _, cells in mutations]
        stored = encoded if len(set(rows)) == len(rows) else _join_repeated(mutations, encoded)
        written: dict[str, int] = {}
        with self._lock:
            found = self._table(table)
            if found is not checked:
                found.check(mutations)
            prefixes = [row_prefix(found.number, row) for row in rows]
            touched = found.rows_by_region(rows)
            rocks, batch = self._rocks, WriteBatch(raw_mode=True)
            for state, positions in touched:
                seq = written[state.region.id] = state.last + 1
                suffix = seq_bytes(seq)
                for i in positions:
                    batch.put(prefixes[i] + suffix, stored[i], rocks.rows_family)
                if found.stream:
                    entry = encode_entry([rows[i] for i in positions], [encoded[i] for i in positions])
                    batch.put(stream_key(state.number, seq), entry, rocks.stream_family)
                batch.put(last_key(state.number), msgpack.packb(seq))
            self._write(batch)
            for state, _ in touched:
                state.last += 1
            self._merge_hot(found, prefixes)
        if found.stream:
            for listener in tuple(self._listeners):
                listener()
        return written

    def _merge_hot(self, table: TableState, prefixes: Sequence[bytes]) -> None:
        """Merge the rows that have been written often by now."""
        heat, hot = self._heat, set()
        for prefix in prefixes:
            slot = hash(prefix) % _HEAT_SLOTS
            if heat[slot] == _MERGE_AFTER:
                heat[slot] = 0
                hot.add(prefix)
            else:
                heat[slot] += 1
        if hot:
            self._merge(table, map(self._entries, hot))

    def _merge(self, table: TableState, rows: Iterable[Entries]) -> None:
        """Replace the entries of each row by one. Not synced: if lost, the old entries are still there."""
        now_ms = self._now_ms()
        plain = plain_puts(table, now_ms)
        family, batch = self._rocks.rows_family, WriteBatch(raw_mode=True)
        for entries in rows:
            stored = [decode(value) for _, value in entries]
            if len(stored) == 1 and plain(stored):
                continue
            cells = merge(history(stored), table.families, now_ms)
            for key, _ in entries[:-1] if cells else entries:
                batch.delete(key, family)
            if cells:
                batch.put(entries[-1][0], encode_cells(cells), family)
        if not batch.is_empty():
            self._write(batch, durable=False)

    def compact(self, table: str) -> None:
        """Merge every row of the table and take out what has expired, while readers and writers go on.

        RocksDB gives the space back to the disk in its own time.
        """
        start = table_prefix(self._table(table).number)
        while start:
            with self._lock:
                found = self._table(table)
                entries = self._range(start, table_prefix(found.number + 1))
                rows = list(islice(by_row(entries), _COMPACT_ROWS))
                self._merge(found, (group for _, group in rows))
            start = after_row(rows[-1][0]) if len(rows) == _COMPACT_ROWS else b""

    # -- reading -------------------------------------------------------------------------------------------

    def get(
        self, table: str, row: bytes, *, columns: Sequence[bytes] | None = None, before: int | None = None
    ) -> Row | None:
        found = self._table(table)
        resolve = resolver(found, columns, before, self._now_ms())
        entries = self._entries(row_prefix(found.number, row))
        return (resolve(entries) or None) if entries else None

    def settle(self, table: str, rows: Sequence[bytes]) -> None:
        """The stream tells what is there: nothing to wait for."""

    def get_many(self, table: str, rows: Sequence[bytes]) -> list[Row | None]:
        return [self.get(table, row) for row in rows]

    def versions(
        self, table: str, row: bytes, column: bytes, *, before: int | None = None, limit: int = 1 << 30
    ) -> list[Version]:
        """As in HBase no more than the family keeps, even if older ones are not merged away yet."""
        found = self._table(table)
        limit = min(limit, found.family(column).versions)
        entries = self._entries(row_prefix(found.number, row))
        cells = current((decode(value) for _, value in entries), found, self._now_ms())
        return list(islice(visible(cells, column, NO_BOUND if before is None else before), limit))

    def scan(
        self,
        table: str,
        start: bytes = b"",
        stop: bytes = b"",
        *,
        columns: Sequence[bytes] | None = None,
        before: int | None = None,
    ) -> Iterator[tuple[bytes, Row]]:
        """Sees the table as it was when `scan` was called."""
        found = self._table(table)
        resolve = resolver(found, columns, before, self._now_ms())
        return resolved(self._range(*key_range(found, start, stop)), resolve)

    def snapshot(self, table: str) -> EmbeddedSnapshot:
        with self._lock, self._cursors_lock:
            found = self._table(table)
            cursor = SeekCursor(self._rocks.rows)
            self._cursors.add(cursor)
            positions = {state.region.id: state.last for state in found.regions}
            return EmbeddedSnapshot(found, positions, cursor, resolver(found, None, None, self._now_ms()))

    def entry_count(self, table: str) -> int:
        """RocksDB entries of the table: one per row after `compact`."""
        return sum(1 for _ in self._range(*key_range(self._table(table), b"", b"")))

    def every(self, table: str, rows: int) -> list[bytes]:
        """Row keys that cut the table into pieces of about so many rows each; looks at every key."""
        prefixes = (prefix for prefix, _ in by_row(self._range(*key_range(self._table(table), b"", b""))))
        return [row_of(prefix) for prefix in islice(prefixes, rows, None, rows)]

    def _range(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._cursors_lock:
            cursor = RangeCursor(self._rocks.rows, start, stop)
            self._cursors.add(cursor)
            return iter(cursor)

    def _entries(self, prefix: bytes) -> Entries:
        """All entries of one row."""
        return list(RangeCursor(self._rocks.rows, prefix, after_row(prefix)))

    # -- the change stream ---------------------------------------------------------------------------------

    def stream_regions(self) -> list[Region]:
        with self._lock:
            unread = [state for state in self._known.regions.values() if state.unread]
            return [state.region for state in sorted(unread, key=lambda state: state.number)]

    def read_stream(self, region: str, after: int, limit: int) -> list[Entry]:
        """The first entry is given whatever its size. The stream of a region that is gone is empty."""
        with self._lock:
            stream, state = self._rocks.stream, self._known.regions.get(region)
            if state is None or not state.unread:
                return []
            wanted = range(max(after, state.acknowledged) + 1, state.last + 1)
        entries: list[Entry] = []
        for seq in wanted:
            data = stream.get(stream_key(state.number, seq))
            if data is None:
                if state.acknowledged >= seq or region not in self._known.regions:
                    break
                raise CorruptState(f"the stream of region {region} in {self.path} lacks its entry {seq}")
            entry = decode_entry(seq, data)
            limit -= len(entry.mutations)
            if entries and limit < 0:
                break
            entries.append(entry)
        return entries

    def acknowledge(self, region: str, seq: int) -> None:
        """Going back or naming a region that is gone does nothing; an id that was never given is an error."""
        with self._lock:
            state = self._known.regions.get(region)
            if state is None or not state.stream or seq <= state.acknowledged:
                return
            if seq > state.last:
                raise StoreError(f"region {region} cannot acknowledge {seq}: its last id is {state.last}")
            batch = WriteBatch(raw_mode=True)
            for read in range(state.acknowledged + 1, seq + 1):
                batch.delete(stream_key(state.number, read), self._rocks.stream_family)
            self._known.acknowledge(state, seq, batch)

    def acknowledged(self, region: str) -> int:
        with self._lock:
            state = self._known.regions.get(region)
            return 0 if state is None or state.acknowledged == state.first else state.acknowledged

    def unacknowledged(self) -> int:
        """How many entries all streams hold together."""
        with self._lock:
            return sum(state.unread for state in self._known.regions.values())

    def subscribe(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` after every change of a table with a stream; returns what ends that.

        It is called by the thread that writes and must not block.
        """
        self._listeners.add(listener)
        return lambda: self._listeners.discard(listener)

    # -- small durable values ------------------------------------------------------------------------------

    def meta_get(self, key: str) -> bytes | None:
        with self._lock:
            return self._rocks.meta.get(_user_key(key))

    def meta_put(self, key: str, value: bytes | None) -> None:
        """Durable before it returns; None removes the key."""
        with self._lock:
            batch = WriteBatch(raw_mode=True)
            if value is None:
                batch.delete(_user_key(key))
            else:
                batch.put(_user_key(key), value)
            self._write(batch)

    def meta_cas(self, key: str, expected: bytes | None, value: bytes) -> bool:
        """Put `value` if the key holds `expected` (None: nothing). Atomic; durable before it returns."""
        with self._lock:
            if self.meta_get(key) != expected:
                return False
            self.meta_put(key, value)
            return True


def _user_key(key: str) -> bytes:
    return b"user/" + key.encode()


def _join_repeated(mutations: Sequence[Mutation], encoded: Sequence[bytes]) -> list[bytes]:
    """For a row named more than once all its cells in order, at each of its positions."""
    cells: dict[bytes, tuple[Cell, ...]] = {}
    for row, own in mutations:
        cells[row] = cells.get(row, ()) + tuple(own)
    return [
        one if len(cells[row]) == len(own) else encode_cells(cells[row]) for (row, own), one in zip(mutations, encoded)
    ]
