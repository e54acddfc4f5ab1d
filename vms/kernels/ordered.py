"""OrderedGroups: the values of each group as an ordered multiset (thesis 4.4: disaggregated for min and max).

All groups share one `KeyIndex` over (group, value); its entries are also the nodes of one treap per group: a
search tree by value that is a heap by the hash of the key. So every insert, delete and extreme costs
O(log of the distinct values) in any order of changes, nothing is rescanned when an extreme leaves, and the
shape of a tree depends on its values alone.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import KeyIndex, erase, fit, hash_row, kernel_array, row_jit
from vms.model.changes import Bool, Column, Int64
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType

_TOP_LABEL = 1 << 62
_NONE = np.int64(-1)
_OUTSIDE = np.int64(-2)


class TextOrder:
    """A number for each text such that numbers compare as the texts do: how compiled code orders text.

    A new text gets a number between its neighbours; where there is no room, all are numbered anew, which
    keeps their order. A text is named by its code and must stay in the pool while it is here.
    """

    def __init__(self, pool: TextPool) -> None:
        self._pool = pool
        #: By code; 0 where the text has no number.
        self.labels = np.zeros(1, np.int64)
        #: The codes that have a number, in order of their text.
        self.codes = np.empty(0, np.int64)
        #: How often all were numbered anew.
        self.version = 0

    def add(self, codes: Int64) -> None:
        """Give each of these texts (at least one) a number."""
        codes = np.unique(codes)
        if codes[-1] >= len(self.labels):
            self.labels = fit(self.labels, 2 * int(codes[-1]))
        new = codes[self.labels[codes] == 0]
        if not len(new):
            return
        by_text = sorted((self._pool.text(c), c) for c in new.tolist())
        new = np.array([c for _, c in by_text], np.int64)
        at = np.array([bisect_left(self.codes, t, key=self._pool.text) for t, _ in by_text], np.int64)
        bounds = np.concatenate([[0], self.labels[self.codes], [_TOP_LABEL]])
        first = np.searchsorted(at, at, side="left")
        size = np.searchsorted(at, at, side="right") - first
        step = (bounds[at + 1] - bounds[at]) // (size + 1)
        self.codes = np.insert(self.codes, at, new)
        if step.all():
            self.labels[new] = bounds[at] + step * (np.arange(len(new)) - first + 1)
        else:
            self.version += 1
            places = np.arange(1, len(self.codes) + 1)
            self.labels[self.codes] = places * (_TOP_LABEL // (len(self.codes) + 1))

    def keep(self, codes: Int64) -> None:
        """Forget all texts but these."""
        kept = np.isin(self.codes, codes)
        self.labels[self.codes[~kept]] = 0
        self.codes = self.codes[kept]
        self.labels = self.labels[: int(self.codes.max(initial=0)) + 1].copy()


#: One bound for each query: low words, high words, and -1 (below all values), 0 (as the words say) or 1 (above all).
Bounds = tuple[Int64, Int64, Int64]


class OrderedGroups:
    """A multiset of values of one type for each group id. Counts are never negative after a batch."""

    def __init__(self, type_: SqlType, pool: TextPool) -> None:
        self._type = type_
        self._text = TextOrder(pool) if type_.kind is Kind.VARCHAR else None
        self._roots = np.empty(0, np.int64)
        self._reset()

    def _reset(self) -> None:
        self._index = KeyIndex(3 if self._type.wide else 2)
        self._counts = np.zeros(self._index.capacity, np.int64)
        self._children = np.full((self._index.capacity, 2), _OUTSIDE, np.int64)

    @property
    def _labels(self) -> Int64:
        return np.empty(0, np.int64) if self._text is None else self._text.labels

    def add(self, groups: Int64, values: Column, weights: Int64) -> None:
        """Add weights[i] occurrences of values[i] to groups[i]; a NULL is no value."""
        if values.valid is not None:
            groups, weights, values = groups[values.valid], weights[values.valid], values.take(values.valid)
        if not len(groups):
            return
        if self._text is not None:
            self._text.add(values.codes)
        self._insert(groups, values, weights)
        self._shrink()

    def extremes(self, groups: Int64, *, largest: bool) -> Column:
        """The smallest or largest value of each group; NULL for a group without values."""
        self._fit_roots(groups)
        nodes = np.empty(len(groups), np.int64)
        _extremes(self._children, self._roots, groups, int(largest), nodes)
        present = nodes >= 0
        if present.all():
            return self._values(nodes)
        found = self._values(nodes[present])
        codes = np.zeros(len(groups), np.int64)
        codes[present] = found.codes
        high = None
        if found.high is not None:
            high = np.zeros(len(groups), np.int64)
            high[present] = found.high
        return Column(codes, present, high)

    def between(self, groups: Int64, low: Bounds, high: Bounds, *, after: bool) -> tuple[Int64, Column, int]:
        """The values of groups[i] from low[i] up to high[i]: their positions i, the values, how many were looked at.

        `after`: without low[i] and with high[i]; else the other way round. Not for text.
        """
        self._fit_roots(groups)
        a, b = (tuple(kernel_array(words) for words in bounds) for bounds in (low, high))
        at, nodes, visited = _between(self._index.keys, self._children, self._roots, groups, a, b, after)
        return at, self._values(nodes), visited

    def bounds(self, values: Column, infinite: Int64) -> Bounds:
        """The values as bounds; those that are not valid are below (-1) or above (1) all values, as `infinite` says."""
        codes = flip(values.codes) if self._type.kind is Kind.DOUBLE else values.codes
        return codes, values.high_words(), np.where(values.valid_mask(), 0, infinite)

    def entries(self) -> tuple[Int64, Column, Int64]:
        """(group, value, count) of everything here; the values of a group stand together."""
        nodes = self._index.live_ids()
        nodes = nodes[np.argsort(self._index.keys[nodes, 0], kind="stable")]
        return self._index.keys[nodes, 0], self._values(nodes), self._counts[nodes]

    def remove(self, groups: Bool) -> None:
        """Forget the groups whose flag is set."""
        nodes = self._index.live_ids()
        self._index.remove(nodes[groups[self._index.keys[nodes, 0]]])
        self._roots[np.flatnonzero(groups[: len(self._roots)])] = _NONE
        self._shrink()

    def renumber(self, before: Int64) -> None:
        """Group before[j] is now called j; groups that are not named have no values."""
        groups, values, counts = self.entries()
        after = np.empty(int(before.max(initial=-1)) + 1, np.int64)
        after[before] = np.arange(len(before))
        self._rebuild(after[groups], values, counts, len(before))

    def text_codes(self) -> Int64:
        """The text codes that must stay in the pool."""
        return np.empty(0, np.int64) if self._text is None else self._text.codes

    def memory_bytes(self) -> int:
        arrays = (self._counts, self._children, self._roots, self._labels, self.text_codes())
        return self._index.memory_bytes() + sum(a.nbytes for a in arrays)

    def _insert(self, groups: Int64, values: Column, weights: Int64) -> None:
        self._fit_roots(groups)
        words = np.empty((len(groups), self._index.width), np.int64)
        words[:, 0] = groups
        words[:, 1] = flip(values.codes) if self._type.kind is Kind.DOUBLE else values.codes
        if self._type.wide:
            words[:, 2] = values.high_words()
        nodes, fresh = self._index.upsert(words)
        self._counts = fit(self._counts, self._index.capacity)
        self._children = fit(self._children, self._index.capacity)
        self._counts[fresh] = 0
        self._children[fresh] = _OUTSIDE
        counts, children, labels = self._counts, self._children, self._labels
        _count(counts, nodes, kernel_array(weights))
        _settle(*self._index.arrays, counts, children, self._roots, labels, np.unique(nodes))

    def _values(self, nodes: Int64) -> Column:
        codes = self._index.keys[nodes, 1]
        if self._type.kind is Kind.DOUBLE:
            return Column(flip(codes))
        if self._type.wide:
            high = self._index.keys[nodes, 2]
            return Column(codes, None, high if (high != codes >> 63).any() else None)
        return Column(codes)

    def _fit_roots(self, groups: Int64) -> None:
        needed = int(groups.max(initial=-1)) + 1
        if needed > len(self._roots):
            roots = np.full(2 * needed, _NONE, np.int64)
            roots[: len(self._roots)] = self._roots
            self._roots = roots

    def _shrink(self) -> None:
        if self._index.wants_compaction():
            self._rebuild(*self.entries(), len(self._roots))
        if self._text is not None and len(self._text.codes) > 2 * len(self._index) + 64:
            self._text.keep(self._index.keys[self._index.live_ids(), 1])

    def _rebuild(self, groups: Int64, values: Column, counts: Int64, group_count: int) -> None:
        self._reset()
        self._roots = np.full(group_count, _NONE, np.int64)
        self._insert(groups, values, counts)


def flip(codes: Int64) -> Int64:
    """Bits of doubles to integers of the same order (NaN greatest), and back."""
    return codes ^ ((codes >> 63) & np.int64(0x7FFF_FFFF_FFFF_FFFF))


@row_jit
def _less(keys, labels, a, b):
    """Whether node a stands before node b of the same group."""
    if keys.shape[1] == 3 and keys[a, 2] != keys[b, 2]:
        return keys[a, 2] < keys[b, 2]
    if keys.shape[1] == 3:
        return np.uint64(keys[a, 1]) < np.uint64(keys[b, 1])
    if labels.shape[0]:
        return labels[keys[a, 1]] < labels[keys[b, 1]]
    return keys[a, 1] < keys[b, 1]


@row_jit
def _attach(children, roots, group, parent, side, node):
    if parent < 0:
        roots[group] = node
    else:
        children[parent, side] = node


@jit
def _link(keys, labels, children, roots, node):
    """Insert a node: go down to where the heap wants it, split what is there into its two subtrees."""
    group, priority = keys[node, 0], hash_row(keys, node)
    parent, side, at = _NONE, 0, roots[group]
    while at >= 0 and hash_row(keys, at) >= priority:
        parent, side = at, 0 if _less(keys, labels, node, at) else 1
        at = children[at, side]
    _attach(children, roots, group, parent, side, node)
    children[node, 0], children[node, 1] = _NONE, _NONE
    before, before_side, after, after_side = node, 0, node, 1
    while at >= 0:
        if _less(keys, labels, at, node):
            children[before, before_side] = at
            before, before_side = at, 1
            at = children[at, 1]
        else:
            children[after, after_side] = at
            after, after_side = at, 0
            at = children[at, 0]
    children[before, before_side] = _NONE
    children[after, after_side] = _NONE


@jit
def _unlink(keys, labels, children, roots, node):
    """Take a node out: find its parent, merge its two subtrees in its place."""
    group = keys[node, 0]
    parent, side, at = _NONE, 0, roots[group]
    while at != node:
        parent, side = at, 0 if _less(keys, labels, node, at) else 1
        at = children[at, side]
    a, b = children[node, 0], children[node, 1]
    while a >= 0 and b >= 0:
        if hash_row(keys, a) >= hash_row(keys, b):
            _attach(children, roots, group, parent, side, a)
            parent, side, a = a, 1, children[a, 1]
        else:
            _attach(children, roots, group, parent, side, b)
            parent, side, b = b, 0, children[b, 0]
    _attach(children, roots, group, parent, side, a if a >= 0 else b)
    children[node, 0] = _OUTSIDE


@jit
def _count(counts, nodes, weights):
    for i in range(nodes.shape[0]):
        counts[nodes[i]] += weights[i]


@jit
def _settle(table, keys, free, spare, counts, children, roots, labels, nodes):
    """Make the trees hold the nodes whose count is not zero, and forget the others."""
    for i in range(nodes.shape[0]):
        node = nodes[i]
        inside = children[node, 0] != _OUTSIDE
        if counts[node] != 0:
            if not inside:
                _link(keys, labels, children, roots, node)
        else:
            if inside:
                _unlink(keys, labels, children, roots, node)
            erase(table, keys, free, spare, node)


@jit
def _extremes(children, roots, groups, side, nodes):
    for i in range(groups.shape[0]):
        node, at = _NONE, roots[groups[i]]
        while at >= 0:
            node = at
            at = children[at, side]
        nodes[i] = node


@row_jit
def _compare(keys, node, low, high, infinite):
    """-1, 0 or 1: whether the value of a node stands before a bound, at it, or behind it."""
    if infinite != 0:
        return -infinite
    if keys.shape[1] == 3:
        if keys[node, 2] != high:
            return -1 if keys[node, 2] < high else 1
        a, b = np.uint64(keys[node, 1]), np.uint64(low)
        return -1 if a < b else 1 if a > b else 0
    return -1 if keys[node, 1] < low else 1 if keys[node, 1] > low else 0


@jit
def _between(keys, children, roots, groups, low, high, after):
    """Nodes of each group between two bounds: only these, and those on the way to them, are looked at."""
    at, nodes, stack = np.empty(16, np.int64), np.empty(16, np.int64), np.empty(64, np.int64)
    found, visited = 0, 0
    for i in range(groups.shape[0]):
        stack[0], top = roots[groups[i]], 1
        while top > 0:
            top -= 1
            node = stack[top]
            if node < 0:
                continue
            visited += 1
            from_low = _compare(keys, node, low[0][i], low[1][i], low[2][i])
            to_high = _compare(keys, node, high[0][i], high[1][i], high[2][i])
            behind = from_low > 0 if after else from_low >= 0
            before = to_high <= 0 if after else to_high < 0
            if behind and before:
                if found == nodes.shape[0]:
                    at, nodes = _doubled(at), _doubled(nodes)
                at[found], nodes[found] = i, node
                found += 1
            if top + 2 > stack.shape[0]:
                stack = _doubled(stack)
            if behind:
                stack[top] = children[node, 0]
                top += 1
            if before:
                stack[top] = children[node, 1]
                top += 1
    return at[:found].copy(), nodes[:found].copy(), visited


@jit
def _doubled(array):
    grown = np.empty(2 * array.shape[0], np.int64)
    grown[: array.shape[0]] = array
    return grown
