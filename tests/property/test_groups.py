"""Sums for each group, and averages of them, against Python's integers."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels import wide
from vms.kernels.groups import HIGH, LOW, GroupTable, average, average_double

MODULUS = 1 << 128
LOW_END, HIGH_END = -(1 << 127), (1 << 127) - 1
NARROW = st.one_of(st.integers(-5, 5), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 62]))
WIDE = st.one_of(NARROW, st.integers(LOW_END, HIGH_END))
WEIGHTS = st.one_of(st.sampled_from([1, -1, 2, 0]), st.sampled_from([(1 << 63) - 1, -(1 << 63), -(1 << 40)]))


def signed(number: int) -> int:
    """The number modulo 2**128, as two's complement."""
    return (number - LOW_END) % MODULUS + LOW_END


def to_ints(words: np.ndarray) -> list[int]:
    return wide.to_ints((words[HIGH], words[LOW]))


@st.composite
def batches(draw):
    """(keys, weights, contributions) of a few batches, each narrow or with high words."""
    found = []
    accumulators = draw(st.integers(1, 3))
    for _ in range(draw(st.integers(1, 5))):
        narrow = draw(st.booleans())
        number = NARROW if narrow else WIDE
        row = st.tuples(st.integers(0, 3), WEIGHTS, st.tuples(*[number] * accumulators))
        found.append((narrow, draw(st.lists(row, max_size=8)), draw(st.booleans())))
    return accumulators, found


@settings(deadline=None, max_examples=200)
@given(batches())
def test_sums_are_exact_modulo_2_128_and_old_sums_are_told(given_batches):
    accumulators, history = given_batches
    table, sums = GroupTable(1, accumulators), defaultdict(lambda: [0] * accumulators)
    for narrow, rows, compact in history:
        keys = [key for key, _, _ in rows]
        parts = [wide.from_ints([c[j] for _, _, c in rows]) for j in range(accumulators)]
        low = np.array([p[1] for p in parts], np.int64).reshape(accumulators, len(rows))
        high = None if narrow else np.array([p[0] for p in parts], np.int64).reshape(accumulators, len(rows))
        weights = np.array([w for _, w, _ in rows], np.int64)
        touched = table.add(np.array(keys, np.int64).reshape(-1, 1), weights, low, high)
        named = [int(table.index.keys[g, 0]) for g in touched.ids]
        assert named == list(dict.fromkeys(keys)), "each touched group once, in the order of the rows"
        assert [int(table.index.keys[g, 0]) for g in touched.of_row] == keys
        for j in range(accumulators):
            assert to_ints(touched.old[j]) == [signed(sums[key][j]) for key in named]
        for key, weight, contribution in rows:
            sums[key] = [s + weight * c for s, c in zip(sums[key], contribution)]
        for j in range(accumulators):
            assert to_ints(table.sums(touched.ids)[j]) == [signed(sums[key][j]) for key in named]
        if compact:
            zero = [g for g in table.index.live_ids() if not any(sums[int(table.index.keys[g, 0])])]
            table.remove(np.array(zero, np.int64))
            table.compact()
    ids = table.index.live_ids()
    found = {int(table.index.keys[g, 0]): [to_ints(s)[n] for s in table.sums(ids)] for n, g in enumerate(ids)}
    assert {k: v for k, v in found.items() if any(v)} == {
        k: [signed(s) for s in v] for k, v in sums.items() if any(map(signed, v))
    }


def test_a_group_that_comes_back_begins_at_zero():
    table = GroupTable(1, 1)
    key, one = np.array([[7]]), np.ones(1, np.int64)
    first = table.add(key, one, np.array([[5]]), None)
    table.remove(first.ids)
    again = table.add(key, one, np.array([[2]]), None)
    assert again.old[:, :, 0].tolist() == [[0, 0]]
    assert to_ints(table.sums(again.ids)[0]) == [2]


SUMS = st.lists(st.tuples(WIDE, st.one_of(st.integers(0, 9), st.integers(1, (1 << 63) - 1))), min_size=1, max_size=20)


@settings(deadline=None, max_examples=200)
@given(SUMS, st.integers(0, 18))
def test_averages_of_decimals_are_cut_towards_zero(rows, digits):
    high, low = wide.from_ints([s for s, _ in rows])
    counts = np.array([c for _, c in rows], np.int64)
    words = average(low, high, counts, 10**digits)
    for got, (total, count) in zip(wide.to_ints((words[1], words[0])), rows):
        quotient = abs(total) * 10**digits // count if count else 0
        assert got == signed(-quotient if total < 0 else quotient)


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(WIDE, st.integers(0, (1 << 53) - 1)), min_size=1, max_size=20))
def test_averages_of_integers_are_rounded_once(rows):
    high, low = wide.from_ints([s for s, _ in rows])
    counts = np.array([c for _, c in rows], np.int64)
    got = average_double(low, high, counts).view(np.float64).tolist()
    assert got == [float(Fraction(total, count)) if count else 0.0 for total, count in rows]
