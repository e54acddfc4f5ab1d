"""The ReverseJoinView: rows of both join sides under their join key, reachable from either (thesis 4.4).

One `KeyIndex` holds the join keys. For each key and side there is a doubly linked chain of rows, so that a
row leaves a chain of any length in constant time; a `KeyIndex` for each side finds a row by all its columns.
Rows have weights; a row whose weight comes to zero is gone, and so is a key without rows.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import KeyIndex, erase, fit, kernel_array, row_call
from vms.model.changes import Bool, Int64

LEFT: Final = 0
RIGHT: Final = 1

#: Fields of a row's entry: the neighbours in its chain (-1: none), the weight, and, only in a counted index, the
#: number of rows of the other side that match it.
_NEXT, _PREVIOUS, _WEIGHT, _MATCHES = range(4)
#: A key's entry: first row of each side (-1: none), then the number of rows of each side.
_FIRST, _COUNT = 0, 2


@row_call
def _link(chains, links, side, key, id_):
    first = chains[key, _FIRST + side]
    links[id_, _NEXT] = first
    links[id_, _PREVIOUS] = -1
    if first >= 0:
        links[first, _PREVIOUS] = id_
    chains[key, _FIRST + side] = id_
    chains[key, _COUNT + side] += 1


@row_call
def _unlink(chains, links, side, key, id_):
    following, previous = links[id_, _NEXT], links[id_, _PREVIOUS]
    if following >= 0:
        links[following, _PREVIOUS] = previous
    if previous >= 0:
        links[previous, _NEXT] = following
    else:
        chains[key, _FIRST + side] = following
    chains[key, _COUNT + side] -= 1


@jit
def _add(table, keys, free, spare, links, chains, side, key_ids, ids, fresh, weights):
    """Add weights to rows, link those that are `fresh` under their keys, take out those that come to zero."""
    new = 0
    for i in range(ids.shape[0]):
        id_ = ids[i]
        if new < fresh.shape[0] and id_ == fresh[new]:
            new += 1
            links[id_, _WEIGHT] = 0
            _link(chains, links, side, key_ids[i], id_)
        links[id_, _WEIGHT] += weights[i]
    for i in range(ids.shape[0]):
        id_ = ids[i]
        if links[id_, _WEIGHT] == 0:
            _unlink(chains, links, side, key_ids[i], id_)
            erase(table, keys, free, spare, id_)
            links[id_, _WEIGHT] = 1  # of a free entry: the same row further on is not taken out again


@jit
def _count_matches(chains, side, key_ids):
    total = 0
    for i in range(key_ids.shape[0]):
        total += chains[key_ids[i], _COUNT + side]
    return total


@jit
def _fill_matches(chains, links, side, key_ids, positions, rows):
    m = 0
    for i in range(key_ids.shape[0]):
        id_ = chains[key_ids[i], _FIRST + side]
        while id_ >= 0:
            positions[m] = i
            rows[m] = id_
            m += 1
            id_ = links[id_, _NEXT]


@jit
def _count_matches_of(links, ids, weights):
    for i in range(ids.shape[0]):
        links[ids[i], _MATCHES] += weights[i]


@jit
def tally(at, weights, size):
    """The sum of the weights at each place."""
    totals = np.zeros(size, np.int64)
    for i in range(at.shape[0]):
        totals[at[i]] += weights[i]
    return totals


@jit
def _empty_keys(chains, key_ids):
    """The keys without rows, each once; afterwards their counts are not to be used."""
    found, n = np.empty(key_ids.shape[0], np.int64), 0
    for i in range(key_ids.shape[0]):
        key = key_ids[i]
        if chains[key, _COUNT] == 0 and chains[key, _COUNT + 1] == 0:
            chains[key, _COUNT] = -1
            found[n] = key
            n += 1
    return found[:n]


class JoinIndex:
    """Both sides of a join. `side` is LEFT or RIGHT; rows are words (`key_words`) with a row id per side.

    Row and key ids are valid until the next `release`. The same row always comes with the same key. A `counted`
    index has room for a match count of each row, which is its owner's to keep.
    """

    def __init__(self, key_width: int, row_widths: tuple[int, int], *, counted: bool = False) -> None:
        self._keys = KeyIndex(key_width)
        self._chains = np.empty((self._keys.capacity, 4), np.int64)
        self._rows = [KeyIndex(w) for w in row_widths]
        self._links = [np.zeros((r.capacity, _MATCHES + counted), np.int64) for r in self._rows]

    def enter(self, words: Int64) -> Int64:
        """The ids of these join keys; new ones have no rows yet (`release` them afterwards)."""
        ids, fresh = self._keys.upsert(words)
        self._chains = fit(self._chains, self._keys.capacity)
        self._chains[fresh] = (-1, -1, 0, 0)
        return ids

    def find(self, words: Int64) -> Int64:
        """The ids of join keys that are there."""
        return self._keys.lookup(words)

    def probe(self, side: int, key_ids: Int64) -> tuple[Int64, Int64]:
        """All pairs of a position in `key_ids` and a row of `side` under that key: (positions, row ids)."""
        total = _count_matches(self._chains, side, key_ids)
        positions, rows = np.empty(total, np.int64), np.empty(total, np.int64)
        _fill_matches(self._chains, self._links[side], side, key_ids, positions, rows)
        return positions, rows

    def has_rows(self, side: int, key_ids: Int64) -> Bool:
        """Whether there is a row of `side` under each key."""
        return self._chains[key_ids, _COUNT + side] > 0

    def add(self, side: int, key_ids: Int64, words: Int64, weights: Int64) -> Int64:
        """Add to the weights of rows of one side, each under its key; the row ids.

        The id of a row whose weight came to zero names nothing any more.
        """
        index = self._rows[side]
        ids, fresh = index.upsert(words)
        self._links[side] = fit(self._links[side], index.capacity)
        _add(*index.arrays, self._links[side], self._chains, side, key_ids, ids, fresh, kernel_array(weights))
        return ids

    def set_matches(self, side: int, rows: Int64, matches: Int64) -> None:
        self._links[side][rows, _MATCHES] = matches

    def add_matches(self, side: int, rows: Int64, weights: Int64) -> None:
        """Add to the match counts of rows, which may be named several times."""
        _count_matches_of(self._links[side], rows, kernel_array(weights))

    def matches(self, side: int, rows: Int64) -> Int64:
        return self._links[side][rows, _MATCHES]

    def release(self, key_ids: Int64) -> None:
        """Forget those of these keys that have no rows left, and shrink what has become much too large."""
        self._keys.remove(_empty_keys(self._chains, key_ids))
        for side in (LEFT, RIGHT):
            if self._rows[side].wants_compaction():
                self._compact_rows(side)
        if self._keys.wants_compaction():
            self._compact_keys()

    def row_ids(self, side: int) -> Int64:
        return self._rows[side].live_ids()

    def words(self, side: int, rows: Int64) -> Int64:
        return self._rows[side].keys.take(rows, axis=0)

    def weights(self, side: int, rows: Int64) -> Int64:
        return self._links[side][rows, _WEIGHT]

    def memory_bytes(self) -> int:
        indexes = sum(i.memory_bytes() for i in (self._keys, *self._rows))
        return indexes + self._chains.nbytes + sum(x.nbytes for x in self._links)

    def _compact_rows(self, side: int) -> None:
        index = self._rows[side]
        new_id = np.empty(index.capacity, np.int64)
        order = index.compact()
        new_id[order] = np.arange(len(order))
        links = self._links[side][order]
        for field in (_NEXT, _PREVIOUS):
            inner = links[:, field] >= 0
            links[inner, field] = new_id[links[inner, field]]
        self._links[side] = fit(links, index.capacity)
        live = self._keys.live_ids()
        keys = live[self._chains[live, _COUNT + side] > 0]
        self._chains[keys, _FIRST + side] = new_id[self._chains[keys, _FIRST + side]]

    def _compact_keys(self) -> None:
        order = self._keys.compact()
        self._chains = fit(self._chains[order], self._keys.capacity)
