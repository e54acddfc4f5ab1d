"""Window functions over rows in order: partitions, peers, frames, and what is computed over them.

Everything here works on rows that are already in order of partition and sort columns; a row is its position. The
frames of a partition never move backwards from one row to the next, so sums and extremes are made in one pass.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from vms.kernels import wide
from vms.kernels.hashing import jit
from vms.kernels.keys import kernel_array
from vms.model.changes import Bool, Column, Int64

_NO_ROW = np.int64(-1)


class Runs(NamedTuple):
    """For each row where the run of rows begins that it is in, and where it ends (excluded)."""

    first: Int64
    end: Int64


class Frames(NamedTuple):
    """For each row the rows that it sees: from `first` to `end` (excluded)."""

    first: Int64
    end: Int64


def runs(starts: Bool) -> Runs:
    """The runs that begin where the flag is set (and at the first row)."""
    first = np.flatnonzero(starts)
    lengths = np.diff(np.append(first, len(starts)))
    return Runs(np.repeat(first, lengths), np.repeat(first + lengths, lengths))


def row_frames(partitions: Runs, start: int | None, end: int | None) -> Frames:
    """Frames that count rows."""
    at = np.arange(len(partitions.first))
    first = partitions.first if start is None else np.clip(at + start, partitions.first, partitions.end)
    last = partitions.end if end is None else np.clip(at + end + 1, partitions.first, partitions.end)
    return Frames(first, np.maximum(first, last))


def range_frames(
    partitions: Runs, peers: Runs, start: int | None, end: int | None, key: tuple[Int64, Bool] | None
) -> Frames:
    """Frames by distance of the sort column: `key` has its values, rising, and whether they are not NULL."""
    first = partitions.first if start is None else peers.first
    last = partitions.end if end is None else peers.end
    if key is not None:
        values, valid = kernel_array(key[0]), np.ascontiguousarray(key[1])
        if start:
            first = _reach(*partitions, values, valid, start, False, peers.first)
        if end:
            last = _reach(*partitions, values, valid, end, True, peers.end)
    return Frames(first, np.maximum(first, last))


@jit
def _reach(partition_first, partition_end, values, valid, distance, behind, otherwise):
    """The first row of the partition whose value is at (or with `behind`: beyond) this distance from each row's."""
    found = otherwise.copy()
    n, at = values.shape[0], 0
    for i in range(n):
        at = max(at, partition_first[i])
        if not valid[i]:
            continue
        bound = values[i] + distance
        above, below = distance > 0 and bound < values[i], distance < 0 and bound > values[i]  # left the 64 bits
        while at < partition_end[i]:
            if valid[at]:
                passed = above or (not below and (values[at] < bound or (behind and values[at] == bound)))
            else:
                passed = at < i  # NULLs that come first
            if not passed:
                break
            at += 1
        found[i] = at
    return found


def count(valid: Bool, frames: Frames) -> Int64:
    """How many rows of each frame have a value."""
    before = np.zeros(len(valid) + 1, np.int64)
    np.cumsum(valid, out=before[1:])
    return before[frames.end] - before[frames.first]


def total(column: Column, frames: Frames) -> tuple[Int64, Int64]:
    """The sum of each frame as 128-bit words (low, high); the code of a NULL is 0."""
    low = np.zeros(len(column) + 1, np.int64)
    high = np.zeros(len(column) + 1, np.int64)
    _prefix(kernel_array(column.codes), kernel_array(column.high_words()), low, high)
    until, before = (high[frames.end], low[frames.end]), (high[frames.first], low[frames.first])
    (sum_high, sum_low), _ = wide.subtract(until, before)
    return sum_low, sum_high


@jit
def _prefix(low, high, out_low, out_high):
    for i in range(low.shape[0]):
        out_low[i + 1] = out_low[i] + low[i]
        carry = np.uint64(out_low[i + 1]) < np.uint64(low[i])
        out_high[i + 1] = out_high[i] + high[i] + (1 if carry else 0)


def extreme(rank: Int64, valid: Bool, frames: Frames, *, largest: bool) -> Int64:
    """The row of the smallest or largest value of each frame; -1 where it has none. `rank` orders the values."""
    found = np.empty(len(rank), np.int64)
    _extreme(~rank if largest else kernel_array(rank), np.ascontiguousarray(valid), *frames, found)
    return found


@jit
def _extreme(rank, valid, first, end, found):
    """`queue[head:tail]`: rows that can still be the smallest of a frame, in order, with rising ranks."""
    queue = np.empty(rank.shape[0], np.int64)
    head, tail, at = 0, 0, 0
    for i in range(rank.shape[0]):
        at = max(at, first[i])
        while at < end[i]:
            if valid[at]:
                while tail > head and rank[queue[tail - 1]] >= rank[at]:
                    tail -= 1
                queue[tail] = at
                tail += 1
            at += 1
        while head < tail and queue[head] < first[i]:
            head += 1
        found[i] = queue[head] if head < tail and queue[head] < end[i] else _NO_ROW


def nth(frames: Frames, n: int) -> Int64:
    """The n-th row of each frame, from 1, or from its end, from -1; -1 where there is none."""
    rows = frames.first + n - 1 if n > 0 else frames.end + n
    return np.where((rows >= frames.first) & (rows < frames.end) & (n != 0), rows, _NO_ROW)


def shifted(partitions: Runs, by: int) -> Int64:
    """The row at this distance in the same partition; -1 where there is none."""
    rows = np.arange(len(partitions.first)) + by
    return np.where((rows >= partitions.first) & (rows < partitions.end), rows, _NO_ROW)


def picked(column: Column, rows: Int64, default: Column | None = None) -> Column:
    """The values at these rows; where there is none (-1) the one value of `default`, or NULL."""
    there = rows >= 0
    source = column if len(column) else Column(np.zeros(1, np.int64))
    found = source.take(np.where(there, rows, 0))
    if there.all():
        return found
    other = Column(np.zeros(1, np.int64), np.zeros(1, np.bool_)) if default is None else default
    valid = np.where(there, found.valid_mask(), other.valid_mask()[0])
    high = None
    if found.high is not None or other.high is not None:
        high = np.where(there, found.high_words(), other.high_words()[0])
        high = np.where(valid, high, 0)
    codes = np.where(valid, np.where(there, found.codes, other.codes[0]), 0)
    return Column(codes, None if valid.all() else valid, high)


def numbers(partitions: Runs) -> Int64:
    """ROW_NUMBER."""
    return np.arange(len(partitions.first)) - partitions.first + 1


def ranks(partitions: Runs, peers: Runs) -> Int64:
    """RANK."""
    return peers.first - partitions.first + 1


def dense_ranks(partitions: Runs, peers: Runs) -> Int64:
    """DENSE_RANK."""
    started = np.cumsum(peers.first == np.arange(len(peers.first)))
    return started - started[partitions.first] + 1


def tiles(partitions: Runs, n: int) -> Int64:
    """NTILE: n tiles whose sizes differ by one at most, the larger ones first."""
    size = partitions.end - partitions.first
    at = np.arange(len(size)) - partitions.first
    small, larger = size // n, size % n
    in_larger = larger * (small + 1)
    behind = larger + (at - in_larger) // np.maximum(small, 1)
    return np.where(at < in_larger, at // (small + 1), behind) + 1
