"""Apache Phoenix's serialization of values: the form of `phoenix` cells and of row key components.

Its byte order is the order of the values, within one type:

| type | form |
|---|---|
| BOOLEAN | 1 byte, 0 or 1 |
| INTEGER, BIGINT | 4, 8 bytes big-endian, sign bit flipped |
| DOUBLE | 8 bytes: the bit pattern, complemented if negative, else with the sign bit set; plus 1 |
| DATE | 8 bytes: milliseconds since 1970-01-01, as a BIGINT |
| TIMESTAMP | 8 bytes of milliseconds as a BIGINT, then 4 bytes of nanoseconds within the millisecond |
| DECIMAL | base-100 digits, see `encode_decimal` |
| VARCHAR | UTF-8 |
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from vms.errors import InvalidValue
from vms.model.arrow import double_bits, fixed_array, fixed_values, short
from vms.model.types import Kind, SqlType

Matrix = npt.NDArray[np.uint8]
Bad = list[tuple[int, str]]

#: Bytes of the types with a fixed width; the others vary.
WIDTH = {
    Kind.BOOLEAN: 1,
    Kind.INTEGER: 4,
    Kind.BIGINT: 8,
    Kind.DOUBLE: 8,
    Kind.DATE: 8,
    Kind.TIMESTAMP: 12,
}
_SIGN = np.int64(np.iinfo(np.int64).min)
_DAY_MS = 86_400_000
_MAX_DAY = np.iinfo(np.int32).max


def pack(type_: SqlType, array: pa.Array) -> Matrix:
    """One row of bytes for each value of a fixed-width type; not defined for NULLs."""
    values = fixed_values(type_, array)
    match type_.kind:
        case Kind.BOOLEAN:
            return values.reshape(-1, 1)
        case Kind.INTEGER:
            return as_bytes((values ^ np.iinfo(np.int32).min).astype(">i4"))
        case Kind.BIGINT:
            return _pack_long(values)
        case Kind.DATE:
            return _pack_long(values.astype(np.int64) * _DAY_MS)
        case Kind.DOUBLE:
            bits = double_bits(values)
            return as_bytes(((bits ^ ((bits >> 63) | _SIGN)) + 1).astype(">i8"))
        case Kind.TIMESTAMP:
            millis, micros = np.divmod(values, 1000)
            return np.hstack([_pack_long(millis), as_bytes((micros * 1000).astype(">i4"))])
    raise AssertionError(f"{type_} has no fixed width")


def unpack(type_: SqlType, matrix: Matrix) -> tuple[pa.Array, Bad]:
    """The inverse of `pack`, and (position, reason) of every row that is no value of the type."""
    values: npt.NDArray[Any]
    match type_.kind:
        case Kind.BOOLEAN:
            values = matrix[:, 0]
            bad = _report(values > 1, "a BOOLEAN is the byte 0 or 1")
        case Kind.INTEGER:
            values, bad = from_bytes(matrix, ">i4") ^ np.iinfo(np.int32).min, []
        case Kind.BIGINT:
            values, bad = _unpack_long(matrix), []
        case Kind.DATE:
            days, rest = np.divmod(_unpack_long(matrix), _DAY_MS)
            outside = (days > _MAX_DAY) | (days < -_MAX_DAY - 1)
            bad = _report(outside, "the DATE is out of range") + _report(
                (rest != 0) & ~outside, "a DATE with a time of day"
            )
            values = np.where(outside, 0, days)
        case Kind.DOUBLE:
            bits = from_bytes(matrix, ">i8") - 1
            bits ^= (~bits >> 63) | _SIGN
            values, bad = double_bits(bits.view(np.float64)).view(np.float64), []
        case Kind.TIMESTAMP:
            millis, nanos = _unpack_long(matrix[:, :8]), from_bytes(matrix[:, 8:], ">i4")
            limit = np.iinfo(np.int64).max // 1000
            outside = (millis >= limit) | (millis < -limit)
            fine = (nanos < 0) | (nanos >= 1_000_000) | (nanos % 1000 != 0)
            bad = _report(outside, "the TIMESTAMP is out of range") + _report(
                fine & ~outside, "the nanoseconds of a TIMESTAMP are whole microseconds below one millisecond"
            )
            values = np.where(outside, 0, millis) * 1000 + nanos // 1000
        case _:
            raise AssertionError(f"{type_} has no fixed width")
    return fixed_array(type_, values), sorted(bad)


# The decimal digits of a number, read as hexadecimal, give one byte per base-100 digit. These tables turn
# such a byte into Phoenix's digit and back (0xAA, no pair of decimal digits, for a byte that is none).
_TO_POSITIVE = bytes((b >> 4) * 10 + (b & 15) + 1 if b >> 4 < 10 and b & 15 < 10 else 0 for b in range(256))
_TO_NEGATIVE = bytes(102 - d if d else 0 for d in _TO_POSITIVE)
_FROM_POSITIVE = bytes(_TO_POSITIVE.index(b) if 1 <= b <= 100 else 0xAA for b in range(256))
_FROM_NEGATIVE = bytes(_TO_NEGATIVE.index(b) if 2 <= b <= 101 else 0xAA for b in range(256))
_ZERO = b"\x80"
_NEGATIVE_END = b"\x66"
#: Phoenix writes 21 bytes at the most and leaves out the end of a negative number for it.
_MAX_DIGITS_WITH_END = 19


def encode_decimal(unscaled: int, scale: int) -> bytes:
    """`unscaled / 10**scale` as an exponent byte and base-100 digits without zeros at either end.

    Positive: 0xC1 + exponent of the first digit, then each digit + 1. Negative: 0x3E - exponent, then
    101 - each digit, then 0x66, so that a longer negative number sorts before its prefix. Zero is 0x80.
    No byte is 0x00, which is free to end a key component.
    """
    if unscaled == 0:
        return _ZERO
    digits = str(abs(unscaled)) + "0" * (scale & 1)
    packed = bytes.fromhex(digits if len(digits) % 2 == 0 else "0" + digits)
    exponent = len(packed) - 1 - (scale + 1) // 2
    packed = packed.rstrip(b"\x00")
    if unscaled > 0:
        return bytes((0xC1 + exponent,)) + packed.translate(_TO_POSITIVE)
    end = _NEGATIVE_END if len(packed) <= _MAX_DIGITS_WITH_END else b""
    return bytes((0x3E - exponent,)) + packed.translate(_TO_NEGATIVE) + end


def decode_decimal(type_: SqlType, value: bytes) -> int:
    """The unscaled number in `type_`; InvalidValue for anything but what `encode_decimal` writes."""
    if value == _ZERO:
        return 0
    if len(value) < 2:
        raise InvalidValue(f"{len(value)} bytes are no Phoenix decimal")
    positive = value[0] >= 0x80
    if positive:
        exponent, packed = value[0] - 0xC1, value[1:].translate(_FROM_POSITIVE)
    else:
        exponent, packed = 0x3E - value[0], value[1:].removesuffix(_NEGATIVE_END).translate(_FROM_NEGATIVE)
    try:
        magnitude = int(packed.hex())
    except ValueError as error:
        raise InvalidValue(f"{short(value)} is no Phoenix decimal") from error
    power = 2 * (exponent - len(packed) + 1) + type_.scale
    unscaled = rescale(magnitude if positive else -magnitude, power, type_)
    if encode_decimal(unscaled, type_.scale) != value:
        raise InvalidValue(f"{short(value)} is no Phoenix decimal in its shortest form")
    return unscaled


def rescale(number: int, power: int, type_: SqlType) -> int:
    """`number * 10**power` as an unscaled number of `type_`; InvalidValue where it does not fit."""
    if number == 0:
        return 0
    if power < 0:
        number, rest = divmod(number, 10 ** min(-power, 400))
        if rest:
            raise InvalidValue(f"the number has more than {type_.scale} digits after the point")
    elif power:
        number *= 10 ** min(power, 400)
    if abs(number) >= 10**type_.precision:
        raise InvalidValue(f"the number has more digits than {type_}")
    return number


def as_bytes(values: npt.NDArray[Any]) -> Matrix:
    """A column of numbers as rows of their bytes."""
    return np.ascontiguousarray(values).view(np.uint8).reshape(len(values), values.dtype.itemsize)


def from_bytes(matrix: Matrix, dtype: str) -> npt.NDArray[Any]:
    """The inverse of `as_bytes`, in the machine's byte order."""
    big = np.dtype(dtype)
    return np.ascontiguousarray(matrix).view(big).ravel().astype(big.newbyteorder("="))


def rows_of(matrix: Matrix) -> list[bytes]:
    """The rows of a matrix as byte strings."""
    rows: list[bytes] = np.ascontiguousarray(matrix).view(f"V{matrix.shape[1]}").ravel().tolist()
    return rows


def _pack_long(values: npt.NDArray[np.int64]) -> Matrix:
    return as_bytes((values ^ _SIGN).astype(">i8"))


def _unpack_long(matrix: Matrix) -> npt.NDArray[np.int64]:
    return from_bytes(matrix, ">i8") ^ _SIGN


def _report(flags: npt.NDArray[np.bool_], reason: str) -> Bad:
    return [(i, reason) for i in np.flatnonzero(flags).tolist()]
