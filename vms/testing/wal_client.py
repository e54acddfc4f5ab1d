"""A region server that ships WAL entries, as far as a replication peer can tell: for tests without an HBase.

It writes the wire format on its own, from HBase's side, so that it checks what the peer reads.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Sequence
from typing import NamedTuple

from vms.kernels.cell_block import (
    HBASE_DELETE,
    HBASE_DELETE_COLUMN,
    HBASE_DELETE_FAMILY,
    HBASE_PUT,
)
from vms.model.changes import DELETE_COLUMN, DELETE_ROW, DELETE_VERSION, PUT
from vms.store.base import Mutation

TYPES = {
    PUT: HBASE_PUT,
    DELETE_ROW: HBASE_DELETE_FAMILY,
    DELETE_COLUMN: HBASE_DELETE_COLUMN,
    DELETE_VERSION: HBASE_DELETE,
}


class WalCell(NamedTuple):
    """A cell as HBase has it; `type` is HBase's number. `tags` are (type, content)."""

    row: bytes
    family: bytes
    qualifier: bytes
    ts: int
    type: int = HBASE_PUT
    value: bytes = b""
    tags: tuple[tuple[int, bytes], ...] = ()


class WalEntry(NamedTuple):
    """One entry of the WAL."""

    table: str
    region: str
    seq: int
    cells: tuple[WalCell, ...]
    write_time: int = 0
    attributes: tuple[tuple[bytes, bytes], ...] = ()


def wal_cells(mutations: Sequence[Mutation]) -> tuple[WalCell, ...]:
    """The cells that HBase writes for these mutations."""
    found = []
    for row, cells in mutations:
        for column, ts, kind, value in cells:
            family, _, qualifier = column.partition(b":")
            found.append(WalCell(row, family, qualifier, ts, TYPES[kind], value))
    return tuple(found)


def cell_bytes(cell: WalCell) -> bytes:
    """One cell of a block, as KeyValueCodecWithTags writes it."""
    key = struct.pack(">H", len(cell.row)) + cell.row + bytes([len(cell.family)]) + cell.family + cell.qualifier
    key += struct.pack(">qB", cell.ts, cell.type)
    body = struct.pack(">ii", len(key), len(cell.value)) + key + cell.value
    if cell.tags:
        tags = b"".join(struct.pack(">HB", len(value) + 1, kind) + value for kind, value in cell.tags)
        body += struct.pack(">H", len(tags)) + tags
    return struct.pack(">i", len(body)) + body


def request_bytes(call: int, entries: Sequence[WalEntry]) -> bytes:
    """A ReplicateWALEntry request with its length."""
    block = b"".join(cell_bytes(cell) for entry in entries for cell in entry.cells)
    return frame_bytes(call, parameter_bytes(entries), block)


def frame_bytes(call: int, parameter: bytes, block: bytes, method: bytes = b"ReplicateWALEntry") -> bytes:
    header = _int(1, call) + _bytes(3, method) + _int(4, 1)
    if block:
        header += _bytes(5, _int(1, len(block)))
    body = _varint(len(header)) + header + _varint(len(parameter)) + parameter + block
    return struct.pack(">i", len(body)) + body


def parameter_bytes(entries: Sequence[WalEntry]) -> bytes:
    """A ReplicateWALEntryRequest without its cells."""
    out = b""
    for entry in entries:
        key = _bytes(1, entry.region.encode()) + _bytes(2, entry.table.encode())
        key += _int(3, entry.seq) + _int(4, entry.write_time)
        key += _bytes(6, _bytes(1, b"d") + _int(2, 1)) + _int(9, 0)
        for name, value in entry.attributes:
            key += _bytes(12, _bytes(1, name) + _bytes(2, value))
        out += _bytes(1, _bytes(1, key) + _int(3, len(entry.cells)))
    return out + _bytes(2, b"peer")


class WalClient:
    """One connection of a region server."""

    def __init__(self, address: tuple[str, int], timeout: float = 30.0) -> None:
        self._socket = socket.create_connection(address, timeout)
        header = _bytes(2, b"AdminService") + _bytes(3, b"org.apache.hadoop.hbase.codec.KeyValueCodecWithTags")
        self._socket.sendall(b"HBas\x00\x50" + struct.pack(">i", len(header)) + header)
        self._call = 0

    def ship(self, *entries: WalEntry) -> int:
        """Send without waiting; the number of the call."""
        self._call += 1
        self._socket.sendall(request_bytes(self._call, entries))
        return self._call

    def send(self, data: bytes) -> None:
        """Send anything."""
        self._socket.sendall(data)

    def answer(self) -> tuple[int, str | None]:
        """The next answer: the number of its call, and the class of the exception if it is one."""
        length = struct.unpack(">i", self._receive(4))[0]
        body = self._receive(length)
        size, at = _read_varint(body, 0)
        header = _read_fields(body[at : at + size])
        call, error = header[1], header.get(2)
        assert isinstance(call, int)
        if error is None:
            assert body[at + size :] == b"\0", body
            return call, None
        assert isinstance(error, bytes) and at + size == len(body)
        kind = _read_fields(error)[1]
        assert isinstance(kind, bytes)
        return call, kind.decode()

    def _receive(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self._socket.recv(count - len(data))
            if not more:
                raise ConnectionError("the peer closed the connection")
            data += more
        return data

    def close(self) -> None:
        self._socket.close()


def _varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out += bytes([value & 127 | 128])
        value >>= 7
    return out + bytes([value])


def _int(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value & (1 << 64) - 1)


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            return value, at


def _read_fields(data: bytes) -> dict[int, int | bytes]:
    found: dict[int, int | bytes] = {}
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 == 0:
            found[tag >> 3], at = _read_varint(data, at)
        else:
            size, at = _read_varint(data, at)
            found[tag >> 3] = data[at : at + size]
            at += size
    return found
