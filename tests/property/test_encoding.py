"""Cell values: round trips, known bytes, and bad cells reported one by one."""

from __future__ import annotations

import datetime as dt
import math
from decimal import Context, Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vms.errors import InvalidValue
from vms.model.encoding import decode_column, encode_column
from vms.model.table import Encoding
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Kind, SqlType, decimal

SETTINGS = settings(deadline=None, max_examples=50)
EXACT = Context(prec=60)
PRICE, SMALL, WIDE = decimal(15, 2), decimal(12, 7), decimal(38, 9)
TYPES = [BOOLEAN, INTEGER, BIGINT, DOUBLE, DATE, TIMESTAMP, VARCHAR, PRICE, SMALL, WIDE]
TEXT, BYTES, PHOENIX = Encoding


def column_of(type_: SqlType) -> st.SearchStrategy[list]:
    values = {
        Kind.BOOLEAN: st.booleans(),
        Kind.INTEGER: st.integers(-(2**31), 2**31 - 1),
        Kind.BIGINT: st.integers(-(2**63), 2**63 - 1),
        Kind.DOUBLE: st.floats(),
        Kind.DATE: st.dates(),
        Kind.TIMESTAMP: st.datetimes(),
        Kind.VARCHAR: st.text(),
        Kind.DECIMAL: st.integers(-(10**type_.precision) + 1, 10**type_.precision - 1).map(
            lambda u: EXACT.scaleb(Decimal(u), -type_.scale)
        ),
    }
    return st.lists(st.none() | values[type_.kind], max_size=12)


def same(a: object, b: object) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (math.isnan(a) and math.isnan(b))
    return a == b


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("encoding", list(Encoding))
def test_cells_read_back(encoding, type_):
    @SETTINGS
    @given(column_of(type_), st.integers(0, 3))
    def check(values, offset):
        array = pa.array([None] * offset + values, type_.arrow)[offset:]
        cells = encode_column(encoding, type_, array)
        assert [c is None for c in cells] == [v is None for v in values]
        back, bad = decode_column(encoding, type_, cells)
        assert back.type == type_.arrow
        assert bad == []
        assert all(map(same, back.to_pylist(), values))

    check()


@pytest.mark.parametrize("type_", TYPES, ids=str)
@pytest.mark.parametrize("encoding", list(Encoding))
def test_any_bytes_are_read_or_reported(encoding, type_):
    """Never an exception; a bad cell is NULL and changes nothing for its neighbours; a good one is a value."""

    @SETTINGS
    @given(st.lists(st.none() | st.binary(max_size=24), max_size=8))
    @example([b"\x00" * 4 + b"\x7f" * 70, b"", None])
    def check(cells):
        array, bad = decode_column(encoding, type_, cells)
        assert len(array) == len(cells)
        reasons = dict(bad)
        for i, cell in enumerate(cells):
            alone, bad_alone = decode_column(encoding, type_, [cell])
            assert (i in reasons) == bool(bad_alone)
            assert encode_column(BYTES, type_, array[i : i + 1]) == encode_column(BYTES, type_, alone)
            if i in reasons:
                assert reasons[i] and not array[i].is_valid
        array.validate(full=True)

    check()


@pytest.mark.parametrize(
    ("encoding", "type_", "value", "written"),
    [
        (BYTES, BOOLEAN, True, "ff"),
        (BYTES, BOOLEAN, False, "00"),
        (BYTES, INTEGER, -2, "fffffffe"),
        (BYTES, BIGINT, 258, "0000000000000102"),
        (BYTES, DOUBLE, 1.5, "3ff8000000000000"),
        (BYTES, DOUBLE, -0.0, "0000000000000000"),
        (BYTES, PRICE, Decimal("1.27"), "000000027f"),
        (BYTES, PRICE, Decimal("1.28"), "000000020080"),
        (BYTES, PRICE, Decimal("-1.28"), "0000000280"),
        (BYTES, PRICE, Decimal("0.00"), "0000000200"),
        (BYTES, WIDE, Decimal(2**64).scaleb(-9), "00000009010000000000000000"),
        (BYTES, DATE, dt.date(1970, 1, 3), "00000002"),
        (BYTES, TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 1), "00000000000f4240"),
        (BYTES, VARCHAR, "é", "c3a9"),
        (PHOENIX, BOOLEAN, True, "01"),
        (PHOENIX, INTEGER, -2, "7ffffffe"),
        (PHOENIX, BIGINT, 258, "8000000000000102"),
        (PHOENIX, DOUBLE, 1.5, "bff8000000000001"),
        (PHOENIX, PRICE, Decimal("-1.28"), "3e644966"),
        (PHOENIX, DATE, dt.date(1970, 1, 3), "800000000a4cb800"),
        (PHOENIX, TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 1, 5), "80000000000003e800001388"),
        (PHOENIX, VARCHAR, "", ""),
        (TEXT, BOOLEAN, True, b"true".hex()),
        (TEXT, INTEGER, -2, b"-2".hex()),
        (TEXT, DOUBLE, 1.5, b"1.5".hex()),
        (TEXT, PRICE, Decimal("-1.20"), b"-1.20".hex()),
        (TEXT, DATE, dt.date(2024, 2, 29), b"2024-02-29".hex()),
        (TEXT, TIMESTAMP, dt.datetime(2024, 2, 29, 1, 2, 3), b"2024-02-29 01:02:03.000000".hex()),
    ],
)
def test_known_bytes(encoding, type_, value, written):
    assert encode_column(encoding, type_, pa.array([value], type_.arrow)) == [bytes.fromhex(written)]
    array, bad = decode_column(encoding, type_, [bytes.fromhex(written)])
    assert (array.to_pylist(), bad) == ([value], [])


