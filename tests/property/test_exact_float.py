"""Exact sums of doubles against Python's fractions: any order, any pieces, deletes, NaN and infinities."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.exact_float import ExactSums
from vms.model.arrow import double_bits

NUMBERS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from([0.0, -0.0, 0.1, -0.1, 1e308, -1e308, 1.7976931348623157e308, 5e-324, -5e-324, 2.0**52, 1e16]),
)
SPECIAL = st.one_of(NUMBERS, st.sampled_from([math.inf, -math.inf, math.nan]))
WEIGHTS = st.one_of(st.sampled_from([1, -1, 3]), st.integers(-(1 << 40), 1 << 40))


def total(rows: list[tuple[float, int]]) -> float:
    """The sum of number times weight, rounded once, ties to even; beyond the largest double: infinity."""
    special = {x: sum(w for y, w in rows if repr(y) == repr(x)) for x in (math.inf, -math.inf, math.nan)}
    present = [x for x, weight in special.items() if weight]
    if present:
        return present[0] if len(present) == 1 else math.nan
    exact = sum((Fraction(x) * w for x, w in rows if math.isfinite(x)), Fraction(0))
    try:
        return exact.numerator / exact.denominator
    except OverflowError:
        return math.inf if exact > 0 else -math.inf


def sums_of(batches: list[list[tuple[float, int]]], group: int = 0) -> ExactSums:
    sums = ExactSums()
    sums.fit(group + 1)
    for rows in batches:
        numbers, weights = [x for x, _ in rows], [w for _, w in rows]
        bits = double_bits(np.array(numbers, np.float64))
        sums.add(np.full(len(rows), group, np.int64), bits, np.array(weights, np.int64))
    return sums


def read(sums: ExactSums, group: int = 0) -> float:
    return sums.rounded(np.array([group], np.int64)).view(np.float64).tolist()[0]


@settings(deadline=None, max_examples=300)
@given(st.lists(st.tuples(SPECIAL, WEIGHTS), max_size=12))
def test_rounded_once(rows):
    assert repr(read(sums_of([rows]))) == repr(total(rows) + 0.0)


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(SPECIAL, WEIGHTS), max_size=10), st.data())
def test_order_and_pieces_do_not_matter(rows, data):
    shuffled = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    one, two = sums_of([rows]), sums_of([shuffled[:cut], shuffled[cut:]])
    group = np.zeros(1, np.int64)
    np.testing.assert_array_equal(one.words(group), two.words(group))


@settings(deadline=None, max_examples=150)
@given(st.lists(st.tuples(SPECIAL, WEIGHTS), max_size=8), st.lists(st.tuples(SPECIAL, WEIGHTS), max_size=8))
def test_what_is_taken_back_leaves_no_trace(kept, gone):
    sums = sums_of([kept, gone, [(x, -w) for x, w in gone]])
    group = np.zeros(1, np.int64)
    np.testing.assert_array_equal(sums.words(group), sums_of([kept]).words(group))


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(SPECIAL, WEIGHTS), max_size=8), st.lists(st.tuples(SPECIAL, WEIGHTS), max_size=8))
def test_words_move_to_other_groups_and_go_on(first, second):
    source, target = sums_of([first], group=2), ExactSums()
    target.fit(4)
    target.put(np.array([3]), source.words(np.array([2])))
    numbers, weights = [x for x, _ in second], [w for _, w in second]
    bits = double_bits(np.array(numbers, np.float64))
    target.add(np.full(len(second), 3, np.int64), bits, np.array(weights, np.int64))
    assert repr(read(target, 3)) == repr(total(first + second) + 0.0)
    assert read(target, 0) == 0.0
    target.renumber(np.array([3, 0]), 2)
    assert repr(read(target, 0)) == repr(total(first + second) + 0.0)


def test_many_large_additions_do_not_run_over():
    """A digit takes many full additions before it is carried over."""
    n = 200_000
    sums = ExactSums()
    sums.fit(1)
    largest = np.full(n, np.nextafter(np.inf, 0.0)).view(np.int64)
    for _ in range(2):
        sums.add(np.zeros(n, np.int64), largest, np.full(n, 1 << 28, np.int64))
    sums.add(np.zeros(2 * n, np.int64), np.concatenate([largest, largest]), np.full(2 * n, -(1 << 28), np.int64))
    assert not sums.words(np.zeros(1, np.int64)).any()
