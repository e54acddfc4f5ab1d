"""HashAggregate: exact 128-bit sums for each group, and what each held before a batch (design section 5).

An accumulator is the sum of weight times contribution, modulo 2**128. So a group's accumulators depend on its
multiset alone, whatever the order of inserts and deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import KeyIndex, fit, kernel_array, row_jit
from vms.kernels.wide import product64
from vms.model.changes import Bool, Column, Int64

LOW, HIGH = 0, 1


class Touched(NamedTuple):
    """What a batch did: the group of each row, each touched group once, and its accumulators before.

    `old` has the shape (accumulators, 2, groups): old[j, LOW] and old[j, HIGH] are contiguous columns.
    """

    of_row: Int64
    ids: Int64
    old: Int64


class GroupTable:
    """Groups with `accumulators` sums each. Group ids stay the same until `compact`."""

    def __init__(self, key_width: int, accumulators: int) -> None:
        self.index = KeyIndex(key_width)
        self._sums = np.zeros((self.index.capacity, accumulators, 2), np.int64)
        self._mark: Bool = np.zeros(self.index.capacity, np.bool_)

    def __len__(self) -> int:
        return len(self.index)

    def enter(self, words: Int64) -> Int64:
        """The group of each key; new groups hold zeros."""
        ids, fresh = self.index.upsert(words)
        self._sums = fit(self._sums, self.index.capacity)
        self._mark = fit(self._mark, self.index.capacity)
        self._sums[fresh] = 0
        return ids

    def add(self, words: Int64, weights: Int64, low: Int64, high: Int64 | None) -> Touched:
        """Add weights[i] * contribution [:, i] to the group of words[i], a new one where there is none.

        `low` and `high` have the shape (accumulators, rows); without `high` the contributions fit 64 bits.
        Groups whose sums become zero stay until they are removed.
        """
        rows, accumulators = len(words), len(low)
        ids = self.enter(words)
        touched = np.empty(min(rows, len(self)), np.int64)
        old = np.empty((accumulators, 2, len(touched)), np.int64)
        weights = kernel_array(weights)
        narrow = high is None and _magnitude(low) * _magnitude(weights) < 1 << 63
        high = np.empty((0, 0), np.int64) if high is None else high
        count = _add(ids, weights, low, high, narrow, self._sums, self._mark, touched, old)
        return Touched(ids, touched[:count], old if count == len(touched) else old[:, :, :count].copy())

    def sums(self, ids: Int64) -> Int64:
        """The accumulators of these groups, in the shape of `Touched.old`."""
        return np.ascontiguousarray(self._sums[ids].transpose(1, 2, 0))

    def put(self, ids: Int64, sums: Int64) -> None:
        """Set the accumulators of these groups (shape of `Touched.old`)."""
        self._sums[ids] = sums.transpose(2, 0, 1)

    def remove(self, ids: Int64) -> None:
        """Forget these groups, each named once."""
        self.index.remove(ids)

    def compact(self) -> Int64:
        """Shrink to the groups that live; group j was `result[j]` before."""
        before = self.index.compact()
        self._sums = fit(self._sums[before], self.index.capacity)
        self._mark = np.zeros(self.index.capacity, np.bool_)
        return before

    def memory_bytes(self) -> int:
        return self.index.memory_bytes() + self._sums.nbytes + self._mark.nbytes


def stack(columns: Sequence[Column]) -> tuple[Int64, Int64 | None]:
    """The columns as contributions for `GroupTable.add`; NULL counts as 0."""
    low = np.stack([c.codes for c in columns])
    if all(c.high is None for c in columns):
        return low, None
    return low, np.stack([c.high_words() for c in columns])


def wide_column(low: Int64, high: Int64, valid: Bool | None = None) -> Column:
    """A column of 128-bit numbers; the high words are left out where no value needs them."""
    return Column(low, valid, high if (high != low >> 63).any() else None)


def average(low: Int64, high: Int64, counts: Int64, factor: int) -> tuple[Int64, Int64]:
    """sum * factor / count as 128-bit words, cut towards zero as DataFusion's AVG of decimals does.

    `factor` is below 2**62. The quotient is exact also where the product needs more than 128 bits; a quotient
    that does not fit is given modulo 2**128. Rows with count 0 give 0.
    """
    out = np.empty((2, len(low)), np.int64)
    _average(kernel_array(low), kernel_array(high), kernel_array(counts), factor, out)
    return out[LOW], out[HIGH]


def average_double(low: Int64, high: Int64, counts: Int64) -> Int64:
    """sum / count as the bits of the nearest double, rounded once (counts below 2**53). Count 0 gives 0."""
    out = np.empty(len(low), np.float64)
    _average_double(kernel_array(low), kernel_array(high), kernel_array(counts), out)
    return out.view(np.int64)


def _magnitude(values: Int64) -> int:
    return max(int(values.max()), -int(values.min())) if values.size else 0


@jit
def _add(ids, weights, low, high, narrow, sums, mark, touched, old):
    count = 0
    extended = high.shape[0] == 0
    for i in range(ids.shape[0]):
        g = ids[i]
        if not mark[g]:
            mark[g] = True
            touched[count] = g
            for j in range(sums.shape[1]):
                old[j, 0, count] = sums[g, j, 0]
                old[j, 1, count] = sums[g, j, 1]
            count += 1
        w = weights[i]
        if narrow:
            for j in range(sums.shape[1]):
                part = low[j, i] * w
                total = sums[g, j, 0] + part
                sums[g, j, 1] += (part >> 63) + (np.uint64(total) < np.uint64(part))
                sums[g, j, 0] = total
        else:
            for j in range(sums.shape[1]):
                x = low[j, i]
                x_high = x >> 63 if extended else high[j, i]
                part_high, part = product64(np.uint64(x), np.uint64(w))
                total = np.uint64(sums[g, j, 0]) + part
                sums[g, j, 1] += np.int64(part_high) + x_high * w + x * (w >> 63) + (total < part)
                sums[g, j, 0] = np.int64(total)
    for t in range(count):
        mark[touched[t]] = False
    return count


@row_jit
def _quotient(limbs, divisor):
    """Divide three words (unsigned, the lowest first) by a positive divisor in place; returns the remainder.

    Long division by as many bits at once as the remainder leaves room for.
    """
    bits = 32 if divisor < 1 << 31 else (16 if divisor < 1 << 47 else 1)
    step = np.uint64(bits)
    digit = (np.uint64(1) << step) - np.uint64(1)
    d = np.uint64(divisor)
    rest = np.uint64(0)
    for word in range(2, -1, -1):
        result = np.uint64(0)
        for shift in range(64 - bits, -1, -bits):
            rest = (rest << step) | ((limbs[word] >> np.uint64(shift)) & digit)
            q = rest // d
            rest -= q * d
            result = (result << step) | q
        limbs[word] = result
    return rest


@row_jit
def _load_magnitude(low, high, limbs):
    """limbs[0:2] = |value|; returns whether the value is negative."""
    limbs[0], limbs[1] = np.uint64(low), np.uint64(high)
    if high < 0:
        limbs[0] = ~limbs[0] + np.uint64(1)
        limbs[1] = ~limbs[1] + np.uint64(limbs[0] == np.uint64(0))
    return high < 0


@jit
def _average(low, high, counts, factor, out):
    limbs = np.empty(3, np.uint64)
    f = np.uint64(factor)
    for i in range(low.shape[0]):
        out[0, i], out[1, i] = 0, 0
        if counts[i] <= 0:
            continue
        negative = _load_magnitude(low[i], high[i], limbs)
        carry, bottom = product64(limbs[0], f)
        top, middle = product64(limbs[1], f)
        middle += carry
        limbs[0], limbs[1], limbs[2] = bottom, middle, top + np.uint64(middle < carry)
        _quotient(limbs, counts[i])
        if negative:
            limbs[0] = ~limbs[0] + np.uint64(1)
            limbs[1] = ~limbs[1] + np.uint64(limbs[0] == np.uint64(0))
        out[0, i], out[1, i] = np.int64(limbs[0]), np.int64(limbs[1])


@jit
def _average_double(low, high, counts, out):
    """Small sums divide as doubles, rounded once; for others 64 more bits and a sticky last bit suffice."""
    limbs = np.empty(3, np.uint64)
    for i in range(low.shape[0]):
        out[i] = 0.0
        if counts[i] <= 0:
            continue
        if high[i] == low[i] >> 63 and abs(low[i]) < 1 << 53 and counts[i] < 1 << 53:
            out[i] = np.float64(low[i]) / np.float64(counts[i])
            continue
        limbs[2] = np.uint64(0)
        negative = _load_magnitude(low[i], high[i], limbs[1:])
        limbs[0] = np.uint64(0)
        sticky = _quotient(limbs, counts[i]) != np.uint64(0)
        scale = 2.0**-64
        while limbs[2] != np.uint64(0) or limbs[1] != np.uint64(0):
            sticky = sticky or limbs[0] & np.uint64(1) != np.uint64(0)
            limbs[0] = (limbs[0] >> np.uint64(1)) | (limbs[1] << np.uint64(63))
            limbs[1] = (limbs[1] >> np.uint64(1)) | (limbs[2] << np.uint64(63))
            limbs[2] >>= np.uint64(1)
            scale *= 2.0
        x = np.float64(limbs[0] | np.uint64(sticky)) * scale
        out[i] = -x if negative else x
