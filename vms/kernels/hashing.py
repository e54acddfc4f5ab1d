"""One hash for everything: 64 bits, the same in every process and on every machine.

`slot_of` decides which member owns a row (design section 7), so it may never change between versions of VMS
that share a cluster.
"""

from __future__ import annotations

import numba as nb
import numpy as np

from vms.model.changes import Column, Int64
from vms.model.ring import SLOTS as SLOTS
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType

jit = nb.njit(cache=True, nogil=True, boundscheck=False)


@jit
def mix(x):
    """A bijection of 64 bits whose output bits all depend on all input bits (splitmix64 finalizer)."""
    x = np.uint64(x)
    x ^= x >> np.uint64(30)
    x *= np.uint64(0xBF58476D1CE4E5B9)
    x ^= x >> np.uint64(27)
    x *= np.uint64(0x94D049BB133111EB)
    x ^= x >> np.uint64(31)
    return x


@jit
def _fold(hashes, values):
    for i in range(hashes.shape[0]):
        hashes[i] = mix(hashes[i] * np.uint64(0x9E3779B97F4A7C15) + mix(np.uint64(values[i])))


@jit
def _fold_high(hashes, low, high):
    for i in range(hashes.shape[0]):
        if high[i] != low[i] >> 63:
            hashes[i] = mix(hashes[i] ^ np.uint64(high[i]))


def hash_columns(
    columns: list[Column] | tuple[Column, ...], types: list[SqlType] | tuple[SqlType, ...], pool: TextPool, rows: int
):
    """A content hash (uint64) per row over the given columns; NULL hashes like no other value is meant to."""
    hashes = np.full(rows, 0x5649_4557, np.uint64)
    for column, type_ in zip(columns, types):
        values = column.codes
        if type_.kind is Kind.VARCHAR:
            values = pool.hashes[values]
        if column.valid is not None:
            values = np.where(column.valid, values, np.int64(-0x6E756C6C))
        _fold(hashes, values)
        if column.high is not None:
            _fold_high(hashes, column.codes, column.high)
    return hashes


def slot_of(
    columns: list[Column] | tuple[Column, ...], types: list[SqlType] | tuple[SqlType, ...], pool: TextPool, rows: int
) -> Int64:
    """The slot of each row: the top bits of its hash."""
    return (hash_columns(columns, types, pool, rows) >> np.uint64(54)).astype(np.int64)
