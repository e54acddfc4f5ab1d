"""Exact sums of doubles: independent of order, and exact under deletes (design 3.4).

A sum is one long fixed-point number that covers every double: `LIMBS` digits of 32 bits, each in an int64
word, digit i weighing 2**(32 i - 1074) (vms/kernels/digits.py). Infinities and NaN are counted beside, so that they
too can be taken back. Rounding happens once, when the sum is read.
"""

from __future__ import annotations

import numpy as np

from vms.kernels.digits import MASK32, add_digits, normalise
from vms.kernels.hashing import jit
from vms.kernels.keys import fit, kernel_array, row_jit
from vms.model.changes import Int64

#: 2098 bits hold the largest and the smallest double at once, the rest is room for 2**62 of them and a sign.
LIMBS = 68
#: Words behind the digits: how many +infinity, -infinity and NaN there are.
PLUS, MINUS, NAN = LIMBS, LIMBS + 1, LIMBS + 2
WORDS = LIMBS + 3

_FRACTION = np.int64((1 << 52) - 1)
_INFINITY = np.int64(0x7FF0_0000_0000_0000)
_QUIET_NAN = np.int64(0x7FF8_0000_0000_0000)
#: Where the mantissa of the largest double begins.
_MAX_LOW_BIT = 2045
_MAX_WEIGHT = np.int64(1 << 28)


class FixedPoint:
    """One long fixed-point number for each group id: `digits` words of 32 bits, then words that count."""

    def __init__(self, digits: int, words: int) -> None:
        self.width = words
        self._digits = digits
        self._sums = np.zeros((0, words), np.int64)

    def fit(self, capacity: int) -> None:
        """Make room for group ids below `capacity`; new ones hold an empty sum."""
        self._sums = fit(self._sums, capacity)

    def words(self, groups: Int64) -> Int64:
        """The sums as words (one row of `width` each): equal sums, equal words."""
        words = self._sums[groups]
        _normalise_all(words, self._digits)
        return words

    def put(self, groups: Int64, words: Int64) -> None:
        """Set sums from their words."""
        self._sums[groups] = words

    def clear(self, groups: Int64) -> None:
        """Make these sums empty."""
        self._sums[groups] = 0

    def renumber(self, before: Int64, capacity: int) -> None:
        """Group before[j] is now called j."""
        self._sums = fit(self._sums[before], capacity)

    def memory_bytes(self) -> int:
        return self._sums.nbytes


class ExactSums(FixedPoint):
    """One exact sum of doubles for each group id."""

    def __init__(self) -> None:
        super().__init__(LIMBS, WORDS)

    def add(self, groups: Int64, bits: Int64, weights: Int64) -> None:
        """Add weights[i] times the double with these bits to groups[i]."""
        _add(self._sums, groups, kernel_array(bits), kernel_array(weights))

    def rounded(self, groups: Int64) -> Int64:
        """Bits of the double nearest to each sum (ties to even). NaN once a NaN or both infinities are in."""
        out = np.empty(len(groups), np.int64)
        _round(self._sums, groups, out)
        return out


def frame_sums(bits: Int64, first: Int64, end: Int64) -> Int64:
    """Bits of the rounded sums of the doubles at first[i] to end[i]; neither bound ever falls.

    What leaves a frame is taken back exactly, so no error travels from one frame to the next.
    """
    out = np.empty(len(first), np.int64)
    _frame_sums(kernel_array(bits), kernel_array(first), kernel_array(end), out)
    return out


@jit
def _normalise_all(sums, limbs):
    for g in range(sums.shape[0]):
        normalise(sums, g, limbs)


@row_jit
def split_double(bits):
    """Whether the double is finite, and the place of its lowest bit and its mantissa, in units of 2**-1074."""
    magnitude = bits & ~(np.int64(1) << 63)
    exponent, mantissa = magnitude >> 52, magnitude & _FRACTION
    if exponent > 0:
        mantissa |= _FRACTION + 1
        exponent -= 1
    return magnitude < _INFINITY, exponent, mantissa


