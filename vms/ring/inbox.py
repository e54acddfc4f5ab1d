"""What has come over the links and is not handled yet: taken in always, in memory first, then on disk.

A receiver that would not take something in, because it is busy, could wait for a sender that waits for it: in an
all-to-all exchange nobody would go on (design section 7). So nothing here ever blocks or refuses.
"""

from __future__ import annotations

import struct
import tempfile
import threading
from collections import deque
from typing import BinaryIO, NamedTuple

#: Bytes that wait in memory. Not higher, or a slow member would starve the views of memory; not lower, or a large
#: epoch would go over the disk without need.
MEMORY_BYTES = 256 << 20
_LENGTHS = struct.Struct("<III")


class Arrived(NamedTuple):
    """A message as it came: `vms.maintenance.codec` reads the payload."""

    sender: str
    receiver: str
    payload: bytes


class Inbox:
    """First in, first out. Safe to use from several threads."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._limit = memory_bytes
        self._lock = threading.Lock()
        self._first: deque[Arrived] = deque()
        self._bytes = 0
        self._file: BinaryIO | None = None
        self._read_at = self._write_at = 0
        #: Bytes that went over the disk so far.
        self.spilled = 0

    def __len__(self) -> int:
        """Bytes that wait."""
        with self._lock:
            return self._bytes + self._write_at - self._read_at

    def put(self, item: Arrived) -> None:
        """Keep it. As long as older ones are on disk, newer ones follow them there: the order stays."""
        with self._lock:
            if self._file is None and (self._bytes + len(item.payload) <= self._limit or not self._first):
                self._first.append(item)
                self._bytes += len(item.payload)
            else:
                self._spill(item)

    def take(self) -> Arrived | None:
        """The oldest, if there is one."""
        with self._lock:
            if self._first:
                item = self._first.popleft()
                self._bytes -= len(item.payload)
                return item
            return None if self._file is None else self._unspill(self._file)

    def close(self) -> None:
        with self._lock:
            self._first.clear()
            self._bytes = 0
            self._forget_file()

    def _spill(self, item: Arrived) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile(prefix="vms-inbox-")  # noqa: SIM115
        texts = item.sender.encode(), item.receiver.encode(), item.payload
        record = _LENGTHS.pack(*map(len, texts)) + b"".join(texts)
        self._file.seek(self._write_at)
        self._file.write(record)
        self._write_at += len(record)
        self.spilled += len(record)

    def _unspill(self, file: BinaryIO) -> Arrived:
        file.seek(self._read_at)
        lengths = _LENGTHS.unpack(file.read(_LENGTHS.size))
        sender, receiver, payload = (file.read(n) for n in lengths)
        self._read_at += _LENGTHS.size + sum(lengths)
        if self._read_at == self._write_at:
            self._forget_file()
        return Arrived(sender.decode(), receiver.decode(), payload)

    def _forget_file(self) -> None:
        if self._file is not None:
            self._file.close()
        self._file, self._read_at, self._write_at = None, 0, 0
