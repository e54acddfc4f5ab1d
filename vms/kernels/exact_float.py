"""Exact sums of doubles: independent of order, and exact under deletes (design 3.4).

A sum is one long fixed-point number that covers every double: `LIMBS` digits of 32 bits, each in an int64
word, digit i weighing 2**(32 i - 1074). Digits may leave [0, 2**32) while adding; `_normalise` carries them
over. Infinities and NaN are counted beside, so that they too can be taken back. Rounding happens once, when the
sum is read.
"""

from __future__ import annotations

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import fit, kernel_array, row_jit
from vms.model.changes import Int64

#: 2098 bits hold the largest and the smallest double at once, the rest is room for 2**62 of them and a sign.
LIMBS = 68
#: Words behind the digits: how many +infinity, -infinity and NaN there are.
_PLUS, _MINUS, _NAN = LIMBS, LIMBS + 1, LIMBS + 2
WORDS = LIMBS + 3

_MASK32 = np.int64(0xFFFF_FFFF)
_FRACTION = np.int64((1 << 52) - 1)
_INFINITY = np.int64(0x7FF0_0000_0000_0000)
_QUIET_NAN = np.int64(0x7FF8_0000_0000_0000)
#: A digit beyond this is carried over before the next addition; one addition adds less than 2**61.
_FULL = np.int64(1 << 61)
#: Where the mantissa of the largest double begins.
_MAX_LOW_BIT = 2045
_MAX_WEIGHT = np.int64(1 << 28)


class ExactSums:
    """One exact sum of doubles for each group id."""

    def __init__(self) -> None:
        self._sums = np.zeros((0, WORDS), np.int64)

    def fit(self, capacity: int) -> None:
        """Make room for group ids below `capacity`; new ones hold an empty sum."""
        self._sums = fit(self._sums, capacity)

    def add(self, groups: Int64, bits: Int64, weights: Int64) -> None:
        """Add weights[i] times the double with these bits to groups[i]."""
        _add(self._sums, groups, kernel_array(bits), kernel_array(weights))

    def rounded(self, groups: Int64) -> Int64:
        """Bits of the double nearest to each sum (ties to even). NaN once a NaN or both infinities are in."""
        out = np.empty(len(groups), np.int64)
        _round(self._sums, groups, out)
        return out

    def words(self, groups: Int64) -> Int64:
        """The sums as words (one row of `WORDS` each): equal sums, equal words."""
        words = self._sums[groups]
        _normalise_all(words)
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


def frame_sums(bits: Int64, first: Int64, end: Int64) -> Int64:
    """Bits of the rounded sums of the doubles at first[i] to end[i]; neither bound ever falls.

    What leaves a frame is taken back exactly, so no error travels from one frame to the next.
    """
    out = np.empty(len(first), np.int64)
    _frame_sums(kernel_array(bits), kernel_array(first), kernel_array(end), out)
    return out


@jit
def _normalise(sums, g):
    """Carry over: every digit but the last into [0, 2**32); the last keeps the sign."""
    for k in range(LIMBS - 1):
        sums[g, k + 1] += sums[g, k] >> 32
        sums[g, k] &= _MASK32


@jit
def _normalise_all(sums):
    for g in range(sums.shape[0]):
        _normalise(sums, g)


@row_jit
def _add_digits(sums, g, first, pieces, weight):
    full = False
    for k in range(3):
        sums[g, first + k] += pieces[k] * weight
        full = full or abs(sums[g, first + k]) >= _FULL
    if full:
        _normalise(sums, g)


@jit
def _add(sums, groups, bits, weights):
    pieces = np.empty(3, np.int64)
    for i in range(groups.shape[0]):
        g, w = groups[i], weights[i]
        magnitude = bits[i] & ~(np.int64(1) << 63)
        if magnitude >= _INFINITY:
            word = _NAN if magnitude > _INFINITY else (_PLUS if bits[i] > 0 else _MINUS)
            sums[g, word] += w
            continue
        exponent = magnitude >> 52
        mantissa = magnitude & _FRACTION
        if exponent > 0:
            mantissa |= _FRACTION + 1
            exponent -= 1
        shift = exponent & 31
        bottom, top = (mantissa & _MASK32) << shift, (mantissa >> 32) << shift
        pieces[0] = bottom & _MASK32
        pieces[1] = (bottom >> 32) + (top & _MASK32)
        pieces[2] = top >> 32
        if bits[i] < 0:
            w = -w
        while abs(w) > _MAX_WEIGHT:
            part = _MAX_WEIGHT if w > 0 else -_MAX_WEIGHT
            _add_digits(sums, g, exponent >> 5, pieces, part)
            w -= part
        _add_digits(sums, g, exponent >> 5, pieces, w)


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
        if sums[g, _NAN] != 0 or (sums[g, _PLUS] != 0 and sums[g, _MINUS] != 0):
            out[i] = _QUIET_NAN
            continue
        if sums[g, _PLUS] != 0 or sums[g, _MINUS] != 0:
            out[i] = _INFINITY if sums[g, _PLUS] != 0 else _INFINITY | (np.int64(1) << 63)
            continue
        for k in range(LIMBS):
            digits[0, k] = sums[g, k]
        _normalise(digits, 0)
        negative = digits[0, LIMBS - 1] < 0
        if negative:
            for k in range(LIMBS):
                digits[0, k] = -digits[0, k]
            _normalise(digits, 0)
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
