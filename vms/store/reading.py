"""Rows out of RocksDB entries: a short way for rows with puts alone, the general one for all others."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain, repeat
from operator import itemgetter

from vms.store.base import Row, Version
from vms.store.cursor import Entries, SeekCursor, by_row
from vms.store.layout import Stored, cells_of, decode, is_plain, row_bound, row_of, table_prefix
from vms.store.regions import TableState
from vms.store.resolve import NO_BOUND, History, expire, gather, newest

#: All entries of a row, oldest first, to what is visible of it.
Resolver = Callable[[Entries], Row]

#: Version(value, ts) from the pair, without a Python call.
_version = partial(tuple.__new__, Version)
_timestamp = itemgetter(0)


def resolver(table: TableState, columns: Sequence[bytes] | None, before: int | None, now_ms: int) -> Resolver:
    """How to read rows of `table`: these columns (None: all), below this bound (None: none), at this time."""
    for column in columns or ():
        table.family(column)
    bound = NO_BOUND if before is None else before
    wanted = None if columns is None else frozenset(columns)
    plain = plain_puts(table, now_ms)

    def resolve(entries: Entries) -> Row:
        stored = [decode(value) for _, value in entries]
        if not plain(stored):
            return newest(current(stored, table, now_ms), bound, wanted)
        row: Row = {}
        for ts, values in sorted(stored, key=_timestamp):
            if ts < bound:
                row.update(zip(values, map(_version, zip(values.values(), repeat(ts)))))
        return row if wanted is None else {column: row[column] for column in row if column in wanted}

    return resolve


def plain_puts(table: TableState, now_ms: int) -> Callable[[Sequence[Stored]], bool]:
    """Tells whether the entries of a row are puts alone, none of them expired: then the newest one counts."""
    horizon, spared = table.unexpiring(now_ms)

    def check(stored: Sequence[Stored]) -> bool:
        if not all(map(is_plain, stored)):
            return False
        return len(stored) <= spared or min(map(_timestamp, stored)) >= horizon

    return check


def history(stored: Iterable[Stored]) -> History:
    """Everything that is stored of a row, from its entries, oldest first."""
    return gather(chain.from_iterable(map(cells_of, stored)))


def current(stored: Iterable[Stored], table: TableState, now_ms: int) -> History:
    """Everything that is stored of a row and has not expired."""
    found = history(stored)
    expire(found, table.families, now_ms)
    return found


def key_range(table: TableState, start: bytes, stop: bytes) -> tuple[bytes, bytes]:
    """The keys of the rows with start <= row < stop (b"" as stop: to the end)."""
    end = row_bound(table.number, stop) if stop else table_prefix(table.number + 1)
    return row_bound(table.number, start), end


def resolved(entries: Iterator[tuple[bytes, bytes]], resolve: Resolver) -> Iterator[tuple[bytes, Row]]:
    """The rows that exist, in key order."""
    for prefix, group in by_row(entries):
        row = resolve(group)
        if row:
            yield row_of(prefix), row


class EmbeddedSnapshot:
    """A table at one instant (`Snapshot`). Keeps RocksDB files from being freed until it is closed."""

    def __init__(self, table: TableState, positions: Mapping[str, int], cursor: SeekCursor, resolve: Resolver) -> None:
        self.positions = positions
        self._table, self._cursor, self._resolve = table, cursor, resolve

    def scan(self, start: bytes = b"", stop: bytes = b"") -> Iterator[tuple[bytes, Row]]:
        return resolved(self._cursor.range(*key_range(self._table, start, stop)), self._resolve)

    def close(self) -> None:
        self._cursor.close()
