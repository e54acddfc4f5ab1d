"""Arrow arrays to columns of codes and back: the edge between Arrow and the core (design section 5).

Nothing here loops over rows. Fixed-width values are views of Arrow's own buffers wherever no NULL has to be
blanked out, so a column may share memory with the array it came from.

A DOUBLE has one bit pattern per value: -0.0 becomes 0.0 and every NaN the same NaN. So equal values have
equal codes, and group, join and hash alike everywhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from vms.errors import InvalidValue
from vms.model.changes import Bool, Changes, Column, Int64
from vms.model.text import TextPool
from vms.model.types import Kind, SqlType

#: Name of the last column of a batch of changes in Arrow form.
WEIGHT = "_weight"

_NAN_BITS = np.int64(0x7FF8_0000_0000_0000)
_LOW_MASK = (1 << 64) - 1
_STORAGE: dict[Kind, np.dtype[Any]] = {
    Kind.INTEGER: np.dtype(np.int32),
    Kind.DATE: np.dtype(np.int32),
    Kind.BIGINT: np.dtype(np.int64),
    Kind.TIMESTAMP: np.dtype(np.int64),
    Kind.DOUBLE: np.dtype(np.float64),
}


def to_column(type_: SqlType, array: pa.Array | pa.ChunkedArray, pool: TextPool) -> Column:
    """The codes of `array`, which is cast first (see `cast_to`) where it is not of type `type_.arrow`."""
    array = _one_array(array)
    if type_.kind is Kind.VARCHAR:
        if not pa.types.is_dictionary(array.type):
            array = cast_to(type_, array)
        codes, valid = pool.intern(array)
        return Column(codes, valid)
    array = cast_to(type_, array)
    valid = valid_of(array)
    if type_.kind is Kind.DECIMAL:
        low, high = decimal_words(array)
        high = _blank(high, valid)
        codes = _blank(low, valid)
        fits = not type_.wide or bool(np.array_equal(high, codes >> 63))
        return Column(codes, valid, None if fits else high)
    values = fixed_values(type_, array)
    codes = double_bits(values) if type_.kind is Kind.DOUBLE else values.astype(np.int64, copy=False)
    return Column(_blank(codes, valid), valid)


def from_column(type_: SqlType, column: Column, pool: TextPool) -> pa.Array:
    """The exact inverse of `to_column`."""
    if type_.kind is Kind.VARCHAR:
        return pool.texts(column.codes, column.valid)
    if type_.kind is Kind.DECIMAL:
        return decimal_array(type_, column.codes, column.high_words(), column.valid)
    codes = column.codes
    return fixed_array(type_, codes.view(np.float64) if type_.kind is Kind.DOUBLE else codes, column.valid)


def to_changes(types: Sequence[SqlType], batch: pa.RecordBatch, pool: TextPool) -> Changes:
    """A batch of changes from its Arrow form: one column for each of `types`, then int64 weights."""
    columns = tuple(to_column(t, batch.column(i), pool) for i, t in enumerate(types))
    return Changes(columns, raw_values(batch.column(len(types)), np.dtype(np.int64)))


def from_changes(types: Sequence[SqlType], changes: Changes, pool: TextPool) -> pa.RecordBatch:
    """The Arrow form of a batch: columns c0, c1, ... and `_weight`.

    Text is content here, not codes, so it can leave the member: exchange batches, logs, checkpoints.
    """
    arrays = [from_column(t, c, pool) for t, c in zip(types, changes.columns)]
    weights = pa.array(np.ascontiguousarray(changes.weights), pa.int64())
    return pa.record_batch([*arrays, weights], names=[*(f"c{i}" for i in range(len(types))), WEIGHT])


def cast_to(type_: SqlType, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """User data as values of `type_`; raises InvalidValue that names the first row and value that do not fit.

    No value is changed silently: digits that a DECIMAL cannot hold, fractions of an INTEGER, the time of day
    of a DATE are errors. Only binary floats are rounded, to the nearest DECIMAL: few decimal fractions are
    exact in binary.
    """
    array = _one_array(array)
    if array.type == type_.arrow:
        return array
    try:
        return convert(type_, array)
    except pa.ArrowInvalid:
        row, reason = _first_bad(type_, array)
    except (pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise InvalidValue(f"values of Arrow type {array.type} cannot be stored as {type_}") from error
    raise InvalidValue(f"{short(array[row])} does not fit {type_} ({reason})", row=row)


def convert(type_: SqlType, array: pa.Array) -> pa.Array:
    """`array` as `type_.arrow` by the rules of `cast_to`; raises Arrow's own errors."""
    source, target = array.type, type_.arrow
    if pa.types.is_dictionary(source):
        return convert(type_, array.dictionary_decode())
    if _is_text(source):
        return _parse(type_, array.cast(pa.string()))
    if pa.types.is_integer(source) and type_.kind is Kind.DECIMAL:
        array = array.cast(pa.decimal256(76, type_.scale))
    out = array.cast(target)
    if pa.types.is_timestamp(source) and type_.kind is Kind.DATE and not out.cast(source).equals(array):
        raise pa.ArrowInvalid("it has a time of day")
    return out


