"""Long numbers as digits of 32 bits, lowest first: what exact sums of doubles and variances are computed with.

While adding, digits are int64 words that may leave [0, 2**32); `normalise` carries them over. Products and
quotients are made of uint64 words that hold proper digits.
"""

from __future__ import annotations

import math

import numpy as np

from vms.kernels.hashing import jit
from vms.kernels.keys import row_jit

MASK32 = np.int64(0xFFFF_FFFF)
#: A digit beyond this is carried over before the next addition; one addition adds less than 2**61.
FULL = np.int64(1 << 61)
#: Zeros put below a dividend: after four divisors below 2**62 more than 64 bits of the quotient are left.
_ROOM = 10
_BASE = np.uint64(32)
_DIGIT = np.uint64(0xFFFF_FFFF)


@row_jit
def normalise(sums, g, limbs):
    """Carry over: the first `limbs` words of row g but the last into [0, 2**32); the last one keeps the sign."""
    for k in range(limbs - 1):
        sums[g, k + 1] += sums[g, k] >> 32
        sums[g, k] &= MASK32


@row_jit
def add_digits(sums, g, limbs, first, pieces, weight):
    """Add weight times the pieces to the digits of row g from `first` on."""
    full = False
    for k in range(pieces.shape[0]):
        sums[g, first + k] += pieces[k] * weight
        full = full or abs(sums[g, first + k]) >= FULL
    if full:
        normalise(sums, g, limbs)


@row_jit
def add_product(a, b, out):
    """out += a * b; `out` has room for the sum."""
    top = b.shape[0]
    while top > 0 and b[top - 1] == 0:
        top -= 1
    for i in range(a.shape[0]):
        if a[i] == 0:
            continue
        carry = np.uint64(0)
        for j in range(top):
            part = a[i] * b[j] + out[i + j] + carry
            out[i + j] = part & _DIGIT
            carry = part >> _BASE
        k = i + top
        while carry != np.uint64(0):
            part = out[k] + carry
            out[k] = part & _DIGIT
            carry = part >> _BASE
            k += 1


@row_jit
def subtract(a, b):
    """a -= b, where b is not above a."""
    borrow = np.int64(0)
    for k in range(a.shape[0]):
        part = np.int64(a[k]) - borrow
        if k < b.shape[0]:
            part -= np.int64(b[k])
        borrow = np.int64(part < 0)
        a[k] = np.uint64(part + (borrow << 32))


@row_jit
def _divide(a, divisor):
    """Divide in place by a positive divisor below 2**62; returns whether something is left over."""
    bits = 32 if divisor < 1 << 31 else (16 if divisor < 1 << 47 else 1)
    step = np.uint64(bits)
    mask = (np.uint64(1) << step) - np.uint64(1)
    d, rest = np.uint64(divisor), np.uint64(0)
    for k in range(a.shape[0] - 1, -1, -1):
        result = np.uint64(0)
        for shift in range(32 - bits, -1, -bits):
            rest = (rest << step) | ((a[k] >> np.uint64(shift)) & mask)
            q = rest // d
            rest -= q * d
            result = (result << step) | q
        a[k] = result
    return rest != np.uint64(0)


@jit
def quotient(a, exponent, divisors):
    """The double nearest to a * 2**exponent / (the product of the divisors), rounded once.

    Twice where the result is below the normal doubles. At most four divisors, each positive and below 2**62.
    """
    top = a.shape[0]
    while top > 0 and a[top - 1] == 0:
        top -= 1
    if top == 0:
        return 0.0
    work = np.zeros(top + _ROOM, np.uint64)
    work[_ROOM:] = a[:top]
    sticky = False
    for i in range(divisors.shape[0]):
        if divisors[i] != 1:
            sticky = _divide(work, divisors[i]) or sticky
    top = work.shape[0] - 1
    while work[top] == 0:
        top -= 1
    bits = np.uint64(0)
    while work[top] >> bits != 0:
        bits += np.uint64(1)
    head = (work[top] << _BASE) | work[top - 1]
    # 64 bits from the highest one on; what is below is told by the last of them
    lift = _BASE - bits
    below = work[top - 2]
    head = (head << lift) | ((below << lift) >> _BASE)
    sticky = sticky or ((below << lift) & _DIGIT) != 0
    for k in range(top - 2):
        sticky = sticky or work[k] != 0
    place = 32 * (top - 1 - _ROOM) - np.int64(lift) + exponent
    return math.ldexp(np.float64(head | np.uint64(sticky)), place)