@jit
def _add(sums, groups, bits, weights):
    pieces = np.empty(3, np.int64)
    for i in range(groups.shape[0]):
        g, w = groups[i], weights[i]
        finite, exponent, mantissa = split_double(bits[i])
        if not finite:
            infinite = mantissa == _FRACTION + 1
            word = NAN if not infinite else (PLUS if bits[i] > 0 else MINUS)
            sums[g, word] += w
            continue
        shift = exponent & 31
        bottom, top = (mantissa & MASK32) << shift, (mantissa >> 32) << shift
        pieces[0] = bottom & MASK32
        pieces[1] = (bottom >> 32) + (top & MASK32)
        pieces[2] = top >> 32
        if bits[i] < 0:
            w = -w
        while abs(w) > _MAX_WEIGHT:
            part = _MAX_WEIGHT if w > 0 else -_MAX_WEIGHT
            add_digits(sums, g, LIMBS, exponent >> 5, pieces, part)
            w -= part
        add_digits(sums, g, LIMBS, exponent >> 5, pieces, w)


@row_jit
def _bit_length(x):
    n = 0
    while x != 0:
        x >>= 1
        n += 1
    return n


@jit
def _round(sums, groups, out):
    digits = np.empty((1, WORDS), np.int64)
    for i in range(groups.shape[0]):
        g = groups[i]
        if sums[g, NAN] != 0 or (sums[g, PLUS] != 0 and sums[g, MINUS] != 0):
            out[i] = _QUIET_NAN
            continue
        if sums[g, PLUS] != 0 or sums[g, MINUS] != 0:
            out[i] = _INFINITY if sums[g, PLUS] != 0 else _INFINITY | (np.int64(1) << 63)
            continue
        for k in range(LIMBS):
            digits[0, k] = sums[g, k]
        normalise(digits, 0, LIMBS)
        negative = digits[0, LIMBS - 1] < 0
        if negative:
            for k in range(LIMBS):
                digits[0, k] = -digits[0, k]
            normalise(digits, 0, LIMBS)
        top = LIMBS - 1
        while top > 0 and digits[0, top] == 0:
            top -= 1
        high_bit = 32 * top + _bit_length(digits[0, top]) - 1
        if high_bit < 53:
            out[i] = digits[0, 0] | digits[0, 1] << 32
        else:
            low_bit = high_bit - 52
            mantissa = np.int64(0)
            for k in range(low_bit >> 5, top + 1):
                place = 32 * k - low_bit
                mantissa += digits[0, k] << place if place >= 0 else digits[0, k] >> -place
            half = (digits[0, (low_bit - 1) >> 5] >> ((low_bit - 1) & 31)) & 1
            if half:
                rest = (digits[0, (low_bit - 1) >> 5] & ((np.int64(1) << ((low_bit - 1) & 31)) - 1)) != 0
                for k in range((low_bit - 1) >> 5):
                    rest = rest or digits[0, k] != 0
                mantissa += 1 if rest else mantissa & 1
            out[i] = _INFINITY if low_bit > _MAX_LOW_BIT else (np.int64(low_bit) << 52) + mantissa
        if negative:
            out[i] |= np.int64(1) << 63


@jit
def _frame_sums(bits, first, end, out):
    n = bits.shape[0]
    sums, group = np.zeros((1, WORDS), np.int64), np.zeros(max(n, 1), np.int64)
    plus, minus = np.ones(max(n, 1), np.int64), np.full(max(n, 1), -1, np.int64)
    low, high = np.int64(0), np.int64(0)
    for i in range(n):
        if i > 0 and low == first[i] and high == end[i]:
            out[i] = out[i - 1]
            continue
        if first[i] >= high:
            sums[:] = 0
            low = high = first[i]
        _add(sums, group[: first[i] - low], bits[low : first[i]], minus[: first[i] - low])
        _add(sums, group[: end[i] - high], bits[high : end[i]], plus[: end[i] - high])
        low, high = first[i], end[i]
        _round(sums, group[:1], out[i : i + 1])
