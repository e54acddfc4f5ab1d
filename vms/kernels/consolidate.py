"""Consolidate: equal rows once, weights summed, zeros dropped (design section 5); rows by their key."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import hash_row, kernel_array, key_words, same_row
from vms.model.changes import Bool, Changes, Int64
from vms.model.types import SqlType


def consolidate(changes: Changes, types: Sequence[SqlType]) -> Changes:
    """The same multiset with every row once and no zero weight. The first of equal rows keeps its place."""
    if len(changes) == 0 or (len(changes) == 1 and changes.weights[0] != 0):
        return changes
    nullable = any(c.valid is not None for c in changes.columns) or not changes.columns
    words = key_words(changes.columns, types, len(changes), nullable=nullable)
    weights = changes.weights.copy()
    table = np.full(2 << (len(changes) - 1).bit_length(), -1, np.int64)
    _merge(words, weights, table)
    kept = np.flatnonzero(weights)
    return changes if len(kept) == len(changes) else Changes(changes.take(kept).columns, weights[kept])


@jit
def _merge(words, weights, table):
    """Add the weight of every row to the first row that is equal to it, and leave 0 behind.

    `table` holds (hash, row) of the first rows. More than half of it stays empty.
    """
    mask = table.shape[0] - 1
    for i in range(words.shape[0]):
        h = hash_row(words, i)
        at = h & mask
        while True:
            entry = table[at]
            if entry < 0:
                table[at] = h << 32 | i
                break
            first = entry & 0xFFFF_FFFF
            if entry >> 32 == h and same_row(words, first, words, i):
                weights[first] += weights[i]
                weights[i] = 0
                break
            at = (at + 1) & mask


def puts_of_keys(words: Int64, weights: Int64) -> tuple[int, Bool]:
    """(the most that one key is added, which rows remove a key that is not added), for a consolidated batch."""
    removed = np.empty(len(words), np.bool_)
    table = np.full(2 << (len(words) - 1).bit_length(), -1, np.int64)
    return _puts_of_keys(words, kernel_array(weights), table, removed), removed


@jit
def _puts_of_keys(words, weights, table, removed):
    mask = table.shape[0] - 1
    most, puts, first = 0, np.zeros(words.shape[0], np.int64), np.empty(words.shape[0], np.int64)
    for i in range(words.shape[0]):
        h = hash_row(words, i)
        at = h & mask
        while table[at] >= 0:
            if table[at] >> 32 == h and same_row(words, table[at] & 0xFFFF_FFFF, words, i):
                break
            at = (at + 1) & mask
        if table[at] < 0:
            table[at] = h << 32 | i
        first[i] = table[at] & 0xFFFF_FFFF
        if weights[i] > 0:
            puts[first[i]] += weights[i]
            most = max(most, puts[first[i]])
    for i in range(words.shape[0]):
        removed[i] = weights[i] < 0 and puts[first[i]] == 0
    return most
