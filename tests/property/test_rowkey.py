"""Row keys: round trip, order, and nothing accepted that was not written."""

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
from vms.model.rowkey import decode_key, decode_keys, encode_key, encode_keys, try_decode_keys
from vms.model.types import BIGINT, BOOLEAN, DATE, DOUBLE, INTEGER, TIMESTAMP, VARCHAR, Kind, SqlType, decimal

SETTINGS = settings(deadline=None, max_examples=150)
EXACT = Context(prec=60)
WIDE, NARROW, ODD = decimal(38, 10), decimal(9, 2), decimal(38, 3)
TYPES = [BOOLEAN, INTEGER, BIGINT, DOUBLE, DATE, TIMESTAMP, VARCHAR, WIDE, NARROW, ODD]


def values_of(type_: SqlType) -> st.SearchStrategy:
    """Values of the type, with small ranges mixed in so that ties and common prefixes happen."""
    match type_.kind:
        case Kind.BOOLEAN:
            return st.booleans()
        case Kind.INTEGER:
            return st.integers(-(2**31), 2**31 - 1) | st.integers(-2, 2)
        case Kind.BIGINT:
            return st.integers(-(2**63), 2**63 - 1) | st.integers(-2, 2)
        case Kind.DOUBLE:
            return st.floats(allow_nan=True) | st.sampled_from([0.0, -0.0, math.inf, -math.inf, math.nan, -1.5])
        case Kind.DATE:
            return st.dates()
        case Kind.TIMESTAMP:
            return st.datetimes()
        case Kind.VARCHAR:
            return st.text() | st.text(alphabet="\x00\x01\x02a\x7f\xff\ud7ff\U0010ffff", max_size=4)
    bound = 10**type_.precision - 1
    numbers = st.integers(-bound, bound) | st.integers(-200, 200)
    return numbers.map(lambda u: EXACT.scaleb(Decimal(u), -type_.scale))


def rank(value: object) -> tuple:
    """A Python value as something that sorts as SQL sorts it here: NULL first, NaN last, text by UTF-8."""
    if value is None:
        return (0,)
    if isinstance(value, str):
        return (1, value.encode())
    if isinstance(value, float):
        return (2,) if math.isnan(value) else (1, value)
    return (1, value)


@st.composite
def key_rows(draw: st.DrawFn) -> tuple[list[SqlType], list[bool], list[tuple]]:
    types = draw(st.lists(st.sampled_from(TYPES), min_size=1, max_size=4))
    nullable = draw(st.lists(st.booleans(), min_size=len(types), max_size=len(types)))
    columns = [values_of(t) | st.none() if n else values_of(t) for t, n in zip(types, nullable)]
    return types, nullable, draw(st.lists(st.tuples(*columns), min_size=1, max_size=8))


def arrays_of(types: list[SqlType], rows: list[tuple]) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], t.arrow) for i, t in enumerate(types)]


@SETTINGS
@given(key_rows())
def test_the_order_of_keys_is_the_order_of_values(case):
    types, nullable, rows = case
    keys = encode_keys(types, arrays_of(types, rows), nullable)
    ranks = [tuple(map(rank, row)) for row in rows]
    for i in range(len(rows)):
        for j in range(i):
            assert (keys[i] < keys[j], keys[i] == keys[j]) == (ranks[i] < ranks[j], ranks[i] == ranks[j])


@SETTINGS
@given(key_rows())
def test_keys_read_back(case):
    types, nullable, rows = case
    keys = encode_keys(types, arrays_of(types, rows), nullable)
    assert all(keys), "HBase allows no empty key"
    back = decode_keys(types, keys, nullable)
    assert [tuple(map(rank, row)) for row in zip(*(a.to_pylist() for a in back))] == [
        tuple(map(rank, row)) for row in rows
    ]
    assert [a.type for a in back] == [t.arrow for t in types]


@SETTINGS
@given(key_rows(), st.data())
def test_what_decodes_is_what_would_be_written(case, data):
    """Damaged keys are either refused or the key of other values: never a second key for the same values."""
    types, nullable, rows = case
    key = bytearray(encode_keys(types, arrays_of(types, rows[:1]), nullable)[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(key)))
        key[at : at + data.draw(st.integers(0, 1))] = data.draw(st.binary(max_size=2))
    try:
        arrays = decode_keys(types, [bytes(key)], nullable)
    except InvalidValue as error:
        assert "cannot be decoded" in str(error)
    else:
        assert encode_keys(types, arrays, nullable) == [bytes(key)]


@SETTINGS
@given(st.lists(st.sampled_from(TYPES), max_size=3), st.binary(max_size=30), st.data())
def test_garbage_is_refused_or_canonical(types, key, data):
    nullable = data.draw(st.lists(st.booleans(), min_size=len(types), max_size=len(types)))
    arrays, bad = try_decode_keys(types, [key], nullable)
    assert bad or encode_keys(types, arrays, nullable, rows=1) == [key]