def _parse(type_: SqlType, texts: pa.Array) -> pa.Array:
    """Arrow's parser, less its hexadecimal integers and its infinity for a number that is too large."""
    if type_.kind in (Kind.INTEGER, Kind.BIGINT) and _any(pc.match_substring_regex(texts, "[xX]")):
        raise pa.ArrowInvalid("not a decimal number")
    out = texts.cast(type_.arrow)
    if type_.kind is Kind.DOUBLE:
        named = pc.match_substring(texts, "inf", ignore_case=True)
        if _any(pc.and_(pc.is_inf(out), pc.invert(named))):
            raise pa.ArrowInvalid("out of range")
    return out


def _first_bad(type_: SqlType, array: pa.Array) -> tuple[int, str]:
    """The first position that does not convert, and why; there must be one."""
    start, stop = 0, len(array)
    while stop - start > 1:
        middle = (start + stop) // 2
        try:
            convert(type_, array[start:middle])
            start = middle
        except pa.ArrowInvalid:
            stop = middle
    try:
        convert(type_, array[start:stop])
    except pa.ArrowInvalid as error:
        return start, str(error)
    raise AssertionError("an array converts piece by piece but not as a whole")


def short(value: Any) -> str:
    """A value for an error message, cut where it is long."""
    text = str(value) if isinstance(value, pa.Scalar) and not _is_text(value.type) else repr(_plain(value))
    return text if len(text) <= 60 else text[:57] + "..."


def _plain(value: Any) -> Any:
    return value.as_py() if isinstance(value, pa.Scalar) else value


def valid_of(array: pa.Array) -> Bool | None:
    """Validity as flags; None when no value is NULL."""
    return None if array.null_count == 0 else array.is_valid().to_numpy(zero_copy_only=False)


def raw_values(array: pa.Array, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    """A view of the data buffer of a fixed-width array; what it holds for NULLs is not defined."""
    if len(array) == 0:
        return np.empty(0, dtype)
    return np.frombuffer(array.buffers()[1], dtype, array.offset + len(array))[array.offset :]


def fixed_values(type_: SqlType, array: pa.Array) -> npt.NDArray[Any]:
    """The values of any type but DECIMAL and VARCHAR as numbers; not defined for NULLs."""
    if type_.kind is Kind.BOOLEAN:
        return pc.fill_null(array, False).to_numpy(zero_copy_only=False).astype(np.uint8)
    return raw_values(array, _STORAGE[type_.kind])


def fixed_array(type_: SqlType, values: npt.NDArray[Any], valid: Bool | None = None) -> pa.Array:
    """The inverse of `fixed_values`; numbers of another width are converted."""
    if type_.kind is Kind.BOOLEAN:
        return pa.array(values != 0, pa.bool_(), mask=None if valid is None else ~valid)
    data = np.ascontiguousarray(values, _STORAGE[type_.kind])
    return pa.Array.from_buffers(type_.arrow, len(data), [_bitmap(valid), pa.py_buffer(data)])


def decimal_words(array: pa.Array) -> tuple[Int64, Int64]:
    """Low and high words of a decimal128 array, as views."""
    if len(array) == 0:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    words = np.frombuffer(array.buffers()[1], np.int64, 2 * (array.offset + len(array)))[2 * array.offset :]
    return words[0::2], words[1::2]


def decimal_array(type_: SqlType, low: Int64, high: Int64, valid: Bool | None = None) -> pa.Array:
    """The inverse of `decimal_words`."""
    words = np.empty((len(low), 2), np.int64)
    words[:, 0] = low
    words[:, 1] = high
    return pa.Array.from_buffers(type_.arrow, len(low), [_bitmap(valid), pa.py_buffer(words)])


def decimal_ints(array: pa.Array) -> list[int | None]:
    """The unscaled values of a decimal128 array as Python integers."""
    low, high = decimal_words(array)
    ints: list[int | None] = [(h << 64) | w for h, w in zip(high.tolist(), low.astype(np.uint64).tolist())]
    valid = valid_of(array)
    return ints if valid is None else [v if ok else None for v, ok in zip(ints, valid.tolist())]


def decimals_of(type_: SqlType, ints: Sequence[int | None]) -> pa.Array:
    """The inverse of `decimal_ints`."""
    filled = [v or 0 for v in ints]
    low = np.array([v & _LOW_MASK for v in filled], np.uint64).view(np.int64)
    high = np.array([v >> 64 for v in filled], np.int64)
    valid = np.array([v is not None for v in ints], np.bool_)
    return decimal_array(type_, low, high, None if valid.all() else valid)


def double_bits(values: npt.NDArray[np.float64]) -> Int64:
    """Bit patterns, one for each value: no -0.0, one NaN."""
    bits = (values + 0.0).view(np.int64)
    return np.where(np.isnan(values), _NAN_BITS, bits)


def _one_array(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.chunk(0) if array.num_chunks == 1 else pa.concat_arrays([pa.array([], array.type), *array.chunks])


def _blank(values: Int64, valid: Bool | None) -> Int64:
    """Contiguous, with 0 for NULLs."""
    return np.ascontiguousarray(values) if valid is None else np.where(valid, values, 0)


def _bitmap(valid: Bool | None) -> pa.Buffer | None:
    return None if valid is None else pa.array(np.ascontiguousarray(valid)).buffers()[1]


def _any(flags: pa.Array) -> bool:
    return bool(pc.any(flags).as_py())


def _is_text(t: pa.DataType) -> bool:
    return pa.types.is_string(t) or pa.types.is_large_string(t) or pa.types.is_string_view(t)
