"""Reading ranges of RocksDB: every cursor sees the store as it was when it was made.

RocksDB frees an instance, and the lock on its folder, only when its last iterator is gone. So iterators live
in cursors, the store knows its cursors, and closing the store ends them: a scan that is still under way then
fails with a clear error and does not keep the folder locked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from threading import Lock
from typing import Any

from rocksdict import Rdict, ReadOptions

from vms.errors import StoreError
from vms.store.layout import SEQ_BYTES

#: Entries fetched at a time. Higher holds the lock of a snapshot longer; lower pays more for the next fetch.
_CHUNK = 1024

#: RocksDB entries: (key, value) pairs.
Entries = list[tuple[bytes, bytes]]


class RangeCursor:
    """The entries with start <= key < stop, once.

    It holds its ReadOptions as long as its iterator: rocksdict 0.3 leaves the bound's memory to them, and an
    iterator that outlives them reads beyond the bound.
    """

    def __init__(self, rows: Rdict, start: bytes, stop: bytes) -> None:
        self._options = ReadOptions()
        self._options.set_iterate_upper_bound(stop)
        self._items: Any = rows.items(from_key=start, read_opt=self._options)

    def __iter__(self) -> Iterator[tuple[bytes, bytes]]:
        while True:
            items = self._items
            if items is None:
                raise StoreError("the store was closed while it was being read")
            chunk = list(islice(items, _CHUNK))
            yield from chunk
            if len(chunk) < _CHUNK:
                return

    def close(self) -> None:
        self._items = None


class SeekCursor:
    """Any range, any number of times, from several threads.

    The snapshots of rocksdict 0.3 cannot serve here: an iterator made from one after a write sees the write.
    An iterator itself does stay at the instant it was made at, so this keeps one and seeks in it.
    """

    def __init__(self, rows: Rdict) -> None:
        self._lock = Lock()
        self._iterator: Any = rows.iter()

    def range(self, start: bytes, stop: bytes) -> Iterator[tuple[bytes, bytes]]:
        while True:
            chunk = self._chunk(start, stop)
            yield from chunk
            if len(chunk) < _CHUNK:
                return
            start = chunk[-1][0] + b"\x00"

    def _chunk(self, start: bytes, stop: bytes) -> Entries:
        chunk: Entries = []
        with self._lock:
            iterator = self._iterator
            if iterator is None:
                raise StoreError("the snapshot or its store was closed while it was being read")
            iterator.seek(start)
            while len(chunk) < _CHUNK and iterator.valid():
                key = iterator.key()
                if key >= stop:
                    break
                chunk.append((key, iterator.value()))
                iterator.next()
            iterator.status()
        return chunk

    def close(self) -> None:
        with self._lock:
            self._iterator = None


def by_row(entries: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, Entries]]:
    """Prefix and entries of each row."""
    prefix = None
    group: Entries = []
    for entry in entries:
        head = entry[0][:-SEQ_BYTES]
        if head == prefix:
            group.append(entry)
        else:
            if prefix is not None:
                yield prefix, group
            prefix, group = head, [entry]
    if prefix is not None:
        yield prefix, group
