"""How fast cells of HBase's WAL become columns: the kernel beside the same work in plain Python, in one run."""

from __future__ import annotations

import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from vms.kernels.cell_block import HBASE_PUT, ROW_LEN, TS, TYPE, VALUE_LEN
from vms.model.table import BaseTable, TableColumn
from vms.model.types import BIGINT, VARCHAR
from vms.stream.decode import RowDecoder
from vms.stream.hbase_batch import read_entries
from vms.testing.wal_client import WalCell, WalEntry, cell_bytes, parameter_bytes

#: Cells of a row, and rows of an entry.
_COLUMNS, _ROWS = 10, 100
_BASE = 1_700_000_000_000
Columns = list[np.ndarray]


def table() -> BaseTable:
    """A key and ten numbers."""
    columns = [TableColumn(f"c{i}", BIGINT) for i in range(_COLUMNS)]
    return BaseTable("t", (TableColumn("k", VARCHAR, nullable=False), *columns), ("k",))


def block(rows: int) -> tuple[bytes, bytes]:
    """A request of HBase's replication: ten cells a row, a hundred rows an entry; (parameter, cell block)."""
    entries, cells = [], []
    for first in range(0, rows, _ROWS):
        written = tuple(
            WalCell(b"row%08d" % row, b"d", b"c%d" % c, _BASE + row, value=struct.pack(">q", row * c))
            for row in range(first, min(first + _ROWS, rows))
            for c in range(_COLUMNS)
        )
        entries.append(WalEntry("t", "region", first + 1, written))
        cells += [cell_bytes(cell) for cell in written]
    return parameter_bytes(entries), b"".join(cells)


def fields_by_kernel(parameter: bytes, data: bytes) -> Columns:
    """The product's first step: where everything is in the block, its timestamp and type, as columns."""
    (batch,) = read_entries(memoryview(parameter), memoryview(data))
    cells = batch.cells
    return [cells.cells[TS], cells.cells[TYPE], cells.cells[ROW_LEN], cells.cells[VALUE_LEN], cells.seqs]


def fields_by_python(parameter: bytes, data: bytes) -> Columns:
    """The same, cell by cell: row, column, timestamp, type and value of each."""
    cells = list(_cells(data))
    seqs = np.repeat(np.arange(1, len(cells) // _COLUMNS + 1, _ROWS), _ROWS * _COLUMNS)[: len(cells)]
    times, types = [cell[3] for cell in cells], [cell[4] for cell in cells]
    lengths = [[len(cell[0]) for cell in cells], [len(cell[5]) for cell in cells]]
    return [np.array(column, np.int64) for column in (times, types, *lengths)] + [seqs]


def rows_by_kernel(parameter: bytes, data: bytes) -> Columns:
    """The product's whole way, to typed columns of source rows with their keys."""
    (batch,) = read_entries(memoryview(parameter), memoryview(data))
    rows, letters = batch.decode(RowDecoder(table()))
    assert not letters
    return [rows.column(f"c{c}").to_numpy() for c in range(_COLUMNS)]


def rows_by_python(parameter: bytes, data: bytes) -> Columns:
    """The same without any check, cell by cell."""
    rows: dict[bytes, dict[bytes, int]] = {}
    for row, _, name, _, type_, value in _cells(data):
        if type_ == HBASE_PUT:
            rows.setdefault(row, {})[name] = struct.unpack(">q", value)[0]
    names = [b"c%d" % c for c in range(_COLUMNS)]
    return [np.array([row[name] for row in rows.values()], np.int64) for name in names]


def _cells(data: bytes) -> Iterator[tuple[bytes, bytes, bytes, int, int, bytes]]:
    """Row, family, qualifier, timestamp, type and value."""
    at, end, unpack = 0, len(data), struct.unpack_from
    while at < end:
        length, key_length, value_length = unpack(">iii", data, at)
        start = at + 12
        (row_length,) = unpack(">H", data, start)
        family_at = start + 2 + row_length
        name_at = family_at + 1 + data[family_at]
        ts_at = start + key_length - 9
        ts, type_ = unpack(">qB", data, ts_at)
        value_at = start + key_length
        row, family, name = data[start + 2 : family_at], data[family_at + 1 : name_at], data[name_at:ts_at]
        yield row, family, name, ts, type_, data[value_at : value_at + value_length]
        at += 4 + length


#: What is timed: the product's way and the plain one, with the same result.
WAYS = {"fields": (fields_by_kernel, fields_by_python), "rows": (rows_by_kernel, rows_by_python)}


def run(rows: int, repeats: int) -> Iterator[dict[str, Any]]:
    """Cells a second of CPU time, the best of some repeats of each way; `exact`: both found the same."""
    parameter, data = block(rows)
    cells = rows * _COLUMNS
    for name, (kernel, python) in WAYS.items():
        fast, found = _best(kernel, parameter, data, repeats)
        slow, expected = _best(python, parameter, data, max(1, repeats // 3))
        yield {
            "decode": name,
            "cells": cells,
            "bytes": len(data),
            "cells_per_cpu_s": cells / fast,
            "python_cells_per_cpu_s": cells / slow,
            "ratio": slow / fast,
            "exact": all(np.array_equal(a, b) for a, b in zip(found, expected)),
        }


def _best(way: Callable[[bytes, bytes], Columns], parameter: bytes, data: bytes, repeats: int) -> tuple[float, Columns]:
    """Of all threads of the process; the first time compiles and is not counted."""
    found = way(parameter, data)
    times = []
    for _ in range(repeats):
        begin = time.process_time()
        way(parameter, data)
        times.append(time.process_time() - begin)
    return min(times), found
