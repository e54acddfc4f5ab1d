"""128-bit arithmetic against Python's integers."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.kernels import wide

LOW, TOP = -(1 << 127), (1 << 127) - 1
EDGES = sorted(
    {
        s * (b + d)
        for s in (1, -1)
        for d in (-1, 0, 1)
        for b in (0, 1 << 31, 1 << 32, 1 << 53, 1 << 63, 1 << 64, 10**18, 10**19, 10**37, 10**38, 1 << 126)
    }
    | {LOW, LOW + 1, TOP}
)
NUMBERS = st.one_of(
    st.sampled_from(EDGES),
    st.integers(LOW, TOP),
    st.integers(-(1 << 64), 1 << 64),
    st.integers(-(10**9), 10**9),
)
PAIRS = st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=30)
several = settings(deadline=None, max_examples=150)


@pytest.mark.parametrize("name", ["add", "subtract", "multiply"])
@given(pairs=PAIRS, constant=st.booleans())
@several
def test_arithmetic_is_exact_or_marked(name: str, pairs: list[tuple[int, int]], constant: bool) -> None:
    left = [a for a, _ in pairs]
    right = [pairs[0][1]] if constant else [b for _, b in pairs]
    words, failed = getattr(wide, name)(wide.from_ints(left), wide.from_ints(right))
    python = {"add": int.__add__, "subtract": int.__sub__, "multiply": int.__mul__}[name]
    expected = [python(a, b) for a, b in zip(left, right * len(left) if constant else right)]
    over = [not LOW <= e <= TOP for e in expected]
    assert (failed is not None) == any(over)
    assert over == ([False] * len(left) if failed is None else failed.tolist())
    assert [g for g, o in zip(wide.to_ints(words), over) if not o] == [e for e, o in zip(expected, over) if not o]


@given(pairs=PAIRS, constant=st.booleans())
@several
def test_division_cuts_towards_zero(pairs: list[tuple[int, int]], constant: bool) -> None:
    left = [a for a, _ in pairs]
    right = [pairs[0][1]] * len(left) if constant else [b for _, b in pairs]
    words = wide.divide(wide.from_ints(left), wide.from_ints(right[:1] if constant else right))
    quotients, remainders = map(wide.to_ints, words)
    for a, b, q, r in zip(left, right, quotients, remainders):
        if b == 0:
            assert (q, r) == (0, 0)
        elif (a, b) != (LOW, -1):
            exact = abs(a) // abs(b)
            assert q == (-exact if (a < 0) != (b < 0) else exact)
            assert r == a - q * b


@given(numbers=st.lists(NUMBERS, min_size=1, max_size=30), digits=st.integers(0, 38), truncate=st.booleans())
@several
def test_scale_down_rounds_half_away_from_zero(numbers: list[int], digits: int, truncate: bool) -> None:
    got = wide.to_ints(wide.scale_down(wide.from_ints(numbers), digits, truncate=truncate))
    half = 0 if truncate else 10**digits // 2
    magnitudes = [(abs(n) + half) // 10**digits for n in numbers]
    assert got == [-m if n < 0 else m for n, m in zip(numbers, magnitudes)]


@given(numbers=st.lists(NUMBERS, min_size=1, max_size=30), digits=st.integers(0, 38))
@several
def test_scale_up(numbers: list[int], digits: int) -> None:
    words, failed = wide.scale_up(wide.from_ints(numbers), digits)
    for i, (got, n) in enumerate(zip(wide.to_ints(words), numbers)):
        assert (failed is not None and failed[i]) or got == n * 10**digits
        assert (failed is not None and bool(failed[i])) == (not LOW <= n * 10**digits <= TOP)


@given(pairs=PAIRS, precision=st.integers(1, 38))
@several
def test_order_and_digits(pairs: list[tuple[int, int]], precision: int) -> None:
    left, right = [a for a, _ in pairs], [b for _, b in pairs]
    words = wide.from_ints(left)
    assert wide.to_ints(words) == left
    sign = wide.compare(words, wide.from_ints(right))
    assert np.sign(sign).tolist() == [(a > b) - (a < b) for a, b in pairs]
    assert wide.beyond(words, precision).tolist() == [abs(a) >= 10**precision for a in left]
    assert wide.fits_narrow(words) == all(-(1 << 63) <= a < 1 << 63 for a in left)


@given(numbers=st.lists(NUMBERS, min_size=1, max_size=30))
@several
def test_doubles_are_the_nearest(numbers: list[int]) -> None:
    assert wide.to_double(wide.from_ints(numbers)).tolist() == [float(n) for n in numbers]


@given(numbers=st.lists(st.floats(), min_size=1, max_size=30))
@several
def test_doubles_to_words(numbers: list[float]) -> None:
    whole = np.trunc(np.array(numbers))
    words, failed = wide.from_double(whole)
    for x, got, bad in zip(whole.tolist(), wide.to_ints(words), failed.tolist()):
        assert bad == (not abs(x) < 2.0**127)
        assert bad or Fraction(x) == got


@given(numbers=st.lists(st.integers(-(1 << 63), (1 << 63) - 1), min_size=1, max_size=30))
@several
def test_narrow_numbers_extend(numbers: list[int]) -> None:
    assert wide.to_ints(wide.extend(np.array(numbers, np.int64))) == numbers
