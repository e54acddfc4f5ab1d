"""Arrow to codes and back, and casts of user data."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Context, Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vms.errors import InvalidValue
from vms.model.arrow import (
    cast_to,
    decimal_ints,
    decimals_of,
    from_changes,
    from_column,
    to_changes,
    to_column,
)
from vms.model.changes import Changes, Column
from vms.model.text import TextPool
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, decimal

EXACT = Context(prec=60)
NARROW, WIDE = decimal(18, 4), decimal(38, 4)
VALUES = {
    BOOLEAN: [True, False, None],
    INTEGER: [-(2**31), 2**31 - 1, None],
    BIGINT: [-(2**63), 2**63 - 1, None],
    DOUBLE: [1.5, -math.inf, None],
    DATE: [dt.date(1, 1, 1), dt.date(9999, 12, 31), None],
    TIMESTAMP: [dt.datetime(1, 1, 1), dt.datetime(2024, 2, 29, 1, 2, 3, 4), None],
    VARCHAR: ["", "a\x00é", None],
    NARROW: [Decimal("-99999999999999.9999"), Decimal("0.0001"), None],
    WIDE: [Decimal("-9999999999999999999999999999999999.9999"), Decimal("0.0001"), None],
}


@pytest.mark.parametrize("type_", VALUES, ids=str)
@pytest.mark.parametrize("rows", [slice(0, 3), slice(1, 3), slice(0, 2), slice(2, 3), slice(0, 0)], ids=str)
def test_columns_read_back(type_, rows):
    """Whole arrays, slices with an offset, no NULL, all NULL, and nothing; in one piece and in chunks."""
    array = pa.array(VALUES[type_] * 3, type_.arrow)[3 + rows.start : 3 + rows.stop]
    pool = TextPool()
    for form in (array, pa.chunked_array([array[:1], array[1:]], type_.arrow), pa.chunked_array([array])):
        column = to_column(type_, form, pool)
        assert (column.valid is None) == (array.null_count == 0)
        assert column.codes.dtype == np.int64 and column.codes.flags.c_contiguous
        assert all(code == 0 for code, ok in zip(column.codes, column.valid_mask()) if not ok)
        back = from_column(type_, column, pool)
        back.validate(full=True)
        assert back.equals(array)


def test_codes_are_the_values():
    pool = TextPool()
    assert to_column(DATE, pa.array([dt.date(1970, 1, 3)]), pool).codes.tolist() == [2]
    assert to_column(BOOLEAN, pa.array([True, False]), pool).codes.tolist() == [1, 0]
    assert to_column(NARROW, pa.array([Decimal("-1.5")], NARROW.arrow), pool).codes.tolist() == [-15000]
    assert to_column(DOUBLE, pa.array([1.0]), pool).codes.tolist() == [0x3FF0 << 48]


def test_doubles_have_one_code_for_each_value():
    odd_nan = np.array([0x7FF8_0000_0000_0001, -1], np.int64).view(np.float64)
    values = pa.array(np.concatenate([[0.0, -0.0, math.nan], odd_nan]))
    codes = to_column(DOUBLE, values, TextPool()).codes.tolist()
    assert codes[0] == codes[1] == 0
    assert len(set(codes[2:])) == 1


def test_high_words_only_where_a_value_needs_them():
    pool = TextPool()
    for value, needs in [(2**63 - 1, False), (-(2**63), False), (2**63, True), (-(2**63) - 1, True)]:
        column = to_column(WIDE, decimals_of(WIDE, [value, None, 5]), pool)
        assert (column.high is not None) == needs
        assert decimal_ints(from_column(WIDE, column, pool)) == [value, None, 5]


@settings(deadline=None, max_examples=100)
@given(st.lists(st.none() | st.integers(-(10**38) + 1, 10**38 - 1), max_size=6), st.integers(0, 2))
def test_wide_decimals_read_back(numbers, offset):
    values = [None if n is None else EXACT.scaleb(Decimal(n), -4) for n in numbers]
    array = pa.array([None] * offset + values, WIDE.arrow)[offset:]
    assert decimal_ints(array) == numbers
    assert decimals_of(WIDE, numbers).equals(array)
    column = to_column(WIDE, array, TextPool())
    assert from_column(WIDE, column, TextPool()).equals(array)
    high = column.high_words().tolist()
    unsigned = column.codes.astype(np.uint64).tolist()
    assert [h * 2**64 + low for h, low in zip(high, unsigned)] == [n or 0 for n in numbers]


def test_garbage_under_a_null_is_blanked():
    data = pa.py_buffer(np.array([7, 8, 9], np.int64))
    mask = pa.py_buffer(bytes([0b101]))
    column = to_column(BIGINT, pa.Array.from_buffers(pa.int64(), 3, [mask, data]), TextPool())
    assert column.codes.tolist() == [7, 0, 9]


def test_other_arrow_types_are_taken_where_nothing_is_lost():
    pool = TextPool()
    for form in (
        pa.large_string(),
        pa.string_view(),
        pa.dictionary(pa.int32(), pa.string()),
        pa.dictionary(pa.int8(), pa.large_string()),
    ):
        column = to_column(VARCHAR, pa.array(["a", None, "a"]).cast(form), pool)
        assert from_column(VARCHAR, column, pool).to_pylist() == ["a", None, "a"]
    assert to_column(BIGINT, pa.array([1], pa.int8()), pool).codes.tolist() == [1]


def test_changes_read_back_in_another_member():
    types = [VARCHAR, WIDE, INTEGER]
    here, there = TextPool(), TextPool()
    there.code("shifts the codes")
    batch = pa.record_batch(
        [
            pa.array(["x", None, "y"]),
            pa.array([Decimal(10) ** 25, None, Decimal(-1)], WIDE.arrow),
            pa.array([1, 2, None], pa.int32()),
            pa.array([1, -1, 3], pa.int64()),
        ],
        names=["c0", "c1", "c2", "_weight"],
    )
    changes = to_changes(types, batch, here)
    assert changes.weights.tolist() == [1, -1, 3]
    sent = from_changes(types, changes, here)
    assert sent.equals(batch)
    assert from_changes(types, to_changes(types, sent[1:], there), there).equals(batch[1:])
    assert from_changes(types, Changes.empty(3), here).num_rows == 0
    assert len(to_changes(types, sent[:0], there)) == 0


def test_changes_of_strided_arrays():
    column = Column(np.arange(6, dtype=np.int64)[::2])
    batch = from_changes([BIGINT], Changes((column,), np.arange(6, dtype=np.int64)[1::2]), TextPool())
    assert batch.to_pydict() == {"c0": [0, 2, 4], "_weight": [1, 3, 5]}


@pytest.mark.parametrize(
    ("type_", "array", "expected"),
    [
        (decimal(10, 2), pa.array([5, None]), [Decimal("5.00"), None]),
        (decimal(38, 30), pa.array([5]), [Decimal(5)]),
        (decimal(10, 2), pa.array([Decimal("1.5")]), [Decimal("1.50")]),
        (decimal(10, 2), pa.array([0.1, 12.344]), [Decimal("0.10"), Decimal("12.34")]),
        (decimal(10, 2), pa.array(["1.5"]), [Decimal("1.50")]),
        (INTEGER, pa.array([1.0, None]), [1, None]),
        (INTEGER, pa.array(["7"], pa.string_view()), [7]),
        (BIGINT, pa.array([Decimal(7)]), [7]),
        (DOUBLE, pa.array(["inf", "1e3"]), [math.inf, 1000.0]),
        (DATE, pa.array(["2024-02-29"]), [dt.date(2024, 2, 29)]),
        (DATE, pa.array([dt.datetime(2024, 2, 29)]), [dt.date(2024, 2, 29)]),
        (TIMESTAMP, pa.array([dt.date(2024, 2, 29)]), [dt.datetime(2024, 2, 29)]),
        (VARCHAR, pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
        (VARCHAR, pa.nulls(2), [None, None]),
        (VARCHAR, pa.chunked_array([["a"], ["b"]]), ["a", "b"]),
    ],
)
def test_casts(type_, array, expected):
    out = cast_to(type_, array)
    assert out.type == type_.arrow
    assert out.to_pylist() == expected


@pytest.mark.parametrize(
    ("type_", "array", "message"),
    [
        (INTEGER, pa.array([1, 2, 2**40, 2**41]), "row 2: 1099511627776 does not fit INTEGER"),
        (INTEGER, pa.array(["1", "0x1f"]), "row 1: '0x1f' does not fit INTEGER"),
        (INTEGER, pa.array([1.5]), "row 0: 1.5 does not fit INTEGER"),
        (decimal(4, 2), pa.array([1, 100, 5]), r"row 1: 100 does not fit DECIMAL\(4, 2\)"),
        (decimal(4, 2), pa.array([Decimal("1.234")]), "row 0: 1.234 does not fit"),
        (decimal(4, 2), pa.array([math.nan]), "row 0: nan does not fit"),
        (DOUBLE, pa.array(["1e999"]), "row 0: '1e999' does not fit DOUBLE"),
        (DATE, pa.array([dt.datetime(2024, 1, 1, 12)]), "row 0: .* does not fit DATE .*time of day"),
        (VARCHAR, pa.array([b"ok", b"\xff"]), "row 1: .* does not fit VARCHAR"),
        (DATE, pa.array([1], pa.int64()), "values of Arrow type int64 cannot be stored as DATE"),
        (INTEGER, pa.array([[1]]), r"values of Arrow type list<.*> cannot be stored as INTEGER"),
    ],
)
def test_a_cast_that_fails_names_the_first_row_and_value(type_, array, message):
    with pytest.raises(InvalidValue, match=message):
        cast_to(type_, array)
