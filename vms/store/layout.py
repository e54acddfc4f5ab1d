"""How the embedded store lays out its keys and values in RocksDB.

    column family   key                                              value
    rows            table (4) | escaped row | 00 00 | sequence id (8)  the cells of one call to that row
    stream          region (8) | sequence id (8)                     the mutations of one call to that region
    default         meta: see vms/store/directory.py                  msgpack

Numbers are big-endian, so byte order is number order: a row's entries lie together, oldest first.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import msgpack

from vms.store.base import PUT, Cell, Entry, Mutation

SEQ_BYTES = 8
_TABLE_BYTES = 4
_END = b"\x00\x00"

#: Cells as stored: (timestamp, {column: value}) for puts that share a timestamp, which nearly all do (a third
#: shorter and twice as fast to read), or a tuple of (column, timestamp, kind, value).
Stored = Any


#: `Cell._make` at a third of the cost: every change that is read from the stream passes through here.
_cell = partial(tuple.__new__, Cell)


def table_prefix(table: int) -> bytes:
    return table.to_bytes(_TABLE_BYTES, "big")


def row_bound(table: int, row: bytes) -> bytes:
    """Not above any key of `row` and above every key of the rows before it."""
    return table_prefix(table) + row.replace(b"\x00", b"\x00\xff")


def row_prefix(table: int, row: bytes) -> bytes:
    """What all keys of a row begin with, and no other row's.

    A zero byte becomes 00 FF and the row ends with 00 00, so the order of keys is the order of rows.
    """
    return row_bound(table, row) + _END


def after_row(prefix: bytes) -> bytes:
    """Above every key of the row with this prefix, not above any key of the next row."""
    return prefix[:-1] + b"\x01"


def row_of(prefix: bytes) -> bytes:
    """The row of a `row_prefix`."""
    return prefix[_TABLE_BYTES : -len(_END)].replace(b"\x00\xff", b"\x00")


def seq_bytes(seq: int) -> bytes:
    return seq.to_bytes(SEQ_BYTES, "big")


def stream_key(region: int, seq: int) -> bytes:
    return region.to_bytes(8, "big") + seq_bytes(seq)


def encode_cells(cells: Sequence[Cell]) -> bytes:
    columns, timestamps, kinds, values = zip(*cells)
    if kinds.count(PUT) == len(kinds) and timestamps.count(timestamps[0]) == len(timestamps):
        plain = dict(zip(columns, values))
        if len(plain) == len(columns):
            return msgpack.packb((timestamps[0], plain))
    return msgpack.packb(cells)


def decode(data: bytes) -> Any:
    return msgpack.unpackb(data, use_list=False, strict_map_key=False)


def is_plain(stored: Stored) -> bool:
    """Whether these are puts that share a timestamp."""
    return type(stored[0]) is int


def cells_of(stored: Stored) -> tuple[Cell, ...]:
    if is_plain(stored):
        ts, plain = stored
        return tuple(Cell(column, ts, PUT, value) for column, value in plain.items())
    return tuple(map(_cell, stored))


def encode_entry(rows: Sequence[bytes], encoded: Sequence[bytes]) -> bytes:
    """A stream entry from rows and their encoded cells: one flat msgpack array, row and cells in turn."""
    parts = [msgpack.Packer().pack_array_header(2 * len(rows))]
    for row, cells in zip(rows, encoded):
        parts.append(msgpack.packb(row))
        parts.append(cells)
    return b"".join(parts)


def decode_entry(seq: int, data: bytes) -> Entry:
    flat = decode(data)
    return Entry(seq, tuple(Mutation(row, cells_of(stored)) for row, stored in zip(flat[::2], flat[1::2])))
