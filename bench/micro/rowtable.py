"""A hash table of integer rows, as a hand-written program would have it.

The rows lie densely in the order of their arrival, so that inserts write to consecutive memory; a row keeps
its number while it lives, so that other rows may refer to it. The index (open addressing, deletion without
tombstones) has one word a place: 32 bits of the key's hash and the row's number.
"""

from __future__ import annotations

import numpy as np

from vms.kernels.hashing import jit, mix
from vms.model.changes import Int64

#: No row (as a number of a row).
NONE = -1
#: Words of `RowTable.state`: rows that live, row numbers ever given out, the first free number below that.
_COUNT, _USED, _FREE = range(3)
_NUMBER = (1 << 32) - 1


class RowTable:
    """Rows of `width` 64-bit words, the key in word 0. Kernels stop for want of room; the caller makes it."""

    def __init__(self, width: int, places: int = 1024) -> None:
        """`places`: how many the index has at first, a power of two."""
        self.index: Int64 = np.zeros(places, np.int64)
        self.rows: Int64 = np.empty((places // 2, width), np.int64)
        self.state: Int64 = np.array([0, 0, NONE], np.int64)

    def __len__(self) -> int:
        return int(self.state[_COUNT])

    @property
    def parts(self) -> tuple[Int64, Int64, Int64]:
        """The arrays, in the order in which the kernels take them."""
        return self.index, self.rows, self.state

    def make_room(self) -> None:
        """See to it that a kernel can add at least one row."""
        if len(self) < len(self.rows):
            return
        self.index = _doubled(self.index)
        rows = np.empty((2 * len(self.rows), self.rows.shape[1]), np.int64)
        rows[: len(self.rows)] = self.rows
        self.rows = rows

    def live(self) -> Int64:
        """A copy of the rows that live, in no particular order."""
        return self.rows[(self.index[self.index != 0] & _NUMBER) - 1]


@jit
def has_room(table):
    """Whether one more row can be added."""
    return table[2][_COUNT] < table[1].shape[0]


@jit
def place_of(table, key):
    """The place of `key` in the index, or the free place where it belongs. Void after the next `remove`."""
    index, rows = table[0], table[1]
    mask = index.shape[0] - 1
    tag = np.int64(mix(key)) & _NUMBER
    p = tag & mask
    while index[p] != 0:
        if (index[p] >> 32) & _NUMBER == tag and rows[(index[p] & _NUMBER) - 1, 0] == key:
            break
        p = (p + 1) & mask
    return p


@jit
def row_at(table, place):
    """The number of the row at a place of the index, or NONE."""
    return (table[0][place] & _NUMBER) - 1


@jit
def add(table, place, key):
    """A new row at the free place that `place_of` gave for `key`; its other words are the caller's to set."""
    index, rows, state = table
    if state[_FREE] != NONE:
        r = state[_FREE]
        state[_FREE] = rows[r, 0]
    else:
        r = state[_USED]
        state[_USED] += 1
    state[_COUNT] += 1
    index[place] = ((np.int64(mix(key)) & _NUMBER) << 32) | (r + 1)
    rows[r, 0] = key
    return r


@jit
def find_or_add(table, key):
    """The number of the row of `key`, which is added with zeros if it is not there."""
    place = place_of(table, key)
    r = row_at(table, place)
    if r == NONE:
        r = add(table, place, key)
        table[1][r, 1:] = 0
    return r


@jit
def remove(table, place):
    """Free the row at `place`; entries of the index that had to probe past it move up."""
    index, rows, state = table
    r = row_at(table, place)
    rows[r, 0] = state[_FREE]
    state[_FREE] = r
    state[_COUNT] -= 1
    mask = index.shape[0] - 1
    hole, q = place, (place + 1) & mask
    while index[q] != 0:
        home = (index[q] >> 32) & mask
        if ((q - home) & mask) >= ((q - hole) & mask):
            index[hole] = index[q]
            hole = q
        q = (q + 1) & mask
    index[hole] = 0


@jit
def _doubled(index):
    bigger = np.zeros(2 * index.shape[0], np.int64)
    mask = bigger.shape[0] - 1
    for i in range(index.shape[0]):
        if index[i] != 0:
            p = (index[i] >> 32) & mask
            while bigger[p] != 0:
                p = (p + 1) & mask
            bigger[p] = index[i]
    return bigger