@pytest.mark.parametrize(
    ("encoding", "type_", "cell", "reason"),
    [
        (TEXT, INTEGER, b"300000000000", "'300000000000' is not a value of INTEGER"),
        (TEXT, INTEGER, b"0x1f", "is not a value of INTEGER"),
        (TEXT, INTEGER, b"", "is not a value of INTEGER"),
        (TEXT, PRICE, b"1.234", "is not a value of DECIMAL"),
        (TEXT, PRICE, b"12345678901234.5", "is not a value of DECIMAL"),
        (TEXT, DOUBLE, b"1e400", "is not a value of DOUBLE"),
        (TEXT, DATE, b"2023-02-29", "is not a value of DATE"),
        (TEXT, VARCHAR, b"\xff\xfe", "is not valid UTF-8"),
        (TEXT, BIGINT, b"\xff\xfe", "is not valid UTF-8"),
        (BYTES, INTEGER, b"12345", "5 bytes where INTEGER takes 4"),
        (BYTES, PRICE, b"\x00\x00\x00\x02", "4 bytes where DECIMAL"),
        (BYTES, PRICE, b"\x00\x00\x00\x03\x01", "more than 2 digits after the point"),
        (BYTES, PRICE, b"\x00\x00\x00\x02" + b"\x7f" * 8, "more digits than DECIMAL"),
        (BYTES, PRICE, b"\x7f\xff\xff\xff\x01", "more than 2 digits"),
        (BYTES, PRICE, b"\x80\x00\x00\x00\x01", "more digits than DECIMAL"),
        (PHOENIX, BOOLEAN, b"\x07", "0 or 1"),
        (PHOENIX, DATE, b"\x80\x00\x00\x00\x00\x00\x00\x01", "time of day"),
        (PHOENIX, PRICE, b"\xc1\x00", "no Phoenix decimal"),
    ],
)
def test_a_bad_cell_is_reported_and_the_others_are_read(encoding, type_, cell, reason):
    good = encode_column(encoding, type_, pa.array([None], pa.null()).cast(type_.arrow))
    array, bad = decode_column(encoding, type_, [*good, cell, *good])
    assert array.to_pylist() == [None] * 3
    assert [position for position, _ in bad] == [1]
    assert reason in bad[0][1]


def test_a_decimal_of_another_scale_is_read_where_no_digit_is_lost():
    cells = encode_column(BYTES, decimal(10, 4), pa.array([Decimal("1.5"), Decimal("1.2345")], pa.decimal128(10, 4)))
    array, bad = decode_column(BYTES, PRICE, cells)
    assert array.to_pylist() == [Decimal("1.50"), None]
    assert [position for position, _ in bad] == [1]


def test_an_empty_phoenix_cell_is_null_but_for_text():
    assert decode_column(PHOENIX, BIGINT, [b""])[0].to_pylist() == [None]
    assert decode_column(PHOENIX, PRICE, [b""])[0].to_pylist() == [None]
    assert decode_column(PHOENIX, VARCHAR, [b""])[0].to_pylist() == [""]


def test_a_year_that_text_cannot_hold_is_refused():
    far = pa.array([None, 2_932_897], pa.int32()).cast(pa.date32())
    with pytest.raises(InvalidValue, match="years 1 to 9999"):
        encode_column(TEXT, DATE, far)
    assert decode_column(BYTES, DATE, encode_column(BYTES, DATE, far))[0].equals(far)
