"""What flows between the steps of an expression."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from vms.kernels import wide
from vms.model.arrow import double_bits
from vms.model.changes import Bool, Column, Int64
from vms.model.text import TextPool
from vms.model.types import MAX_NARROW_PRECISION, Kind, SqlType
from vms.plan.expr import Literal

Bounds = tuple[int, int]

INT64: Bounds = (-(1 << 63), (1 << 63) - 1)
INT32: Bounds = (-(1 << 31), (1 << 31) - 1)


@dataclass(slots=True)
class Value:
    """A column under evaluation. Every array has one element a row, or one element for a constant.

    As `Column`, except: `codes` of BOOLEAN are booleans; codes of NULLs are arbitrary (text: not to be looked
    up); `failed` marks the rows for which there is no value because an expression failed (None: no row).
    `bounds`, where known, hold for every code of a narrow value; `tight` tells that they are its extremes.
    """

    codes: npt.NDArray[Any]
    valid: Bool | None = None
    high: Int64 | None = None
    failed: Bool | None = None
    bounds: Bounds | None = None
    tight: bool = False

    @staticmethod
    def reader(type_: SqlType) -> Callable[[Column], Value]:
        """The function that makes values of columns of a type."""
        if type_.kind is Kind.BOOLEAN:
            return lambda column: Value(column.codes != 0, column.valid)
        bounds = type_bounds(type_)
        return lambda c: Value(c.codes, c.valid, c.high, None, bounds if c.high is None else None)

    @staticmethod
    def of_literal(literal: Literal, pool: TextPool) -> Value:
        """A constant. Text is looked up anew for each batch, since a sweep between batches frees codes."""
        value, kind = literal.value, literal.type.kind
        if value is None:
            return Value(np.zeros(1, np.bool_ if kind is Kind.BOOLEAN else np.int64), np.zeros(1, np.bool_))
        match kind:
            case Kind.BOOLEAN:
                return Value(np.array([bool(value)]))
            case Kind.VARCHAR:
                return Value(np.array([pool.code(str(value))], np.int64))
            case Kind.DOUBLE:
                return Value.of_doubles(np.array([float(value)]))
        return Value.of_ints([int(value)])

    @staticmethod
    def of_ints(numbers: list[int]) -> Value:
        """A value from Python integers."""
        return Value.of_wide(wide.from_ints(numbers))

    @staticmethod
    def of_wide(words: wide.Wide, failed: Bool | None = None) -> Value:
        """A value from 128-bit words, narrow where that is possible."""
        return Value(words[1], None, None if wide.fits_narrow(words) else words[0], failed)

    @staticmethod
    def of_doubles(numbers: npt.NDArray[np.float64]) -> Value:
        """A value from doubles, with one code for all that is zero and one for NaN."""
        return Value(double_bits(numbers))

    @property
    def words(self) -> wide.Wide:
        return (self.codes >> 63 if self.high is None else self.high), self.codes

    @property
    def doubles(self) -> np.ndarray:
        return self.codes.view(np.float64)

    def limits(self, exact: bool) -> Bounds:
        """An interval that holds every code: with `exact` the smallest one, else what is known for free."""
        if exact and not self.tight and len(self.codes):
            self.bounds, self.tight = (int(self.codes.min()), int(self.codes.max())), True
        return self.bounds or INT64

    def is_true(self) -> Bool:
        """Where a BOOLEAN is true: neither false nor NULL nor failed."""
        return self._known(self.codes)

    def is_false(self) -> Bool:
        return self._known(~self.codes)

    def _known(self, mask: Bool) -> Bool:
        if self.valid is not None:
            mask = mask & self.valid
        return mask if self.failed is None else mask & ~self.failed

    def with_state_of(self, *args: Value) -> Value:
        """This value, NULL or failed wherever one of `args` is (the rule of all strict functions)."""
        valid, failed = self.valid, self.failed
        for a in args:
            valid, failed = both(valid, a.valid), either(failed, a.failed)
        if valid is self.valid and failed is self.failed:
            return self
        return replace(self, valid=valid, failed=failed)

    def to_column(self, rows: int) -> Column:
        """The column of a batch of `rows` rows; failed rows hold anything."""
        valid = None if self.valid is None or self.valid.all() else _stretch(self.valid, rows)
        codes = _stretch(self.codes.astype(np.int64, copy=False), rows)
        high = None if self.high is None else _stretch(self.high, rows)
        if valid is not None:
            codes = np.where(valid, codes, 0)
            high = None if high is None else np.where(valid, high, 0)
        if high is not None and wide.fits_narrow((high, codes)):
            high = None
        return Column(codes, valid, high)


#: A compiled step: the values of its arguments in, its own out.
Run = Callable[[list[Value]], Value]


def mark(a: Value, failed: Bool) -> Value:
    """The value, failed also where `failed` says so and it is not NULL."""
    if a.valid is not None:
        failed = failed & a.valid
    return replace(a, failed=either(a.failed, failed)) if failed.any() else a


def in_range(a: Value, bounds: Bounds) -> Value:
    """An integer as it is, narrow, failed where it is out of bounds."""
    low, top = bounds
    if a.high is not None:
        high, codes = a.words
        return mark(replace(a, high=None), (high != codes >> 63) | (codes < low) | (codes > top))
    if low <= a.limits(False)[0] and a.limits(False)[1] <= top:
        return a
    return mark(a, (a.codes < low) | (a.codes > top))


def type_bounds(type_: SqlType) -> Bounds | None:
    """What the type alone says about its codes."""
    if type_.kind in (Kind.INTEGER, Kind.DATE):
        return INT32
    if type_.kind is Kind.DECIMAL and type_.precision <= MAX_NARROW_PRECISION:
        return 1 - 10**type_.precision, 10**type_.precision - 1
    return None


def both(a: Bool | None, b: Bool | None) -> Bool | None:
    """a & b, where None is all true (validity)."""
    if a is None or b is None:
        return b if a is None else a
    return a & b


def either(a: Bool | None, b: Bool | None) -> Bool | None:
    """a | b, where None is all false (failures)."""
    if a is None or b is None:
        return b if a is None else a
    return a | b


def choose(mask: Bool, chosen: Value, other: Value) -> Value:
    """Row by row `chosen` where the mask is set, else `other`."""
    high = None
    if chosen.high is not None or other.high is not None:
        high = np.where(mask, chosen.words[0], other.words[0])
    valid = failed = None
    if chosen.valid is not None or other.valid is not None:
        valid = np.where(mask, *(np.True_ if v.valid is None else v.valid for v in (chosen, other)))
    if chosen.failed is not None or other.failed is not None:
        failed = np.where(mask, *(np.False_ if v.failed is None else v.failed for v in (chosen, other)))
    return Value(np.where(mask, chosen.codes, other.codes), valid, high, failed)


def _stretch(array: np.ndarray, rows: int) -> np.ndarray:
    return array if len(array) == rows else np.full(rows, array[0], array.dtype)