@pytest.mark.parametrize(
    ("type_", "value", "written"),
    [
        (INTEGER, 1, "80000001"),
        (INTEGER, -1, "7fffffff"),
        (BIGINT, -(2**63), "0000000000000000"),
        (BIGINT, 2**63 - 1, "ffffffffffffffff"),
        (BOOLEAN, True, "01"),
        (DOUBLE, 1.0, "bff0000000000001"),
        (DOUBLE, -1.0, "4010000000000000"),
        (DOUBLE, -0.0, "8000000000000001"),
        (DATE, dt.date(1970, 1, 2), "8000000005265c00"),
        (TIMESTAMP, dt.datetime(1970, 1, 1, 0, 0, 1, 2003), "80000000000003ea00000bb8"),
        (TIMESTAMP, dt.datetime(1969, 12, 31, 23, 59, 59, 999_999), "7fffffffffffffff000f3e58"),
        (VARCHAR, "héllo", "68c3a96c6c6f"),
        (VARCHAR, "", "00"),
        (VARCHAR, "a\x00\x01", "6101010102"),
        (ODD, Decimal("0"), "80"),
        (ODD, Decimal("1"), "c102"),
        (ODD, Decimal("12.5"), "c10d33"),
        (ODD, Decimal("-12.5"), "3e593366"),
        (ODD, Decimal("100"), "c202"),
        (ODD, Decimal("0.1"), "c00b"),
        (ODD, Decimal("-0.01"), "3f6466"),
    ],
)
def test_known_keys(type_, value, written):
    assert encode_key([type_], [value]).hex() == written
    assert decode_key([type_], bytes.fromhex(written)) == (value,)


def test_a_composite_key_is_written_as_phoenix_writes_it():
    key = encode_key([VARCHAR, BIGINT, VARCHAR], ["ab", 3, "cd"])
    assert key == b"ab\x00" + bytes.fromhex("8000000000000003") + b"cd"


def test_null_components():
    types, nullable = [INTEGER, VARCHAR, INTEGER], [True, True, False]
    key = encode_key(types, [None, None, 1], nullable)
    assert key.hex() == "0000000000" + "00" + "80000001"
    assert decode_key(types, key, nullable) == (None, None, 1)
    with pytest.raises(InvalidValue, match=r"row 1: key column 1 \(INTEGER\) is NULL"):
        encode_keys([INTEGER], [pa.array([1, None], pa.int32())])


def test_a_key_without_columns():
    assert encode_key([], []) == b"\x00"
    assert encode_keys([], [], rows=2) == [b"\x00", b"\x00"]
    assert decode_key([], b"\x00") == ()
    with pytest.raises(InvalidValue):
        decode_key([], b"\x00\x00")


@pytest.mark.parametrize(
    ("types", "key", "reason"),
    [
        ([BIGINT], b"123", "takes 8 bytes, 3 are there"),
        ([BIGINT], b"123456789", "takes 8 bytes, 9 are there"),
        ([BOOLEAN], b"\x02", "0 or 1"),
        ([DATE], bytes.fromhex("8000000000000001"), "time of day"),
        ([DATE], b"\xff" * 8, "out of range"),
        ([TIMESTAMP], bytes.fromhex("800000000000000000000001"), "microseconds"),
        ([TIMESTAMP], b"\xff" * 12, "out of range"),
        ([DOUBLE], bytes.fromhex("8000000000000000"), "not the ones"),
        ([VARCHAR, INTEGER], b"abc", "ends within column 1"),
        ([VARCHAR], b"\xff", "utf-8"),
        ([VARCHAR], b"a\x00b", "no text is written with"),
        ([ODD], b"\xc1\x01", "shortest form"),
        ([ODD], b"\xc1\x02\xff", "no Phoenix decimal"),
        ([NARROW], b"\xd2\x02", "more digits than"),
        ([NARROW], b"\xbe\x02", "digits after the point"),
        ([INTEGER], b"", "empty"),
    ],
)
def test_a_bad_key_is_refused_with_the_reason(types, key, reason):
    with pytest.raises(InvalidValue, match=reason):
        decode_keys(types, [key])


def test_good_keys_survive_among_bad_ones():
    types = [INTEGER, VARCHAR]
    good = [encode_key(types, [i, f"t{i}"]) for i in range(3)]
    arrays, bad = try_decode_keys(types, [good[0], b"x", good[1], b"", good[2]])
    assert [a.to_pylist() for a in arrays] == [[0, None, 1, None, 2], ["t0", None, "t1", None, "t2"]]
    assert [position for position, _ in bad] == [1, 3]


def test_slices_of_arrays_are_respected():
    numbers, texts = pa.array(np.arange(10), pa.int64()), pa.array([f"t{i}" for i in range(10)])
    keys = encode_keys([BIGINT, VARCHAR], [numbers[4:7], texts[4:7]])
    assert keys == encode_keys([BIGINT, VARCHAR], [numbers, texts])[4:7]


def test_a_value_of_another_type_is_refused():
    with pytest.raises(InvalidValue, match="is not a value of INTEGER"):
        encode_key([INTEGER], ["x"])
    with pytest.raises(InvalidValue, match="is not a value of INTEGER"):
        encode_key([INTEGER], [2**40])
