"""Rows as keys, and the hash index that every keyed state stands on (design section 5).

A key is a row of int64 words (`key_words`). A `KeyIndex` gives each distinct key a small number, its *entry
id*; whoever embeds one keeps further arrays in parallel, indexed by that id. Compiled code works on the
arrays `(table, keys, free, spare)` of the index directly, see `KeyIndex.arrays`.

Memory follows the number of live keys: ids of removed keys are handed out again, removal moves the followers
of a probe chain back instead of leaving a tombstone, and `compact` shrinks everything after many removals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numba as nb
import numpy as np
import numpy.typing as npt

from vms.kernels.hashing import jit, mix
from vms.model.changes import Column, Int64
from vms.model.types import SqlType

#: The smallest number of entries. Not lower, or tiny states would grow step by step; not higher, or hundreds
#: of small states would cost more than they hold.
MIN_ENTRIES = 64

_T = TypeVar("_T", bound=np.generic)

_ID_BITS = np.int64(32)
_ID_MASK = np.int64(0xFFFF_FFFF)
_HASH_MASK = np.uint64(0x7FFF_FFFF)
_EMPTY = np.int64(-1)
#: Rows whose places in the table are fetched together. Not lower, or memory would not be busy all the time; not
#: higher, or what was fetched would be pushed out of the nearest cache.
_BLOCK = 128


def key_width(types: Sequence[SqlType], nullable: bool) -> int:
    """The number of words that `key_words` makes of one row."""
    return len(types) + [t.wide for t in types].count(True) + (_mask_words(len(types)) if nullable else 0)


def _mask_words(columns: int) -> int:
    return max(1, (columns + 63) // 64)


def key_words(columns: Sequence[Column], types: Sequence[SqlType], rows: int, *, nullable: bool) -> Int64:
    """The rows as int64 words, C-contiguous: equal rows have equal words and the reverse.

    One word a column, two (low, high) where the type is wide, whether or not this batch needs the high one;
    with `nullable`, bit masks of the NULLs last. So the width depends on the types alone and is fixed for the
    life of a state. Without `nullable` the columns must hold no NULL. Text is its code, so words of different
    pools do not compare.
    """
    words = np.empty((rows, key_width(types, nullable)), np.int64)
    at = 0
    for column, type_ in zip(columns, types):
        words[:, at] = column.codes
        if type_.wide:
            words[:, at + 1] = column.high_words()
            at += 1
        at += 1
    if nullable:
        words[:, at:] = 0
        for j, column in enumerate(columns):
            if column.valid is not None:
                words[:, at + j // 64] |= (~column.valid).astype(np.int64) << (j % 64)
    return words


def words_to_columns(words: Int64, types: Sequence[SqlType], *, nullable: bool) -> tuple[Column, ...]:
    """The inverse of `key_words`. High words and validity are left out where no row needs them."""
    by_column = words.T if words.flags.f_contiguous else np.ascontiguousarray(words.T)
    masks = by_column[key_width(types, nullable=False) :]
    nullable = nullable and bool(masks.any())
    columns, at = [], 0
    for j, type_ in enumerate(types):
        codes = by_column[at]
        high = valid = None
        if type_.wide:
            at += 1
            if (by_column[at] != codes >> 63).any():
                high = by_column[at]
        at += 1
        if nullable:
            null = (masks[j // 64] >> (j % 64)) & 1
            if null.any():
                valid = null == 0
        columns.append(Column(codes, valid, high))
    return tuple(columns)


def kernel_array(array: Int64) -> Int64:
    """The array as compiled code takes it: contiguous and writable, so that one specialisation serves all."""
    flags = array.flags
    return array if flags.c_contiguous and flags.writeable else np.require(array, np.int64, ["C", "W"])


#: For functions of one row that kernels call for every row: called and not inlined, `find` takes 45 ns, not
#: 8. What runs for few rows stays a call (`row_call`): inlined, it slows the rest of the loop. Both allocate
#: nothing and so go without numba's reference counts, which it leaves in some loops for every array of every
#: call: these took half of a kernel's time.
_ROW: dict[str, Any] = {"cache": True, "nogil": True, "boundscheck": False, "_nrt": False}
row_call = nb.njit(**_ROW)
row_jit = nb.njit(**_ROW, forceinline=True)


@row_jit
def hash_row(words, i):
    """31 bits of hash of row i. Local to a process: states are exported by content."""
    h = np.uint64(0x5649_4557)
    for j in range(words.shape[1]):
        h = (h ^ np.uint64(words[i, j])) * np.uint64(0x9E37_79B9_7F4A_7C15)
        h ^= h >> np.uint64(32)
    return np.int64(mix(h) & _HASH_MASK)


@row_jit
def same_row(a, i, b, j):
    """Whether row i of `a` equals row j of `b`."""
    for c in range(a.shape[1]):  # noqa: SIM110 (compiled: a loop, not a generator)
        if a[i, c] != b[j, c]:
            return False
    return True


@row_jit
def find(table, keys, words, i):
    """The entry id of row i of `words`, or -1."""
    h = hash_row(words, i)
    mask = table.shape[0] - 1
    at = h & mask
    while table[at] != _EMPTY:
        if table[at] >> _ID_BITS == h:
            id_ = table[at] & _ID_MASK
            if same_row(keys, id_, words, i):
                return id_
        at = (at + 1) & mask
    return np.int64(-1)


@row_call
def erase(table, keys, free, spare, id_):
    """Remove a live entry. Followers in its probe chain move back, so that no tombstone is left."""
    mask = table.shape[0] - 1
    hole = hash_row(keys, id_) & mask
    while table[hole] & _ID_MASK != id_:
        hole = (hole + 1) & mask
    at = (hole + 1) & mask
    while table[at] != _EMPTY:
        home = (table[at] >> _ID_BITS) & mask
        if (at - home) & mask >= (at - hole) & mask:
            table[hole] = table[at]
            hole = at
        at = (at + 1) & mask
    table[hole] = _EMPTY
    free[spare[0]] = id_
    spare[0] += 1


@jit
def _refill(old, table, new_id):
    """Move all entries of an old table into an empty one; `new_id` renumbers them (empty: ids stay)."""
    mask = table.shape[0] - 1
    for i in range(old.shape[0]):
        entry = old[i]
        if entry != _EMPTY:
            if new_id.shape[0]:
                entry = (entry & ~_ID_MASK) | new_id[entry & _ID_MASK]
            at = (entry >> _ID_BITS) & mask
            while table[at] != _EMPTY:
                at = (at + 1) & mask
            table[at] = entry


@jit
def _lookup(table, keys, words, ids):
    for i in range(words.shape[0]):
        ids[i] = find(table, keys, words, i)


@jit
def _upsert(table, keys, free, spare, words, ids, fresh, counts):
    """Go on at row counts[0] until all rows have ids or no entry is spare; counts[1] new ids so far.

    The hashes of a block of rows are made first, and the places that they name are read: so the memory behind
    them is fetched for many rows at once, instead of waiting for one after the other. Nothing that the loop
    changes for every row is kept in an array, and no part of it is a function: either doubles its time.
    """
    i, new, left = counts[0], counts[1], spare[0]
    rows, mask = words.shape[0], table.shape[0] - 1
    hashes = np.empty(_BLOCK, np.int64)
    full = False
    while i < rows and not full:
        first, end = i, min(i + _BLOCK, rows)
        fetched = np.int64(0)
        for row in range(first, end):
            hashes[row - first] = hash_row(words, row)
            fetched += table[hashes[row - first] & mask]
        counts[2] = fetched
        while i < end:
            h = hashes[i - first]
            id_, at = np.int64(-1), h & mask
            entry = table[at]
            while entry != _EMPTY:
                if entry >> _ID_BITS == h and same_row(keys, entry & _ID_MASK, words, i):
                    id_ = entry & _ID_MASK
                    break
                at = (at + 1) & mask
                entry = table[at]
            if id_ < 0:
                if left == 0:
                    full = True
                    break
                left -= 1
                id_ = free[left]
                table[at] = h << _ID_BITS | id_
                for c in range(words.shape[1]):
                    keys[id_, c] = words[i, c]
                fresh[new] = id_
                new += 1
            ids[i] = id_
            i += 1
    counts[0], counts[1], spare[0] = i, new, left


@jit
def _remove(table, keys, free, spare, ids):
    for i in range(ids.shape[0]):
        erase(table, keys, free, spare, ids[i])


class KeyIndex:
    """Distinct keys of `width` words with a dense entry id each, below `capacity`.

    `table` holds (31 bits of hash, 32 bits of id) or -1, at most half full; linear probing. `free` is the
    stack of ids not in use, `spare[0]` its height.
    """

    def __init__(self, width: int, capacity: int = MIN_ENTRIES) -> None:
        self.width = width
        self._allocate(capacity)

    def _allocate(self, capacity: int) -> None:
        self.keys = np.empty((capacity, self.width), np.int64)
        self.table = np.full(2 * capacity, _EMPTY, np.int64)
        self.free = np.arange(capacity - 1, -1, -1, dtype=np.int64)
        self.spare = np.array([capacity], np.int64)

    def __len__(self) -> int:
        return self.capacity - int(self.spare[0])

    @property
    def capacity(self) -> int:
        return len(self.keys)

    @property
    def arrays(self) -> tuple[Int64, Int64, Int64, Int64]:
        """(table, keys, free, spare) as compiled code takes them; other ones after each `grow`."""
        return self.table, self.keys, self.free, self.spare

    def grow(self) -> None:
        """Twice the capacity; ids stay. The owner enlarges its parallel arrays to it (`fit`)."""
        keys, table, free, capacity = self.keys, self.table, self.free[: self.spare[0]], self.capacity
        self._allocate(2 * capacity)
        self.keys[:capacity] = keys
        self.free[capacity : capacity + len(free)] = free
        self.spare[0] = capacity + len(free)
        _refill(table, self.table, np.empty(0, np.int64))

    def wants_compaction(self) -> bool:
        """Whether fewer than an eighth of the entries are live (more, and a breathing size would thrash)."""
        return self.capacity > MIN_ENTRIES and 8 * len(self) < self.capacity

    def compact(self) -> Int64:
        """Shrink to the live keys. Entry j was `result[j]` before; the owner reorders its arrays alike."""
        live = self.live_ids()
        keys, table, old_capacity = self.keys, self.table, self.capacity
        capacity = MIN_ENTRIES
        while capacity < 2 * len(live):
            capacity *= 2
        self._allocate(capacity)
        self.keys[: len(live)] = keys[live]
        self.spare[0] = capacity - len(live)
        new_id = np.empty(old_capacity, np.int64)
        new_id[live] = np.arange(len(live))
        _refill(table, self.table, new_id)
        return live

    def lookup(self, words: Int64) -> Int64:
        """The entry id of each row; -1 where the key is not there."""
        ids = np.empty(len(words), np.int64)
        _lookup(self.table, self.keys, words, ids)
        return ids

    def upsert(self, words: Int64) -> tuple[Int64, Int64]:
        """(entry id of each row, the ids that are new). May grow; the owner fills its arrays at new ids."""
        ids, fresh = np.empty(len(words), np.int64), np.empty(len(words), np.int64)
        counts = np.zeros(3, np.int64)
        _upsert(*self.arrays, words, ids, fresh, counts)
        while counts[0] < len(words):
            self.grow()
            _upsert(*self.arrays, words, ids, fresh, counts)
        return ids, fresh[: counts[1]]

    def remove(self, ids: Int64) -> None:
        """Forget these entries: live, each named once."""
        _remove(*self.arrays, ids)

    def live_ids(self) -> Int64:
        """All entry ids in use, ascending."""
        dead = np.zeros(self.capacity, np.bool_)
        dead[self.free[: self.spare[0]]] = True
        return np.flatnonzero(~dead)

    def memory_bytes(self) -> int:
        return self.keys.nbytes + self.table.nbytes + self.free.nbytes


def fit(array: npt.NDArray[_T], capacity: int) -> npt.NDArray[_T]:
    """The array with at least `capacity` rows: itself, or a copy with zeros behind."""
    if len(array) >= capacity:
        return array
    grown = np.zeros((capacity, *array.shape[1:]), array.dtype)
    grown[: len(array)] = array
    return grown
