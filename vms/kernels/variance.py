"""Variances from exact sums: (n * sum of squares - square of the sum) / (n * (n or n - 1)), rounded once.

Numbers with a 64-bit code bring their square as two words: square = high * 2**64 + low, both signed. Doubles bring
theirs exactly, as a fixed-point number that covers the square of every double.
"""

from __future__ import annotations

import numpy as np

from vms.kernels.digits import add_digits, add_product, normalise, quotient, subtract
from vms.kernels.exact_float import LIMBS, MINUS, NAN, PLUS, FixedPoint, split_double
from vms.kernels.hashing import jit
from vms.kernels.keys import kernel_array, row_jit
from vms.kernels.wide import product64
from vms.model.changes import Int64

#: 4196 bits hold the square of the largest and of the smallest double, the rest is room for 2**62 of them.
SQUARE_LIMBS = 136
#: What the lowest digit of sums and of squares weighs, as a power of two.
_SUM_EXPONENT = -1074
#: Squares of numbers up to this have no high word.
_NARROW = 3_037_000_499
_CHUNK = 9


def square_low(codes: Int64) -> Int64:
    """The low word of each square."""
    return codes * codes


def square_high(codes: Int64) -> Int64:
    """The high word of each square."""
    out = np.zeros(len(codes), np.int64)
    if len(codes) and (codes.max() > _NARROW or codes.min() < -_NARROW):
        _square_high(kernel_array(codes), out)
    return out


class ExactSquares(FixedPoint):
    """The exact sum of the squares of doubles, one for each group id. Infinities and NaN are left aside."""

    def __init__(self) -> None:
        super().__init__(SQUARE_LIMBS, SQUARE_LIMBS)

    def add(self, groups: Int64, bits: Int64, weights: Int64) -> None:
        """Add weights[i] times the square of the double with these bits to groups[i]."""
        _add_squares(self._sums, groups, kernel_array(bits), kernel_array(weights))


def variance(counts: Int64, sums: Int64, squares: Int64, scale: int, sample: bool) -> Int64:
    """Bits of the variance of `counts` numbers of this scale; 0 where there are too few of them.

    `sums`: (2, rows), the low and the high words. `squares`: (1 or 2, 2, rows), of the low words of the squares, then
    of the high ones.
    """
    out = np.empty(len(counts), np.float64)
    tens = [10**_CHUNK] * (2 * scale // _CHUNK) + [10 ** (2 * scale % _CHUNK)]
    arrays = (kernel_array(counts), kernel_array(sums), kernel_array(squares))
    _variance(*arrays, np.array(tens, np.int64), int(sample), out)
    return out.view(np.int64)


def variance_of_doubles(counts: Int64, sums: Int64, squares: Int64, sample: bool) -> Int64:
    """The same from rows of `ExactSums.words` and `ExactSquares.words`; NaN where a value is not finite."""
    out = np.empty(len(counts), np.float64)
    _variance_of_doubles(kernel_array(counts), sums, squares, int(sample), out)
    return out.view(np.int64)


@jit
def _square_high(codes, out):
    for i in range(codes.shape[0]):
        x = codes[i]
        magnitude = np.uint64(x) if x >= 0 else ~np.uint64(x) + np.uint64(1)
        high, low = product64(magnitude, magnitude)
        out[i] = np.int64(high) + np.int64(np.int64(low) < 0)


@jit
def _add_squares(sums, groups, bits, weights):
    pieces = np.empty(5, np.int64)
    for i in range(groups.shape[0]):
        finite, exponent, mantissa = split_double(bits[i])
        if not finite:
            continue
        high, low = product64(np.uint64(mantissa), np.uint64(mantissa))
        shift = np.uint64((2 * exponent) & 31)
        carry = np.uint64(0)
        for k in range(5):
            word = low if k < 2 else (high if k < 4 else np.uint64(0))
            digit = (word >> np.uint64(32 * (k & 1))) & np.uint64(0xFFFF_FFFF)
            moved = (digit << shift) | carry
            pieces[k] = np.int64(moved & np.uint64(0xFFFF_FFFF))
            carry = moved >> np.uint64(32)
        w = weights[i]
        while w != 0:
            part = min(max(w, np.int64(-(1 << 28))), np.int64(1 << 28))
            add_digits(sums, groups[i], SQUARE_LIMBS, (2 * exponent) >> 5, pieces, part)
            w -= part


@row_jit
def _to_digits(words, row, limbs, digits):
    """digits = the magnitude of the number in the words of a row."""
    normalise(words, row, limbs)
    if words[row, limbs - 1] < 0:
        for k in range(limbs):
            words[row, k] = -words[row, k]
        normalise(words, row, limbs)
    for k in range(limbs):
        digits[k] = np.uint64(words[row, k])


@jit
def _finish(count, total, squares, room, exponent, divisors):
    """The variance from the magnitudes of the sum and of the sum of squares."""
    factor = np.empty(2, np.uint64)
    factor[0] = np.uint64(count) & np.uint64(0xFFFF_FFFF)
    factor[1] = np.uint64(count) >> np.uint64(32)
    larger, smaller = np.zeros(room, np.uint64), np.zeros(room, np.uint64)
    add_product(factor, squares, larger)
    add_product(total, total, smaller)
    subtract(larger, smaller)
    return quotient(larger, exponent, divisors)


@jit
def _variance(counts, sums, squares, tens, sample, out):
    words = np.empty((2, 8), np.int64)
    total, square = np.empty(8, np.uint64), np.empty(8, np.uint64)
    divisors = np.empty(2 + tens.shape[0], np.int64)
    divisors[2:] = tens
    for i in range(counts.shape[0]):
        out[i] = 0.0
        if counts[i] <= sample:
            continue
        words[:] = 0
        for k in range(2):
            words[0, 2 * k] = sums[k, i] & 0xFFFF_FFFF
            words[0, 2 * k + 1] = (sums[k, i] >> 32) & 0xFFFF_FFFF if k == 0 else sums[k, i] >> 32
        for part in range(squares.shape[0]):
            first = 2 * part
            words[1, first] += squares[part, 0, i] & 0xFFFF_FFFF
            words[1, first + 1] += (squares[part, 0, i] >> 32) & 0xFFFF_FFFF
            words[1, first + 2] += squares[part, 1, i] & 0xFFFF_FFFF
            words[1, first + 3] += squares[part, 1, i] >> 32
        _to_digits(words, 0, 8, total)
        _to_digits(words, 1, 8, square)
        divisors[0], divisors[1] = counts[i], counts[i] - sample
        out[i] = _finish(counts[i], total, square, 20, 0, divisors)


@jit
def _variance_of_doubles(counts, sums, squares, sample, out):
    words, square_words = np.empty((1, LIMBS), np.int64), np.empty((1, SQUARE_LIMBS), np.int64)
    total, square = np.empty(LIMBS, np.uint64), np.empty(SQUARE_LIMBS, np.uint64)
    divisors = np.empty(2, np.int64)
    for i in range(counts.shape[0]):
        out[i] = 0.0
        if counts[i] <= sample:
            continue
        if sums[i, PLUS] != 0 or sums[i, MINUS] != 0 or sums[i, NAN] != 0:
            out[i] = np.nan
            continue
        words[0] = sums[i, :LIMBS]
        square_words[0] = squares[i]
        _to_digits(words, 0, LIMBS, total)
        _to_digits(square_words, 0, SQUARE_LIMBS, square)
        divisors[0], divisors[1] = counts[i], counts[i] - sample
        out[i] = _finish(counts[i], total, square, SQUARE_LIMBS + 4, 2 * _SUM_EXPONENT, divisors)
