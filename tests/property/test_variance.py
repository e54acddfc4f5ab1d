"""Variances from exact sums against Python's fractions: to the last digit, whatever came and went."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels.exact_float import ExactSums
from vms.kernels.variance import ExactSquares, square_high, square_low, variance, variance_of_doubles
from vms.model.arrow import double_bits

WHOLE = st.one_of(st.integers(-(2**63), 2**63 - 1), st.integers(-10, 10), st.sampled_from([-(2**63), 2**63 - 1, 2**32]))
DOUBLES = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.1, -0.0, 1e200, 5e-324, 1e-160])
)
FEW = st.lists(WHOLE, min_size=1, max_size=8)


def fraction(numbers: list[Fraction], sample: bool) -> float:
    n = len(numbers)
    if n <= sample:
        return 0.0
    try:
        return float((n * sum(x * x for x in numbers) - sum(numbers) ** 2) / (n * (n - sample)))
    except OverflowError:
        return math.inf


def words(number: int) -> list[list[int]]:
    """A number of 128 bits as columns of low and high words."""
    low = number % (1 << 64)
    return [[low - (1 << 64) if low >> 63 else low], [number >> 64]]


@settings(deadline=None)
@given(FEW)
def test_two_words_are_the_square(numbers):
    codes = np.array(numbers, np.int64)
    found = [int(low) + (int(high) << 64) for low, high in zip(square_low(codes), square_high(codes))]
    assert found == [x * x for x in numbers]


@settings(deadline=None)
@given(FEW, st.sampled_from([0, 2, 9, 18]), st.integers(1, 2**40), st.booleans())
def test_variances_of_whole_numbers_and_decimals_are_rounded_once(numbers, scale, times, sample):
    """`times` copies of the first number stand for large groups."""
    n, copies = len(numbers) + times, [*numbers, *[numbers[0]] * min(times, 2)]
    codes = np.array(numbers, np.int64)
    lows = sum(square_low(codes).tolist()) + times * int(square_low(codes[:1])[0])
    highs = sum(square_high(codes).tolist()) + times * int(square_high(codes[:1])[0])
    total = sum(numbers) + times * numbers[0]
    squares = np.array([words(lows), words(highs)])
    found = variance(np.array([n]), np.array(words(total)), squares, scale, sample).view(np.float64)[0]
    square_sum = sum(x * x for x in numbers) + times * numbers[0] ** 2
    assert found == float(Fraction(n * square_sum - total**2, n * (n - sample) * 10 ** (2 * scale)))
    if times <= 2:
        assert found == fraction([Fraction(x, 10**scale) for x in copies], sample)


@settings(deadline=None)
@given(
    st.lists(DOUBLES, min_size=1, max_size=6), st.lists(DOUBLES, max_size=3), st.permutations(range(6)), st.booleans()
)
def test_variances_of_doubles_are_those_of_the_values_in_any_order(kept, gone, order, sample):
    sums, squares = ExactSums(), ExactSquares()
    kept = [kept[i] for i in order if i < len(kept)]
    bits = double_bits(np.array([*gone, *kept, *gone]))
    weights = np.array([3] * len(gone) + [1] * len(kept) + [-3] * len(gone))
    group = np.zeros(len(bits), np.int64)
    for exact in (sums, squares):
        exact.fit(1)
        exact.add(group, bits, weights)
    found = variance_of_doubles(np.array([len(kept)]), sums.words(group[:1]), squares.words(group[:1]), sample)
    expected = fraction([Fraction(x) for x in kept], sample)
    # below the normal doubles the last digit may be rounded twice
    assert (
        abs(found.view(np.float64)[0] - expected) <= 5e-324
        if expected < 3e-308
        else found.view(np.float64)[0] == expected
    )


def test_infinities_and_nan_have_no_variance_until_they_are_gone():
    sums, squares = ExactSums(), ExactSquares()
    group = np.zeros(3, np.int64)
    bits = double_bits(np.array([1.0, 3.0, math.inf]))
    for exact in (sums, squares):
        exact.fit(1)
        exact.add(group, bits, np.ones(3, np.int64))
    one = np.zeros(1, np.int64)
    assert math.isnan(
        variance_of_doubles(np.array([3]), sums.words(one), squares.words(one), False).view(np.float64)[0]
    )
    for exact in (sums, squares):
        exact.add(one, bits[2:], np.array([-1]))
    assert variance_of_doubles(np.array([2]), sums.words(one), squares.words(one), True).view(np.float64)[0] == 2.0
