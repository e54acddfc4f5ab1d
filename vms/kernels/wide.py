"""128-bit integers as (high, low) pairs of 64-bit words: exact decimals (design 3.4 and section 5).

A number is high * 2**64 + unsigned(low), two's complement, the layout of `Column.high` and `Column.codes`.
Functions take and give pairs of int64 arrays; an operand of length 1 is a constant for all rows. Beside its
result an operation gives a mask of the rows whose result does not fit 128 bits (None: all fit); the words of
those rows mean nothing. What numpy does in a few passes is written in numpy: less to compile.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from vms.kernels.hashing import jit
from vms.model.changes import Bool, Int64

Wide = tuple[Int64, Int64]

_MASK = (1 << 64) - 1
_SIGN = 1 << 63
_LOW32 = np.uint64(0xFFFF_FFFF)
_B32 = np.uint64(32)


def from_ints(numbers: Iterable[int]) -> Wide:
    """Python integers (each within 128 bits) as words."""
    numbers = list(numbers)
    low = [((n & _MASK) ^ _SIGN) - _SIGN for n in numbers]
    return np.array([n >> 64 for n in numbers], np.int64), np.array(low, np.int64)


def to_ints(a: Wide) -> list[int]:
    """The words as Python integers."""
    return [h * (1 << 64) + (low & _MASK) for h, low in zip(a[0].tolist(), a[1].tolist())]


def extend(codes: Int64) -> Wide:
    """64-bit numbers as 128-bit ones."""
    return codes >> 63, codes


def fits_narrow(a: Wide) -> bool:
    """Whether every number fits 64 bits, so that the high words carry nothing."""
    return bool((a[0] == a[1] >> 63).all())


def add(a: Wide, b: Wide) -> tuple[Wide, Bool | None]:
    """a + b."""
    low = a[1] + b[1]
    carry = low.view(np.uint64) < a[1].view(np.uint64)
    high = a[0] + b[0] + carry
    return (high, low), _any((a[0] ^ high) & (b[0] ^ high) < 0)


def subtract(a: Wide, b: Wide) -> tuple[Wide, Bool | None]:
    """a - b."""
    low = a[1] - b[1]
    borrow = a[1].view(np.uint64) < b[1].view(np.uint64)
    high = a[0] - b[0] - borrow
    return (high, low), _any((a[0] ^ b[0]) & (a[0] ^ high) < 0)


def multiply(a: Wide, b: Wide) -> tuple[Wide, Bool | None]:
    """a * b."""
    rows = np.broadcast_shapes(a[0].shape, b[0].shape)[0]
    high, low, failed = np.empty(rows, np.int64), np.empty(rows, np.int64), np.zeros(rows, np.bool_)
    _multiply(*_contiguous(a), *_contiguous(b), high, low, failed)
    return (high, low), _any(failed)


def scale_up(a: Wide, digits: int) -> tuple[Wide, Bool | None]:
    """a * 10**digits (up to 38)."""
    return multiply(a, from_ints([10**digits]))


def scale_down(a: Wide, digits: int, *, truncate: bool = False) -> Wide:
    """a / 10**digits, rounded half away from zero, or with `truncate` towards zero."""
    high, low = np.empty(len(a[0]), np.int64), np.empty(len(a[0]), np.int64)
    _divide(*_contiguous(a), digits, truncate, high, low)
    return high, low


def divide(a: Wide, b: Wide) -> tuple[Wide, Wide]:
    """Quotient, cut towards zero, and remainder, with the sign of a. Where b is 0 both are 0.

    The quotient of -2**127 and -1 wraps around.
    """
    rows = np.broadcast_shapes(a[0].shape, b[0].shape)[0]
    q_high, q_low, r_high, r_low = (np.empty(rows, np.int64) for _ in range(4))
    _divide_wide(*_contiguous(a), *_contiguous(b), q_high, q_low, r_high, r_low)
    return (q_high, q_low), (r_high, r_low)


def compare(a: Wide, b: Wide) -> Int64:
    """Numbers below, equal to or above zero, as a is below, equal to or above b."""
    low = (a[1].view(np.uint64) > b[1].view(np.uint64)).astype(np.int64) - (a[1].view(np.uint64) < b[1].view(np.uint64))
    high = (a[0] > b[0]).astype(np.int64) - (a[0] < b[0])
    return 2 * high + low


def beyond(a: Wide, precision: int) -> Bool:
    """Where a has more than `precision` decimal digits."""
    limit = 10**precision
    return (compare(a, from_ints([limit])) >= 0) | (compare(a, from_ints([-limit])) <= 0)


def to_double(a: Wide) -> np.ndarray:
    """The nearest doubles."""
    out = np.empty(len(a[0]), np.float64)
    _to_double(*_contiguous(a), out)
    return out


def from_double(x: np.ndarray) -> tuple[Wide, Bool]:
    """Integral doubles as 128-bit numbers, and where they are none (too large, infinite or NaN)."""
    failed = ~(np.abs(x) < 2.0**127)
    size = np.where(failed, 0.0, np.abs(x))
    high = np.floor(size / 2.0**64)
    words = high.astype(np.int64), (size - high * 2.0**64).astype(np.uint64).view(np.int64)
    minus, _ = subtract(from_ints([0]), words)
    return (np.where(x < 0, minus[0], words[0]), np.where(x < 0, minus[1], words[1])), failed


def _any(mask: Bool) -> Bool | None:
    return mask if mask.any() else None


def _contiguous(a: Wide) -> Wide:
    return np.ascontiguousarray(a[0]), np.ascontiguousarray(a[1])


@jit
def _magnitude(high, low):
    """The absolute value as two unsigned words."""
    h, low_word = np.uint64(high), np.uint64(low)
    if high < 0:
        low_word = ~low_word + np.uint64(1)
        h = ~h
        if low_word == np.uint64(0):
            h += np.uint64(1)
    return h, low_word


@jit
def _signed(h, low, negative):
    if negative:
        low = ~low + np.uint64(1)
        h = ~h
        if low == np.uint64(0):
            h += np.uint64(1)
    return np.int64(h), np.int64(low)


@jit
def product64(a, b):
    """The 128-bit product of two unsigned words."""
    a0, a1, b0, b1 = a & _LOW32, a >> _B32, b & _LOW32, b >> _B32
    p00, p01, p10, p11 = a0 * b0, a0 * b1, a1 * b0, a1 * b1
    middle = (p00 >> _B32) + (p01 & _LOW32) + (p10 & _LOW32)
    return p11 + (p01 >> _B32) + (p10 >> _B32) + (middle >> _B32), (p00 & _LOW32) | (middle << _B32)


@jit
def _multiply(a_high, a_low, b_high, b_low, high, low, failed):
    a_step, b_step = int(a_high.shape[0] > 1), int(b_high.shape[0] > 1)
    zero = np.uint64(0)
    for i in range(high.shape[0]):
        ah, bh = a_high[i * a_step], b_high[i * b_step]
        negative = (ah < 0) != (bh < 0)
        xh, xl = _magnitude(ah, a_low[i * a_step])
        yh, yl = _magnitude(bh, b_low[i * b_step])
        h, low_word = product64(xl, yl)
        over = xh != zero and yh != zero
        c1, p1 = product64(xh, yl)
        c2, p2 = product64(xl, yh)
        over = over or c1 != zero or c2 != zero
        cross = p1 + p2
        total = h + cross
        over = over or cross < p1 or total < h
        if total >> np.uint64(63) != zero:
            over = over or not (negative and total == np.uint64(1 << 63) and low_word == zero)
        failed[i] = over
        high[i], low[i] = _signed(total, low_word, negative)


@jit
def _divide_small(h, low, divisor):
    """An unsigned 128-bit number divided by a divisor below 2**32: quotient words and remainder."""
    q3 = (h >> _B32) // divisor
    rest = (h >> _B32) - q3 * divisor
    part = (rest << _B32) | (h & _LOW32)
    q2 = part // divisor
    part = ((part - q2 * divisor) << _B32) | (low >> _B32)
    q1 = part // divisor
    part = ((part - q1 * divisor) << _B32) | (low & _LOW32)
    q0 = part // divisor
    return (q3 << _B32) | q2, (q1 << _B32) | q0, part - q0 * divisor


@jit
def _divide(a_high, a_low, digits, truncate, high, low):
    """Floor divisions compose, and only the first dropped digit decides a rounding half away from zero."""
    for i in range(high.shape[0]):
        h, low_word = _magnitude(a_high[i], a_low[i])
        left = digits if truncate else digits - 1
        while left > 0:
            step = min(left, 9)
            divisor = np.uint64(1)
            for _ in range(step):
                divisor *= np.uint64(10)
            h, low_word, _rest = _divide_small(h, low_word, divisor)
            left -= step
        if not truncate and digits > 0:
            h, low_word, rest = _divide_small(h, low_word, np.uint64(10))
            if rest >= np.uint64(5):
                low_word += np.uint64(1)
                if low_word == np.uint64(0):
                    h += np.uint64(1)
        high[i], low[i] = _signed(h, low_word, a_high[i] < 0)


@jit
def _divide_any(h, low, dh, dl):
    """Unsigned 128-bit division; words of quotient and remainder."""
    zero, one, top = np.uint64(0), np.uint64(1), np.uint64(63)
    if h < dh or (h == dh and low < dl):
        return zero, zero, h, low
    if h == zero:
        return zero, low // dl, zero, low % dl
    if dh == zero and dl <= _LOW32:
        q_high, q_low, rest = _divide_small(h, low, dl)
        return q_high, q_low, zero, rest
    shift = 0
    while dh >> top == zero and (dh < h or (dh == h and dl < low)):
        dh = (dh << one) | (dl >> top)
        dl <<= one
        shift += 1
    q_high, q_low = zero, zero
    for _ in range(shift + 1):
        q_high = (q_high << one) | (q_low >> top)
        q_low <<= one
        if h > dh or (h == dh and low >= dl):
            h -= dh + (one if low < dl else zero)
            low -= dl
            q_low |= one
        dl = (dl >> one) | (dh << top)
        dh >>= one
    return q_high, q_low, h, low


@jit
def _divide_wide(a_high, a_low, b_high, b_low, q_high, q_low, r_high, r_low):
    a_step, b_step = int(a_high.shape[0] > 1), int(b_high.shape[0] > 1)
    for i in range(q_high.shape[0]):
        ah, bh = a_high[i * a_step], b_high[i * b_step]
        xh, xl = _magnitude(ah, a_low[i * a_step])
        yh, yl = _magnitude(bh, b_low[i * b_step])
        if yh == np.uint64(0) and yl == np.uint64(0):
            q_high[i] = q_low[i] = r_high[i] = r_low[i] = 0
            continue
        qh, ql, rh, rl = _divide_any(xh, xl, yh, yl)
        q_high[i], q_low[i] = _signed(qh, ql, (ah < 0) != (bh < 0))
        r_high[i], r_low[i] = _signed(rh, rl, ah < 0)


@jit
def _to_double(a_high, a_low, out):
    """Rounded once: the top 64 bits with a sticky last bit round as the whole number does."""
    for i in range(out.shape[0]):
        h, low = _magnitude(a_high[i], a_low[i])
        scale = 1.0
        while h != np.uint64(0):
            sticky = low & np.uint64(1)
            low = (low >> np.uint64(1)) | ((h & np.uint64(1)) << np.uint64(63)) | sticky
            h >>= np.uint64(1)
            scale *= 2.0
        x = np.float64(low) * scale
        out[i] = -x if a_high[i] < 0 else x
